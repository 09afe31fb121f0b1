//! Processes that have different code at the same address: CONTEXTIDR says which of them runs.

use backsight::core::{Address, Security};
use backsight::etm4::{AddressForm, AddressPacket, Atoms, Config, Context, Encoder, Is, Packet, TraceInfo};
use backsight::{Capture, Event};

const NOP: u32 = 0xD503_201F;
const RET: u32 = 0xD65F_03C0;

/// A jump to 0x1000 in a context, and a branch at the end of the block that is there.
fn visit(context_id: u32) -> [Packet; 2] {
    let context = Context {
        level: 0,
        security: Security::NonSecure,
        wide: true,
        vmid: None,
        context_id: Some(context_id),
    };
    let address = AddressPacket { address: Address(0x1000), is: Is::Is0, form: AddressForm::Long64 };
    [Packet::AddressContext(address, context), Packet::Atoms(Atoms { bits: 1, count: 1 })]
}

fn trace(contexts: &[u32]) -> Vec<u8> {
    let mut config = Config::etm4_default();
    config.set_option("context_id", "32").unwrap();
    let mut encoder = Encoder::new(&config);
    let mut bytes = Vec::new();
    let begin = [Packet::Async, Packet::TraceInfo(TraceInfo { sections: 1, ..TraceInfo::default() })];
    for packet in begin.into_iter().chain(contexts.iter().flat_map(|&context| visit(context))) {
        bytes.extend(encoder.encode(&packet).unwrap_or_else(|error| panic!("{packet:?}: {error}")));
    }
    bytes
}

/// What is executed, as numbers of instructions in each block; `None` where there is no code.
fn executed(name: &str, layout: &str, log: &str, contexts: &[u32]) -> Vec<Option<u32>> {
    let folder = std::env::temp_dir().join(format!("backsight-{}-processes-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let contents = format!(
        "[trace]\nmetadata=trace.ini\nbuffer0=data\n[events]\nlog=log\ncontextidr={layout}\n\
         [memory0]\nfile=five\naddress=0x1000\npid=5\n[memory1]\nfile=six\naddress=0x1000\npid=6\n"
    );
    let metadata = "[buffer]\nformat: raw\nsource: 16\n[trace_16]\nformat: ETM4.0\ncontext_id: 32\ncpu: 1\n";
    let log = format!("%system-event-log version=1\n{log}");
    let files: [(&str, Vec<u8>); 6] = [
        ("contents.ini", contents.into()),
        ("trace.ini", metadata.into()),
        ("log", log.into()),
        ("data", trace(contexts)),
        ("five", code(&[NOP, NOP, RET])),
        ("six", code(&[RET])),
    ];
    for (name, contents) in files {
        std::fs::write(folder.join(name), contents).unwrap();
    }
    let capture = Capture::open(&folder).unwrap_or_else(|error| panic!("{error}"));
    let mut blocks = Vec::new();
    let summary = capture.execution().run(|item| match item.value {
        Event::Range(range) => blocks.push(Some(range.instructions)),
        Event::NoMemory { .. } => blocks.push(None),
        _ => {}
    });
    summary.unwrap_or_else(|error| panic!("{error}"));
    let _ = std::fs::remove_dir_all(&folder);
    blocks
}

#[test]
fn each_process_runs_its_own_code() {
    assert_eq!(executed("pid", "pid", "", &[5, 6, 5]), [Some(3), Some(1), Some(3)]);
}

#[test]
fn a_process_without_code_runs_none_of_another() {
    assert_eq!(executed("unknown", "pid", "", &[7, 6]), [None, Some(1)]);
}

#[test]
fn threads_and_address_space_identifiers_lead_to_processes() {
    let log = "1 declare_thread CURRENT tid=51 pid=5\n1 declare_thread CURRENT tid=61 pid=6\n";
    assert_eq!(executed("tid", "tid", log, &[61, 51, 6]), [Some(1), Some(3), Some(1)]);
    assert_eq!(executed("asid-tid", "asid_tid", log, &[51 << 8 | 9, 61 << 8 | 9]), [Some(3), Some(1)]);
    let log = "1 declare_asid CURRENT asid=0x21 pid=5\n1 declare_asid CURRENT asid=0x22 pid=5\n\
               1 declare_asid CURRENT asid=0x22 pid=6 cpu=1\n";
    assert_eq!(executed("asid", "asid", log, &[0x21, 0x22]), [Some(3), Some(1)]);
}
