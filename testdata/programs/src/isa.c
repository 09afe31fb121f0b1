/* RISC-V only: executes each instruction of I, M, A, F, D and C with many operands and prints, for each, a hash
 * of the results (and floating-point flags, in all five rounding modes). What it prints was checked against QEMU.
 * With an argument n above 1 it prints every case of test n - 2 instead: for finding out what went wrong. */
#include "runtime.h"

static u8 buffer[64] __attribute__((aligned(16)));

#define TEST(id, ...) \
    __attribute__((noinline)) static u64 test_##id(u64 a, u64 b, u64 c) \
    { \
        register u64 a0 __asm__("a0") = a; \
        register u64 a1 __asm__("a1") = b; \
        register u64 a2 __asm__("a2") = c; \
        register u8 *a3 __asm__("a3") = buffer; \
        __asm__ volatile(__VA_ARGS__ : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3) \
                         : : "memory", "ft0", "ft1", "ft2", "ft3", "t0", "t1", "ra"); \
        return a0; \
    }

/* Integer instructions with two source registers; branches. */
#define EACH_R(X) X(add) X(sub) X(sll) X(slt) X(sltu) X(xor) X(srl) X(sra) X(or) X(and) X(addw) X(subw) X(sllw) \
    X(srlw) X(sraw) X(mul) X(mulh) X(mulhsu) X(mulhu) X(div) X(divu) X(rem) X(remu) X(mulw) X(divw) X(divuw) \
    X(remw) X(remuw)
#define EACH_B(X) X(beq) X(bne) X(blt) X(bge) X(bltu) X(bgeu)
/* Compressed forms of two registers; loads, stores, atomics. */
#define EACH_C2(X) X(add) X(sub) X(xor) X(or) X(and) X(addw) X(subw) X(mv)
#define EACH_L(X) X(lb) X(lbu) X(lh) X(lhu) X(lw) X(lwu) X(ld)
#define EACH_S(X) X(sb) X(sh) X(sw) X(sd)
#define EACH_A(X) X(amoswap) X(amoadd) X(amoxor) X(amoand) X(amoor) X(amomin) X(amomax) X(amominu) X(amomaxu)
/* Floating point: one, two and three operands that round; then those that do not. */
#define EACH_F2(X) X(fadd) X(fsub) X(fmul) X(fdiv)
#define EACH_F3(X) X(fmadd) X(fmsub) X(fnmadd) X(fnmsub)
#define EACH_FM(X) X(fmin) X(fmax) X(fsgnj) X(fsgnjn) X(fsgnjx)
#define EACH_FC(X) X(feq) X(flt) X(fle)
#define EACH_I_TYPE(X) X(w) X(wu) X(l) X(lu)

#define R(i) TEST(i, #i " a0, a0, a1")
EACH_R(R)
TEST(addi_n2048, "addi a0, a0, -2048")
TEST(slti_n5, "slti a0, a0, -5")
TEST(sltiu_2047, "sltiu a0, a0, 2047")
TEST(sltiu_n1, "sltiu a0, a0, -1")
TEST(xori_n1, "xori a0, a0, -1")
TEST(ori_1365, "ori a0, a0, 0x555")
TEST(andi_n256, "andi a0, a0, -256")
TEST(slli_33, "slli a0, a0, 33")
TEST(srli_63, "srli a0, a0, 63")
TEST(srai_40, "srai a0, a0, 40")
TEST(addiw_2047, "addiw a0, a0, 2047")
TEST(slliw_31, "slliw a0, a0, 31")
TEST(srliw_7, "srliw a0, a0, 7")
TEST(sraiw_13, "sraiw a0, a0, 13")
TEST(lui, "lui a0, 0xFFFFF\nxor a0, a0, a1")
TEST(auipc, "auipc a1, 0x12345\nauipc a0, 0\nsub a0, a0, a1")
TEST(x0, "add x0, a0, a1\nsub a0, x0, a0")
#define B(i) TEST(i, #i " a0, a1, 1f\nli a0, 7\nj 2f\n1: li a0, 9\n2:")
EACH_B(B)
TEST(jalr, "la t0, 1f + 1\njalr ra, 0(t0)\n1: la t1, 1b\nsub a0, ra, t1")
#define C2(i) TEST(c_##i, "c." #i " a0, a1")
EACH_C2(C2)
TEST(c_addi, "c.addi a0, -32")
TEST(c_addiw, "c.addiw a0, 31")
TEST(c_slli, "c.slli a0, 45")
TEST(c_srli, "c.srli a0, 17")
TEST(c_srai, "c.srai a0, 61")
TEST(c_andi, "c.andi a0, -7")
TEST(c_li, "c.li a0, -32\nc.lui a1, 0xFFFE1\nadd a0, a0, a1")
TEST(c_beqz, "c.beqz a0, 1f\nli a0, 7\nj 2f\n1: li a0, 9\n2:")
TEST(c_bnez, "c.bnez a0, 1f\nli a0, 7\nj 2f\n1: li a0, 9\n2:")
TEST(c_memory, "c.sd a0, 8(a3)\nc.lw a0, 12(a3)\nc.sw a1, 20(a3)\nc.ld a2, 16(a3)\nadd a0, a0, a2")
TEST(c_stack, "c.addi16sp sp, -496\nc.addi4spn a2, sp, 16\nsub a2, sp, a2\nc.sdsp a0, 488(sp)\nc.swsp a1, 252(sp)\n"
              "c.lwsp a0, 252(sp)\nc.ldsp a1, 488(sp)\nadd a0, a0, a1\nadd a0, a0, a2\nc.addi16sp sp, 496")
