//! A workflow without std. It brings what a program without std needs: an allocator and a handler of panics.
#![no_std]
#![cfg_attr(before_1_68, feature(alloc_error_handler))]
extern crate alloc;
use alloc::string::String;
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use wfhost_workflow as wf;

/// Gives out what it has behind all that it gave out before, and takes nothing back.
struct Bump(AtomicUsize);

#[global_allocator]
static BUMP: Bump = Bump(AtomicUsize::new(0));

unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        let mut at = self.0.load(Ordering::Relaxed);
        let end = core::arch::wasm32::memory_size(0) << 16;
        at = (at + l.align() - 1) & !(l.align() - 1);
        if at == 0 || at + l.size() > end {
            let pages = (l.size() >> 16) + 1;
            at = core::arch::wasm32::memory_grow(0, pages);
            if at == usize::MAX {
                return core::ptr::null_mut();
            }
            at <<= 16;
        }
        self.0.store(at + l.size(), Ordering::Relaxed);
        at as *mut u8
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[cfg(before_1_68)]
#[alloc_error_handler]
fn no_memory(_: Layout) -> ! {
    core::arch::wasm32::unreachable()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

async fn small(name: String) -> wf::Result<String> {
    let greeting: String = wf::body("greet", || Ok(alloc::format!("hello {}", name))).await?;
    wf::sleep("nap", core::time::Duration::from_secs(3600)).await?;
    Ok(greeting)
}

wf::module! { workflows: { "small" => small } }
