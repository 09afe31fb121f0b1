//! A library for a machine without an operating system: it decodes a byte with each crate. If one of them had the standard
//! library below it, there would be two panic handlers, and this would not be built.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};

use backsight_arm::etm4::{Config, Decoder};
use backsight_core as _;
use backsight_isa as _;
use backsight_riscv as _;
use backsight_simd as _;

struct NoMemory;

// Safety: it never gives any.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static MEMORY: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// How many packets there are in some bytes of ETMv4 trace.
#[unsafe(no_mangle)]
pub extern "C" fn packets(byte: u8) -> usize {
    let mut decoder = Decoder::new(&Config::etm4_default());
    let mut count = 0;
    decoder.feed(&[byte], &mut |_| count += 1);
    count
}
