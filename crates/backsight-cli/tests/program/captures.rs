//! Captures of shapes that the bundled one has not: several buffers, sources, protocols, sessions, raw buffers.

use std::fs;
use std::path::{Path, PathBuf};

use backsight_arm::frame::Framing;

use crate::support::{Scratch, edit, first, first_stream, framed, line};

fn packets(capture: &Path, arguments: &str) -> String {
    line(&format!("packets {} --format opencsd --quiet {arguments}", capture.display())).done().out
}

fn flow(capture: &Path, arguments: &str) -> String {
    line(&format!("flow {} --format opencsd --quiet {arguments}", capture.display())).done().out
}

/// The elements of a listing, without where they are.
fn elements(listing: &str) -> Vec<&str> {
    listing.lines().map(|line| line.splitn(3, "; ").nth(2).expect("an element")).collect()
}

/// The bundled capture with a second source, of the given type and trace ID, in the same buffer.
fn with_second_source(scratch: &Scratch, kind: &str, id: u8, stream: &[u8]) -> PathBuf {
    let capture = scratch.copy_of(&first(), &format!("{kind}-{id}"));
    let unit = fs::read_to_string(capture.join("unit_0.ini")).expect("unit");
    let unit = unit.replace("ETM_0", "OTHER_1").replace("type=ETM4", &format!("type={kind}")).replace(
        "TRCTRACEIDR=0x10",
        &format!("TRCTRACEIDR={id}\nETMTRACEIDR={id}\nSTMTCSR={:#x}", u32::from(id) << 16),
    );
    fs::write(capture.join("unit_1.ini"), unit).expect("unit");
    edit(&capture.join("snapshot.ini"), "device1=unit_0.ini", "device1=unit_0.ini\ndevice2=unit_1.ini");
    edit(&capture.join("trace.ini"), "ETM_0=ETB_0", "ETM_0=ETB_0\nOTHER_1=ETB_0");
    let bytes = framed(Framing::Coresight, &[(0x10, &first_stream()), (id, stream)]);
    fs::write(capture.join("trace.bin"), bytes).expect("trace");
    capture
}

#[test]
fn a_source_of_another_protocol_in_the_same_buffer_disturbs_nothing() {
    let scratch = Scratch::new();
    let noise: Vec<u8> = (0..600_u32).map(|number| ((number * 37) >> 2) as u8).collect();
    for kind in ["STM", "PTM1.1", "ETM3.5", "ITM", "SOMETHING"] {
        let capture = with_second_source(&scratch, kind, 0x21, &noise);
        let run = line(&format!("flow {} --format opencsd", capture.display())).done();
        let ours: Vec<_> = run.out.lines().filter(|line| line.contains("; ID:10; ")).collect();
        assert_eq!(elements(&ours.join("\n")), elements(&flow(&first(), "")), "{kind}");
        let id = packets(&capture, "--id 0x10");
        assert_eq!(id.lines().count(), packets(&first(), "").lines().count(), "{kind}");
    }
}

#[test]
fn two_sources_of_the_same_protocol_are_kept_apart() {
    let scratch = Scratch::new();
    let capture = with_second_source(&scratch, "ETM4.4", 0x11, &first_stream());
    let listing = flow(&capture, "");
    for id in ["; ID:10; ", "; ID:11; "] {
        let of_one: Vec<_> = listing.lines().filter(|line| line.contains(id)).collect();
        assert_eq!(elements(&of_one.join("\n")), elements(&flow(&first(), "")));
    }
    assert_eq!(elements(&flow(&capture, "--id 0x11")), elements(&flow(&first(), "")));
    assert_eq!(flow(&capture, "--threads 1"), flow(&capture, "--threads 2"));
}

/// The bundled capture as two raw buffers, two sessions of one trace unit, with the ID that the register gives.
fn two_raw_sessions(scratch: &Scratch, id: &str) -> PathBuf {
    let capture = scratch.copy_of(&first(), &format!("sessions-{id}"));
    let unit = fs::read_to_string(capture.join("unit_0.ini")).expect("unit");
    let unit = unit.replace("TRCTRACEIDR=0x10", &format!("TRCTRACEIDR={id}"));
    fs::write(capture.join("unit_0.ini"), &unit).expect("unit");
    fs::write(capture.join("unit_1.ini"), unit.replace("ETM_0", "ETM_0_s1")).expect("unit");
    edit(&capture.join("snapshot.ini"), "device1=unit_0.ini", "device1=unit_0.ini\ndevice2=unit_1.ini");
    let stream = first_stream();
    fs::write(capture.join("trace.bin"), &stream).expect("trace");
    let (one, other) = stream.split_at(100);
    fs::write(capture.join("part1.bin"), one).expect("trace");
    fs::write(capture.join("part2.bin"), other).expect("trace");
    let trace = "[trace_buffers]\nbuffers=buffer0,buffer1,\n\n[source_buffers]\nETM_0=ETB_0\nETM_0_s1=ETB_0_s1\n\n\
        [core_trace_sources]\ncpu_0=ETM_0\ncpu_0=ETM_0_s1\n\n\
        [buffer1]\nname=ETB_0_s1\nfile=\"part1.bin\", part2.bin\nformat=source_data\n\n\
        [buffer0]\nname=ETB_0\nfile=trace.bin\nformat=source_data\n";
    fs::write(capture.join("trace.ini"), trace).expect("trace.ini");
    capture
}

