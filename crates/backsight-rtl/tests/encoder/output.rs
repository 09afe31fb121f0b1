//! What the testbench printed.

use backsight_riscv::encap::{AtbBeat, atb_bytes};

/// One thing that the hardware did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A packet was wanted: was there room?
    Packet(bool),
    /// After a loss: is there room to begin again?
    HalfEmpty(bool),
}

/// All of it.
#[derive(Debug, Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    pub answers: Vec<Answer>,
    /// Cycles in which the hart waited.
    pub stalls: usize,
    /// Lines whose blocks were lost.
    pub missed: Vec<usize>,
}

impl Output {
    pub fn of(text: &str) -> Self {
        let mut output = Self::default();
        let mut done = false;
        let mut beats = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["W", data, bytes] => beats.push(AtbBeat {
                    atid: 0,
                    atbytes: bytes.parse().expect(line),
                    atdata: u64::from_str_radix(data, 16).expect(line),
                }),
                ["P", taken] => output.answers.push(Answer::Packet(taken == "1")),
                ["H", room] => output.answers.push(Answer::HalfEmpty(room == "1")),
                ["S", _] => output.stalls += 1,
                ["L", lines] => output.missed.push(lines.parse().expect(line)),
                ["D"] => done = true,
                ["-", ..] => {}
                _ => panic!("the simulator said: {line}"),
            }
        }
        assert!(done, "a flush was not answered");
        output.bytes = atb_bytes(0, beats);
        output
    }

    /// Packets that were lost.
    pub fn lost(&self) -> usize {
        self.answers.iter().filter(|answer| **answer == Answer::Packet(false)).count()
    }
}
