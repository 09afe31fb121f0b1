//! The steps of a measurement, each with what it leaves behind.

use std::fs;
use std::path::Path;

use super::{Error, Family, Figures, Netlist, Routed, Tools, Variant};
use crate::SourceFile;

/// A step of a measurement, in the order in which they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementStep {
    /// LUTs of six inputs, whatever the device.
    Generic,
    /// UltraScale+.
    Xilinx,
    /// ECP5.
    Ecp5,
    /// Place and route on an LFE5U-85F of speed grade 8, without pins.
    Route,
}

impl MeasurementStep {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Generic, Self::Xilinx, Self::Ecp5, Self::Route];

    /// Its name, also of the files that it writes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Xilinx => "xilinx",
            Self::Ecp5 => "ecp5",
            Self::Route => "route",
        }
    }

    /// What the tool is called with.
    fn arguments(self, variant: &Variant) -> Vec<String> {
        let top = variant.top;
        let synthesis = match self {
            Self::Generic if variant.family == Family::Chain => {
                format!("synth -flatten -top {top} -lut 6; write_blif generic.blif")
            }
            // Queues would be thousands of flip-flops here: they stay memories.
            Self::Generic => format!(
                "synth -flatten -top {top} -run begin:fine; memory -nomap; opt -full; techmap; opt; abc -lut 6 -dff; \
                 opt_clean; write_blif generic.blif"
            ),
            Self::Xilinx => format!(
                "synth_xilinx -family xcup -noiopad -noclkbuf -flatten -nowidelut -top {top}; write_blif xilinx.blif"
            ),
            Self::Ecp5 => format!("{}; write_json ecp5.json", variant.flow.synthesis(top)),
            Self::Route => {
                let arguments = format!("{} --seed 1", variant.flow.routing("ecp5.json"));
                return arguments.split(' ').map(str::to_owned).collect();
            }
        };
        let sources: Vec<&str> = sources(&variant.files).map(|file| file.name).collect();
        vec!["-q".to_owned(), "-p".to_owned(), format!("read_verilog -sv {}; {synthesis}", sources.join(" "))]
    }
}

/// The files that are synthesised: not the testbench, nor the example.
fn sources(files: &[SourceFile]) -> impl Iterator<Item = &SourceFile> {
    let is_design =
        |name: &str| name.ends_with(".sv") && !name.starts_with("tb_") && !name.starts_with("example");
    files.iter().filter(move |file| is_design(file.name))
}

/// Does these steps of a variant in a folder of its own, unless they were done there before, and reads what they say.
/// Each step is announced before it begins.
///
/// # Errors
/// If a tool fails, or a file cannot be read or written.
pub fn measure(
    variant: &Variant,
    tools: &Tools,
    steps: &[MeasurementStep],
    folder: &Path,
    announce: &mut dyn FnMut(MeasurementStep),
) -> Result<Figures, Error> {
    let folder = folder.join(&variant.name);
    fs::create_dir_all(&folder).map_err(|error| Error::File(folder.clone(), error))?;
    write(&variant.files, &folder)?;
    let mut fresh = false;
    let mut figures = Figures::default();
    for &step in steps {
        announce(step);
        let tool = match (step, &tools.nextpnr) {
            (MeasurementStep::Route, Some(tool)) => tool,
            (MeasurementStep::Route, None) => continue,
            _ => &tools.yosys,
        };
        let arguments = step.arguments(variant);
        let done = folder.join(format!("{}.done", step.name()));
        let mark = format!("{}\n{}\n", tool.version, arguments.join(" "));
        let log = format!("{}.log", step.name());
        if fresh || fs::read_to_string(&done).ok().as_deref() != Some(&mark) {
            // What follows from this step is done again too.
            fresh = fresh || step == MeasurementStep::Ecp5;
            let _ = fs::remove_file(&done);
            tool.run(&folder, &arguments, &log)?;
            put(&done, &mark)?;
        }
        match step {
            MeasurementStep::Generic => figures.generic = Some(netlist(&folder.join("generic.blif"))?),
            MeasurementStep::Xilinx => figures.xilinx = Some(netlist(&folder.join("xilinx.blif"))?),
            MeasurementStep::Ecp5 => {}
            MeasurementStep::Route => {
                let log = folder.join(log);
                let routed = Routed::read(&get(&log)?).ok_or(Error::Silent { what: "clock", log })?;
                figures.routed = Some(routed);
            }
        }
    }
    Ok(figures)
}

