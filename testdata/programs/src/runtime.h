/* The little that a program needs without a C library: start, write, exit, numbers as text.
 * Everything goes to standard output; the exit status is 0 when the program's own checks hold. */
#ifndef RUNTIME_H
#define RUNTIME_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ size;

/* Each program defines this; `scale` is its first argument as a number, 1 without one. */
int program(u32 scale);

void put(const char *text);
void put_number(u64 value);
void put_line(const char *what, u64 value);

/* A repeatable source of numbers (xorshift). */
u32 next_random(u32 *state);

#endif
