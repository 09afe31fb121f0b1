//! Names and lines of programs that compilers make: stubs, separate debug files, mangled names.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::{AllowedFiles, Budget, Disassembler, GivenFolder, Image, ImageSpec, Naming};
use common::toolchain::{Folder, Toolchain};

const ANY: AddressSpace = AddressSpace::ANY;
const BASE: u64 = 0x50_0000;

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>

int demangled(int) __asm__("_ZN5shape4areaEi");
__attribute__((noinline)) int demangled(int x) { return x * 7; }
int rust(int) __asm__("_ZN5store5table6insert17h0123456789abcdefE");
__attribute__((noinline)) int rust(int x) { return x + 5; }

void bare(void);
__asm__(".text\n.globl bare\nbare:\n  nop\n  nop\n  nop\n  nop\n  nop\n  nop\n  nop\n  nop\n");

static inline __attribute__((always_inline)) int square(int x) {
    return x * x + abs(x);
}

int main(int argc, char **argv) {
    puts(argv[0]);
    printf("%d\n", square(argc) + demangled(argc) + rust(argc));
    bare();
    return 0;
}
"#;

fn open(files: &[&Path]) -> Image {
    let mut image = Image::new();
    for file in files {
        image.add(&ImageSpec { file: file.to_path_buf(), address: Some(Address(BASE)) }, ANY).unwrap();
    }
    image
}

fn function(image: &Image, name: &str) -> Option<Address> {
    image.functions().find(|function| function.name == name).map(|function| function.start)
}

fn isa_of(toolchain: &Toolchain) -> Isa {
    match toolchain.target {
        "aarch64-linux-gnu" => Isa::A64,
        "arm-linux-gnueabihf" => Isa::T32,
        _ => Isa::Rv64,
    }
}

#[test]
fn stubs_have_the_names_of_their_functions() {
    for toolchain in Toolchain::all() {
        let folder = Folder::new("stubs", toolchain.target);
        let program = toolchain.program(&folder, "program", SOURCE, &["-O1", "-fno-builtin"]);
        let image = open(&[&program]);
        let ours: BTreeSet<&str> =
            image.functions().filter_map(|function| function.name.strip_suffix("@plt")).collect();
        let relocations = toolchain.run("readelf", &["-rW"], &program);
        let theirs: BTreeSet<&str> = relocations
            .lines()
            .filter(|line| line.contains("JUMP_SLO"))
            .filter_map(|line| line.split_whitespace().nth(4)?.split('@').next())
            .collect();
        assert!(theirs.contains("puts") && theirs.contains("printf"), "{relocations}");
        assert_eq!(ours, theirs, "{}", toolchain.target);
        // And the calls lead there.
        let main = function(&image, "main").unwrap();
        let size = image.functions().find(|function| function.name == "main").unwrap().size;
        let (mut disassembler, mut at, mut text) = (Disassembler::default(), main, String::new());
        while at.0 < main.0 + size {
            let one = disassembler.disassemble_at(isa_of(toolchain), &image, &image, ANY, at).unwrap();
            text += &one.with_name(|address| image.describe(ANY, address, Naming::Demangled));
            text.push('\n');
            at = at.plus(u64::from(one.size));
        }
        assert!(text.contains("<puts@plt>") && text.contains("<shape::area(int)>"), "{text}");
    }
}

#[test]
fn names_are_demangled_unless_asked_otherwise() {
    let Some(toolchain) = Toolchain::all().next() else { return };
    let folder = Folder::new("demangle", toolchain.target);
    let image = open(&[&toolchain.program(&folder, "program", SOURCE, &["-O1"])]);
    for (name, mangled) in [
        ("shape::area(int)", "_ZN5shape4areaEi"),
        ("store::table::insert", "_ZN5store5table6insert17h0123456789abcdefE"),
    ] {
        let start = function(&image, name).unwrap();
        let at = start.plus(4);
        assert_eq!(image.describe(ANY, start, Naming::Demangled).as_deref(), Some(name));
        assert_eq!(image.describe(ANY, at, Naming::Mangled), Some(format!("{mangled}+0x4")));
        assert_eq!(image.symbolise(ANY, at).unwrap().mangled, mangled);
    }
}

#[test]
fn a_symbol_without_a_size_reaches_to_the_next() {
    for toolchain in Toolchain::all() {
        let folder = Folder::new("unsized", toolchain.target);
        let image = open(&[&toolchain.program(&folder, "program", SOURCE, &["-O1"])]);
        let start = function(&image, "bare").unwrap();
        let symbol = image.symbolise(ANY, start.plus(6)).unwrap();
        assert_eq!((symbol.name, symbol.offset), ("bare", 6), "{}", toolchain.target);
    }
}

