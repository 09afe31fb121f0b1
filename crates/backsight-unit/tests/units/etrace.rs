//! Real RISC-V programs, simulated, traced and decoded: what is decoded is what was executed.

use backsight_core::{Address, AddressSpace, Execution, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings as Following};
use backsight_image::Image;
use backsight_riscv::encap::{FrameError, Framing};
use backsight_riscv::etrace::{Config, Content, Decoder, ImplicitReturn, Message, Options, Params};
use backsight_sim::{Simulator, Streams};
use backsight_testing::repository;
use backsight_unit::etrace::{Settings, Unit, UnitConfig, UnitError};
use backsight_unit::riscv::{Resync, ResyncMode};

const MOST: u64 = 150_000;

fn execution(file: &[u8]) -> Vec<Execution> {
    let options = backsight_sim::Options {
        streams: Streams::none(),
        host_files: false,
        instructions: MOST,
        ..backsight_sim::Options::default()
    };
    let mut simulator = Simulator::load(file, options).expect("a static RV64 program");
    let mut items = Vec::new();
    let _ = simulator.run(&mut |item| items.push(item));
    items
}

/// The addresses that a trace tells.
fn decode(config: &UnitConfig, image: &Image, bytes: &[u8]) -> Vec<Address> {
    let UnitConfig { params, options, framing, .. } = *config;
    let config = Config { params, options, framing };
    let mut decoder = Decoder::new(&config);
    let mut follower = Follower::new(Following::from(&config), image);
    let mut told = Vec::new();
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(range) => {
            let mut at = range.start;
            while at != range.end {
                told.push(at);
                let bytes = backsight_image::Code::bytes_at(image, AddressSpace::ANY, at).expect("code");
                at = at.plus(if bytes[0] & 3 == 3 { 4 } else { 2 });
            }
        }
        Event::NoMemory { .. } | Event::Mismatch { .. } => panic!("{event:x?}"),
        _ => {}
    };
    let mut messages = |message: Located<Message>| {
        let good = matches!(message.value.content, Content::Instruction(_) | Content::Null);
        assert!(good, "{message:x?}");
        follower.push(message, &mut sink);
    };
    decoder.feed(bytes, &mut messages);
    decoder.finish(&mut messages);
    follower.finish(&mut sink);
    told
}

fn configurations() -> Vec<(&'static str, UnitConfig)> {
    let mut params = Params { implicit_return: ImplicitReturn::Depth, ..Params::default() };
    params.iaddress_width = 64;
    let plain = UnitConfig { params, ..UnitConfig::default() };
    let resync = Settings { resync: Resync { mode: ResyncMode::Packets, limit: 64 }, ..Settings::default() };
    let full = Options { full_address: true, ..Options::default() };
    vec![
        ("plain", plain),
        ("resynchronising", UnitConfig { settings: resync, ..plain }),
        ("full addresses", UnitConfig { options: full, ..plain }),
        (
            "standard encapsulation",
            UnitConfig { framing: Framing::SIEMENS, source: 5, settings: resync, ..plain },
        ),
    ]
}

#[test]
fn simulated_programs_decode_to_what_was_executed() {
    let folder = repository().join("testdata/programs/riscv64");
    for program in ["sort", "calls", "vm"] {
        let path = folder.join(program);
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut image = Image::new();
        image.add_elf(&path, None, AddressSpace::ANY).expect("an ELF file");
        let items = execution(&file);
        let executed: Vec<Address> = items
            .iter()
            .filter_map(|item| match item {
                Execution::Instruction(retired) => Some(retired.address),
                _ => None,
            })
            .collect();
        assert!(executed.len() > 10_000, "{program}: {} instructions", executed.len());
        for (name, config) in configurations() {
            let mut unit = Unit::new(config).expect("a unit that can be");
            let mut bytes = Vec::new();
            unit.push_all(&items, &mut bytes);
            unit.finish(&mut bytes);
            let told = decode(&config, &image, &bytes);
            let same = told.iter().zip(&executed).take_while(|(a, b)| a == b).count();
            assert_eq!(told.get(same), executed.get(same), "{program}, {name}: from instruction {same} on");
        }
    }
}

#[test]
fn a_hart_whose_number_does_not_fit_the_frames_is_refused() {
    let config = UnitConfig { framing: Framing::SIEMENS, source: 64, ..UnitConfig::default() };
    let error = Unit::new(config).err().expect("64 needs seven bits");
    assert_eq!(error, UnitError::Framing(FrameError::Source(64)));
    assert!(Unit::new(UnitConfig { source: 63, ..config }).is_ok());
}

#[test]
fn packets_that_may_not_fit_the_frames_are_refused() {
    let params = |time_width| Params {
        iaddress_width: 64,
        ecause_width: 5,
        nocontext: 0,
        context_width: 32,
        notime: 0,
        time_width,
        ..Params::default()
    };
    let unit = |time_width| Unit::new(UnitConfig { params: params(time_width), ..UnitConfig::default() });
    assert!(unit(64).is_ok());
    let wide = Params { context_width: 64, ..params(64) };
    let error = Unit::new(UnitConfig { params: wide, ..UnitConfig::default() }).err().expect("34 bytes");
    assert_eq!(error.to_string(), "a payload of 34 bytes does not fit the framing");
}
