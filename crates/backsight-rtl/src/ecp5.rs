//! How designs come to a Lattice ECP5.

/// A way from sources to a netlist, and the clock that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// LUTs of four inputs; as fast as it gets.
    Narrow,
    /// For designs so large that wires limit their clock: LUTs of up to seven inputs, and resets and enables that only a
    /// few registers share are logic before these. Slices that have a reset of their own cannot be placed where
    /// they belong. A placer that is asked for far more than it can reach does not care for the paths just below.
    Wide,
}

impl Flow {
    /// The commands of yosys after the sources were read. Without its last steps: they give cells names for people, which
    /// takes longer than all the rest.
    pub fn synthesis(self, top: &str) -> String {
        match self {
            Self::Narrow => {
                format!("synth_ecp5 -nowidelut -abc9 -top {top} -run begin:check; blackbox =A:whitebox")
            }
            Self::Wide => format!(
                "synth_ecp5 -abc9 -top {top} -run begin:map_ffs; dfflegalize -cell $_DFF_P_ 01 -cell $_DFFE_PP_ 01 \
                 -cell $_SDFF_PP?_ r -cell $_SDFFE_PP?P_ r -minsrst 200 -mince 64; \
                 synth_ecp5 -abc9 -top {top} -run map_ffs:check; blackbox =A:whitebox"
            ),
        }
    }

    /// The same between quotes in a Makefile, for a module that the Makefile names.
    pub fn synthesis_in_makefile(self, top: &str) -> String {
        self.synthesis("@TOP@").replace('$', "\\$$").replace("@TOP@", top)
    }

    /// What nextpnr is called with: an LFE5U-85F of speed grade 8, without pins.
    pub fn routing(self, netlist: &str) -> String {
        let frequency = match self {
            Self::Narrow => 400,
            Self::Wide => 160,
        };
        format!(
            "--85k --speed 8 --package CABGA756 --json {netlist} --out-of-context --freq {frequency} --timing-allow-fail"
        )
    }
}
