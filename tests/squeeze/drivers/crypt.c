/* SHA-1, AES-128 or Blowfish (CBC) over standard input with libtomcrypt's primitives: crypt sha|aes|bf. */
#include "tomcrypt.h"
#include <stdio.h>
#include <string.h>

static unsigned char input[1 << 20], output[1 << 20];

static void chain(const struct ltc_cipher_descriptor *cipher, size_t length) {
    symmetric_key key;
    unsigned char block[16] = {0};
    size_t size = cipher->block_length;
    cipher->setup((const unsigned char *)"0123456789abcdef", 16, 0, &key);
    for (size_t at = 0; at + size <= length; at += size) {
        for (size_t i = 0; i < size; i++) block[i] ^= input[at + i];
        cipher->ecb_encrypt(block, block, &key);
        memcpy(output + at, block, size);
    }
    fwrite(output, 1, length / size * size, stdout);
}

int main(int argc, char **argv) {
    size_t length = fread(input, 1, sizeof input, stdin);
    const char *what = argc > 1 ? argv[1] : "sha";
    if (!strcmp(what, "aes")) { chain(&aes_desc, length); return 0; }
    if (!strcmp(what, "bf")) { chain(&blowfish_desc, length); return 0; }
    hash_state state;
    unsigned char digest[20];
    for (int round = 0; round < 4; round++) {
        sha1_init(&state);
        sha1_process(&state, input, length);
        sha1_done(&state, digest);
    }
    for (int i = 0; i < 20; i++) printf("%02x", digest[i]);
    printf("\n");
    return 0;
}
