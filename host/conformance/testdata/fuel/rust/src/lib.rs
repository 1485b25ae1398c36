//! Computes until its fuel is gone: the input says what.
use std::collections::HashMap;

#[link(wasm_import_module = "workflow_v1")]
extern "C" {
    fn input(p: *mut u8, n: i32) -> i64;
}

fn next(x: &mut u32) -> u32 {
    *x = x.wrapping_mul(1664525).wrapping_add(1013904223);
    *x
}

/// Uses a value, so that what made it is not left out. std::hint::black_box is newer than Rust 1.63.
fn keep(v: u32) {
    static mut SINK: u32 = 0;
    unsafe { std::ptr::write_volatile(std::ptr::addr_of_mut!(SINK), v) }
}

#[no_mangle]
pub extern "C" fn workflow_run() -> i32 {
    let mut what = b'0';
    unsafe { input(&mut what, 1) };
    let mut x = 1;
    let mut counts = HashMap::new();
    loop {
        match what {
            b'0' => (0..1000000).for_each(|_| {
                next(&mut x);
            }),
            b'1' => {
                let mut numbers: Vec<u32> = (0..10000).map(|_| next(&mut x)).collect();
                numbers.sort_unstable();
                keep(numbers[0]);
            }
            b'2' => (0..100000).for_each(|_| *counts.entry((next(&mut x) >> 12) % 8000).or_insert(0u32) += 1),
            _ => {
                let text: String = (0..10000).map(|_| format!("{} ", next(&mut x) >> 8)).collect();
                keep(text.matches(' ').count() as u32);
            }
        }
        keep(x);
    }
}
