/* Signs messages and verifies the signatures. The argument is their number. */
#include <stdio.h>
#include <stdlib.h>
#include "secp256k1_preallocated.h"

int main(int argc, char **argv)
{
    void *memory = malloc(secp256k1_context_preallocated_size(SECP256K1_CONTEXT_NONE));
    secp256k1_context *context = secp256k1_context_preallocated_create(memory, SECP256K1_CONTEXT_NONE);
    unsigned char key[32], message[32];
    int good = 0, count = argc > 1 ? atoi(argv[1]) : 1;
    for (int round = 0; round < count; round++) {
        for (int i = 0; i < 32; i++) {
            key[i] = i * 7 + round % 5 + 1;
            message[i] = i * 31 + round * 17;
        }
        secp256k1_pubkey pub;
        secp256k1_ecdsa_signature signature;
        if (!secp256k1_ec_pubkey_create(context, &pub, key) || !secp256k1_ecdsa_sign(context, &signature, message, key, 0, 0))
            return 1;
        message[0] ^= round % 3 == 0;
        good += secp256k1_ecdsa_verify(context, &signature, message, &pub);
    }
    printf("%d of %d are good\n", good, count);
    secp256k1_context_preallocated_destroy(context);
    free(memory);
    return 0;
}
