/* Compresses standard input at two levels, and decompresses what came out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zstd.h"

int main(void)
{
    size_t most = 1 << 22, size;
    char *in = malloc(most), *back = malloc(most), *out = malloc(ZSTD_compressBound(most));
    size = fread(in, 1, most, stdin);
    for (int level = 3; level <= 9; level += 6) {
        size_t packed = ZSTD_compress(out, ZSTD_compressBound(most), in, size, level);
        if (ZSTD_isError(packed) || ZSTD_decompress(back, most, out, packed) != size || memcmp(in, back, size))
            return 1;
        printf("level %d: %zu of %zu bytes\n", level, packed, size);
    }
    return 0;
}
