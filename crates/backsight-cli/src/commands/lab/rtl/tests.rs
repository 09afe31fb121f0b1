use backsight_rtl::lab::{Netlist, Routed, Tool};
use backsight_testing::skipped;
use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: Rtl,
}

fn command(arguments: &[&str]) -> Rtl {
    Line::try_parse_from([&["rtl"], arguments].concat()).unwrap().command
}

fn tools() -> Tools {
    let tool = |version: &str| Tool { program: "none".to_owned(), version: version.to_owned() };
    Tools { yosys: tool("Yosys 0.0"), nextpnr: Some(tool("nextpnr 0.0")) }
}

/// Three variants with made-up figures; the last was not routed.
fn measured() -> Vec<Measured> {
    let command = command(&[]);
    let netlist = |luts| Netlist { luts, memory_luts: 12, flip_flops: 800, block_rams: 0.5, depth: 7 };
    let routed = Routed { clock: 101.5, luts: 1500, flip_flops: 801, block_rams: 3 };
    let figures =
        |luts, routed| Figures { generic: Some(netlist(luts)), xilinx: Some(netlist(luts + 1)), routed };
    [
        ("chain-4", figures(3000, Some(routed))),
        ("prefix-8", figures(9000, Some(routed))),
        ("encoder", figures(2000, None)),
    ]
    .into_iter()
    .map(|(name, figures)| Measured { variant: variant(name, &command).unwrap(), figures })
    .collect()
}

#[test]
fn names_that_are_no_variants_are_refused_with_what_there_is() {
    for name in ["chain", "chain-0", "chain-17", "prefix-4", "tree-4", "prefix-x", "encoder-", "encoder-4"] {
        let error = variant(name, &command(&[])).unwrap_err();
        assert!(
            error.to_string().contains("chain-1 to chain-16, prefix-8, prefix-16, encoder, encoder-returns"),
            "{error}"
        );
        assert_eq!(error.exit_status(), 2);
    }
    let all = all_variants();
    all.iter().for_each(|name| assert_eq!(variant(name, &command(&[])).unwrap().name, *name));
    assert!(USUAL.iter().all(|usual| all.iter().any(|name| name == usual)));
    assert_eq!(variant("chain-2", &command(&["--all-outputs"])).unwrap().top, "etm4_decoder");
}

#[test]
fn figures_stand_beside_those_of_the_published_decoder() {
    let text = table::text(&tools(), &measured());
    let row = text.lines().find(|line| line.starts_with("chain-4")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        [
            "chain-4", "3000", "7", "3013", "12", "800", "0.5", "7", "1500", "101.5", "406", "3075", "1614",
            "250", "1000"
        ]
    );
    assert!(
        text.lines().any(|line| line.starts_with("encoder") && line.split_whitespace().count() == 8),
        "{text}"
    );
    assert!(text.starts_with("Yosys 0.0\nnextpnr 0.0\n"));
}

#[test]
fn json_and_csv_say_the_same() {
    let json = table::json(&tools(), &measured());
    assert_eq!(json["variants"][0]["ecp5"]["mb_per_second"], 406.0);
    assert_eq!(json["variants"][2]["ecp5"], serde_json::Value::Null);
    assert_eq!(json["table_ii"][5]["luts"], 5727);
    let csv = table::csv(&measured());
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0].len()), (4, 19));
    assert!(lines.iter().all(|line| line.len() == 19));
    assert_eq!((lines[0][7], lines[1][7]), ("xcup_all_luts", "3013"));
    assert_eq!(json["variants"][0]["ultrascale_plus"]["all_luts"], 3013);
    assert_eq!(lines[1][15], "406");
    assert_eq!((lines[2][15], lines[3][15]), ("812", ""));
}

#[test]
fn the_plot_has_a_curve_for_each_family_and_the_published_one() {
    let svg = plot::svg(&measured());
    assert_eq!(svg.matches("<polyline").count(), 6);
    assert!(svg.contains("table II") && svg.contains("parallel prefix"));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

#[test]
fn without_synthesis_the_way_to_get_it_is_said() {
    let error = run(&command(&["--yosys", "no-such-yosys", "--variant", "chain-1"])).unwrap_err();
    assert!(error.to_string().contains("tools/install-rtl-tools"), "{error}");
}

#[test]
fn the_smallest_decoder_is_measured_where_the_tools_are() {
    if Tools::find(None, None).is_err() {
        skipped("yosys is not installed (tools/install-rtl-tools installs it)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("backsight-lab-rtl-test-{}", std::process::id()));
    let command = command(&["--variant", "chain-1", "--no-route"]);
    let tools = super::tools(&command).unwrap();
    let variant = variant("chain-1", &command).unwrap();
    let figures = measure(&variant, &tools, &[MeasurementStep::Generic], &folder, &mut |_| {}).unwrap();
    let netlist = figures.generic.unwrap();
    assert!((300..2000).contains(&netlist.luts) && (300..3000).contains(&netlist.flip_flops), "{netlist:?}");
    assert!((3..20).contains(&netlist.depth) && netlist.block_rams == 0.0, "{netlist:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
