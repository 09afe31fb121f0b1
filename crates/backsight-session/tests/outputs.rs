//! What is written is what its reader takes.

use std::io::Write;
use std::process::{Command, Stdio};

use backsight_session::{Request, Session, System, Timestamps, output};
use backsight_testing::{assert_golden, repository, skipped};

fn session(sink: &str) -> Session {
    of_system("four-cores", sink)
}

fn of_system(system: &str, sink: &str) -> Session {
    let system = System::open(&repository().join(format!("testdata/systems/{system}.ini"))).unwrap();
    Session::new(&system, &Request { sink: Some(sink.to_owned()), ..Request::default() }).unwrap()
}

/// Runs a program with a text as its input; `None` where there is no such program.
fn given(program: &str, arguments: &[&str], text: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(_) => {
            skipped(format_args!("no {program}"));
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn a_c_compiler_takes_the_tables() {
    for (system, sink) in
        [("four-cores", "etr"), ("four-cores", "tpiu"), ("four-cores", "etf2"), ("armv7", "etb")]
    {
        let text = output::c_table(&of_system(system, sink))
            + "int main(void) { return trace_start[0].value == trace_stop[0].value; }\n";
        let arguments = ["-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-"];
        if let Some((good, said)) = given("cc", &arguments, &text) {
            assert!(good, "{said}");
        }
    }
}

#[test]
fn a_tcl_interpreter_runs_the_script_to_its_end() {
    // A memory in which everything that is waited for has happened.
    let memory = "proc mww {address value} { incr ::writes }\n\
        proc echo {text} { incr ::reads }\n\
        proc read_memory {address width count} { return [list $::word] }\n\
        proc trace_wait {address mask value what} { incr ::waits }\n\
        set writes 0\nset reads 0\nset waits 0\nset word 0xffffffff\n";
    for session in [session("etr"), of_system("armv7", "tpiu")] {
        let script = output::openocd(&session).replace("proc trace_wait", "proc unused_wait") + memory;
        let text = script + "start_trace\nstop_trace /dev/null\nputs [expr {$writes + $reads + $waits}]\n";
        if let Some((good, said)) = given("tclsh", &[], &text) {
            assert!(good, "{said}");
            assert_eq!(said.trim(), (session.start.len() + session.stop.len()).to_string());
        }
    }
}

#[test]
fn a_script_changes_the_bits_of_the_mask_alone() {
    let memory = "proc read_memory {address width count} { return 0x12345678 }\n\
        proc mww {address value} { puts [format %x $value] }\n\
        trace_change 0x1000 0x00000ff0 0x00000a50\ntrace_change 0x1000 0x80000000 0x80000000\n";
    if let Some((good, said)) = given("tclsh", &[], &(output::openocd(&session("etr")) + memory)) {
        assert!(good && said == "12345a58\n92345678\n", "{said}");
    }
}

#[test]
fn a_buffer_is_read_word_by_word_in_the_order_of_memory() {
    let words = "set words {0x44332211 0x01020304 0xffffffff}\n\
        proc read_memory {address width count} { set ::words [lassign $::words word]; return [list $word] }\n\
        trace_read 0x1000 /dev/stdout\n";
    if let Some((good, said)) = given("tclsh", &[], &(output::openocd(&session("etf2")) + words)) {
        assert!(good && said == "11223344\n04030201\n", "{said}");
    }
}

#[test]
fn sinks_come_first_and_everything_is_undone_in_the_order_of_the_trace() {
    let components = |text: &str| {
        let mut names: Vec<String> = text
            .lines()
            .filter_map(|line| Some(line.split_once("# ")?.1.split_once(' ')?.0.to_owned()))
            .collect();
        names.dedup();
        names
    };
    let text = output::words(&session("etr"));
    let (start, stop) = text.split_once("# stop\n").unwrap();
    assert_eq!(
        components(start),
        ["etr", "replicator", "etf2", "funnel2", "etf1", "funnel1", "etm0", "etm1", "etm2", "etm3"]
    );
    assert_eq!(
        components(stop),
        ["etm0", "etm1", "etm2", "etm3", "funnel1", "etf1", "funnel2", "etf2", "replicator", "etr"]
    );
}

#[test]
fn addresses_and_values_are_those_of_the_manuals() {
    let system = System::open(&repository().join("testdata/systems/four-cores.ini")).unwrap();
    let request = Request {
        units: vec![("etm2".to_owned(), Some(0x2A))],
        sink: Some("etr".to_owned()),
        ranges: vec![0x40_0000..0x50_0000, 0xFFFF_0000_0000..0xFFFF_0000_1000],
        only_context: Some(0x1234),
        context_id: true,
        vmid: true,
        cycle_counts: Some(16),
        timestamps: Some(Timestamps::EveryCycles(5000)),
        branch_broadcast: true,
        return_stack: true,
        events: vec![4, 9],
        ..Request::default()
    };
    let session = Session::new(&system, &request).unwrap();
    assert_golden("crates/backsight-session/tests/golden/everything.words", &output::words(&session));
    let port = Request { units: request.units, sink: Some("tpiu".to_owned()), ..Request::default() };
    let session = Session::new(&system, &port).unwrap();
    assert_golden("crates/backsight-session/tests/golden/port.words", &output::words(&session));
    let system = System::open(&repository().join("testdata/systems/armv7.ini")).unwrap();
    let request = Request {
        units: vec![("ptm1".to_owned(), Some(0x2A)), ("etm".to_owned(), Some(0x2B))],
        sink: Some("etb".to_owned()),
        cycle_counts: Some(1),
        timestamps: Some(Timestamps::EveryCycles(5000)),
        branch_broadcast: true,
        ..Request::default()
    };
    let session = Session::new(&system, &request).unwrap();
    assert_golden("crates/backsight-session/tests/golden/armv7.words", &output::words(&session));
}
