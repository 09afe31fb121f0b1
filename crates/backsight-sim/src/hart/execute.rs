//! What each instruction does.

use super::{Hart, atomic, csr, float};
use crate::decode::{Kind, Op};
use crate::environment::Environment;
use crate::fault::Cause;
use crate::observer::Observer;
use backsight_core::{Access, Address, Execution, Isa, Retired};

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

fn word(value: u64) -> u64 {
    value as i32 as u64
}

/// What straight-line code did.
pub struct Ran {
    pub end: End,
    /// Instructions that retired.
    pub retired: u64,
    /// The last of them was taken.
    pub taken: bool,
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
    let mut pc = hart.pc;
    let mut end = End::Next;
    let mut retired = 0;
    let mut taken = true;
    for op in ops {
        let mut next = pc.wrapping_add(u64::from(op.size));
        if SINGLE {
            taken = true;
        }
        let mut accesses: atomic::Accesses = [None, None];

        macro_rules! fail {
            ($cause:expr, $value:expr) => {{
                end = End::Fault($cause, $value);
                break;
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
                taken = $condition;
                if taken {
                    next = pc.wrapping_add(x!(imm));
                }
            }};
        }
        macro_rules! loaded {
            ($type:ty) => {{
                let address = x!(rs1).wrapping_add(x!(imm));
                match environment.load::<{ size_of::<$type>() }>(address) {
                    Ok(bytes) => {
                        let value = <$type>::from_le_bytes(bytes);
                        if ACCESSES {
                            accesses[0] = access(address, bytes, false);
                        }
                        value
                    }
                    Err(cause) => fail!(cause, address),
                }
            }};
        }
        macro_rules! store {
            ($value:expr, $type:ty) => {{
                let address = x!(rs1).wrapping_add(x!(imm));
                let bytes = ($value as $type).to_le_bytes();
                if let Err(cause) = environment.store(address, bytes) {
                    fail!(cause, address);
                }
                if ACCESSES {
                    accesses[0] = access(address, bytes, true);
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
            Kind::Auipc => set!(pc.wrapping_add(x!(imm))),
            Kind::Jal => {
                set!(next);
                next = pc.wrapping_add(x!(imm));
            }
            Kind::Jalr => {
                let target = x!(rs1).wrapping_add(x!(imm)) & !1;
                set!(next);
                next = target;
            }
            Kind::Beq => branch!(x!(rs1) == x!(rs2)),
            Kind::Bne => branch!(x!(rs1) != x!(rs2)),
            Kind::Blt => branch!((x!(rs1) as i64) < x!(rs2) as i64),
            Kind::Bge => branch!(x!(rs1) as i64 >= x!(rs2) as i64),
            Kind::Bltu => branch!(x!(rs1) < x!(rs2)),
            Kind::Bgeu => branch!(x!(rs1) >= x!(rs2)),

            Kind::Lb => set!(loaded!(i8) as u64),
            Kind::Lh => set!(loaded!(i16) as u64),
            Kind::Lw => set!(loaded!(i32) as u64),
            Kind::Ld => set!(loaded!(u64)),
            Kind::Lbu => set!(u64::from(loaded!(u8))),
            Kind::Lhu => set!(u64::from(loaded!(u16))),
            Kind::Lwu => set!(u64::from(loaded!(u32))),
            Kind::Sb => store!(x!(rs2), u8),
            Kind::Sh => store!(x!(rs2), u16),
            Kind::Sw => store!(x!(rs2), u32),
            Kind::Sd => store!(x!(rs2), u64),

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
                let value = loaded!(u32);
                hart.set_f(op.rd, 0xFFFF_FFFF_0000_0000 | u64::from(value));
            }
            Kind::Fld => {
                let value = loaded!(u64);
                hart.set_f(op.rd, value);
            }
            Kind::Fsw => store!(hart.f(op.rs2), u32),
            Kind::Fsd => store!(hart.f(op.rs2), u64),
            Kind::FloatFused => legal!(float::fused(hart, op.opcode)),
            Kind::Float => legal!(float::execute(hart, op.opcode)),
            Kind::Atomic => match atomic::execute(hart, environment, op.opcode, op.rd) {
                Ok(done) if ACCESSES => accesses = done,
                Ok(_) => {}
                Err((cause, address)) => fail!(cause, address),
            },
            // Stores to decoded code are noticed when they happen.
            Kind::Fence | Kind::FenceI => {}
            Kind::Ecall => end = End::SystemCall,
            Kind::Ebreak => fail!(Cause::Breakpoint, pc),
            Kind::Csr => {
                // The counters include what this block has retired already.
                hart.retired += retired;
                let legal = csr::execute(hart, environment, op.opcode);
                hart.retired -= retired;
                match legal {
                    Ok(legal) => legal!(legal),
                    Err(cause) => fail!(cause, pc),
                }
                if csr::is_time(op.opcode) {
                    end = End::TimeRead;
                }
            }
            Kind::Illegal => legal!(false),
        }

        retired += 1;
        if SINGLE {
            observer.execution(Execution::Instruction(Retired {
                address: Address(pc),
                next: Address(next),
                cycle: 0,
                opcode: op.opcode,
                size: op.size,
                isa: Isa::Rv64,
                taken,
            }));
        }
        if ACCESSES {
            for access in accesses.into_iter().flatten() {
                observer.execution(Execution::Access(access));
            }
        }
        pc = next;
    }
    hart.pc = pc;
    hart.retired += retired;
    Ran { end, retired, taken }
}

fn access<const N: usize>(address: u64, bytes: [u8; N], store: bool) -> Option<Access> {
    let mut value = [0; 8];
    value[..N].copy_from_slice(&bytes);
    Some(Access {
        address: Address(address),
        value: u64::from_le_bytes(value),
        size: N as u8,
        store,
        known: true,
    })
}
