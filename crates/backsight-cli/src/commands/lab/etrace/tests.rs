use backsight_core::{Address, AddressSpace, Execution, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::{Code, Image};
use backsight_isa::rv;
use backsight_riscv::etrace::PayloadDecoder;
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_sim::{Simulator, Streams};
use backsight_testing::repository;

use super::*;
use backsight_run::measure::{BASELINE, Variant, Which};

const LIMIT: u64 = 40_000;

fn small() -> (Vec<Variant>, Vec<Measured>) {
    let (params, options) = configuration(&[]).unwrap();
    let variants = variants(params, options);
    let measured =
        BUNDLED.iter().map(|(name, file)| simulate(name, file, LIMIT, &variants, &[]).unwrap()).collect();
    (variants, measured)
}

#[test]
fn the_formula_gives_the_rates_that_the_thesis_printed() {
    let rate = |test: &str| {
        let row = thesis::TABLE.iter().find(|row| row.test == test).unwrap();
        format!("{:.2}", row.figures.rate(row.instructions))
    };
    assert_eq!(
        (rate("hello").as_str(), rate("timer").as_str(), rate("mm").as_str()),
        ("90.44", "85.22", "99.71")
    );
    assert_eq!(format!("{:.2}", thesis::mean_rate()), "95.07");
}

#[test]
fn short_programs_compress_at_least_as_well_as_those_of_the_thesis() {
    let (variants, measured) = small();
    let baseline = mean(&measured, BASELINE, Measured::rate).unwrap();
    assert!(baseline >= thesis::mean_rate(), "{baseline}");
    let all = variants.iter().position(|variant| variant.name == "all").unwrap();
    assert!(mean(&measured, all, Measured::rate).unwrap() > baseline);
}

#[test]
fn the_thesis_s_own_encoder_sends_more_than_the_specification_s_and_is_put_beside_it() {
    let (variants, measured) = small();
    let thesis = variants.iter().position(|variant| variant.which == Which::Thesis).unwrap();
    for program in &measured {
        let (theirs, ours) = (program.bits(thesis).unwrap(), program.bits(BASELINE).unwrap());
        assert!(theirs > ours, "{}: {theirs} and {ours}", program.name);
    }
    let text = table::text(&configuration(&[]).unwrap().0, &variants, &measured);
    assert!(text.contains("mean of ours, CVA6") && text.contains("N-Trace, histories"), "{text}");
}

#[test]
fn an_option_that_the_encoder_cannot_have_is_named_and_the_others_are_measured() {
    let (params, options) = configuration(&["itype_width=3".to_owned()]).unwrap();
    let variants = variants(params, options);
    let (name, file) = BUNDLED[0];
    let measured = [simulate(name, file, 1000, &variants, &[]).unwrap()];
    let text = table::text(&params, &variants, &measured);
    assert!(text.contains("implicit return     not measured: implicit_return needs itype_width 4"), "{text}");
    assert!(measured[0].rate(BASELINE).is_some());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for setting in ["colour=1", "bpred_size", "iaddress_width=99"] {
        assert!(configuration(&[setting.to_owned()]).is_err(), "{setting}");
    }
    let both = ["bpred_size=4", "cache_size=4", "f0s_width=0"].map(str::to_owned);
    assert!(configuration(&both).is_err());
}

#[test]
fn a_file_that_is_no_program_is_refused() {
    let (params, options) = configuration(&[]).unwrap();
    assert!(simulate("text", b"hello", LIMIT, &variants(params, options), &[]).is_err());
}

#[test]
fn more_ports_take_fewer_cycles_and_send_the_same_packets() {
    let (params, options) = configuration(&[]).unwrap();
    let variants = variants(params, options);
    let shapes = ["single", "branches:2", "blocks:2", "branches:4", "blocks:4", "blocks:4+serial"]
        .map(|shape| shape.parse().unwrap());
    for (name, file) in BUNDLED {
        let measured = simulate(name, file, LIMIT, &variants, &shapes).unwrap();
        let sent = measured.sent[BASELINE].unwrap().packets;
        let figures: Vec<_> = measured.shapes.iter().map(|(_, figures)| *figures).collect();
        assert!(figures.iter().all(|shape| shape.packets == sent && shape.blocks == figures[0].blocks));
        let [single, branches2, blocks2, branches4, blocks4, serial] = figures[..] else { panic!() };
        assert!(single.cycles > branches2.cycles && branches2.cycles >= blocks2.cycles, "{name}");
        assert!(blocks2.cycles > blocks4.cycles && branches4.cycles >= blocks4.cycles, "{name}");
        assert!(branches4.held > 0 && blocks4.held == 0 && serial.stalls > 0, "{name}");
        assert_eq!((single.most_blocks(), branches4.most_packets()), (1, 1), "{name}");
        let text = table::text(&params, &variants, &[measured]);
        assert!(text.contains("branches:4") && text.contains("blocks:4+serial"), "{text}");
    }
}

#[test]
fn the_plot_has_a_bar_for_every_figure() {
    let (variants, measured) = small();
    let svg = plot::svg(&variants, &measured);
    assert_eq!(svg.matches("<title>").count(), 2 * variants.len() * (measured.len() + 1));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

#[test]
fn every_program_comes_back_from_its_trace_with_every_set_of_options() {
    let (params, options) = configuration(&[]).unwrap();
    for (name, file) in BUNDLED {
        let mut image = Image::new();
        let path = repository().join("testdata/programs/riscv64").join(name);
        image.add_elf(&path, None, AddressSpace::ANY).unwrap();
        let executed = execution(file);
        let addresses: Vec<Address> = executed
            .iter()
            .filter_map(|execution| match execution {
                Execution::Instruction(retired) => Some(retired.address),
                _ => None,
            })
            .collect();
        let variants = variants(params, options);
        for variant in variants.into_iter().filter(|variant| variant.which == Which::Standard) {
            let decoded = round_trip(&variant, &executed, &image);
            let same = decoded.iter().zip(&addresses).take_while(|(a, b)| a == b).count();
            assert_eq!((same, decoded.len()), (addresses.len(), addresses.len()), "{name}, {}", variant.name);
        }
    }
}

fn execution(file: &[u8]) -> Vec<Execution> {
    let options = backsight_sim::Options {
        streams: Streams::none(),
        host_files: false,
        instructions: LIMIT,
        ..backsight_sim::Options::default()
    };
    let mut executed = Vec::new();
    let _ = Simulator::load(file, options).unwrap().run(&mut |execution| executed.push(execution));
    executed
}

fn round_trip(variant: &Variant, executed: &[Execution], image: &Image) -> Vec<Address> {
    let mut packets = Vec::new();
    let mut encoder = variant.encoder().unwrap();
    let mut decoder = PayloadDecoder::new(variant.params, variant.options);
    let mut sink = |packet| {
        let payload = backsight_riscv::etrace::encode(&packet, &variant.params, &variant.options);
        packets.push(decoder.decode(&payload).unwrap());
    };
    let mut builder = Builder::new(variant.params.itype_width, Ctype::Unreported);
    let mut blocks = Vec::new();
    executed.iter().for_each(|execution| builder.push(execution, &mut |ingress| blocks.push(ingress)));
    builder.finish(&mut |ingress| blocks.push(ingress));
    for ingress in &blocks {
        if let Ingress::Block(block) = ingress {
            encoder.push(block, &mut sink);
        }
    }
    encoder.finish(&mut sink);
    let mut follower = Follower::new(Settings::new(variant.params, variant.options), image);
    let mut decoded = Vec::new();
    let mut each = |event: Located<Event>| {
        if let Event::Range(range) = event.value {
            let mut at = range.start;
            while at != range.end {
                decoded.push(at);
                let bytes = image.bytes_at(AddressSpace::ANY, at).unwrap();
                at = at.plus(rv::size(u16::from(bytes[0])).into());
            }
        }
    };
    for value in packets {
        follower.push(Located { offset: 0, length: 1, value }, &mut each);
    }
    follower.finish(&mut each);
    assert_eq!(follower.faults().total(), 0);
    decoded
}
