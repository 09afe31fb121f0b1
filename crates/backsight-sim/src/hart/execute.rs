//! What each instruction does.

use super::{Hart, atomic, csr, float};
use crate::decode::{Kind, Op};
use crate::environment::Environment;
use crate::fault::Cause;
use crate::observer::Observer;
use backsight_core::{Access, Address, Execution};
use std::hint::black_box;

/// How a block ended.
pub enum End {
    /// Execution goes on at `pc`.
    Next,
    /// ECALL retired.
    SystemCall,
    /// The time was read: there may be something to report.
    TimeRead,
    /// The instruction at `pc` did not retire.
    Fault(Cause, u64),
}

/// How execution leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockExit {
    /// To the instruction after it.
    FallThrough,
    /// By a branch or jump that always has the same target.
    Direct,
    /// To the address in a register.
    Indirect,
}

/// What straight-line code did.
pub struct Ran {
    pub end: End,
    pub exit: BlockExit,
    /// Instructions that retired.
    pub retired: usize,
    /// The last of them was taken.
    pub taken: bool,
}

/// How a block is left.
struct Left {
    end: End,
    exit: BlockExit,
    taken: bool,
    /// Where execution goes on.
    pc: u64,
}

impl Left {
    /// Execution goes on at `pc`: the instruction after it, unless more is said.
    #[inline(always)]
    fn to(pc: u64) -> Self {
        Self { end: End::Next, exit: BlockExit::FallThrough, taken: true, pc }
    }
}

fn word(value: u64) -> u64 {
    value as i32 as u64
}