TEST(c_float, "fmv.d.x fs0, a0\nc.fsd fs0, 24(a3)\nc.fld fs1, 24(a3)\nc.addi16sp sp, -64\nc.fsdsp fs1, 56(sp)\n"
              "c.fldsp ft0, 56(sp)\nc.addi16sp sp, 64\nfmv.x.d a0, ft0")
#define L(i) TEST(i, "sd a0, 16(a3)\nsd a1, 24(a3)\nandi a2, a2, 7\nadd a3, a3, a2\n" #i " a0, 17(a3)")
EACH_L(L)
#define S(i) TEST(i, "sd a1, 16(a3)\nsd a1, 24(a3)\nandi a2, a2, 7\nadd a2, a2, a3\n" #i " a0, 15(a2)\n" \
                     "ld a0, 16(a3)\nld a1, 24(a3)\nslli a1, a1, 1\nxor a0, a0, a1")
EACH_S(S)
#define AMO(i) \
    TEST(i##_w, "sd a1, 8(a3)\naddi a3, a3, 8\n" #i ".w.aqrl a0, a0, (a3)\nld a1, 0(a3)\nslli a1, a1, 1\nxor a0, a0, a1") \
    TEST(i##_d, "sd a1, 8(a3)\naddi a3, a3, 8\n" #i ".d a0, a0, (a3)\nld a1, 0(a3)\nslli a1, a1, 1\nxor a0, a0, a1")
EACH_A(AMO)
TEST(lr_sc, "sd a1, 0(a3)\nlr.d a2, (a3)\nadd a2, a2, a0\nsc.d t0, a2, (a3)\nsc.d t1, a0, (a3)\nld a0, 0(a3)\n"
            "slli t1, t1, 1\nadd a0, a0, t0\nadd a0, a0, t1")
TEST(lr_sc_w, "sd a1, 0(a3)\nlr.w a2, (a3)\nsc.w t0, a0, (a3)\nld a0, 0(a3)\nadd a0, a0, a2\nadd a0, a0, t0")

#define MOVE "fmv.d.x ft0, a0\nfmv.d.x ft1, a1\nfmv.d.x ft2, a2\n"
#define F2(i) TEST(i##_s, MOVE #i ".s ft3, ft0, ft1\nfmv.x.d a0, ft3") TEST(i##_d, MOVE #i ".d ft3, ft0, ft1\nfmv.x.d a0, ft3")
#define F3(i) TEST(i##_s, MOVE #i ".s ft3, ft0, ft1, ft2\nfmv.x.d a0, ft3") \
    TEST(i##_d, MOVE #i ".d ft3, ft0, ft1, ft2\nfmv.x.d a0, ft3")
#define FC(i) TEST(i##_s, MOVE #i ".s a0, ft0, ft1") TEST(i##_d, MOVE #i ".d a0, ft0, ft1")
EACH_F2(F2)
EACH_F3(F3)
EACH_FM(F2)
EACH_FC(FC)
TEST(fsqrt_s, MOVE "fsqrt.s ft3, ft0\nfmv.x.d a0, ft3")
TEST(fsqrt_d, MOVE "fsqrt.d ft3, ft0\nfmv.x.d a0, ft3")
TEST(fclass_s, MOVE "fclass.s a0, ft0")
TEST(fclass_d, MOVE "fclass.d a0, ft0")
TEST(fmv_s, "fmv.w.x ft0, a0\nfmv.x.d a1, ft0\nfmv.x.w a0, ft0\nxor a0, a0, a1")
TEST(fcvt_s_d, MOVE "fcvt.s.d ft3, ft0\nfmv.x.d a0, ft3")
TEST(fcvt_d_s, MOVE "fcvt.d.s ft3, ft0\nfmv.x.d a0, ft3")
#define FI(i) TEST(fcvt_##i##_s, MOVE "fcvt." #i ".s a0, ft0") TEST(fcvt_##i##_d, MOVE "fcvt." #i ".d a0, ft0") \
    TEST(fcvt_s_##i, "fcvt.s." #i " ft3, a0\nfmv.x.d a0, ft3") TEST(fcvt_d_##i, "fcvt.d." #i " ft3, a0\nfmv.x.d a0, ft3")
EACH_I_TYPE(FI)
TEST(static_rounding, MOVE "fadd.d ft3, ft0, ft1, rup\nfdiv.d ft3, ft3, ft1, rmm\nfmul.d ft3, ft3, ft0, rdn\n"
                           "fcvt.s.d ft3, ft3, rtz\nfmv.x.d a0, ft3")
TEST(float_memory, MOVE "fsd ft0, 0(a3)\nfsw ft1, 4(a3)\nflw ft2, 0(a3)\nfld ft3, 0(a3)\nfmv.x.d a0, ft2\nfmv.x.d a1, ft3\n"
                        "slli a1, a1, 1\nxor a0, a0, a1")
TEST(csr, "csrrw a1, fcsr, a0\nfrrm a2\ncsrrsi t0, fflags, 5\ncsrrc t1, fcsr, a1\nfrcsr a0\nslli t0, t0, 8\nslli t1, t1, 16\n"
          "slli a2, a2, 24\nadd a0, a0, t0\nadd a0, a0, t1\nadd a0, a0, a2\nfscsr x0")

enum kind { INTEGER, SINGLE, DOUBLE, FROM_INTEGER };
static const struct test {
    const char *name;
    u64 (*run)(u64, u64, u64);
    enum kind kind;
} tests[] = {
#define T(i) { #i, test_##i, INTEGER },
#define TS(i) { #i, test_##i, SINGLE },
#define TD(i) { #i, test_##i, DOUBLE },
#define TF(i) { #i, test_##i, FROM_INTEGER },
#define TC(i) T(c_##i)
#define TA(i) T(i##_w) T(i##_d)
#define TSD(i) TS(i##_s) TD(i##_d)
#define TFI(i) TS(fcvt_##i##_s) TD(fcvt_##i##_d) TF(fcvt_s_##i) TF(fcvt_d_##i)
    EACH_R(T) T(addi_n2048) T(slti_n5) T(sltiu_2047) T(sltiu_n1) T(xori_n1) T(ori_1365) T(andi_n256) T(slli_33) T(srli_63)
    T(srai_40) T(addiw_2047) T(slliw_31) T(srliw_7) T(sraiw_13) T(lui) T(auipc) T(x0) EACH_B(T) T(jalr) EACH_C2(TC)
    T(c_addi) T(c_addiw) T(c_slli) T(c_srli) T(c_srai) T(c_andi) T(c_li) T(c_beqz) T(c_bnez) T(c_memory) T(c_stack)
    T(c_float) EACH_L(T) EACH_S(T) EACH_A(TA) T(lr_sc) T(lr_sc_w) EACH_F2(TSD) EACH_F3(TSD) EACH_FM(TSD) EACH_FC(TSD)
    TS(fsqrt_s) TD(fsqrt_d) TS(fclass_s) TD(fclass_d) T(fmv_s) TD(fcvt_s_d) TS(fcvt_d_s) EACH_I_TYPE(TFI)
    TD(static_rounding) TD(float_memory) T(csr)
};

static u64 random64(u32 *seed)
{
    u64 high = next_random(seed);
    return high << 32 | next_random(seed);
}

static u64 integer(u32 *seed)
{
    static const u64 special[] = { 0, 1, 2, ~0ull, ~1ull, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 1ull << 63,
                                   ~0ull >> 1, 0xFFFFFFFF80000000, 63, 31, 0x5555555555555555, 3 };
    u32 choice = next_random(seed);
    u64 value = random64(seed);
    return choice % 4 == 0 ? special[choice >> 28] : choice % 4 == 1 ? value >> (choice >> 26) : value;
}

/* Zeros, infinities, NaNs, the limits of each range, numbers close to 1 (which cancel), numbers about as large as
 * integers, and anything at all. */
static u64 number(u32 *seed, u32 fraction, u32 exponent)
{
    u32 choice = next_random(seed);
    u64 value = random64(seed);
    u64 all = (1ull << exponent) - 1, bias = all >> 1, sign = value >> 63 << (fraction + exponent);
    u64 low = value & ((1ull << fraction) - 1);
    u32 small = choice >> 28;
    switch (choice % 8) {
    case 0: {
        u64 magnitudes[] = { 0, all << fraction, all << fraction | 1ull << (fraction - 1), all << fraction | 1,
                             1, (1ull << fraction) - 1, 1ull << fraction, (all << fraction) - 1 };
        return sign | magnitudes[small % 8];
    }
    case 1:
        return sign | low >> (small * 3);
    case 2:
        return sign | (bias - 1 + small % 3) << fraction | low;
    case 3:
        return sign | (bias + small * 5) << fraction | low;
    case 4:
        return sign | (bias + small) << fraction | low >> (fraction - small) << (fraction - small);
    case 5:
        return sign | (all - 1 - small % 4) << fraction | low;
    case 6:
        return sign | (small * 4) << fraction | low;
    default:
        return value & ((1ull << (fraction + exponent)) - 1) & (sign | ~0ull >> 1);
    }
}

static u64 operand(enum kind kind, u32 *seed)
{
    if (kind == DOUBLE)
        return number(seed, 52, 11);
    if (kind == SINGLE) {
        u64 box = next_random(seed) % 32 ? 0xFFFFFFFF00000000 : 0x12345678ull << 32;
        return box | (number(seed, 23, 8) & 0xFFFFFFFF);
    }
    return integer(seed);
}

static void put_hex(u64 value)
{
    char text[18];
    for (int i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    text[16] = ' ';
    text[17] = 0;
    put(text);
}

static u64 run(const struct test *test, int show)
{
    u32 seed = 2463534242u;
    u64 hash = 14695981039346656037ull;
    u32 modes = test->kind == INTEGER ? 1 : 5;
    for (u32 i = 0; i < 400; i++) {
        u64 a = operand(test->kind, &seed), b = operand(test->kind, &seed), c = operand(test->kind, &seed);
        for (u64 mode = 0; mode < modes; mode++) {
            u64 before = i % 2, flags;
            __asm__ volatile("fsflags %0\nfsrm %1" : : "r"(before), "r"(mode));
            u64 result = test->run(a, b, c);
            __asm__ volatile("frflags %0\nfsrm x0" : "=r"(flags));
            hash = (hash ^ result) * 1099511628211ull;
            hash = (hash ^ hash >> 29 ^ flags) * 1099511628211ull;
            if (show) {
                put_hex(a), put_hex(b), put_hex(c), put_hex(mode), put_hex(result), put_hex(flags);
                put("\n");
            }
        }
    }
    return hash;
}

int program(u32 scale)
{
    u32 count = sizeof tests / sizeof *tests;
    if (scale > 1)
        return scale - 2 < count ? (int)(run(&tests[scale - 2], 1) & 0) : 1;
    for (u32 i = 0; i < count; i++) {
        put_hex(run(&tests[i], 0));
        put(tests[i].name);
        put("\n");
    }
    return 0;
}
