/* Sorts the same numbers in three ways: quicksort with a comparison called through a pointer, heap sort and
 * merge sort. Data-dependent branches, recursion, an indirect call in the innermost loop. */
#include "runtime.h"

#define COUNT 4000

typedef int compare(u32 a, u32 b);

__attribute__((noinline)) static int ascending(u32 a, u32 b)
{
    return a < b ? -1 : a > b;
}

__attribute__((noinline)) static int descending(u32 a, u32 b)
{
    return ascending(b, a);
}

static void swap(u32 *a, u32 *b)
{
    u32 t = *a;
    *a = *b;
    *b = t;
}

__attribute__((noinline)) static void quicksort(u32 *items, int count, compare *order)
{
    while (count > 1) {
        u32 pivot = items[count / 2];
        int low = 0, high = count - 1;
        while (low <= high) {
            while (order(items[low], pivot) < 0)
                low++;
            while (order(items[high], pivot) > 0)
                high--;
            if (low <= high)
                swap(&items[low++], &items[high--]);
        }
        quicksort(items, high + 1, order);
        items += low;
        count -= low;
    }
}

static void sift(u32 *items, int root, int count)
{
    for (int child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && items[child] < items[child + 1])
            child++;
        if (items[root] >= items[child])
            return;
        swap(&items[root], &items[child]);
    }
}

__attribute__((noinline)) static void heapsort(u32 *items, int count)
{
    for (int root = count / 2 - 1; root >= 0; root--)
        sift(items, root, count);
    for (int end = count - 1; end > 0; end--) {
        swap(&items[0], &items[end]);
        sift(items, 0, end);
    }
}

__attribute__((noinline)) static void mergesort(u32 *items, u32 *space, int count)
{
    if (count < 2)
        return;
    int half = count / 2;
    mergesort(items, space, half);
    mergesort(items + half, space, count - half);
    for (int i = 0; i < half; i++)
        space[i] = items[i];
    int left = 0, right = half, out = 0;
    while (left < half && right < count)
        items[out++] = items[right] < space[left] ? items[right++] : space[left++];
    while (left < half)
        items[out++] = space[left++];
}

static u32 numbers[COUNT], sorted[COUNT], space[COUNT];

static int is_sorted(compare *order)
{
    for (int i = 1; i < COUNT; i++)
        if (order(sorted[i - 1], sorted[i]) > 0)
            return 0;
    return 1;
}

static u32 sum(void)
{
    u32 sum = 0;
    for (u32 i = 0; i < COUNT; i++)
        sum = sum * 31 + sorted[i];
    return sum;
}

static void refill(void)
{
    for (int i = 0; i < COUNT; i++)
        sorted[i] = numbers[i];
}

int program(u32 scale)
{
    int good = 1;
    u32 seed = 2463534242u;
    while (scale--) {
        for (int i = 0; i < COUNT; i++)
            numbers[i] = next_random(&seed);
        refill();
        quicksort(sorted, COUNT, ascending);
        good &= is_sorted(ascending);
        u32 quick = sum();
        refill();
        heapsort(sorted, COUNT);
        good &= sum() == quick;
        refill();
        mergesort(sorted, space, COUNT);
        good &= sum() == quick;
        quicksort(sorted, COUNT, descending);
        good &= is_sorted(descending);
        put_line("sorted", quick);
    }
    put(good ? "good\n" : "wrong\n");
    return !good;
}
