//! Programs that replace themselves (`execve`).
//!
//! QEMU hands the call to the kernel, which runs programs for the host only: for others it would have to be told of QEMU,
//! by the administrator. So the plugin makes the call itself, where children are recorded too: QEMU replaces itself by
//! another QEMU, with the same options, for the new program. The connection for it is made before, so that the listener
//! knows of it. A program that is not for this target, or that cannot be executed, is left to QEMU.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::target::Target;
use crate::thread::{self, SystemCall, Thread};
use crate::{Recorder, calls, system};

/// Longest string, and most strings, of a call.
const LONGEST: usize = 1 << 17;
const MOST: u64 = 1 << 17;
/// `AT_FDCWD`: paths are seen from the current folder.
const CURRENT_FOLDER: i32 = -100;
/// Options of QEMU that no value follows.
const WITHOUT_VALUE: [&[u8]; 4] = [b"-strace", b"-singlestep", b"-one-insn-per-tb", b"-xtsan"];

/// What a program wants to become.
struct Request {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

/// Becomes another program. Comes back if that is left to QEMU.
pub fn replace(recorder: &Recorder, thread: &mut Thread) {
    let Some(socket) = &recorder.children else { return };
    let Some(mut request) = Request::of(recorder, &thread.call) else { return };
    if request.path.as_bytes() == b"/proc/self/exe" {
        let Ok(own) = CString::new(calls::program_path()) else { return };
        request.path = own;
    }
    if !is_program(recorder.target, Path::new(OsStr::from_bytes(request.path.as_bytes()))) {
        return;
    }
    let (Ok(qemu), Ok(command)) = (std::fs::read_link("/proc/self/exe"), std::fs::read("/proc/self/cmdline"))
    else {
        return;
    };
    let connection = UnixStream::connect(socket).map(OwnedFd::from).and_then(system::inheritable);
    let Ok(connection) = connection else { return };
    let directory = socket.parent().unwrap_or(socket).as_os_str().as_bytes();
    let Some(mut new) = options(&command, directory, connection.as_raw_fd()) else { return };
    let name = request.arguments.first().cloned().unwrap_or_else(|| request.path.clone());
    new.extend([c"-0".to_owned(), name, request.path]);
    new.extend(request.arguments.into_iter().skip(1));
    let Ok(qemu) = CString::new(qemu.into_os_string().into_encoded_bytes()) else { return };
    thread.flush();
    thread::for_each(|thread| thread.retire());
    if let Some(mut output) = recorder.output() {
        output.finish_replaced();
    }
    let error = system::execute(&qemu, &new, &request.environment);
    eprintln!("backsight: recording stopped: {}: {error}; the program goes on", qemu.to_string_lossy());
}

impl Request {
    /// The arguments of `execve` and of `execveat`; `None` where they are not what they should be.
    fn of(recorder: &Recorder, call: &SystemCall) -> Option<Self> {
        let [first, second, third, fourth, ..] = call.arguments;
        let (folder, path, arguments, environment) = match recorder.target.is_execute_at(call.number) {
            false => (CURRENT_FOLDER, first, second, third),
            true => (first as i32, second, third, fourth),
        };
        let path = string_at(recorder, path)?;
        let is_seen_from_here = folder == CURRENT_FOLDER || path.as_bytes().starts_with(b"/");
        let (arguments, environment) = (strings_at(recorder, arguments)?, strings_at(recorder, environment)?);
        (is_seen_from_here && !path.is_empty()).then_some(Self { path, arguments, environment })
    }
}

/// The strings that pointers at an address lead to; a null pointer ends them.
fn strings_at(recorder: &Recorder, address: u64) -> Option<Vec<CString>> {
    let mut strings = Vec::new();
    let size = recorder.target.pointer() as u64;
    for index in (0..MOST).take_while(|_| address != 0) {
        match recorder.pointer_at(address.wrapping_add(index * size))? {
            0 => return Some(strings),
            pointer => strings.push(string_at(recorder, pointer)?),
        }
    }
    (address == 0).then_some(strings)
}

/// The string at an address of the program.
fn string_at(recorder: &Recorder, address: u64) -> Option<CString> {
    const PIECE: usize = 256;
    let (mut bytes, start) = (Vec::new(), recorder.base()?.wrapping_add(address));
    while bytes.len() < LONGEST {
        let at = start.wrapping_add(bytes.len() as u64);
        // Memory may end at any page.
        let length = PIECE - (at % PIECE as u64) as usize;
        let mut piece = [0; PIECE];
        let read = system::read_memory(at, &mut piece[..length]);
        let piece = piece.get(..read).filter(|_| read == length)?;
        match piece.iter().position(|&byte| byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&piece[..end]);
                return CString::new(bytes).ok();
            }
            None => bytes.extend_from_slice(piece),
        }
    }
    None
}