/// Executes straight-line code; only the last instruction can go elsewhere than to the next. With `SINGLE`, each
/// instruction that retires is reported, followed by its accesses if `ACCESSES`.
#[inline(always)]
pub fn run_block<const SINGLE: bool, const ACCESSES: bool, E: Environment>(
    hart: &mut Hart,
    ops: &[Op],
    environment: &mut E,
    observer: &mut impl Observer,
) -> Ran {
    let start = hart.pc;
    let mut retired = ops.len();
    let mut rest = ops.iter();
    let left = loop {
        let Some(op) = rest.next() else {
            break Left::to(ops.last().map_or(start, |op| op.end(start)));
        };
        let mut accesses: atomic::Accesses = [None, None];

        macro_rules! leave {
            ($left:expr) => {{
                let left = $left;
                if SINGLE {
                    observer.execution(Execution::Instruction(op.retired(start, left.pc, left.taken)));
                }
                break left;
            }};
        }
        macro_rules! fail {
            ($cause:expr, $value:expr) => {{
                retired = ops.len() - rest.len() - 1;
                break Left { end: End::Fault($cause, $value), ..Left::to(op.address(start)) };
            }};
        }
        macro_rules! x {
            (rs1) => {
                hart.x(op.rs1)
            };
            (rs2) => {
                hart.x(op.rs2)
            };
            (imm) => {
                i64::from(op.imm) as u64
            };
        }
        macro_rules! set {
            ($value:expr) => {{
                let value: u64 = $value;
                hart.set_x(op.rd, value)
            }};
        }
        macro_rules! branch {
            ($condition:expr) => {{
                if $condition {
                    // Keeps this a branch of the host, whose processor then foresees the block that comes next.
                    black_box(());
                    leave!(Left { exit: BlockExit::Direct, ..Left::to(op.target(start)) });
                }
                leave!(Left { taken: false, ..Left::to(op.end(start)) });
            }};
        }
        macro_rules! load {
            ($size:literal) => {{
                let address = x!(rs1).wrapping_add(x!(imm));
                match environment.load::<$size>(address) {
                    Ok(value) => {
                        if ACCESSES {
                            accesses[0] = access(address, value, $size, false);
                        }
                        value
                    }
                    Err(cause) => fail!(cause, address),
                }
            }};
        }
        macro_rules! store {
            ($size:literal, $value:expr) => {{
                let address = x!(rs1).wrapping_add(x!(imm));
                let value = $value;
                if let Err(cause) = environment.store::<$size>(address, value) {
                    fail!(cause, address);
                }
                if ACCESSES {
                    accesses[0] = access(address, value, $size, true);
                }
            }};
        }
        macro_rules! legal {
            ($legal:expr) => {
                if !$legal {
                    fail!(Cause::IllegalInstruction, u64::from(op.opcode));
                }
            };
        }

        match op.kind {
            Kind::Lui => set!(x!(imm)),
            Kind::Auipc => set!(op.address(start).wrapping_add(x!(imm))),
            Kind::Jal => {
                set!(op.end(start));
                leave!(Left { exit: BlockExit::Direct, ..Left::to(op.target(start)) });
            }
            Kind::Jalr => {
                let target = x!(rs1).wrapping_add(x!(imm)) & !1;
                set!(op.end(start));
                leave!(Left { exit: BlockExit::Indirect, ..Left::to(target) });
            }
            Kind::Beq => branch!(x!(rs1) == x!(rs2)),
            Kind::Bne => branch!(x!(rs1) != x!(rs2)),
            Kind::Blt => branch!((x!(rs1) as i64) < x!(rs2) as i64),
            Kind::Bge => branch!(x!(rs1) as i64 >= x!(rs2) as i64),
            Kind::Bltu => branch!(x!(rs1) < x!(rs2)),
            Kind::Bgeu => branch!(x!(rs1) >= x!(rs2)),

            Kind::Lb => set!(load!(1) as i8 as u64),
            Kind::Lh => set!(load!(2) as i16 as u64),
            Kind::Lw => set!(load!(4) as i32 as u64),
            Kind::Ld => set!(load!(8)),
            Kind::Lbu => set!(load!(1)),
            Kind::Lhu => set!(load!(2)),
            Kind::Lwu => set!(load!(4)),
            Kind::Sb => store!(1, x!(rs2)),
            Kind::Sh => store!(2, x!(rs2)),
            Kind::Sw => store!(4, x!(rs2)),
            Kind::Sd => store!(8, x!(rs2)),

            Kind::Addi => set!(x!(rs1).wrapping_add(x!(imm))),
            Kind::Slti => set!(u64::from((x!(rs1) as i64) < i64::from(op.imm))),
            Kind::Sltiu => set!(u64::from(x!(rs1) < x!(imm))),
            Kind::Xori => set!(x!(rs1) ^ x!(imm)),
            Kind::Ori => set!(x!(rs1) | x!(imm)),
            Kind::Andi => set!(x!(rs1) & x!(imm)),
            Kind::Slli => set!(x!(rs1) << (op.imm & 63)),
            Kind::Srli => set!(x!(rs1) >> (op.imm & 63)),
            Kind::Srai => set!((x!(rs1) as i64 >> (op.imm & 63)) as u64),
            Kind::Addiw => set!(word(x!(rs1).wrapping_add(x!(imm)))),
            Kind::Slliw => set!(word(x!(rs1) << (op.imm & 31))),
            Kind::Srliw => set!(word(u64::from(x!(rs1) as u32 >> (op.imm & 31)))),
            Kind::Sraiw => set!((x!(rs1) as i32 >> (op.imm & 31)) as u64),

            Kind::Add => set!(x!(rs1).wrapping_add(x!(rs2))),
            Kind::Sub => set!(x!(rs1).wrapping_sub(x!(rs2))),
            Kind::Sll => set!(x!(rs1) << (x!(rs2) & 63)),
            Kind::Slt => set!(u64::from((x!(rs1) as i64) < x!(rs2) as i64)),
            Kind::Sltu => set!(u64::from(x!(rs1) < x!(rs2))),
            Kind::Xor => set!(x!(rs1) ^ x!(rs2)),
            Kind::Srl => set!(x!(rs1) >> (x!(rs2) & 63)),
            Kind::Sra => set!((x!(rs1) as i64 >> (x!(rs2) & 63)) as u64),
            Kind::Or => set!(x!(rs1) | x!(rs2)),
            Kind::And => set!(x!(rs1) & x!(rs2)),
            Kind::Addw => set!(word(x!(rs1).wrapping_add(x!(rs2)))),
            Kind::Subw => set!(word(x!(rs1).wrapping_sub(x!(rs2)))),
            Kind::Sllw => set!(word(x!(rs1) << (x!(rs2) & 31))),
            Kind::Srlw => set!(word(u64::from(x!(rs1) as u32 >> (x!(rs2) & 31)))),
            Kind::Sraw => set!((x!(rs1) as i32 >> (x!(rs2) & 31)) as u64),

            Kind::Mul => set!(x!(rs1).wrapping_mul(x!(rs2))),
            Kind::Mulh => set!(((i128::from(x!(rs1) as i64) * i128::from(x!(rs2) as i64)) >> 64) as u64),
            Kind::Mulhsu => {
                set!((i128::from(x!(rs1) as i64).wrapping_mul(i128::from(x!(rs2))) >> 64) as u64)
            }
            Kind::Mulhu => set!(((u128::from(x!(rs1)) * u128::from(x!(rs2))) >> 64) as u64),
            // Division by zero gives all ones and the dividend; the one overflow wraps.
            Kind::Div => set!(match x!(rs2) as i64 {
                0 => u64::MAX,
                d => (x!(rs1) as i64).wrapping_div(d) as u64,
            }),
            Kind::Divu => set!(x!(rs1).checked_div(x!(rs2)).unwrap_or(u64::MAX)),
            Kind::Rem => set!(match x!(rs2) as i64 {
                0 => x!(rs1),
                d => (x!(rs1) as i64).wrapping_rem(d) as u64,
            }),
            Kind::Remu => set!(x!(rs1).checked_rem(x!(rs2)).unwrap_or(x!(rs1))),
            Kind::Mulw => set!(word(x!(rs1).wrapping_mul(x!(rs2)))),
            Kind::Divw => set!(match x!(rs2) as i32 {
                0 => u64::MAX,
                d => (x!(rs1) as i32).wrapping_div(d) as u64,
            }),
            Kind::Divuw => set!(match x!(rs2) as u32 {
                0 => u64::MAX,
                d => word(u64::from(x!(rs1) as u32 / d)),
            }),
            Kind::Remw => set!(match x!(rs2) as i32 {
                0 => word(x!(rs1)),
                d => (x!(rs1) as i32).wrapping_rem(d) as u64,
            }),
            Kind::Remuw => set!(match x!(rs2) as u32 {
                0 => word(x!(rs1)),
                d => word(u64::from(x!(rs1) as u32 % d)),
            }),

            Kind::Flw => {
                let value = load!(4);
                hart.set_f(op.rd, 0xFFFF_FFFF_0000_0000 | value);
            }
            Kind::Fld => {
                let value = load!(8);
                hart.set_f(op.rd, value);
            }
            Kind::Fsw => store!(4, hart.f(op.rs2)),
            Kind::Fsd => store!(8, hart.f(op.rs2)),
            Kind::FloatFused => legal!(float::fused(hart, op.opcode)),
            Kind::Float => legal!(float::execute(hart, op.opcode)),
            Kind::Atomic => match atomic::execute(hart, environment, op.opcode, op.rd) {
                Ok(done) if ACCESSES => accesses = done,
                Ok(_) => {}
                Err((cause, address)) => fail!(cause, address),
            },
            // Stores to decoded code are noticed when they happen.
            Kind::Fence | Kind::FenceI => {}
            Kind::Ecall => leave!(Left { end: End::SystemCall, ..Left::to(op.end(start)) }),
            Kind::Ebreak => fail!(Cause::Breakpoint, op.address(start)),
            Kind::Csr => {
                // The counters include what this block has retired already: all the others, because this ends it.
                let before = ops.len() as u64 - 1;
                hart.retired += before;
                let legal = csr::execute(hart, environment, op.opcode);
                hart.retired -= before;
                match legal {
                    Ok(legal) => legal!(legal),
                    Err(cause) => fail!(cause, op.address(start)),
                }
                if csr::is_time(op.opcode) {
                    leave!(Left { end: End::TimeRead, ..Left::to(op.end(start)) });
                }
            }
            Kind::Illegal => legal!(false),
        }

        if SINGLE {
            observer.execution(Execution::Instruction(op.retired(start, op.end(start), true)));
        }
        if ACCESSES {
            for access in accesses.into_iter().flatten() {
                observer.execution(Execution::Access(access));
            }
        }
    };
    hart.pc = left.pc;
    hart.retired += retired as u64;
    Ran { end: left.end, exit: left.exit, retired, taken: left.taken }
}

fn access(address: u64, value: u64, size: u8, store: bool) -> Option<Access> {
    let value = value & (u64::MAX >> (64 - 8 * size));
    Some(Access { address: Address(address), value, size, store, known: true })
}
