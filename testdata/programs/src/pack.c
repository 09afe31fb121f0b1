/* Makes text, compresses it (LZ77 with a hash table), expands it again and checks the CRC-32 of both: byte
 * loads and stores, a bitwise inner loop, tables, copies of overlapping runs. */
#include "runtime.h"

#define SIZE 16384
#define HASHES 1024
#define SHORTEST 4
#define LONGEST 67

static u8 text[SIZE], packed[SIZE + SIZE / 8 + 16], expanded[SIZE];
static u32 table[256];
static u16 seen[HASHES];

static void make_crc_table(void)
{
    for (u32 i = 0; i < 256; i++) {
        u32 c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
        table[i] = c;
    }
}

__attribute__((noinline)) static u32 crc(const u8 *data, u32 length)
{
    u32 c = ~0u;
    while (length--)
        c = c >> 8 ^ table[(c ^ *data++) & 0xFF];
    return ~c;
}

__attribute__((noinline)) static void make_text(u32 *seed)
{
    static const char *const words[] = { "the ", "trace ", "of ", "a ", "program ", "tells ", "where ", "it ",
                                         "went ", "and ", "when ", "branch ", "by ", "branch, ", "back ", "sight. " };
    u32 n = 0;
    while (n < SIZE)
        for (const char *w = words[next_random(seed) >> 28]; *w && n < SIZE; w++)
            text[n++] = (u8)*w;
}

static u32 hash(const u8 *p)
{
    u32 v = (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
    return v * 2654435761u >> 22;
}

/* A flag byte for eight items; an item is a literal byte or three bytes: distance (16 bits), length - 4. */
__attribute__((noinline)) static u32 compress(void)
{
    u32 out = 0, flags = 0, item = 0;
    for (u32 i = 0; i < HASHES; i++)
        seen[i] = 0xFFFF;
    for (u32 n = 0; n < SIZE; item++) {
        if (item % 8 == 0) {
            flags = out++;
            packed[flags] = 0;
        }
        u32 length = 0, at = 0;
        if (n + SHORTEST <= SIZE) {
            u32 h = hash(text + n);
            at = seen[h];
            seen[h] = (u16)n;
            if (at != 0xFFFF)
                while (length < LONGEST && n + length < SIZE && text[at + length] == text[n + length])
                    length++;
        }
        if (length >= SHORTEST) {
            packed[flags] |= (u8)(1 << item % 8);
            packed[out++] = (u8)(n - at);
            packed[out++] = (u8)((n - at) >> 8);
            packed[out++] = (u8)(length - SHORTEST);
            n += length;
        } else {
            packed[out++] = text[n++];
        }
    }
    return out;
}

__attribute__((noinline)) static u32 expand(u32 length)
{
    u32 in = 0, out = 0, flags = 0;
    for (u32 item = 0; in < length && out < SIZE; item++) {
        if (item % 8 == 0)
            flags = packed[in++];
        if (flags >> item % 8 & 1) {
            u32 from = out - ((u32)packed[in] | (u32)packed[in + 1] << 8);
            u32 count = packed[in + 2] + SHORTEST;
            in += 3;
            while (count--)
                expanded[out++] = expanded[from++];
        } else {
            expanded[out++] = packed[in++];
        }
    }
    return out;
}

int program(u32 scale)
{
    int good = 1;
    u32 seed = 88172645u;
    make_crc_table();
    while (scale--) {
        make_text(&seed);
        u32 length = compress();
        good &= expand(length) == SIZE && crc(text, SIZE) == crc(expanded, SIZE);
        put_line("packed", length);
        put_line("crc", crc(packed, length));
    }
    put(good ? "good\n" : "wrong\n");
    return !good;
}