#[test]
fn raw_buffers_show_id_0_in_packets_and_the_registers_id_in_elements() {
    let scratch = Scratch::new();
    for (id, shown) in [("0x10", "ID:10;"), ("0", "ID:0;")] {
        let capture = two_raw_sessions(&scratch, id);
        for buffer in ["ETB_0", "ETB_0_s1"] {
            let packets = packets(&capture, &format!("--buffer {buffer}"));
            assert_eq!(packets.lines().count(), 236);
            assert!(packets.lines().all(|line| line.contains("; ID:0; ")), "{packets}");
            let flow = flow(&capture, &format!("--buffer {buffer}"));
            assert_eq!(elements(&flow), elements(&self::flow(&first(), "")));
            assert!(flow.lines().all(|line| line.contains(shown)), "{flow}");
        }
    }
}

#[test]
fn all_buffers_are_listed_in_order_with_their_names_between() {
    let scratch = Scratch::new();
    let capture = two_raw_sessions(&scratch, "0x10");
    let text = line(&format!("packets {} --quiet", capture.display())).done().out;
    let names: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(names, ["# buffer ETB_0", "# buffer ETB_0_s1"]);
    assert_eq!(text.lines().count(), 2 * 236 + 2);
    let pcs = line(&format!("flow {} --format pcs --quiet", capture.display())).done().out;
    assert_eq!(pcs, line("flow FIRST --format pcs --quiet").out.repeat(2));
    let two = line(&format!("packets {} --buffer ETB_0_s1 --buffer ETB_0 --quiet", capture.display()));
    assert_eq!(two.done().out, text);
}

#[test]
fn an_id_chooses_among_raw_buffers_too() {
    let scratch = Scratch::new();
    let capture = two_raw_sessions(&scratch, "0x10");
    edit(&capture.join("unit_1.ini"), "TRCTRACEIDR=0x10", "TRCTRACEIDR=0x12");
    assert_eq!(packets(&capture, "--id 0x12").lines().count(), 236);
    line(&format!("packets {} --id 0x13", capture.display())).wrong_use("0x10, 0x12");
}

#[test]
fn memory_may_come_in_pieces_of_a_file_in_spaces_and_on_devices_of_its_own() {
    let scratch = Scratch::new();
    let code = fs::read(first().join("code0.bin")).expect("code");
    let expected = flow(&first(), "");
    let pieces = "[dump0]\nfile=all.bin\naddress=0x400000\nlength=0x20\noffset=0x10\nspace=EL1N\n\n\
        [dump.rest]\nfile='all.bin'\naddress=0x400020\noffset=0x30\nspace=\"N\"\n";
    let mut all = vec![0xEE; 0x10];
    all.extend_from_slice(&code);

    let capture = scratch.copy_of(&first(), "pieces");
    fs::write(capture.join("all.bin"), &all).expect("code");
    let core = fs::read_to_string(capture.join("cpu_0.ini")).expect("core");
    let core = core.split("[dump0]").next().expect("head").to_owned();
    fs::write(capture.join("cpu_0.ini"), format!("{core}{pieces}")).expect("core");
    assert_eq!(flow(&capture, ""), expected);

    // Memory that the trace's context cannot see is not used.
    edit(&capture.join("cpu_0.ini"), "space=EL1N", "space=EL3");
    assert!(flow(&capture, "").contains("ADDR_NACC"), "{}", flow(&capture, ""));

    let capture = scratch.copy_of(&first(), "device");
    fs::write(capture.join("all.bin"), &all).expect("code");
    fs::write(capture.join("cpu_0.ini"), core).expect("core");
    let device = format!("[device]\nname=ram\nclass=memory_space\ntype=any\n\n{pieces}");
    fs::write(capture.join("ram.ini"), device).expect("device");
    edit(&capture.join("snapshot.ini"), "[trace]", "device2=ram.ini\n\n[trace]");
    assert_eq!(flow(&capture, ""), expected);
}

#[test]
fn windows_line_ends_comments_and_quotes_change_nothing() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    for file in ["snapshot.ini", "trace.ini", "cpu_0.ini", "unit_0.ini"] {
        let text = fs::read_to_string(capture.join(file)).expect("text");
        let text = text.replace("=trace.bin", "=\"trace.bin\" ; the trace").replace('\n', " # said\r\n");
        fs::write(capture.join(file), text).expect("write");
    }
    assert_eq!(packets(&capture, ""), packets(&first(), ""));
    assert_eq!(flow(&capture, ""), flow(&first(), ""));
}

#[test]
fn a_snapshot_may_leave_out_which_buffer_holds_which_source() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    edit(&capture.join("trace.ini"), "[source_buffers]\nETM_0=ETB_0\n", "");
    assert_eq!(flow(&capture, ""), flow(&first(), ""));
}

#[test]
fn a_dstream_buffer_is_read_block_by_block() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    edit(&capture.join("trace.ini"), "format=coresight", "format=dstream_coresight");
    let bytes = framed(Framing::Dstream, &[(0x10, &first_stream())]);
    fs::write(capture.join("trace.bin"), bytes).expect("trace");
    assert_eq!(elements(&flow(&capture, "")), elements(&flow(&first(), "")));
}

#[test]
fn memory_that_several_cores_see_is_listed_once() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    edit(&capture.join("snapshot.ini"), "device0=", "device9=cpu_9.ini\ndevice0=");
    let core = fs::read_to_string(capture.join("cpu_0.ini")).expect("the core");
    fs::write(capture.join("cpu_9.ini"), core.replace("cpu_0", "cpu_9")).expect("another core");
    let info = line(&format!("info {}", capture.display())).done().out;
    assert!(info.contains("core cpu_0") && info.contains("core cpu_9"), "{info}");
    let memories: Vec<_> = info.lines().filter(|line| line.starts_with("  memory")).collect();
    assert_eq!(memories.len(), 1, "{info}");
    assert!(!memories[0].contains("seen by"), "all cores see it: {info}");
}
