//! What differs between the targets: which instructions may stop a block, and the numbers of system calls.

/// A target that the plugin knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Target {
    Aarch64 = 1,
    Arm = 2,
    Riscv64 = 3,
}

/// System calls that matter to a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `mmap`; the offset counts units of this many bytes.
    Map {
        offset_unit: u64,
    },
    Unmap,
    Remap,
    Protect,
    Execute,
    /// `clone`, `clone3`, `fork`, `vfork`.
    Fork,
    /// `madvise`.
    Advise,
    Write,
    /// `writev`.
    WriteVectors,
    /// `rt_sigaction` and `sigaction`.
    SignalAction,
    Other,
}

impl Target {
    /// The target of QEMU's name.
    pub fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"aarch64" => Some(Self::Aarch64),
            b"arm" => Some(Self::Arm),
            b"riscv64" => Some(Self::Riscv64),
            _ => None,
        }
    }

    /// `e_machine` of the target's ELF files.
    pub fn elf_machine(self) -> u16 {
        match self {
            Self::Aarch64 => 183,
            Self::Arm => 40,
            Self::Riscv64 => 243,
        }
    }

    /// Size of a pointer.
    pub fn pointer(self) -> usize {
        if self == Self::Arm { 4 } else { 8 }
    }

    /// Is it the call that executes a program as seen from a folder (`execveat`)?
    pub fn is_execute_at(self, number: i64) -> bool {
        number == if self == Self::Arm { 387 } else { 281 }
    }

    /// The meaning of a system call number.
    pub fn call(self, number: i64) -> Call {
        match self {
            Self::Arm => match number {
                4 => Call::Write,
                146 => Call::WriteVectors,
                192 => Call::Map { offset_unit: 4096 },
                91 => Call::Unmap,
                163 => Call::Remap,
                125 => Call::Protect,
                220 => Call::Advise,
                11 | 387 => Call::Execute,
                2 | 120 | 190 | 435 => Call::Fork,
                67 | 174 => Call::SignalAction,
                _ => Call::Other,
            },
            // The generic numbers of Linux.
            Self::Aarch64 | Self::Riscv64 => match number {
                64 => Call::Write,
                66 => Call::WriteVectors,
                222 => Call::Map { offset_unit: 1 },
                215 => Call::Unmap,
                216 => Call::Remap,
                226 => Call::Protect,
                233 => Call::Advise,
                221 | 281 => Call::Execute,
                220 | 435 => Call::Fork,
                134 => Call::SignalAction,
                _ => Call::Other,
            },
        }
    }

    /// May this instruction access memory, and so stop its block with a fault? Says yes where it is not sure.
    /// An instruction without bytes is QEMU's own stand-in for a kernel helper: it ends its block.
    pub fn may_fault(self, bytes: &[u8]) -> bool {
        match (self, bytes) {
            (Self::Aarch64, &[a, b, c, d]) => a64_may_fault(u32::from_le_bytes([a, b, c, d])),
            (Self::Arm, &[a, b, c, d]) => {
                // Whether it is A32 or T32 is not told: ask both.
                a32_may_fault(u32::from_le_bytes([a, b, c, d])) || t32_may_fault(u16::from_le_bytes([a, b]))
            }
            (Self::Arm, &[a, b]) => t16_may_fault(u16::from_le_bytes([a, b])),
            (Self::Riscv64, &[a, _, _, _]) => matches!(a & 0x7F, 0x03 | 0x07 | 0x23 | 0x27 | 0x2F),
            (Self::Riscv64, &[a, b]) => rvc_may_fault(u16::from_le_bytes([a, b])),
            _ => true,
        }
    }
}

fn a64_may_fault(opcode: u32) -> bool {
    let loads_and_stores = opcode & 0x0A00_0000 == 0x0800_0000;
    // SYS: cache maintenance and DC ZVA take an address.
    let system = opcode & 0xFFF8_0000 == 0xD508_0000;
    let sve_or_sme_memory = opcode >> 29 >= 4 && opcode & 0x1E00_0000 == 0x0400_0000;
    loads_and_stores || system || sve_or_sme_memory
}

fn a32_may_fault(opcode: u32) -> bool {
    if opcode >> 28 == 0xF {
        return true;
    }
    match opcode >> 25 & 7 {
        // Multiplies share the pattern of the extra loads and stores; bits 6:5 tell them apart, but for swaps.
        0b000 => opcode & 0x90 == 0x90 && (opcode & 0x60 != 0 || opcode >> 24 & 1 == 1),
        0b010 | 0b100 | 0b110 => true,
        0b011 => opcode & 0x10 == 0,
        _ => false,
    }
}

