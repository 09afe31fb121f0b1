//! `backsight lab`: experiments that put figures beside those of the literature.

mod bars;
pub mod etm4;
pub mod etrace;
pub mod rtl;
pub mod squeeze;

use clap::{Args, Subcommand};

use crate::failure::Result;

/// Repeat the evaluations of the literature on programs of your own
#[derive(Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    Etm4(etm4::Etm4),
    Etrace(etrace::Etrace),
    Rtl(rtl::Rtl),
    Squeeze(squeeze::Squeeze),
}

/// Runs the command.
pub fn run(command: &Lab) -> Result {
    match &command.experiment {
        Experiment::Etm4(command) => etm4::run(command),
        Experiment::Etrace(command) => etrace::run(command),
        Experiment::Rtl(command) => rtl::run(command),
        Experiment::Squeeze(command) => squeeze::run(command),
    }
}
