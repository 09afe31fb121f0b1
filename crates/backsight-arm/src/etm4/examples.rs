//! An example for each end of each row of the header map, worked out by hand from the manual.
//!
//! The decoder and the encoder take their headers from the same table: a row that is wrong is wrong in both, and what is
//! encoded is still decoded again. These bytes do not come from the table. A change of a row breaks one of them.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use backsight_core::describe::write_text;

use super::testing::{ASYNC, configured, decode};
use super::{Encoder, Packet, ROWS, When, opencsd};

type Settings = &'static [(&'static str, &'static str)];

const ETM: Settings = &[];
/// Commit mode 0, a maximum depth of 20.
const MODE0: Settings = &[("commopt", "0"), ("max_spec", "20")];
const M: Settings = &[("version", "ETM4.3"), ("profile", "M")];
const ETE: Settings = &[("version", "ETE1.3"), ("vmid", "32")];
const DATA: Settings = &[("data_trace", "1")];
const COND: Settings = &[("conditional", "all")];
const QS: Settings = &[("q_elements", "1")];

/// Settings, bytes, and the packet as text.
#[rustfmt::skip]
const EXAMPLES: &[(Settings, &str, &str)] = &[
    (ETM, "00 00 00 00 00 00 00 00 00 00 00 80", "I_ASYNC"),
    (ETM, "00 03", "I_DISCARD"),
    (ETM, "00 05", "I_OVERFLOW"),
    (ETM, "01 00", "I_TRACE_INFO INFO=0x0 KEY=0x0 SPEC=0 CYCT=0x0 WNDW=0x0"),
    (ETM, "01 1f 01 82 01 03 90 01 05", "I_TRACE_INFO INFO=0x1 KEY=0x82 SPEC=3 CYCT=0x90 WNDW=0x5"),
    (ETM, "02 d7 df 01", "I_TIMESTAMP TS=0x6fd7"),
    (ETM, "03 05 85 01", "I_TIMESTAMP TS=0x5 CC=133"),
    (ETM, "04", "I_TRACE_ON"),
    (M,   "05", "I_FUNC_RET"),
    (ETM, "06 1d", "I_EXCEPT number=0xe, return address follows"),
    (ETM, "06 5c", "I_EXCEPT number=0xe, return address follows and is the branch target"),
    (ETM, "06 1c", "I_EXCEPT number=0xe, reserved address form"),
    (M,   "06 91 30", "I_EXCEPT number=0x208, return address follows, fault pending"),
    (ETE, "06 01 70", "I_PE_RESET"),
    (ETE, "06 31 70", "I_TRANS_FAIL"),
    (ETM, "07", "I_EXCEPT_RTN"),
    (ETE, "09 01 ff ff 0f 00 00 00 00 00", "I_ITE EL1 value=0x00000000000fffff"),
    (ETE, "0a", "I_TRANS_ST"),
    (ETE, "0b", "I_TRANS_COMMIT"),
    (MODE0, "0c 96", "I_CCNT_F2 cycles=6 commit=10"),
    (MODE0, "0d d5", "I_CCNT_F2 cycles=5 commit=18"),
    (ETM, "0d f5", "I_CCNT_F2 cycles=5"),
    (MODE0, "0e 81 01 85 01", "I_CCNT_F1 cycles=133 commit=129"),
    (ETM, "0e 85 01", "I_CCNT_F1 cycles=133"),
    (MODE0, "0f 03", "I_CCNT_F1 cycles unknown commit=3"),
    (ETM, "0f", "I_CCNT_F1 cycles unknown"),
    (MODE0, "10", "I_CCNT_F3 cycles=0 commit=1"),
    (MODE0, "1f", "I_CCNT_F3 cycles=3 commit=4"),
    (ETM, "11", "I_CCNT_F3 cycles=1"),
    (DATA, "20", "I_NUM_DS_MKR number=0"),
    (DATA, "27", "I_NUM_DS_MKR number=7"),
    (DATA, "28", "I_UNNUM_DS_MKR number=0"),
    (DATA, "2c", "I_UNNUM_DS_MKR number=4"),
    (ETM, "2d 81 01", "I_COMMIT count=129"),
    (ETM, "2e 05", "I_CANCEL_F1 count=5"),
    (ETM, "2f 06", "I_CANCEL_F1_MISPRED count=6"),
    (ETM, "30", "I_MISPREDICT"),
    (ETM, "33", "I_MISPREDICT atoms=N"),
    (ETM, "34", "I_CANCEL_F2"),
    (ETM, "36", "I_CANCEL_F2 atoms=EE"),
    (ETM, "37", "I_CANCEL_F2 atoms=N"),
    (ETM, "38", "I_CANCEL_F3 count=2"),
    (ETM, "3f", "I_CANCEL_F3 atoms=E count=5"),
    (COND, "40", "I_COND_I_F2 CI=0"),
    (COND, "42", "I_COND_I_F2 CI=2"),
    (COND, "43", "I_COND_FLUSH"),
    (COND, "44", "I_COND_RES_F4 T=0"),
    (COND, "46", "I_COND_RES_F4 T=2"),
    (COND, "48", "I_COND_RES_F2 K=0 T=0"),
    (COND, "4a", "I_COND_RES_F2 K=0 T=2"),
    (COND, "4c", "I_COND_RES_F2 K=1 T=0"),
    (COND, "4e", "I_COND_RES_F2 K=1 T=2"),
    (COND, "50 12", "I_COND_RES_F3 tokens=0x012"),
    (COND, "5f 12", "I_COND_RES_F3 tokens=0xf12"),
    (COND, "68 25 31", "I_COND_RES_F1 key=0x2 result=0x5, key=0x3 result=0x1"),
    (COND, "6b a5 01 31", "I_COND_RES_F1 key=0xa result=0x5 implied, key=0x3 result=0x1 implied"),
    (COND, "6c 85 01", "I_COND_I_F1 key=0x85"),
    (COND, "6d 07", "I_COND_I_F3 count=3 and one more"),
    (COND, "6e 25", "I_COND_RES_F1 key=0x2 result=0x5"),
    (COND, "6f 25", "I_COND_RES_F1 key=0x2 result=0x5 implied"),
    (M,   "70", "I_IGNORE"),
    (ETM, "71", "I_EVENT events=0b0001"),
    (ETM, "7f", "I_EVENT events=0b1111"),
    (ETM, "80", "I_CTXT unchanged"),
    (ETM, "81 f1 01 2a 00 00 00", "I_CTXT Ctxt: AArch64, EL1, Non-secure, CID=0x0000002a, VMID=0x0001"),
    (ETE, "81 2a", "I_CTXT Ctxt: AArch32, EL2, Realm"),
    (ETM, "82 6e 08 02 00 11", "I_ADDR_CTXT_L_32IS0 0x00000000000211b8 Ctxt: AArch64, EL1, Secure"),
    (ETM, "83 6e 08 02 00 00", "I_ADDR_CTXT_L_32IS1 0x00000000000208dc IS1 Ctxt: AArch32, EL0, Secure"),
    (ETM, "85 20 58 22 80 ff ff ff ff 31", "I_ADDR_CTXT_L_64IS0 0xffffffff8022b080 Ctxt: AArch64, EL1, Non-secure"),
    (ETM, "86 20 58 22 80 ff ff ff ff 31", "I_ADDR_CTXT_L_64IS1 0xffffffff80225840 IS1 Ctxt: AArch64, EL1, Non-secure"),
    (ETE, "88", "I_TS_MARKER"),
    (ETM, "90", "I_ADDR_MATCH 0x0000000000000000"),
    (ETM, "92", "I_ADDR_MATCH 0x0000000000000000"),
    (ETM, "95 2c", "I_ADDR_S_IS0 0x00000000000000b0"),
    (ETM, "96 ac 01", "I_ADDR_S_IS1 0x0000000000000158 IS1"),
    (ETM, "9a 59 15 59 00", "I_ADDR_L_32IS0 0x0000000000592b64"),
    (ETM, "9b 59 95 59 00", "I_ADDR_L_32IS1 0x00000000005995b2 IS1"),
    (ETM, "9d 00 40 10 80 c0 ff ff ff", "I_ADDR_L_64IS0 0xffffffc080108000"),
    (ETM, "9e 01 40 10 80 c0 ff ff ff", "I_ADDR_L_64IS1 0xffffffc080104002 IS1"),
    (QS,  "a0 03", "I_Q count=3 0x0000000000000000"),
    (QS,  "a2 81 01", "I_Q count=129 0x0000000000000000"),
    (QS,  "a5 2c 03", "I_Q count=3 0x00000000000000b0"),
    (QS,  "a6 2c 03", "I_Q count=3 0x0000000000000058 IS1"),
    (QS,  "aa 34 3f 06 00 03", "I_Q count=3 0x0000000000067ed0"),
    (QS,  "ab 34 bf 06 00 03", "I_Q count=3 0x000000000006bf68 IS1"),
    (QS,  "ac 07", "I_Q count=7, address follows"),
    (QS,  "af", "I_Q count unknown, address follows"),
    (ETE, "b0", "I_SRC_ADDR_MATCH 0x0000000000000000"),
    (ETE, "b2", "I_SRC_ADDR_MATCH 0x0000000000000000"),
    (ETE, "b4 48", "I_SRC_ADDR_S_IS0 0x0000000000000120"),
    (ETE, "b5 48", "I_SRC_ADDR_S_IS1 0x0000000000000090 IS1"),
    (ETE, "b6 31 03 06 00", "I_SCR_ADDR_L_32IS0 0x00000000000606c4"),
    (ETE, "b7 31 83 06 00", "I_SRC_ADDR_L_32IS1 0x0000000000068362 IS1"),
    (ETE, "b8 00 40 10 80 c0 ff ff ff", "I_SRC_ADDR_L_64IS0 0xffffffc080108000"),
    (ETE, "b9 01 40 10 80 c0 ff ff ff", "I_SRC_ADDR_L_64IS1 0xffffffc080104002 IS1"),
    (ETM, "c0", "I_ATOM_F6 EEEE"),
    (ETM, "d4", "I_ATOM_F6 EEEEEEEEEEEEEEEEEEEEEEEE"),
    (ETM, "d5", "I_ATOM_F5 NNNNN"),
    (ETM, "d7", "I_ATOM_F5 ENENE"),
    (ETM, "d8", "I_ATOM_F2 NN"),
    (ETM, "db", "I_ATOM_F2 EE"),
    (ETM, "dc", "I_ATOM_F4 NEEE"),
    (ETM, "df", "I_ATOM_F4 ENEN"),
    (ETM, "e0", "I_ATOM_F6 EEEN"),
    (ETM, "f4", "I_ATOM_F6 EEEEEEEEEEEEEEEEEEEEEEEN"),
    (ETM, "f5", "I_ATOM_F5 NEEEE"),
    (ETM, "f6", "I_ATOM_F1 N"),
    (ETM, "f7", "I_ATOM_F1 E"),
    (ETM, "f8", "I_ATOM_F3 NNN"),
    (ETM, "ff", "I_ATOM_F3 EEE"),
];