/// Is the file a program of this target, which may be executed?
fn is_program(target: Target, path: &Path) -> bool {
    let mut header = [0; 20];
    let is_read = File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok();
    let class = if target.pointer() == 4 { 1 } else { 2 };
    let machine = u16::from_le_bytes([header[18], header[19]]);
    is_read
        && header[..6] == [0x7F, b'E', b'L', b'F', class, 1]
        && machine == target.elf_machine()
        && system::is_executable(path)
}

/// QEMU and its options, as it was started, up to the program; the plugin is given the connection.
fn options(command: &[u8], directory: &[u8], connection: i32) -> Option<Vec<CString>> {
    let words: Vec<&[u8]> = command.split(|&byte| byte == 0).collect();
    let is_ours = |pair: &[&[u8]]| pair[0] == b"-plugin" && contains(pair[1], directory);
    let plugin = words.windows(2).position(is_ours)? + 1;
    let mut end = plugin + 1;
    while words.get(end).is_some_and(|word| word.starts_with(b"-")) {
        end += if WITHOUT_VALUE.contains(&words[end]) { 1 } else { 2 };
    }
    let (mut options, mut is_old_name) = (Vec::new(), false);
    for (index, word) in words.get(..end)?.iter().enumerate() {
        // The name that a program which has replaced another one was called by.
        let is_name = index > plugin && *word == b"-0";
        if std::mem::replace(&mut is_old_name, is_name) || is_name {
            continue;
        }
        let mut word = word.to_vec();
        if index == plugin {
            // Of a program that has replaced another one already.
            if let Some(before) = position(&word, b",connection=") {
                word.truncate(before);
            }
            word.extend_from_slice(format!(",connection={connection}").as_bytes());
        }
        options.push(CString::new(word).ok()?);
    }
    Some(options)
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    position(bytes, wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Option<Vec<String>> {
        let command = command.replace(' ', "\0") + "\0";
        let options = options(command.as_bytes(), b"/dev/shm/x", 1003)?;
        Some(options.into_iter().map(|word| word.into_string().expect("text")).collect())
    }

    #[test]
    fn options_of_qemu_are_those_up_to_the_program() {
        let expected =
            ["qemu-arm", "-L", "/usr", "-plugin", "p.so,dir=/dev/shm/x,children=on,connection=1003"];
        let command = "qemu-arm -L /usr -plugin p.so,dir=/dev/shm/x,children=on ./program -plugin x";
        assert_eq!(words(command).expect("options"), expected);
        let command = "qemu-arm -L /usr -plugin p.so,dir=/dev/shm/x,children=on,connection=7 -0 name ./other";
        assert_eq!(words(command).expect("options"), expected, "nothing of the program before");
    }

    #[test]
    fn a_command_without_this_plugin_is_not_understood() {
        assert_eq!(words("qemu-arm -L /usr -plugin q.so,dir=/elsewhere ./program"), None);
    }

    #[test]
    fn only_programs_of_the_target_are_run() {
        assert!(!is_program(Target::Arm, Path::new("/proc/self/exe")), "a program of the host");
        assert!(!is_program(Target::Aarch64, Path::new("/etc/passwd")));
        assert!(!is_program(Target::Aarch64, Path::new("/no/such/file")));
    }
}