#[test]
fn functions_inside_of_functions_have_frames() {
    for toolchain in Toolchain::all() {
        let folder = Folder::new("frames", toolchain.target);
        let image = open(&[&toolchain.program(&folder, "program", SOURCE, &["-O1", "-g"])]);
        let main = image.functions().find(|function| function.name == "main").unwrap();
        let frames: Vec<Vec<String>> = (0..main.size / 2)
            .map(|half| image.frames(ANY, main.start.plus(2 * half)))
            .map(|frames| frames.into_iter().filter_map(|frame| frame.function).collect())
            .collect();
        assert!(frames.contains(&vec!["main".to_owned()]), "{frames:?}");
        assert!(frames.contains(&vec!["square".to_owned(), "main".to_owned()]), "{frames:?}");
    }
}

/// A program, the same without names, and what was taken out.
struct Split {
    whole: PathBuf,
    stripped: PathBuf,
    debug: PathBuf,
}

fn split(toolchain: &Toolchain, folder: &Folder, options: &[&str]) -> Split {
    let options: Vec<&str> = ["-O1", "-g"].iter().chain(options).copied().collect();
    let whole = toolchain.program(folder, "program", SOURCE, &options);
    let (stripped, debug) = (folder.file("stripped"), folder.file("program.debug"));
    toolchain.run("objcopy", &["--only-keep-debug", whole.to_str().unwrap()], &debug);
    toolchain.run("strip", &["-o", stripped.to_str().unwrap()], &whole);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    toolchain.run("objcopy", &[&link], &stripped);
    Split { whole, stripped, debug }
}

/// Are these the names and lines of the whole program?
fn assert_named(image: &Image, whole: &Path) {
    let whole = open(&[whole]);
    for name in ["main", "shape::area(int)", "bare"] {
        let start = function(&whole, name).unwrap();
        assert_eq!(function(image, name), Some(start), "{name}");
        assert_eq!(image.source_line(ANY, start), whole.source_line(ANY, start), "{name}");
        assert!(name == "bare" || whole.source_line(ANY, start).is_some());
    }
    assert_eq!(image.problems(), Vec::<String>::new());
}

#[test]
fn a_stripped_program_finds_what_was_taken_out_of_it() {
    for toolchain in Toolchain::all() {
        let folder = Folder::new("given", toolchain.target);
        let Split { whole, stripped, debug } = split(toolchain, &folder, &[]);
        let alone = folder.file("elsewhere");
        std::fs::copy(&stripped, &alone).unwrap();
        let kept = folder.file("kept.debug");
        std::fs::rename(&debug, &kept).unwrap();

        // On its own it has offsets only.
        let image = open(&[&alone]);
        let insert = function(&open(&[&whole]), "store::table::insert").unwrap();
        let offset = insert.0 - BASE;
        assert_eq!(image.describe(ANY, insert, Naming::Demangled), Some(format!("elsewhere+{offset:#x}")));
        assert_eq!(image.source_line(ANY, insert), None);

        // Given along, before or after, by the build identifier.
        assert_named(&open(&[&alone, &kept]), &whole);
        assert_named(&open(&[&kept, &alone]), &whole);
        let mut image = open(&[&alone]);
        assert_eq!(function(&image, "store::table::insert"), None);
        image.add_debug_contents(&kept, std::fs::read(&kept).unwrap()).unwrap();
        assert_named(&image, &whole);

        // In a folder of such files.
        let id = image.modules()[0].elf().unwrap().build_id.clone().unwrap();
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = folder.file(&format!("debug/.build-id/{}", &hex[..2]));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::copy(&kept, place.join(format!("{}.debug", &hex[2..]))).unwrap();
        let mut image = open(&[&alone]);
        let folders = [folder.file("nowhere"), folder.file("debug")];
        image.set_allowed_files(AllowedFiles::beneath(folders.map(GivenFolder::root)));
        assert_named(&image, &whole);
    }
}

#[test]
fn a_debug_link_counts_only_with_its_checksum() {
    let Some(toolchain) = Toolchain::all().next() else { return };
    let folder = Folder::new("link", toolchain.target);
    let Split { whole, stripped, debug } = split(toolchain, &folder, &["-Wl,--build-id=none"]);
    assert_named(&open(&[&stripped]), &whole);
    let apart = folder.file("stripped-elsewhere/.debug");
    std::fs::create_dir_all(&apart).unwrap();
    let other = folder.file("stripped-elsewhere/stripped");
    std::fs::copy(&stripped, &other).unwrap();
    std::fs::copy(&debug, apart.join("program.debug")).unwrap();
    assert_named(&open(&[&other]), &whole);
    let mut bytes = std::fs::read(&debug).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&debug, bytes).unwrap();
    assert_eq!(function(&open(&[&stripped]), "store::table::insert"), None);
}

