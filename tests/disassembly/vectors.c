// Loops that compilers turn into vector and floating-point instructions: one function for each type and operation.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define EACH_INTEGER(X) X(int8_t) X(uint8_t) X(int16_t) X(uint16_t) X(int32_t) X(uint32_t) X(int64_t) X(uint64_t)
#define EACH_FLOAT(X) X(float) X(double)
#define EACH_TYPE(X) EACH_INTEGER(X) EACH_FLOAT(X)

#define LOOP for (size_t i = 0; i < n; i++)

#define ARITHMETIC(T)                                                                                         \
    void add_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] + c[i]; }                         \
    void sub_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] - c[i]; }                         \
    void mul_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] * c[i]; }                         \
    void div_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] / c[i]; }                         \
    void fma_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] += b[i] * c[i]; }                        \
    void max_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] > c[i] ? b[i] : c[i]; }           \
    void min_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] < c[i] ? b[i] : c[i]; }           \
    void distance_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] < c[i] ? c[i] - b[i] : b[i] - c[i]; } \
    void pick_##T(T *a, const T *b, const T *c, size_t n) { LOOP if (b[i] == 3) a[i] = c[i]; }                \
    void pairs_##T(T *a, const T *b, size_t n) { LOOP { a[i] = b[2 * i] + b[2 * i + 1]; } }                   \
    void threes_##T(T *a, const T *b, size_t n) { LOOP { a[i] = b[3 * i] + b[3 * i + 1] * b[3 * i + 2]; } }   \
    void fours_##T(T *a, const T *b, size_t n) { LOOP { a[4 * i] = b[4 * i + 3]; a[4 * i + 1] = b[4 * i + 2]; \
        a[4 * i + 2] = b[4 * i + 1]; a[4 * i + 3] = b[4 * i]; } }                                             \
    void gather_##T(T *a, const T *b, const int32_t *c, size_t n) { LOOP a[i] = b[c[i]]; }                    \
    void scatter_##T(T *a, const T *b, const int32_t *c, size_t n) { LOOP a[c[i]] = b[i]; }                   \
    void back_##T(T *a, const T *b, size_t n) { LOOP a[i] = b[n - i]; }                                       \
    T sum_##T(const T *b, size_t n) { T s = 0; LOOP s += b[i]; return s; }                                    \
    T dot_##T(const T *b, const T *c, size_t n) { T s = 0; LOOP s += b[i] * c[i]; return s; }                 \
    T most_##T(const T *b, size_t n) { T s = b[0]; LOOP s = b[i] > s ? b[i] : s; return s; }                  \
    T last_##T(const T *b, size_t n) { T s = 0; LOOP if (b[i] > 5) s = b[i]; return s; }

#define LOGIC(T)                                                                                              \
    void and_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] & c[i]; }                         \
    void or_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] | c[i]; }                          \
    void xor_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] ^ c[i]; }                         \
    void bic_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] & ~c[i]; }                        \
    void not_##T(T *a, const T *b, size_t n) { LOOP a[i] = ~b[i]; }                                           \
    void shl_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] << c[i]; }                        \
    void shr_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = b[i] >> c[i]; }                        \
    void shl3_##T(T *a, const T *b, size_t n) { LOOP a[i] = b[i] << 3; }                                      \
    void shr5_##T(T *a, const T *b, size_t n) { LOOP a[i] = b[i] >> 5; }                                      \
    void insert_##T(T *a, const T *b, size_t n) { LOOP a[i] = a[i] + (b[i] >> 2); }                           \
    void mask_##T(T *a, const T *b, size_t n) { LOOP a[i] = b[i] & (T)0x3C3C3C3C3C3C3C3C; }                   \
    void ones_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_popcountll((uint64_t)b[i]); }           \
    void zeros_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_clzll((uint64_t)b[i] | 1); }           \
    T any_##T(const T *b, size_t n) { T s = 0; LOOP s |= b[i]; return s; }

#define REAL(T)                                                                                               \
    void sqrt_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_sqrt(b[i]); }                           \
    void abs_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_fabs(b[i]); }                            \
    void neg_##T(T *a, const T *b, size_t n) { LOOP a[i] = -b[i]; }                                           \
    void floor_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_floor(b[i]); }                         \
    void ceil_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_ceil(b[i]); }                           \
    void trunc_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_trunc(b[i]); }                         \
    void round_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_round(b[i]); }                         \
    void rint_##T(T *a, const T *b, size_t n) { LOOP a[i] = __builtin_rint(b[i]); }                           \
    void sign_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = __builtin_copysign(b[i], c[i]); }     \
    void fnma_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = -(b[i] * c[i]) - a[i]; }              \
    void fms_##T(T *a, const T *b, const T *c, size_t n) { LOOP a[i] = a[i] - b[i] * c[i]; }                  \
    T constants_##T(T x) { return x * 0.5 + 2.0 - x / 31.0 + x * x * 0.125 - 1.0; }                           \
    T polynomial_##T(T x) { T y = 0; for (int i = 0; i < 9; i++) y = y * x + (T)(i * 1.75); return y; }       \
    int order_##T(T x, T y) { return (x < y) + 2 * (x == y) + 4 * (x > y) + 8 * (x != x); }

