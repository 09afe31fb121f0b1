//! Which file is mapped where.
//!
//! A descriptor of the program is a descriptor of QEMU, and memory of the program is memory of QEMU at a
//! fixed distance: so the kernel's own listing names files for both. What QEMU mapped before the program
//! began (the program, its interpreter) shows only there, and without the executable bit: QEMU does not
//! execute the program's code, it reads it.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::event::{MAP_EXECUTABLE, MAP_MAYBE_EXECUTABLE};
use crate::target::Target;

/// A mapping, at an address of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub address: u64,
    pub length: u64,
    pub offset: u64,
    pub protection: u32,
    pub path: Vec<u8>,
}

/// One line of the kernel's listing.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.as_bytes();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = fields.nth(2).unwrap_or("").trim_start();
    let address = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let protection = permissions.iter().zip(*b"rwx").enumerate();
    Some(Mapping {
        address,
        length: end.checked_sub(address)?,
        offset,
        protection: protection.map(|(bit, (&have, want))| u32::from(have == want) << bit).sum(),
        path: path.as_bytes().to_vec(),
    })
}

/// Every mapping of this process, at addresses of the host.
pub fn listing() -> Vec<Mapping> {
    let text = fs::read("/proc/self/maps").unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse).collect()
}

/// What QEMU mapped of ELF files for the target: the program and its interpreter.
pub fn of_program(listing: &[Mapping], target: Target, base: u64) -> Vec<Mapping> {
    let host_code = |path: &[u8]| {
        listing.iter().any(|mapping| mapping.path == path && mapping.protection & MAP_EXECUTABLE != 0)
    };
    listing
        .iter()
        .filter(|mapping| mapping.path.starts_with(b"/") && !host_code(&mapping.path))
        .filter(|mapping| mapping.address >= base && is_for(target, &mapping.path))
        .map(|mapping| Mapping {
            address: mapping.address - base,
            protection: mapping.protection | MAP_MAYBE_EXECUTABLE,
            ..mapping.clone()
        })
        .collect()
}

/// Is this an ELF file for the target?
fn is_for(target: Target, path: &[u8]) -> bool {
    let mut header = [0; 20];
    let read = std::str::from_utf8(path)
        .ok()
        .and_then(|path| fs::File::open(path).ok())
        .is_some_and(|mut file| file.read_exact(&mut header).is_ok());
    read && header.starts_with(b"\x7FELF") && header[18..20] == target.elf_machine().to_le_bytes()
}

/// The part of `listing` that covers an address of the host.
pub fn covering(listing: &[Mapping], address: u64) -> Option<&Mapping> {
    listing.iter().find(|mapping| (mapping.address..mapping.address + mapping.length).contains(&address))
}

/// The file behind a descriptor.
pub fn file_of(descriptor: u64) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    fs::read_link(format!("/proc/self/fd/{descriptor}"))
        .map(|path| path.as_os_str().as_bytes().to_vec())
        .unwrap_or_default()
}

/// The path that the kernel would list for a file.
pub fn canonical(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    fs::canonicalize(path).map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_listing_are_understood() {
        let line = "5555554000-5555558000 rw-p 00002000 08:02 135522      /usr/lib/a file.so";
        let mapping = parse(line).unwrap();
        assert_eq!(mapping.address, 0x55_5555_4000);
        assert_eq!(mapping.length, 0x4000);
        assert_eq!(mapping.offset, 0x2000);
        assert_eq!(mapping.protection, 3);
        assert_eq!(mapping.path, b"/usr/lib/a file.so");
        assert_eq!(parse("7ffc0000-7ffc1000 ---p 00000000 00:00 0 ").unwrap().path, b"");
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn this_process_finds_itself() {
        let listing = listing();
        let here = covering(&listing, this_process_finds_itself as *const () as u64).unwrap();
        assert!(here.protection & MAP_EXECUTABLE != 0 && here.path.starts_with(b"/"));
    }
}
