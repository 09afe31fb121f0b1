//! What Linux shows of a system is read as the file that describes the same system.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use backsight_session::{Request, Session, System};

const SAME: &str = "\
[etm0]
kind=etm4
address=0xFEC40000
cpu=0
out=funnel0:2
TRCIDR0=0x28000EA1
TRCIDR1=0x4100F403
TRCIDR2=0x488
TRCDEVARCH=0x47724A13
[funnel0]
kind=funnel
address=0xFE920000
out=tmc_etf0
[replicator0]
kind=replicator
out0=tpiu0
out1=tmc_etr0
[tmc_etf0]
kind=etf
address=0xFE940000
out=replicator0
[tmc_etr0]
kind=etr
address=0xFE970000
[tpiu0]
kind=tpiu
address=0xFE980000
";

/// A folder that is gone at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    /// A device below a folder with the name of its bus device.
    fn device(&self, parent: &str, name: &str) -> PathBuf {
        let device = self.0.join("devices").join(parent).join(name);
        fs::create_dir_all(device.join("connections")).unwrap();
        symlink(&device, self.0.join("bus").join(name)).unwrap();
        device
    }
}

fn connect(from: &Path, output: u8, to: &Path, input: u8) {
    symlink(to, from.join(format!("connections/out:{output}"))).unwrap();
    symlink(from, to.join(format!("connections/in:{input}"))).unwrap();
}

fn tree(name: &str) -> Scratch {
    let scratch =
        Scratch(std::env::temp_dir().join(format!("backsight-sysfs-{name}-{}", std::process::id())));
    let _ = fs::remove_dir_all(&scratch.0);
    fs::create_dir_all(scratch.0.join("bus")).unwrap();
    let etm = scratch.device("fec40000.etm", "etm0");
    let funnel = scratch.device("fe920000.funnel", "funnel0");
    let etf = scratch.device("fe940000.etf", "tmc_etf0");
    let replicator = scratch.device("replicator", "replicator0");
    let tpiu = scratch.device("fe980000.tpiu", "tpiu0");
    let etr = scratch.device("fe970000.etr", "tmc_etr0");
    scratch.device("fe9c0000.stm", "stm0");
    connect(&etm, 0, &funnel, 2);
    connect(&funnel, 0, &etf, 0);
    connect(&etf, 0, &replicator, 0);
    connect(&replicator, 0, &tpiu, 0);
    connect(&replicator, 1, &etr, 0);
    fs::create_dir(etm.join("trcidr")).unwrap();
    fs::create_dir(etm.join("mgmt")).unwrap();
    fs::write(etm.join("cpu"), "0\n").unwrap();
    for (file, value) in [
        ("trcidr/trcidr0", "0x28000ea1\n"),
        ("trcidr/trcidr1", "0x4100f403\n"),
        ("trcidr/trcidr2", "0x488\n"),
        ("mgmt/trcdevarch", "0x47724a13\n"),
    ] {
        fs::write(etm.join(file), value).unwrap();
    }
    scratch
}

#[test]
fn a_tree_is_read_as_the_file_of_the_same_system() {
    let scratch = tree("same");
    let read = System::open(&scratch.0.join("bus")).unwrap();
    assert_eq!(read, System::parse("same.ini", SAME).unwrap());
    let mut request = Request { sink: Some("tmc_etr0".to_owned()), ..Request::default() };
    let refused = Session::new(&read, &request).unwrap_err().to_string();
    assert!(refused.contains("to which memory"), "{refused}");
    request.memory = Some((0x7000_0000, 0x10000));
    assert!(Session::new(&read, &request).is_ok());
    fs::remove_dir_all(scratch.0.join("devices/fec40000.etm/etm0/trcidr")).unwrap();
    assert!(System::open(&scratch.0.join("bus")).unwrap_err().to_string().contains("ID registers"));
}

#[test]
fn etmv3_and_ptm_say_what_they_are() {
    let scratch = tree("etm");
    for (number, id) in [("1", "0x411cf300\n"), ("2", "0x4114f250\n")] {
        let unit = scratch.device(&format!("fec5{number}000.etm"), &format!("etm{number}"));
        fs::create_dir(unit.join("mgmt")).unwrap();
        fs::write(unit.join("mgmt/etmidr"), id).unwrap();
        fs::write(unit.join("mgmt/etmccr"), "0x8d294004\n").unwrap();
        fs::write(unit.join("mgmt/etmccer"), "0xc019a2\n").unwrap();
    }
    let system = System::open(&scratch.0.join("bus")).unwrap();
    let kinds: Vec<_> = ["etm0", "etm1", "etm2"]
        .map(|name| system.components[system.named(name).unwrap()].kind.name())
        .into_iter()
        .collect();
    assert_eq!(kinds, ["etm4", "ptm", "etm3"]);
    assert_eq!(system.components[system.named("etm1").unwrap()].id("ETMCCER"), 0xC0_19A2);
}

#[test]
fn a_folder_without_devices_is_refused() {
    let refused = System::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err().to_string();
    assert!(refused.contains("no components"), "{refused}");
}
