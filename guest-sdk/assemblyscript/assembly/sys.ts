// The raw calls of workflow_v1: see abi/ABI.md.

// @ts-ignore: decorator
@external("workflow_v1", "input") export declare function input(out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "info") export declare function info(out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "now") export declare function now(): i64;
// @ts-ignore: decorator
@external("workflow_v1", "random") export declare function random(p: usize, n: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "last") export declare function last(out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "sleep_start") export declare function sleep_start(name: usize, n: i32, ms: i64): i64;
// @ts-ignore: decorator
@external("workflow_v1", "sleep_until_start") export declare function sleep_until_start(name: usize, n: i32, at: i64): i64;
// @ts-ignore: decorator
@external("workflow_v1", "sleep_text_start") export declare function sleep_text_start(name: usize, n: i32, text: usize, m: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "step_start") export declare function step_start(name: usize, n: i32, handler: usize, hn: i32, input: usize, il: i32, opts: usize, ol: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "step_begin") export declare function step_begin(name: usize, n: i32, opts: usize, ol: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "step_end") export declare function step_end(failed: i32, p: usize, n: i32): void;
// @ts-ignore: decorator
@external("workflow_v1", "signal_start") export declare function signal_start(name: usize, n: i32, timeout: i64): i64;
// @ts-ignore: decorator
@external("workflow_v1", "signal_send") export declare function signal_send(name: usize, n: i32, run: usize, rn: i32, signal: usize, sn: i32, input: usize, il: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "hook_start") export declare function hook_start(name: usize, n: i32, token: usize, tn: i32, opts: usize, ol: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "child_start") export declare function child_start(name: usize, n: i32, workflow: usize, wn: i32, input: usize, il: i32, opts: usize, ol: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "child_id") export declare function child_id(handle: i64, out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "fetch") export declare function fetch(request: usize, n: i32, out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "emit") export declare function emit(topic: usize, n: i32, p: usize, m: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "set_attribute") export declare function set_attribute(key: usize, n: i32, value: usize, m: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "version") export declare function version(id: usize, n: i32, max: i64): i64;
// @ts-ignore: decorator
@external("workflow_v1", "cancel_policy") export declare function cancel_policy(policy: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "continue_as_new") export declare function continue_as_new(input: usize, n: i32, opts: usize, ol: i32): void;
// @ts-ignore: decorator
@external("workflow_v1", "query_reply") export declare function query_reply(failed: i32, p: usize, n: i32): void;
// @ts-ignore: decorator
@external("workflow_v1", "update_reply") export declare function update_reply(handle: i64, failed: i32, p: usize, n: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "await") export declare function await_(handles: usize, n: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "result") export declare function result(handle: i64, out: usize, cap: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "cancel") export declare function cancel(handle: i64): i64;
// @ts-ignore: decorator
@external("workflow_v1", "complete") export declare function complete(p: usize, n: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "fail") export declare function fail(p: usize, n: i32): i64;
// @ts-ignore: decorator
@external("workflow_v1", "log") export declare function log(level: i32, text: usize, n: i32): i64;
