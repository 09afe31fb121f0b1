//! The N-Trace stream of the corpus, followed through its program.

use backsight_core::{Address, Located, MemorySpace};
use backsight_flow::{Event, ntrace::Follower};
use backsight_image::Code;
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, encode, messages};
use backsight_testing::{corpus, gunzip};

/// Code at one place.
struct Flat {
    base: u64,
    bytes: Vec<u8>,
}

impl Code for Flat {
    fn bytes_at(&self, _: MemorySpace, address: Address) -> Option<&[u8]> {
        let offset = usize::try_from(address.0.checked_sub(self.base)?).ok()?;
        self.bytes.get(offset..).filter(|bytes| !bytes.is_empty())
    }
}

/// The loaded segment of a 32-bit ELF file that holds `address`.
fn segment(elf: &[u8], address: u64) -> Flat {
    let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("four bytes")) as usize;
    let half = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().expect("two bytes")) as usize;
    let (table, size, count) = (word(28), half(42), half(44));
    (0..count)
        .map(|index| table + index * size)
        .map(|at| (word(at + 4), word(at + 8), word(at + 16)))
        .find(|&(_, base, length)| (base as u64..(base + length) as u64).contains(&address))
        .map(|(offset, base, length)| Flat {
            base: base as u64,
            bytes: elf[offset..offset + length].to_vec(),
        })
        .expect("a segment with the code")
}

#[test]
fn the_reference_stream_gives_its_pc_sequence() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("ntrace");
    let trace = std::fs::read(folder.join("test-NEX.bin")).expect("trace");
    let code = segment(&std::fs::read(folder.join("test.elf")).expect("program"), 0x2001_0522);
    let expected: Vec<u64> = String::from_utf8(gunzip(&folder.join("test-PCSEQ.txt.gz")))
        .expect("text")
        .lines()
        .map(|line| u64::from_str_radix(&line[2..10], 16).expect("address"))
        .collect();

    let mut executed = Vec::new();
    let mut follower = Follower::new(rv::Set::RV32, &code);
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(range) => {
            let mut pc = range.start;
            for _ in 0..range.instructions {
                executed.push(pc.0);
                let bytes = code.bytes_at(MemorySpace::ANY, pc).expect("code");
                pc = pc.plus(u64::from(rv::size(u16::from_le_bytes([bytes[0], bytes[1]]))));
            }
            assert_eq!(pc, range.end);
        }
        Event::TraceOn(_) | Event::EndOfTrace { .. } => {}
        other => panic!("{other:?}"),
    };
    for packet in messages(&Config::default(), &trace) {
        follower.push(packet, &mut sink);
    }
    follower.finish(&mut sink);
    assert_eq!(executed.len(), expected.len());
    assert!(executed == expected, "the sequences differ");
}

#[test]
fn the_reference_stream_is_encoded_to_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    let trace = std::fs::read(corpus.join("ntrace/test-NEX.bin")).expect("trace");
    let mut bytes = Vec::new();
    for packet in messages(&Config::default(), &trace) {
        assert!(encode(&Config::default(), &packet.value, &mut bytes));
    }
    assert_eq!(bytes.len(), trace.len());
    assert!(bytes == trace, "the bytes differ");
}
