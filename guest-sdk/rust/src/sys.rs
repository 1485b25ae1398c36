//! The raw calls of `workflow_v1`: see abi/ABI.md.

#[link(wasm_import_module = "workflow_v1")]
extern "C" {
    pub fn input(out: *mut u8, cap: u32) -> i64;
    pub fn info(out: *mut u8, cap: u32) -> i64;
    pub fn now() -> i64;
    pub fn random(p: *mut u8, n: u32) -> i64;
    pub fn last(out: *mut u8, cap: u32) -> i64;
    pub fn sleep(name: *const u8, n: u32, ms: i64) -> i64;
    pub fn sleep_until(name: *const u8, n: u32, unix_ms: i64) -> i64;
    pub fn sleep_text(name: *const u8, n: u32, text: *const u8, m: u32) -> i64;
    pub fn sleep_start(name: *const u8, n: u32, ms: i64) -> i64;
    pub fn sleep_until_start(name: *const u8, n: u32, unix_ms: i64) -> i64;
    pub fn sleep_text_start(name: *const u8, n: u32, text: *const u8, m: u32) -> i64;
    pub fn step_do(
        name: *const u8, n: u32, handler: *const u8, hn: u32, input: *const u8, input_n: u32, opts: *const u8, opts_n: u32,
        out: *mut u8, cap: u32,
    ) -> i64;
    pub fn step_start(
        name: *const u8, n: u32, handler: *const u8, hn: u32, input: *const u8, input_n: u32, opts: *const u8, opts_n: u32,
    ) -> i64;
    pub fn step_begin(name: *const u8, n: u32, opts: *const u8, opts_n: u32) -> i64;
    pub fn step_end(failed: i32, p: *const u8, n: u32);
    pub fn signal_wait(name: *const u8, n: u32, timeout_ms: i64, out: *mut u8, cap: u32) -> i64;
    pub fn signal_start(name: *const u8, n: u32, timeout_ms: i64) -> i64;
    pub fn signal_send(
        name: *const u8, n: u32, run: *const u8, run_n: u32, signal: *const u8, signal_n: u32, input: *const u8, input_n: u32,
    ) -> i64;
    pub fn hook_start(name: *const u8, n: u32, token: *const u8, token_n: u32, opts: *const u8, opts_n: u32) -> i64;
    pub fn child_run(
        name: *const u8, n: u32, workflow: *const u8, wn: u32, input: *const u8, input_n: u32, opts: *const u8, opts_n: u32,
        out: *mut u8, cap: u32,
    ) -> i64;
    pub fn child_start(
        name: *const u8, n: u32, workflow: *const u8, wn: u32, input: *const u8, input_n: u32, opts: *const u8, opts_n: u32,
    ) -> i64;
    pub fn child_id(handle: i64, out: *mut u8, cap: u32) -> i64;
    pub fn fetch(request: *const u8, n: u32, out: *mut u8, cap: u32) -> i64;
    pub fn emit(topic: *const u8, n: u32, p: *const u8, m: u32) -> i64;
    pub fn set_attribute(key: *const u8, n: u32, value: *const u8, m: u32) -> i64;
    pub fn version(id: *const u8, n: u32, max: i64) -> i64;
    pub fn cancel_policy(policy: i32) -> i64;
    pub fn continue_as_new(input: *const u8, n: u32, opts: *const u8, m: u32);
    pub fn query_reply(failed: i32, p: *const u8, n: u32);
    pub fn update_reply(handle: i64, failed: i32, p: *const u8, n: u32) -> i64;
    pub fn next_event() -> i64;
    pub fn wait_event(timeout_ns: i64) -> i64;
    #[link_name = "await"]
    pub fn await_(handles: *const i64, n: u32) -> i64;
    pub fn result(handle: i64, out: *mut u8, cap: u32) -> i64;
    pub fn cancel(handle: i64) -> i64;
    pub fn complete(p: *const u8, n: u32) -> i64;
    pub fn fail(p: *const u8, n: u32) -> i64;
    pub fn log(level: i32, text: *const u8, n: u32) -> i64;
}
