//! Prints the code of an ELF file as text: address, bytes, instruction, tab-separated. What `objdump -d` says of the
//! same file should be the same: `tests/disassembly/run` compares the two.

use std::io::{BufWriter, Write};

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::{Code, Disassembler, Image, Mapping, encoding};
use object::{Object, ObjectSection, SectionKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: disassemble FILE")?;
    let bytes = std::fs::read(&file)?;
    let elf = object::File::parse(&*bytes)?;
    let default = match elf.architecture() {
        object::Architecture::Aarch64 => Isa::A64,
        object::Architecture::Arm => Isa::A32,
        object::Architecture::Riscv32 => Isa::Rv32,
        object::Architecture::Riscv64 => Isa::Rv64,
        other => return Err(format!("{other:?} is not known here").into()),
    };
    let mut image = Image::new();
    image.add_elf(&file, None, AddressSpace::ANY)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        let (mut at, end) = (section.address(), section.address() + section.size());
        let mut disassembler = Disassembler::default();
        while at < end {
            let address = Address(at);
            let isa = match image.mapping(AddressSpace::ANY, address) {
                Some(Mapping::Code(isa)) => isa,
                Some(Mapping::Data) => {
                    at += 1;
                    continue;
                }
                None => default,
            };
            let Some(one) = disassembler.disassemble_at(isa, &image, &image, AddressSpace::ANY, address)
            else {
                return Err(format!("{at:#x} has no bytes").into());
            };
            let (opcode, _) = image.opcode_at(AddressSpace::ANY, address);
            let encoding = encoding(isa, &opcode[..usize::from(one.size)]);
            writeln!(out, "{at:x}\t{isa}\t{encoding}\t{}\t{}", one.text, one.with_name(|_| None))?;
            at += u64::from(one.size).max(1);
        }
    }
    Ok(())
}
