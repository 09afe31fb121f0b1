//! System calls about open files, other than reading and writing.

use super::Kernel;
use super::errno::Errno;
use super::files::{O_ACCMODE, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_WRONLY, Resource};

impl Kernel {
    /// `ftruncate`.
    pub(super) fn truncate_open(&mut self, fd: u64, length: u64) -> Result<u64, Errno> {
        let open = self.files.get(fd)?;
        match &open.resource {
            Resource::File(file) if open.flags & O_ACCMODE != 0 => file.set_len(length)?,
            _ => return Err(Errno::INVAL),
        }
        Ok(0)
    }

    /// `fallocate`: only the size shows.
    pub(super) fn allocate(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const EOPNOTSUPP: i32 = 95;
        let end = a[2].checked_add(a[3]).filter(|&end| end <= i64::MAX as u64).ok_or(Errno::INVAL)?;
        match &self.files.get(a[0])?.resource {
            Resource::File(_) if a[1] != 0 => Err(Errno(EOPNOTSUPP)),
            Resource::File(file) => {
                if file.metadata()?.len() < end {
                    file.set_len(end)?;
                }
                Ok(0)
            }
            _ => Err(Errno::NODEV),
        }
    }

    /// `fcntl`.
    pub(super) fn file_control(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const DUPLICATE: u64 = 0;
        const GET_DESCRIPTOR_FLAGS: u64 = 1;
        const SET_DESCRIPTOR_FLAGS: u64 = 2;
        const GET_STATUS: u64 = 3;
        const SET_STATUS: u64 = 4;
        const GET_LOCK: u64 = 5;
        const SET_LOCK: u64 = 6;
        const SET_LOCK_WAIT: u64 = 7;
        const DUPLICATE_CLOSE_ON_EXEC: u64 = 1030;
        const UNLOCKED: u16 = 2;
        let open = self.files.get(a[0])?;
        match a[1] {
            DUPLICATE | DUPLICATE_CLOSE_ON_EXEC => self.files.duplicate(a[0], a[2], a[1] != DUPLICATE),
            GET_DESCRIPTOR_FLAGS => self.files.close_on_exec(a[0]).map(u64::from),
            SET_DESCRIPTOR_FLAGS => self.files.set_close_on_exec(a[0], a[2] & 1 != 0),
            GET_STATUS => Ok(open.flags),
            SET_STATUS => {
                const CHANGEABLE: u64 = O_APPEND | O_NONBLOCK;
                open.flags = open.flags & !CHANGEABLE | a[2] & CHANGEABLE;
                Ok(0)
            }
            // There is no other process to lock it.
            GET_LOCK => self.put(a[2], &UNLOCKED.to_le_bytes()),
            SET_LOCK | SET_LOCK_WAIT => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }

    /// `ioctl`: nothing is a terminal.
    pub(super) fn io_control(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const FIONREAD: u64 = 0x541B;
        const FIONBIO: u64 = 0x5421;
        let (_, pipes, open) = self.files.parts(a[0])?;
        match (a[1] as u32 as u64, &open.resource) {
            (FIONREAD, Resource::Pipe(end)) => {
                let available = pipes.available(*end) as u32;
                self.put(a[2], &available.to_le_bytes())
            }
            (FIONBIO, _) => {
                let on = self.memory.load::<4>(a[2])? != 0;
                let open = self.files.get(a[0])?;
                open.flags = open.flags & !O_NONBLOCK | if on { O_NONBLOCK } else { 0 };
                Ok(0)
            }
            _ => Err(Errno::NOTTY),
        }
    }

    /// `pipe2`.
    pub(super) fn make_pipe(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let flags = a[1] & (O_NONBLOCK | O_CLOEXEC);
        let (reader, writer) = self.files.pipes.create();
        let read = self.files.insert(Resource::Pipe(reader), flags, None)?;
        let written = self.files.insert(Resource::Pipe(writer), flags | O_WRONLY, None).and_then(|write| {
            let both = [read as u32, write as u32].map(u32::to_le_bytes);
            self.memory.write(a[0], both.as_flattened()).map_err(|cause| {
                let _ = self.files.close(write);
                Errno::from(cause)
            })
        });
        if let Err(errno) = written {
            let _ = self.files.close(read);
            return Err(errno);
        }
        Ok(0)
    }
}