/// Writes the files of a design. If any of them is not as it was, no step counts as done.
fn write(files: &[SourceFile], folder: &Path) -> Result<(), Error> {
    let mut changed = false;
    for file in files {
        let path = folder.join(file.name);
        if fs::read_to_string(&path).ok().as_deref() != Some(&file.text) {
            put(&path, &file.text)?;
            changed = true;
        }
    }
    if changed {
        for step in MeasurementStep::ALL {
            let _ = fs::remove_file(folder.join(format!("{}.done", step.name())));
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::File(path.to_owned(), error))
}

fn get(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::File(path.to_owned(), error))
}

fn netlist(path: &Path) -> Result<Netlist, Error> {
    Ok(Netlist::read(&get(path)?))
}

impl Routed {
    /// What the log of nextpnr says: the last clock is that after routing.
    fn read(log: &str) -> Option<Self> {
        let clock = log.lines().rev().find_map(|line| {
            let (_, rest) = line.split_once("Max frequency for clock")?;
            let (_, rest) = rest.rsplit_once("': ")?;
            rest.split_once(" MHz")?.0.trim().parse().ok()
        })?;
        let used = |cell: &str| {
            log.lines().find_map(|line| {
                let (_, rest) = line.split_once(cell)?;
                rest.split_once('/')?.0.trim().parse().ok()
            })
        };
        Some(Self {
            clock,
            luts: used("TRELLIS_COMB:").unwrap_or(0),
            flip_flops: used("TRELLIS_FF:").unwrap_or(0),
            block_rams: used("DP16KD:").unwrap_or(0),
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::etm4::Form;
    use crate::lab::Tool;
    use backsight_arm::etm4::Config;

    #[test]
    fn the_clock_is_that_after_routing() {
        let log = "\
Info: Device utilisation:
Info: \t          TRELLIS_FF:  1294/83640     1%
Info: \t        TRELLIS_COMB:  1712/83640     2%
Info: \t              DP16KD:     5/208       2%
Info: Max frequency for clock '$glbnet$clk': 120.50 MHz (FAIL at 400.00 MHz)
Info: Routing..
Info: Max frequency for clock '$glbnet$clk': 113.25 MHz (FAIL at 400.00 MHz)
";
        let routed = Routed::read(log).unwrap();
        assert_eq!((routed.luts, routed.flip_flops, routed.block_rams), (1712, 1294, 5));
        assert!((routed.clock - 113.25).abs() < 1e-9);
        assert_eq!(Routed::read("Info: Routing failed"), None);
    }

    #[test]
    fn a_step_that_was_done_is_not_done_again_until_the_design_changes() {
        let folder = std::env::temp_dir().join(format!("backsight-rtl-steps-{}", std::process::id()));
        let mut variant = Variant::decoder(Form::Chain, 1, Config::etm4_default(), false).unwrap();
        // A stand-in for synthesis that counts how often it was called, and leaves a netlist.
        let program = folder.join("synthesis");
        fs::create_dir_all(&folder).unwrap();
        put_program(&program, "echo >>calls; echo .subckt LUT2 I0=a O=b >xilinx.blif");
        let yosys = Tool { program: program.display().to_string(), version: "1".to_owned() };
        let tools = Tools { yosys, nextpnr: None };
        let run = |variant: &Variant| {
            let figures = measure(variant, &tools, &[MeasurementStep::Xilinx], &folder, &mut |_| {}).unwrap();
            assert_eq!(figures.xilinx.unwrap().luts, 1);
            get(&folder.join("chain-1/calls")).unwrap().lines().count()
        };
        assert_eq!((run(&variant), run(&variant)), (1, 1));
        variant.files[0].text += "// other\n";
        assert_eq!((run(&variant), run(&variant)), (2, 2));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Writes a program by a process of its own: processes that other threads start meanwhile would have the file open for
    /// writing, if this one had, and then nobody could execute it.
    fn put_program(path: &Path, commands: &str) {
        let script = format!(r#"printf '%s\n' '#!/bin/sh' '{commands}' >"$0" && chmod +x "$0""#);
        assert!(Command::new("sh").arg("-c").arg(script).arg(path).status().unwrap().success());
    }
}