fn bytes(hex: &str) -> Vec<u8> {
    hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The only packet of an example, after the Async.
fn packet(settings: Settings, hex: &str) -> Packet {
    let found = decode(&configured(settings), &[&ASYNC[..], &bytes(hex)].concat());
    assert_eq!(found.len(), 2, "{hex}");
    found[1].value
}

fn text(packet: &Packet) -> String {
    let mut text = String::new();
    write_text(packet, &mut text).unwrap();
    format!("{} {text}", packet.name()).trim_end().to_string()
}

#[test]
fn bytes_are_read_as_the_packets_of_the_manual() {
    for &(settings, hex, expected) in EXAMPLES {
        assert_eq!(text(&packet(settings, hex)), expected, "{hex}");
    }
}

#[test]
fn packets_are_written_as_the_bytes_of_the_manual() {
    for &(settings, hex, _) in EXAMPLES {
        let mut encoder = Encoder::new(&configured(settings));
        assert_eq!(encoder.encode(&packet(settings, hex)), Ok(&bytes(hex)[..]), "{hex}");
    }
}

#[test]
fn every_row_has_an_example_for_its_first_and_its_last_header() {
    let headers: Vec<u8> = EXAMPLES.iter().map(|(_, hex, _)| bytes(hex)[0]).collect();
    for row in ROWS.iter().filter(|row| row.when != When::Never) {
        assert!(headers.contains(&row.first), "{:#04x} {}", row.first, row.title);
        assert!(headers.contains(&row.last), "{:#04x} {}", row.last, row.title);
    }
}

#[test]
fn the_familiar_listing_shows_atoms_and_addresses_plainly_and_the_rest_in_brackets() {
    let check = |settings, hex, expected: &str| {
        assert_eq!(opencsd(&packet(settings, hex)).to_string(), expected, "{hex}");
    };
    check(ETM, "04", "");
    check(ETM, "30", "");
    check(ETM, "fd", "; ENE");
    check(ETM, "9b 59 95 59 00", "; Addr=0x00000000005995B2; ");
    check(ETM, "82 6e 08 02 00 11", "; Addr=0x00000000000211B8; Ctxt: AArch64, EL1, Secure");
    check(QS, "a5 2c 1f", "; Addr=0x00000000000000B0; Count=0x1f");
    check(QS, "ac 07", "; [count=7, address follows]");
    check(ETM, "06 1d", "; [number=0xe, return address follows]");
    check(ETM, "80", "; [unchanged]");
}
