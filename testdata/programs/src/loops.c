/* Loops of every form, each in a function of its own: entered by falling into them and by a jump to their condition, inside
 * of each other, left from the middle, with calls and recursion in them. Prints how often each body was begun. */
#include "runtime.h"

#define LOOP __attribute__((noinline)) static
/* The condition stands after the body, and the loop is entered by a jump to it. */
#define UNOPTIMISED __attribute__((noinline, optimize("O0"))) static

static volatile u32 begun;

LOOP void falls_into(void)
{
    for (u32 i = 0; i < 10; i++)
        begun++;
}

UNOPTIMISED void jumps_to_condition(void)
{
    for (u32 i = 0; i < 10; i++)
        begun++;
}

LOOP void nested(void)
{
    for (u32 i = 0; i < 7; i++)
        for (u32 j = 0; j < 5; j++)
            begun++;
}

UNOPTIMISED void nested_at_conditions(void)
{
    for (u32 i = 0; i < 7; i++)
        for (u32 j = 0; j < 5; j++)
            begun++;
}

LOOP void goes_on_early(u32 rare)
{
    for (u32 i = 0; i < 12; i++) {
        begun++;
        if (i % 3 == rare)
            continue;
        begun += 0;
    }
}

UNOPTIMISED void is_left_early(u32 last)
{
    for (u32 i = 0; i < 20; i++) {
        begun++;
        if (i == last)
            break;
        begun += 0;
    }
}

UNOPTIMISED u32 returns_inside(u32 last)
{
    for (u32 i = 0;; i++) {
        begun++;
        if (i == last)
            return begun;
        begun += 0;
    }
}

LOOP void called(void) { begun++; }

LOOP void calls_others(void)
{
    for (u32 i = 0; i < 20; i++)
        called();
}

LOOP void recursive(u32 depth)
{
    for (u32 i = 0; i < 3; i++) {
        begun++;
        if (depth > 0)
            recursive(depth - 1);
    }
}

LOOP void maybe_never(u32 times)
{
    for (u32 i = 0; i < times; i++)
        begun++;
}

UNOPTIMISED void calls_in_condition(void)
{
    u32 before = begun;
    for (u32 i = 0; i < returns_inside(0) - before; i++)
        if (i == 4)
            return;
}

static void say(const char *what)
{
    put_line(what, begun);
    begun = 0;
}

int program(u32 scale)
{
    for (u32 round = 0; round < scale; round++) {
        for (u32 i = 0; i < 100; i++)
            falls_into();
        say("falls_into");
        for (u32 i = 0; i < 100; i++)
            jumps_to_condition();
        say("jumps_to_condition");
        for (u32 i = 0; i < 20; i++)
            nested();
        say("nested");
        for (u32 i = 0; i < 20; i++)
            nested_at_conditions();
        say("nested_at_conditions");
        for (u32 i = 0; i < 30; i++)
            goes_on_early(i % 4);
        say("goes_on_early");
        for (u32 i = 0; i < 30; i++)
            is_left_early(i);
        say("is_left_early");
        for (u32 i = 0; i < 12; i++)
            returns_inside(i);
        say("returns_inside");
        for (u32 i = 0; i < 40; i++)
            calls_others();
        say("calls_others");
        recursive(4);
        say("recursive");
        for (u32 i = 0; i < 40; i++)
            maybe_never(i % 4);
        say("maybe_never");
        calls_in_condition();
        say("calls_in_condition");
    }
    return 0;
}
