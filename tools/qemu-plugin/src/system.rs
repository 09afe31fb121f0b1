//! The few calls of the operating system that the standard library does not have.

use std::ffi::{CString, c_char, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

mod c {
    use super::*;
    unsafe extern "C" {
        pub fn mmap(
            address: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: i64,
        ) -> *mut c_void;
        pub fn munmap(address: *mut c_void, length: usize) -> c_int;
        pub fn posix_fallocate(fd: c_int, offset: i64, length: i64) -> c_int;
        pub fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
        pub fn access(path: *const c_char, mode: c_int) -> c_int;
        pub fn execve(
            path: *const c_char,
            arguments: *const *const c_char,
            environment: *const *const c_char,
        ) -> c_int;
        pub fn gettid() -> c_int;
        pub fn close(fd: c_int) -> c_int;
        pub fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int;
        pub fn prctl(option: c_int, argument: c_long) -> c_int;
        pub fn getppid() -> c_int;
        pub fn getsockopt(
            fd: c_int,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            length: *mut u32,
        ) -> c_int;
        pub fn kill(pid: c_int, signal: c_int) -> c_int;
        pub fn send(fd: c_int, bytes: *const c_void, length: usize, flags: c_int) -> isize;
        pub fn process_vm_readv(
            pid: c_int,
            local: *const Part,
            local_count: u64,
            remote: *const Part,
            remote_count: u64,
            flags: u64,
        ) -> isize;
    }
}

#[repr(C)]
struct Part {
    start: *mut c_void,
    length: usize,
}

const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 0x01;
const MAP_PRIVATE: c_int = 0x02;
const MAP_FIXED: c_int = 0x10;
const MAP_ANONYMOUS: c_int = 0x20;
const F_DUPFD: c_int = 0;
const F_GETFD: c_int = 1;
const F_DUPFD_CLOEXEC: c_int = 1030;
const X_OK: c_int = 1;
const MSG_NOSIGNAL: c_int = 0x4000;
const PR_SET_PDEATHSIG: c_int = 1;
const SIGKILL: c_int = 9;
const SOL_SOCKET: c_int = 1;
const SO_PEERCRED: c_int = 17;

/// Who is at the other end of a socket.
#[repr(C)]
#[derive(Default)]
struct Peer {
    process: c_int,
    user: u32,
    group: u32,
}

/// Has this process end when its parent does, if that is who listens at the other end of the socket. Of other programs
/// that started QEMU, the socket itself tells when they are gone.
pub fn end_with_reader(socket: RawFd) {
    let mut peer = Peer::default();
    let mut length = size_of::<Peer>() as u32;
    // SAFETY: the kernel writes at most `length` bytes; the other calls have no conditions.
    unsafe {
        let known = c::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, (&raw mut peer).cast(), &mut length) == 0;
        if known && peer.process == c::getppid() {
            c::prctl(PR_SET_PDEATHSIG, SIGKILL.into());
            // It may have gone before it was asked for.
            if peer.process != c::getppid() {
                end_process();
            }
        }
    }
}

/// Ends this process, and the program with it, at once.
pub fn end_process() {
    // SAFETY: has no conditions.
    unsafe { c::kill(std::process::id() as c_int, SIGKILL) };
}

/// Maps `length` bytes of `file`, which is given that size on disk first: a full disk must show here, not
/// as a fault when the memory is written.
pub fn map_file(file: &File, offset: u64, length: usize) -> io::Result<*mut u8> {
    let (fd, offset) = (file.as_raw_fd(), offset as i64);
    // SAFETY: plain calls with an open file; a new mapping touches no memory of ours.
    unsafe {
        match c::posix_fallocate(fd, offset, length as i64) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        mapped(c::mmap(std::ptr::null_mut(), length, PROT_READ_WRITE, MAP_SHARED, fd, offset))
    }
}

/// Maps `length` bytes of memory that is in no file.
pub fn map_memory(length: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping touches no memory of ours.
    unsafe {
        mapped(c::mmap(std::ptr::null_mut(), length, PROT_READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    }
}

fn mapped(address: *mut c_void) -> io::Result<*mut u8> {
    if address as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(address.cast()) }
}

/// Puts fresh private memory in the place of a mapping: what is written there is no longer seen by anyone else.
///
/// # Safety
/// `address` and `length` must name a whole mapping made by this module.
pub unsafe fn make_private(address: *mut u8, length: usize) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { c::mmap(address.cast(), length, PROT_READ_WRITE, flags, -1, 0) };
}

/// Removes a mapping.
///
/// # Safety
/// `address` and `length` must name a whole mapping made by this module that nothing uses any more.
pub unsafe fn unmap(address: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { c::munmap(address.cast(), length) };
}

/// Has functions called before every fork, and after it in the parent and in the child before anything else runs there.
pub fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: registers functions that live as long as the plugin.
    unsafe { c::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// The number of this thread in the operating system.
pub fn thread_id() -> u32 {
    // SAFETY: has no conditions.
    unsafe { c::gettid() as u32 }
}

/// Closes a file descriptor that nothing will use again.
pub fn close(fd: RawFd) {
    // SAFETY: at worst the number is not open.
    unsafe { c::close(fd) };
}

/// The same open file under a high number, out of the way of programs that count theirs from 3.
pub fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    for least in [1000, 200] {
        // SAFETY: duplicates an open descriptor; the new one is owned by nobody yet.
        unsafe {
            let high = c::fcntl(fd.as_raw_fd(), F_DUPFD_CLOEXEC, least);
            if high >= 0 {
                return OwnedFd::from_raw_fd(high);
            }
        }
    }
    fd
}

/// The same open file under a high number, for the program that replaces this one.
pub fn inheritable(fd: OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicates an open descriptor; the new one is owned by nobody yet.
    unsafe {
        match c::fcntl(fd.as_raw_fd(), F_DUPFD, 200) {
            copy if copy >= 0 => Ok(OwnedFd::from_raw_fd(copy)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// An open file that was left for this program by the one that it replaces.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is open, and the process that left it is gone.
    unsafe {
        match c::fcntl(fd, F_GETFD, 0) {
            flags if flags >= 0 => Ok(out_of_the_way(OwnedFd::from_raw_fd(fd))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// May this process execute a file?
pub fn is_executable(path: &Path) -> bool {
    // SAFETY: reads a string.
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| unsafe { c::access(path.as_ptr(), X_OK) == 0 })
}

/// Replaces this process. Comes back with what went wrong.
pub fn execute(path: &CString, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    // SAFETY: a string and two lists of strings, each ended by a null pointer.
    unsafe { c::execve(path.as_ptr(), pointers(arguments).as_ptr(), pointers(environment).as_ptr()) };
    io::Error::last_os_error()
}

/// Sends to a socket without a signal when the other side is gone.
pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: reads `bytes` only.
    let sent = unsafe { c::send(fd, bytes.as_ptr().cast(), bytes.len(), MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Copies memory of this process that may not be there: gives how many bytes there were.
pub fn read_memory(address: u64, into: &mut [u8]) -> usize {
    let local = Part { start: into.as_mut_ptr().cast(), length: into.len() };
    let remote = Part { start: address as *mut c_void, length: into.len() };
    // SAFETY: the kernel checks `remote`; `local` is a slice of ours.
    let read = unsafe { c::process_vm_readv(std::process::id() as c_int, &local, 1, &remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}