#define CONVERT(T)                                                                                            \
    void from_i8_##T(T *a, const int8_t *b, size_t n) { LOOP a[i] = b[i]; }                                   \
    void from_u8_##T(T *a, const uint8_t *b, size_t n) { LOOP a[i] = b[i]; }                                  \
    void from_i16_##T(T *a, const int16_t *b, size_t n) { LOOP a[i] = b[i]; }                                 \
    void from_u16_##T(T *a, const uint16_t *b, size_t n) { LOOP a[i] = b[i]; }                                \
    void from_i32_##T(T *a, const int32_t *b, size_t n) { LOOP a[i] = b[i]; }                                 \
    void from_u32_##T(T *a, const uint32_t *b, size_t n) { LOOP a[i] = b[i]; }                                \
    void from_i64_##T(T *a, const int64_t *b, size_t n) { LOOP a[i] = b[i]; }                                 \
    void from_f32_##T(T *a, const float *b, size_t n) { LOOP a[i] = b[i]; }                                   \
    void from_f64_##T(T *a, const double *b, size_t n) { LOOP a[i] = b[i]; }                                  \
    void wide_i16_##T(T *a, const int16_t *b, const int16_t *c, size_t n) { LOOP a[i] += (T)b[i] * (T)c[i]; } \
    void wide_u8_##T(T *a, const uint8_t *b, const uint8_t *c, size_t n) { LOOP a[i] += (T)b[i] * (T)c[i]; }  \
    T exchange_##T(T x, int32_t y, int64_t z, uint32_t u) { return x * (T)y - (T)z + (T)u; }

EACH_TYPE(ARITHMETIC)
EACH_INTEGER(LOGIC)
EACH_FLOAT(REAL)
EACH_TYPE(CONVERT)

// Atomics, bits and long multiplications.
#define ATOMIC(T)                                                                                             \
    T fetch_add_##T(T *p, T x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }                         \
    T fetch_or_##T(T *p, T x) { return __atomic_fetch_or(p, x, __ATOMIC_RELAXED); }                           \
    T fetch_and_##T(T *p, T x) { return __atomic_fetch_and(p, x, __ATOMIC_ACQUIRE); }                         \
    T swap_##T(T *p, T x) { return __atomic_exchange_n(p, x, __ATOMIC_RELEASE); }                             \
    int compare_##T(T *p, T x, T y) { return __atomic_compare_exchange_n(p, &x, y, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED); } \
    T load_##T(T *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }                                         \
    void store_##T(T *p, T x) { __atomic_store_n(p, x, __ATOMIC_RELEASE); }

EACH_INTEGER(ATOMIC)

uint64_t long_u(uint32_t a, uint32_t b, uint64_t c) { return (uint64_t)a * b + c; }
int64_t long_i(int32_t a, int32_t b, int64_t c) { return (int64_t)a * b - c; }
uint32_t swap32(uint32_t a) { return __builtin_bswap32(a); }
uint32_t swap16(uint16_t a) { return __builtin_bswap16(a); }
uint64_t swap64(uint64_t a) { return __builtin_bswap64(a); }
int field(uint32_t a) { return (a >> 5 & 0x7F) + ((int32_t)(a << 9) >> 20); }
uint32_t join(uint32_t a, uint32_t b) { return (a & ~0x3F0u) | (b & 0x3F) << 4; }
uint32_t rotate(uint32_t a, uint32_t b) { return (a >> 7 | a << 25) ^ (b >> (a & 31) | b << (-a & 31)); }
int halves(int a, int b, int c) { return (int16_t)a * (int16_t)b + (a >> 16) * (int16_t)c; }
int zeros(uint32_t a, uint64_t b) { return __builtin_clz(a) + __builtin_ctz(a) + __builtin_clzll(b) + __builtin_ctzll(b); }
int table(int a) {
    switch (a) {
    case 0: return 17;
    case 1: return a * 3;
    case 2: return a ^ 0x1234;
    case 3: return -a;
    case 4: return 0x1234567;
    case 5: return a << 4;
    case 6: return a / 7;
    case 7: return a % 10;
    default: return 0;
    }
}
