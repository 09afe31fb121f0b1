/* Calls of every kind: deep and branching recursion, tail calls, calls through tables of functions, mutual
 * recursion, and long jumps out of the middle of it all. Hard on return stacks. */
#include "runtime.h"

__attribute__((noinline)) static u32 ackermann(u32 m, u32 n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

static u32 moves;

__attribute__((noinline)) static void hanoi(u32 disks, u32 from, u32 to)
{
    if (disks == 0)
        return;
    u32 spare = 3 - from - to;
    hanoi(disks - 1, from, spare);
    moves += 1 + (from ^ to) % 2;
    hanoi(disks - 1, spare, to);
}

__attribute__((noinline)) static u32 is_odd(u32 n);

__attribute__((noinline)) static u32 is_even(u32 n)
{
    return n == 0 ? 1 : is_odd(n - 1);
}

__attribute__((noinline)) static u32 is_odd(u32 n)
{
    return n == 0 ? 0 : is_even(n - 1);
}

/* An expression tree, evaluated by a function that each node carries. */
struct node {
    u32 (*value)(const struct node *);
    const struct node *left, *right;
    u32 number;
};

static u32 leaf(const struct node *n) { return n->number; }
static u32 sum(const struct node *n) { return n->left->value(n->left) + n->right->value(n->right); }
static u32 product(const struct node *n) { return n->left->value(n->left) * n->right->value(n->right); }
static u32 either(const struct node *n) { return n->left->value(n->left) ^ n->right->value(n->right); }

static struct node nodes[512];

__attribute__((noinline)) static const struct node *grow(u32 depth, u32 *used, u32 *seed)
{
    static u32 (*const kinds[])(const struct node *) = { sum, product, either, sum };
    struct node *n = &nodes[(*used)++];
    u32 random = next_random(seed);
    n->number = random >> 8;
    n->value = depth == 0 ? leaf : kinds[random % 4];
    if (depth > 0) {
        n->left = grow(depth - 1, used, seed);
        n->right = grow(depth - 1, used, seed);
    }
    return n;
}

/* Depth-first search that leaves by a long jump as soon as it finds a place for every queen. */
static void *found[5];
static u32 columns[8];

__attribute__((noinline)) static void place(u32 row, u32 skip)
{
    if (row == 8)
        __builtin_longjmp(found, 1);
    for (u32 c = 0; c < 8; c++) {
        u32 column = (c + skip) % 8, free = 1;
        for (u32 r = 0; r < row && free; r++)
            free = columns[r] != column && columns[r] + row - r != column && columns[r] != column + row - r;
        if (!free)
            continue;
        columns[row] = column;
        place(row + 1, skip);
    }
}

__attribute__((noinline)) static u32 queens(u32 skip)
{
    if (__builtin_setjmp(found) == 0)
        place(0, skip);
    u32 board = 0;
    for (u32 r = 0; r < 8; r++)
        board = board * 8 + columns[r];
    return board;
}

int program(u32 scale)
{
    u32 seed = 1818371886u, good = 1;
    while (scale--) {
        put_line("ackermann", ackermann(2, 60));
        moves = 0;
        hanoi(12, 0, 2);
        put_line("hanoi", moves);
        good &= is_even(5000) && !is_even(4999);
        for (u32 tree = 0, used = 0; tree < 8; tree++, used = 0) {
            const struct node *root = grow(8, &used, &seed);
            put_line("tree", root->value(root));
        }
        for (u32 skip = 0; skip < 8; skip++)
            put_line("queens", queens(skip));
    }
    put(good ? "good\n" : "wrong\n");
    return !good;
}