fn t32_may_fault(first: u16) -> bool {
    match first >> 9 & 0x7F {
        // Load/store multiple, dual, exclusive, table branch.
        0b111_0100 => true,
        // Coprocessor and vector loads and stores.
        0b111_0110 | 0b111_1110 => true,
        // Load and store single, and vector elements.
        0b111_1100 => true,
        _ => false,
    }
}

fn t16_may_fault(opcode: u16) -> bool {
    match opcode >> 11 {
        0b01001..=0b10011 | 0b11000 | 0b11001 => true,
        // Push and pop.
        0b10110 | 0b10111 => opcode & 0x0600 == 0x0400,
        _ => false,
    }
}

fn rvc_may_fault(opcode: u16) -> bool {
    // Quadrants 0 and 2 hold the loads and stores: rows 1 to 3 and 5 to 7.
    matches!(opcode & 3, 0 | 2) && !matches!(opcode >> 13, 0 | 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_fault(target: Target, cases: &[(&[u8], bool)]) {
        for &(bytes, expected) in cases {
            assert_eq!(target.may_fault(bytes), expected, "{target:?} {bytes:02x?}");
        }
    }

    #[test]
    fn a64_loads_and_stores_may_fault_and_arithmetic_may_not() {
        may_fault(
            Target::Aarch64,
            &[
                (&0xF940_0000u32.to_le_bytes(), true),  // ldr x0, [x0]
                (&0xA9BF_7BFDu32.to_le_bytes(), true),  // stp x29, x30, [sp, #-16]!
                (&0x885F_7C00u32.to_le_bytes(), true),  // ldxr w0, [x0]
                (&0x4C40_7000u32.to_le_bytes(), true),  // ld1 {v0.16b}, [x0]
                (&0xD50B_7420u32.to_le_bytes(), true),  // dc zva, x0
                (&0x8B01_0000u32.to_le_bytes(), false), // add x0, x0, x1
                (&0x9100_0400u32.to_le_bytes(), false), // add x0, x0, #1
                (&0x1E21_2800u32.to_le_bytes(), false), // fadd s0, s0, s1
                (&0x5400_0000u32.to_le_bytes(), false), // b.eq .
                (&0xD53B_D040u32.to_le_bytes(), false), // mrs x0, tpidr_el0
            ],
        );
    }

    #[test]
    fn arm_loads_and_stores_may_fault_and_arithmetic_may_not() {
        may_fault(
            Target::Arm,
            &[
                (&0xE590_0000u32.to_le_bytes(), true),  // ldr r0, [r0]
                (&0xE1D0_00B0u32.to_le_bytes(), true),  // ldrh r0, [r0]
                (&0xE1C0_00D0u32.to_le_bytes(), true),  // ldrd r0, r1, [r0]
                (&0xE190_0F9Fu32.to_le_bytes(), true),  // ldrex r0, [r0]
                (&0xE92D_4010u32.to_le_bytes(), true),  // push {r4, lr}
                (&0xED90_0B00u32.to_le_bytes(), true),  // vldr d0, [r0]
                (&0xE080_0001u32.to_le_bytes(), false), // add r0, r0, r1
                (&0xE000_0091u32.to_le_bytes(), false), // mul r0, r1, r0
                (&[0x00, 0x68], true),                  // ldr r0, [r0]
                (&[0x10, 0xB5], true),                  // push {r4, lr}
                (&[0x10, 0xBD], true),                  // pop {r4, pc}
                (&[0x01, 0x30], false),                 // adds r0, #1
                (&[0x08, 0xBF], false),                 // it eq
                (&[0xD0, 0xF8, 0x00, 0x00], true),      // ldr.w r0, [r0]
                (&[0x2D, 0xE9, 0xF0, 0x41], true),      // push.w {r4-r8, lr}
            ],
        );
    }

    #[test]
    fn riscv_loads_and_stores_may_fault_and_arithmetic_may_not() {
        may_fault(
            Target::Riscv64,
            &[
                (&0x0005_3503u32.to_le_bytes(), true),  // ld a0, 0(a0)
                (&0x100A_22AFu32.to_le_bytes(), true),  // lr.w t0, (s4)
                (&0x00A5_0533u32.to_le_bytes(), false), // add a0, a0, a0
                (&[0x22, 0xE4], true),                  // c.sdsp s0, 8(sp)
                (&[0x08, 0x41], true),                  // c.lw a0, 0(a0)
                (&[0x82, 0x80], false),                 // c.jr ra
                (&[0x05, 0x05], false),                 // c.addi a0, 1
                (&[0x00, 0x08], false),                 // c.addi4spn s0, 16
            ],
        );
    }

    #[test]
    fn unknown_targets_are_refused() {
        assert_eq!(Target::named(b"arm"), Some(Target::Arm));
        assert_eq!(Target::named(b"x86_64"), None);
    }
}
