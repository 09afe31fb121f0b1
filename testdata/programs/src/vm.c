/* A virtual machine with a bytecode of its own that counts primes and follows Collatz sequences. One indirect
 * branch through a table per bytecode: what interpreters do to a branch predictor. The bytecode is assembled
 * by the program itself before it runs. */
#include "runtime.h"

enum op { PUSH, LOAD, STORE, ADD, MUL, REM, HALVE, LESS, EQUAL, JUMP, JUMP_IF_ZERO, PRINT, HALT };
enum variable { N, D, COUNT, LIMIT, STEPS, START };

struct code {
    u16 words[128];
    u32 length;
};

static u32 emit(struct code *c, enum op op)
{
    c->words[c->length++] = op;
    return c->length;
}

/* Gives the place of the operand, so that a jump forward can be completed later. */
static u32 emit_with(struct code *c, enum op op, u32 operand)
{
    emit(c, op);
    c->words[c->length++] = (u16)operand;
    return c->length - 1;
}

static void land(struct code *c, u32 jump)
{
    c->words[jump] = (u16)c->length;
}

static void increment(struct code *c, enum variable v)
{
    emit_with(c, LOAD, v);
    emit_with(c, PUSH, 1);
    emit(c, ADD);
    emit_with(c, STORE, v);
}

/* for (n = 2; n < limit; n++) { for (d = 2; d * d <= n; d++) if (n % d == 0) goto next; count++; next: } */
static void assemble_primes(struct code *c)
{
    emit_with(c, PUSH, 2);
    emit_with(c, STORE, N);
    u32 outer = c->length;
    emit_with(c, LOAD, N);
    emit_with(c, LOAD, LIMIT);
    emit(c, LESS);
    u32 done = emit_with(c, JUMP_IF_ZERO, 0);
    emit_with(c, PUSH, 2);
    emit_with(c, STORE, D);
    u32 inner = c->length;
    emit_with(c, LOAD, N);
    emit_with(c, LOAD, D);
    emit_with(c, LOAD, D);
    emit(c, MUL);
    emit(c, LESS);
    u32 divide = emit_with(c, JUMP_IF_ZERO, 0);
    u32 prime = emit_with(c, JUMP, 0);
    land(c, divide);
    emit_with(c, LOAD, N);
    emit_with(c, LOAD, D);
    emit(c, REM);
    u32 composite = emit_with(c, JUMP_IF_ZERO, 0);
    increment(c, D);
    emit_with(c, JUMP, inner);
    land(c, prime);
    increment(c, COUNT);
    land(c, composite);
    increment(c, N);
    emit_with(c, JUMP, outer);
    land(c, done);
    emit_with(c, LOAD, COUNT);
    emit(c, PRINT);
    emit(c, HALT);
}

/* for (start = 1; start < limit; start++) for (n = start; n != 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2; */
static void assemble_collatz(struct code *c)
{
    emit_with(c, PUSH, 1);
    emit_with(c, STORE, START);
    u32 outer = c->length;
    emit_with(c, LOAD, START);
    emit_with(c, LOAD, LIMIT);
    emit(c, LESS);
    u32 done = emit_with(c, JUMP_IF_ZERO, 0);
    emit_with(c, LOAD, START);
    emit_with(c, STORE, N);
    u32 inner = c->length;
    emit_with(c, LOAD, N);
    emit_with(c, PUSH, 1);
    emit(c, EQUAL);
    u32 step = emit_with(c, JUMP_IF_ZERO, 0);
    increment(c, START);
    emit_with(c, JUMP, outer);
    land(c, step);
    increment(c, STEPS);
    emit_with(c, LOAD, N);
    emit_with(c, PUSH, 2);
    emit(c, REM);
    u32 even = emit_with(c, JUMP_IF_ZERO, 0);
    emit_with(c, LOAD, N);
    emit_with(c, PUSH, 3);
    emit(c, MUL);
    emit_with(c, PUSH, 1);
    emit(c, ADD);
    emit_with(c, STORE, N);
    emit_with(c, JUMP, inner);
    land(c, even);
    emit_with(c, LOAD, N);
    emit(c, HALVE);
    emit_with(c, STORE, N);
    emit_with(c, JUMP, inner);
    land(c, done);
    emit_with(c, LOAD, STEPS);
    emit(c, PRINT);
    emit(c, HALT);
}

struct machine {
    u32 variables[8];
    u32 stack[16];
    u32 executed;
};

/* 32-bit Arm has no remainder instruction: shift and subtract, as a small machine does. */
static u32 remainder(u32 a, u32 b)
{
    u32 d = b;
    while (d <= a >> 1)
        d <<= 1;
    for (; d >= b; d >>= 1)
        if (a >= d)
            a -= d;
    return a;
}

__attribute__((noinline)) static u32 interpret(struct machine *m, const u16 *code)
{
    static void *const labels[] = { &&push, &&load, &&store, &&add, &&mul, &&rem, &&halve, &&less,
                                    &&equal, &&jump, &&jump_if_zero, &&print, &&halt };
    const u16 *pc = code;
    u32 *sp = m->stack;
    u32 printed = 0;
#define NEXT do { m->executed++; goto *labels[*pc++]; } while (0)
#define BINARY(expression) do { u32 b = *--sp, a = *--sp; *sp++ = (expression); NEXT; } while (0)
    NEXT;
push: *sp++ = *pc++; NEXT;
load: *sp++ = m->variables[*pc++]; NEXT;
store: m->variables[*pc++] = *--sp; NEXT;
add: BINARY(a + b);
mul: BINARY(a * b);
rem: BINARY(remainder(a, b));
halve: sp[-1] >>= 1; NEXT;
less: BINARY(a < b);
equal: BINARY(a == b);
jump: pc = code + *pc; NEXT;
jump_if_zero: pc = *--sp == 0 ? code + *pc : pc + 1; NEXT;
print: printed = *--sp; NEXT;
halt: return printed;
}

static u32 run(const char *what, void assemble(struct code *), u32 limit)
{
    static struct code code;
    struct machine m = { .variables = { [LIMIT] = limit } };
    code.length = 0;
    assemble(&code);
    u32 result = interpret(&m, code.words);
    put_line(what, result);
    put_line("  bytecodes", m.executed);
    return result;
}

int program(u32 scale)
{
    u32 primes = run("primes", assemble_primes, 1000 * scale);
    u32 steps = run("steps", assemble_collatz, 150 * scale);
    return scale == 1 && (primes != 168 || steps != 5727);
}