#[cfg(unix)]
#[test]
fn a_debug_link_does_not_lead_through_a_symbolic_link_out_of_the_folders() {
    use std::os::unix::fs::symlink;
    let Some(toolchain) = Toolchain::all().next() else { return };
    let folder = Folder::new("link-out", toolchain.target);
    let Split { whole, stripped, debug } = split(toolchain, &folder, &["-Wl,--build-id=none"]);
    let outside = folder.file("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::rename(&debug, outside.join("program.debug")).unwrap();
    let root = std::fs::canonicalize(folder.file("")).unwrap().join("root");
    for inner in ["bin", "usr/lib/debug/bin"] {
        std::fs::create_dir_all(root.join(inner)).unwrap();
    }
    let program = root.join("bin/stripped");
    std::fs::copy(&stripped, &program).unwrap();
    let open = || {
        let mut image = Image::new();
        image.set_allowed_files(AllowedFiles::beneath([GivenFolder::root(&root)]));
        image.add(&ImageSpec { file: program.clone(), address: Some(Address(BASE)) }, ANY).unwrap();
        image
    };
    // Beside the program, in a folder beside it, and where a system has debug information.
    let ways = [
        ("bin/program.debug", "../..", "outside/program.debug"),
        ("bin/.debug", "../..", "outside"),
        ("usr/lib/debug/bin/program.debug", "../../../../..", "outside/program.debug"),
    ];
    for (from, up, target) in ways {
        let from = root.join(from);
        for to in [Path::new(up).join(target), root.with_file_name(target)] {
            symlink(&to, &from).unwrap();
            assert!(from.exists(), "the link leads somewhere");
            assert_eq!(function(&open(), "store::table::insert"), None, "{from:?} to {to:?}");
            std::fs::remove_file(&from).unwrap();
        }
    }
    // A link that stays inside is followed.
    std::fs::copy(outside.join("program.debug"), root.join("bin/kept")).unwrap();
    symlink("kept", root.join("bin/program.debug")).unwrap();
    assert_named(&open(), &whole);
}

#[test]
fn debug_information_without_its_program_is_reported() {
    let Some(toolchain) = Toolchain::all().next() else { return };
    let folder = Folder::new("alone", toolchain.target);
    let Split { debug, .. } = split(toolchain, &folder, &[]);
    let image = open(&[&debug]);
    assert!(image.is_empty() && image.regions(ANY).next().is_none(), "it has no code");
    let problems = image.problems();
    assert!(problems.len() == 1 && problems[0].contains("is not among the images"), "{problems:?}");
}

#[test]
fn debug_information_beyond_the_budget_is_left_out_and_named() {
    let Some(toolchain) = Toolchain::all().next() else { return };
    let folder = Folder::new("bomb", toolchain.target);
    let bomb = "__asm__(\".section .debug_addr,\\\"\\\",%progbits\\n.zero 20000000\\n.text\\n\");";
    let options = ["-O1", "-g", "-Wl,--compress-debug-sections=zlib"];
    let program = toolchain.program(&folder, "program", &format!("{SOURCE}{bomb}"), &options);
    assert!(program.metadata().unwrap().len() < 200_000, "compressed");
    let image = open(&[&program]);
    let main = function(&image, "main").unwrap();
    assert!(image.source_line(ANY, main).is_some(), "{:?}", image.problems());
    let mut image = open(&[&program]);
    image.set_budget(Budget::new(10_000_000));
    assert!(function(&image, "main").is_some(), "the names are small");
    assert_eq!(image.source_line(ANY, main), None);
    let problems = image.problems().join("\n");
    assert!(
        problems.contains("program: .debug_addr: left out") && problems.contains("10000000 are allowed"),
        "{problems}"
    );
}

#[test]
fn calls_of_a_file_that_is_not_linked_lead_to_their_functions() {
    const OBJECT: &str = r#"
int outside(int);
__attribute__((noinline)) int helper(int x) { return x * 7 + 3; }
int entry(int x) { return x > 3 ? helper(x) + 1 : outside(x) + helper(x - 1); }
"#;
    for toolchain in Toolchain::all() {
        let folder = Folder::new("object", toolchain.target);
        let options = ["-O1", "-g", "-c", "-fno-pie", "-no-pie", "-ffunction-sections", "-fno-unwind-tables"];
        let object = toolchain.program(&folder, "module.o", OBJECT, &options);
        let image = open(&[&object]);
        let base = image.modules()[0].range().0;
        assert_eq!(base, Address(BASE));
        let helper = function(&image, "helper").unwrap();
        let entry = image.functions().find(|function| function.name == "entry").unwrap();
        let (mut disassembler, mut at, mut text) = (Disassembler::default(), entry.start, String::new());
        let end = entry.start.0 + entry.size;
        while at.0 < end {
            // Where a call to somewhere else is, there is a hole.
            let found = disassembler.disassemble_at(isa_of(toolchain), &image, &image, ANY, at);
            let size = found.as_ref().map_or(2, |one| u64::from(one.size));
            text += &found.map_or_else(
                || "?".to_owned(),
                |one| one.with_name(|address| image.describe(ANY, address, Naming::Demangled)),
            );
            text.push('\n');
            at = at.plus(size);
        }
        let calls = text.matches("<helper>").count() + text.matches(&format!("{:x}", helper.0)).count();
        assert!(calls > 0 && text.contains('?'), "{}: {text}", toolchain.target);
        let line = image.source_line(ANY, helper).unwrap();
        assert!(line.file.ends_with("source.c") && line.line == 3, "{}: {line:?}", toolchain.target);
        let problems = image.problems();
        assert!(problems.iter().any(|problem| problem.contains("outside")), "{problems:?}");
    }
}
