//! System calls about the process and the machine.

use super::Kernel;
use super::clock::NANOSECONDS;
use super::errno::Errno;
use super::files::MOST;
use super::image::STACK_SIZE;

/// The user, and its group.
pub const USER: u64 = 1000;

/// Values as memory holds them.
pub fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Kernel {
    /// Writes a result unless the program passed no address for it.
    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) -> Result<u64, Errno> {
        if address != 0 {
            self.memory.write(address, bytes)?;
        }
        Ok(0)
    }

    /// `getresuid`, `getresgid`.
    pub(super) fn three_users(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        for address in &a[..3] {
            self.put(*address, &(USER as u32).to_le_bytes())?;
        }
        Ok(0)
    }

    /// `getcpu`: the only one.
    pub(super) fn processor(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        self.put(a[0], &[0; 4])?;
        self.put(a[1], &[0; 4])
    }

    /// `sched_getaffinity`: the only processor.
    pub(super) fn affinity(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        if a[1] < 8 {
            return Err(Errno::INVAL);
        }
        self.memory.write(a[2], &words(&[1]))?;
        Ok(8)
    }

    /// `prctl`: the name of a thread, and what has no effect here.
    pub(super) fn process_control(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const SET_NAME: u64 = 15;
        const GET_NAME: u64 = 16;
        const GET_DUMPABLE: u64 = 3;
        const SET_DUMPABLE: u64 = 4;
        const SET_PDEATHSIG: u64 = 1;
        const GET_NO_NEW_PRIVS: u64 = 39;
        const SET_NO_NEW_PRIVS: u64 = 38;
        const SET_VMA: u64 = 0x5356_4D41;
        match a[0] {
            GET_NAME => {
                let name = std::path::Path::new(&self.paths.program).file_name().unwrap_or_default();
                let mut bytes = [0; 16];
                for (to, from) in bytes[..15].iter_mut().zip(name.as_encoded_bytes()) {
                    *to = *from;
                }
                self.put(a[1], &bytes)
            }
            GET_DUMPABLE => Ok(1),
            SET_NAME | SET_DUMPABLE | SET_PDEATHSIG | GET_NO_NEW_PRIVS | SET_NO_NEW_PRIVS => Ok(0),
            // Names for mappings are an option of Linux that many are built without.
            SET_VMA => Err(Errno::INVAL),
            _ => Err(Errno::INVAL),
        }
    }

    /// `times`.
    pub(super) fn times(&mut self, address: u64) -> Result<u64, Errno> {
        const TICK: u64 = NANOSECONDS / 100;
        self.put(address, &words(&[self.clock.retired / TICK, 0, 0, 0]))?;
        Ok(self.clock.elapsed() / TICK)
    }

    /// `uname`.
    pub(super) fn system_name(&mut self, address: u64) -> Result<u64, Errno> {
        let mut bytes = Vec::new();
        for text in ["Linux", "backsight", "6.1.0", "#1", "riscv64", "(none)"] {
            let mut field = [0; 65];
            field[..text.len()].copy_from_slice(text.as_bytes());
            bytes.extend(field);
        }
        self.memory.write(address, &bytes)?;
        Ok(0)
    }

    /// `getrusage`.
    pub(super) fn usage(&mut self, address: u64) -> Result<u64, Errno> {
        let time = self.clock.retired;
        let mut usage = [0; 18];
        usage[0] = time / NANOSECONDS;
        usage[1] = time % NANOSECONDS / 1000;
        self.put(address, &words(&usage))
    }

    /// `sysinfo`.
    pub(super) fn system_information(&mut self, address: u64) -> Result<u64, Errno> {
        let mut information = [0; 14];
        information[0] = self.clock.elapsed() / NANOSECONDS;
        information[4] = 1 << 30;
        information[5] = 1 << 29;
        // One process; memory is counted in bytes.
        information[10] = 1;
        information[13] = 1;
        self.put(address, &words(&information))
    }

    /// `getrlimit`, `prlimit64`: what may be used, now and at most.
    pub(super) fn limits(&mut self, resource: u64, address: u64) -> Result<u64, Errno> {
        const STACK: u64 = 3;
        const FILES: u64 = 7;
        const RESOURCES: u64 = 16;
        let now = match resource {
            STACK => STACK_SIZE,
            FILES => MOST as u64,
            0..RESOURCES => u64::MAX,
            _ => return Err(Errno::INVAL),
        };
        let most = if resource == FILES { now } else { u64::MAX };
        self.put(address, &words(&[now, most]))
    }

    /// `getrandom`: the same for every run.
    pub(super) fn random_bytes(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        /// What Linux gives without being interrupted.
        const MOST: u64 = 256;
        let count = a[1].min(MOST) as usize;
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            // splitmix64
            self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.random;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            bytes.extend((z ^ (z >> 31)).to_le_bytes());
        }
        self.memory.write(a[0], &bytes[..count])?;
        Ok(count as u64)
    }
}
