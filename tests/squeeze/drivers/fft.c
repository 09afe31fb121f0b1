/* Fourier transforms of waves: fft WAVES POINTS. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void transform(double *re, double *im, int n) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            double t = re[i]; re[i] = re[j]; re[j] = t;
            t = im[i]; im[i] = im[j]; im[j] = t;
        }
    }
    for (int length = 2; length <= n; length <<= 1) {
        for (int start = 0; start < n; start += length) {
            for (int k = 0; k < length / 2; k++) {
                double angle = -2 * M_PI * k / length, c = cos(angle), s = sin(angle);
                int a = start + k, b = a + length / 2;
                double tr = re[b] * c - im[b] * s, ti = re[b] * s + im[b] * c;
                re[b] = re[a] - tr; im[b] = im[a] - ti;
                re[a] += tr; im[a] += ti;
            }
        }
    }
}

int main(int argc, char **argv) {
    int waves = argc > 1 ? atoi(argv[1]) : 8, n = argc > 2 ? atoi(argv[2]) : 32768;
    double *re = malloc(n * sizeof *re), *im = calloc(n, sizeof *im);
    srand(1);
    for (int i = 0; i < n; i++) {
        re[i] = 0;
        for (int w = 0; w < waves; w++) re[i] += rand() % 2 ? cos(0.01 * w * i) * 1000 : sin(0.013 * w * i) * 1000;
    }
    transform(re, im, n);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs(re[i]) + fabs(im[i]);
    printf("%.6f\n", sum);
    return 0;
}
