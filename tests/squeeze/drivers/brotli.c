/* Compresses standard input at two levels, and decompresses what came out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <brotli/decode.h>
#include <brotli/encode.h>

int main(void)
{
    size_t most = 1 << 20, size;
    uint8_t *in = malloc(most), *back = malloc(most), *out = malloc(2 * most);
    size = fread(in, 1, most, stdin);
    for (int level = 4; level <= 9; level += 5) {
        size_t packed = 2 * most, restored = most;
        if (!BrotliEncoderCompress(level, 18, BROTLI_MODE_TEXT, size, in, &packed, out)
            || BrotliDecoderDecompress(packed, out, &restored, back) != BROTLI_DECODER_RESULT_SUCCESS
            || restored != size || memcmp(in, back, size))
            return 1;
        printf("level %d: %zu of %zu bytes\n", level, packed, size);
    }
    return 0;
}
