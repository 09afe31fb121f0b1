//! Writes the ETMv4 streams that are hardest to decode into a folder, for other decoders to be measured on:
//! `cargo run --release -p backsight-arm --example make_worst_cases -- FOLDER [MEGABYTES]`
//!
//! `NAME.bin` is a raw single-source stream; `NAME.regs` has the registers of its trace unit, `NAME=VALUE` a line.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use backsight_arm::etm4::synthetic::WorstCase;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: make_worst_cases FOLDER [MEGABYTES]")?);
    let megabytes: u64 = arguments.next().map_or(Ok(64), |text| text.parse())?;
    fs::create_dir_all(&folder)?;
    for case in WorstCase::ALL {
        let name = case.name();
        let mut file = BufWriter::new(File::create(folder.join(format!("{name}.bin")))?);
        let mut written = Ok(());
        case.write(megabytes * 1_000_000, 1, &mut |bytes| {
            if written.is_ok() {
                written = file.write_all(bytes);
            }
        });
        written?;
        file.flush()?;
        let config = case.config();
        let mut registers = String::new();
        for register in ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8"] {
            let value = config.register(register).unwrap_or_default();
            registers += &format!("{register}={value:#x}\n");
        }
        fs::write(folder.join(format!("{name}.regs")), registers)?;
    }
    Ok(())
}
