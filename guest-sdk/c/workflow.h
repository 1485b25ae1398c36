/* workflow.h: the wfhost guest ABI v1 for C and C++, in one header, without a libc.
 *
 *   #include "workflow.h"
 *   WF_EXPORT(workflow_run) int run(void) {
 *       wf_sleep_text_s("nap", "3d");
 *       return wf_complete_s("\"done\"");
 *   }
 *
 *   clang --target=wasm32 -mbulk-memory -O2 -nostdlib -Wl,--no-entry -o hello.wasm hello.c
 *
 * Every call of the host returns 0 or more, or a negated code of wf_code. Arguments for the host are (pointer, length) pairs.
 * Results are written to the caller's buffer, at most cap bytes, and the call returns the whole length. After a short buffer or
 * an error, wf_last returns the bytes of the newest answer: the result, or the error JSON. Times are milliseconds.
 */
#ifndef WFHOST_WORKFLOW_H
#define WFHOST_WORKFLOW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WF_IMPORT(name) __attribute__((import_module("workflow_v1"), import_name(name)))
#define WF_EXPORT(name) __attribute__((export_name(#name)))

/* Codes; calls return them negated. */
enum wf_code {
	WF_OK = 0, WF_INVALID_ARGUMENT = 1, WF_DUPLICATE_NAME = 2, WF_INVALID_DURATION = 3, WF_INVALID_DATE = 4,
	WF_NOT_HERE = 5, WF_STEP_FAILED = 6, WF_TIMEOUT = 7, WF_CANCELLED = 8, WF_TOO_LARGE = 9, WF_UNKNOWN_HANDLE = 10,
	WF_UNKNOWN_HANDLER = 11, WF_DENIED = 12, WF_LIMIT = 13, WF_CHILD_FAILED = 14, WF_CONFLICT = 15, WF_PENDING = 16,
	WF_QUERY = 17, WF_RUN_BODY = 18, WF_FREEZE = 19
};

/* Levels of wf_log. */
enum wf_level { WF_DEBUG = 0, WF_INFO = 1, WF_WARN = 2, WF_ERROR = 3 };

typedef int64_t wf_handle; /* 1, 2, 3 … in call order */

/* Data of the run. */
WF_IMPORT("input") int64_t wf_input(void *out, uint32_t cap);
WF_IMPORT("info") int64_t wf_info(void *out, uint32_t cap);
WF_IMPORT("now") int64_t wf_now(void);
WF_IMPORT("random") int64_t wf_random(void *p, uint32_t n);
WF_IMPORT("last") int64_t wf_last(void *out, uint32_t cap);

/* Sleeps. The _start forms return a handle at once. */
WF_IMPORT("sleep") int64_t wf_sleep(const char *name, uint32_t n, int64_t ms);
WF_IMPORT("sleep_until") int64_t wf_sleep_until(const char *name, uint32_t n, int64_t unix_ms);
WF_IMPORT("sleep_text") int64_t wf_sleep_text(const char *name, uint32_t n, const char *text, uint32_t m);
WF_IMPORT("sleep_start") wf_handle wf_sleep_start(const char *name, uint32_t n, int64_t ms);
WF_IMPORT("sleep_until_start") wf_handle wf_sleep_until_start(const char *name, uint32_t n, int64_t unix_ms);
WF_IMPORT("sleep_text_start") wf_handle wf_sleep_text_start(const char *name, uint32_t n, const char *text, uint32_t m);

/* Steps: by a handler, or with a body in guest code. wf_step_begin returns 0 in the copy that executes the body. */
WF_IMPORT("step_do") int64_t wf_step_do(const char *name, uint32_t n, const char *handler, uint32_t hn, const void *in,
	uint32_t in_n, const char *opts, uint32_t opts_n, void *out, uint32_t cap);
WF_IMPORT("step_start") wf_handle wf_step_start(const char *name, uint32_t n, const char *handler, uint32_t hn,
	const void *in, uint32_t in_n, const char *opts, uint32_t opts_n);
WF_IMPORT("step_begin") wf_handle wf_step_begin(const char *name, uint32_t n, const char *opts, uint32_t opts_n);
WF_IMPORT("step_end") _Noreturn void wf_step_end(int32_t failed, const void *p, uint32_t n);

/* Signals, hooks, children. A negative time-out waits forever. Options are JSON objects, or empty. A child starts on the version
   that was uploaded in the same module as its parent's; {"version":"latest"} or a number selects another version. A child
   whose id another run has resolves with -WF_CONFLICT, a child whose start a quota refuses with -WF_LIMIT, and a child that did
   not complete with -WF_CHILD_FAILED. */
WF_IMPORT("signal_wait") int64_t wf_signal_wait(const char *name, uint32_t n, int64_t timeout_ms, void *out, uint32_t cap);
WF_IMPORT("signal_start") wf_handle wf_signal_start(const char *name, uint32_t n, int64_t timeout_ms);
WF_IMPORT("signal_send") wf_handle wf_signal_send(const char *name, uint32_t n, const char *run, uint32_t run_n,
	const char *signal, uint32_t signal_n, const void *in, uint32_t in_n);
WF_IMPORT("hook_start") wf_handle wf_hook_start(const char *name, uint32_t n, const char *token, uint32_t token_n,
	const char *opts, uint32_t opts_n);
WF_IMPORT("child_run") int64_t wf_child_run(const char *name, uint32_t n, const char *workflow, uint32_t wn, const void *in,
	uint32_t in_n, const char *opts, uint32_t opts_n, void *out, uint32_t cap);
WF_IMPORT("child_start") wf_handle wf_child_start(const char *name, uint32_t n, const char *workflow, uint32_t wn,
	const void *in, uint32_t in_n, const char *opts, uint32_t opts_n);
WF_IMPORT("child_id") int64_t wf_child_id(wf_handle h, void *out, uint32_t cap);

/* Requests, in bodies and step functions only. Request and response are a u32 length of the head, the JSON head, and the body. */
WF_IMPORT("fetch") int64_t wf_fetch(const void *request, uint32_t n, void *out, uint32_t cap);

/* Output, attributes, markers, the policy of cancel (0 final, 1 cooperative), continue as new, queries. A repeated marker has the
   same answer within an iteration of the run, whatever max is. Its id is in a namespace of its own: a step may have the same name. */
WF_IMPORT("emit") int64_t wf_emit(const char *topic, uint32_t n, const void *p, uint32_t m);
WF_IMPORT("set_attribute") int64_t wf_set_attribute(const char *key, uint32_t n, const char *value, uint32_t m);
WF_IMPORT("version") int64_t wf_version(const char *id, uint32_t n, int64_t max);
WF_IMPORT("cancel_policy") int64_t wf_cancel_policy(int32_t policy);
WF_IMPORT("continue_as_new") _Noreturn void wf_continue_as_new(const void *in, uint32_t n, const char *opts, uint32_t m);
WF_IMPORT("query_reply") _Noreturn void wf_query_reply(int32_t failed, const void *p, uint32_t n);

/* Updates arrive as signals named "host/update/" and their name; wf_update_reply answers one by the handle of the wait that took
   it. The host asks whether the workflow accepts an update by a query of that name. An answer or error over 1 MiB is refused with
   -WF_TOO_LARGE, and the sender still waits: answer again, with failed 1 and the error that wf_last writes, or a shorter one. */
WF_IMPORT("update_reply") int64_t wf_update_reply(wf_handle h, int32_t failed, const void *p, uint32_t n);

/* Events, for guests that poll descriptor 3 by WASI: 0 = none, else handle << 3 | kind. wf_wait_event polls, too. */
WF_IMPORT("next_event") int64_t wf_next_event(void);
WF_IMPORT("wait_event") int64_t wf_wait_event(int64_t timeout_ns);

/* Handles. wf_await waits for one of n handles, or for any with (0, 0), and returns it. */
WF_IMPORT("await") wf_handle wf_await(const wf_handle *handles, uint32_t n);
WF_IMPORT("result") int64_t wf_result(wf_handle h, void *out, uint32_t cap);
WF_IMPORT("cancel") int64_t wf_cancel(wf_handle h);

/* The end, and the log. A workflow's wf_complete and wf_fail refuse more than 1 MiB with -WF_TOO_LARGE: then pass the error that
   wf_last writes, or a shorter one, to wf_fail. */
WF_IMPORT("complete") int64_t wf_complete(const void *p, uint32_t n);
WF_IMPORT("fail") int64_t wf_fail(const void *p, uint32_t n);
WF_IMPORT("log") int64_t wf_log(int32_t level, const char *text, uint32_t n);

/* Forms for zero-terminated text. */
static inline uint32_t wf_len(const char *s) {
	uint32_t n = 0;
	while (s[n]) n++;
	return n;
}
static inline int64_t wf_sleep_s(const char *name, int64_t ms) { return wf_sleep(name, wf_len(name), ms); }
static inline int64_t wf_sleep_text_s(const char *name, const char *text) {
	return wf_sleep_text(name, wf_len(name), text, wf_len(text));
}
static inline wf_handle wf_sleep_start_s(const char *name, int64_t ms) { return wf_sleep_start(name, wf_len(name), ms); }
static inline wf_handle wf_step_begin_s(const char *name) { return wf_step_begin(name, wf_len(name), 0, 0); }
static inline _Noreturn void wf_step_end_s(int32_t failed, const char *json) { wf_step_end(failed, json, wf_len(json)); }
static inline int64_t wf_step_do_s(const char *name, const char *handler, const char *in, void *out, uint32_t cap) {
	return wf_step_do(name, wf_len(name), handler, wf_len(handler), in, wf_len(in), 0, 0, out, cap);
}
static inline int64_t wf_signal_wait_s(const char *name, int64_t timeout_ms, void *out, uint32_t cap) {
	return wf_signal_wait(name, wf_len(name), timeout_ms, out, cap);
}
static inline wf_handle wf_signal_start_s(const char *name, int64_t timeout_ms) {
	return wf_signal_start(name, wf_len(name), timeout_ms);
}
static inline int64_t wf_child_run_s(const char *name, const char *workflow, const char *in, void *out, uint32_t cap) {
	return wf_child_run(name, wf_len(name), workflow, wf_len(workflow), in, wf_len(in), 0, 0, out, cap);
}
static inline int64_t wf_emit_s(const char *topic, const char *json) { return wf_emit(topic, wf_len(topic), json, wf_len(json)); }
static inline int wf_complete_s(const char *json) { return wf_complete(json, wf_len(json)) < 0; }
static inline int wf_fail_s(const char *json) { wf_fail(json, wf_len(json)); return 1; }
static inline int64_t wf_log_s(int32_t level, const char *text) { return wf_log(level, text, wf_len(text)); }

/* wf_code_name returns the name of a code in error JSON. The code may be negated, as calls return it. */
static inline const char *wf_code_name(int64_t code) {
	static const char *const names[] = {"OK", "INVALID_ARGUMENT", "DUPLICATE_NAME", "INVALID_DURATION", "INVALID_DATE", "NOT_HERE",
		"STEP_FAILED", "TIMEOUT", "CANCELLED", "TOO_LARGE", "UNKNOWN_HANDLE", "UNKNOWN_HANDLER", "DENIED", "LIMIT", "CHILD_FAILED",
		"CONFLICT", "PENDING", "QUERY", "RUN_BODY", "FREEZE"};
	if (code < 0) code = -code;
	return code < (int64_t)(sizeof names / sizeof *names) ? names[code] : "UNKNOWN";
}

/* wf_value_end returns the index after the JSON value that begins at json[i]. */
static inline uint32_t wf_value_end(const char *json, uint32_t n, uint32_t i) {
	for (uint32_t depth = 0; i < n; i++) {
		unsigned char c = (unsigned char)json[i];
		if (c == '"') {
			for (i++; i < n && json[i] != '"'; i++)
				if (json[i] == '\\') i++;
			if (depth == 0) return i < n ? i + 1 : n;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if (c == '}' || c == ']') {
			if (depth == 0) return i;
			if (--depth == 0) return i + 1;
		} else if (depth == 0 && (c <= ' ' || c == ',' || c == ':')) {
			return i;
		}
	}
	return n;
}

/* wf_field finds a field of a JSON object, such as the output of wf_info and wf_last. It returns a pointer to the value and sets
   *len to its length, or returns 0 if there is no such field. Strings keep their quotes and escapes. It does not descend into
   values: for the attempt of a step, find "step" in the info first, then "attempt" in that. */
static inline const char *wf_field(const char *json, uint32_t n, const char *key, uint32_t *len) {
	uint32_t i = 0, want = wf_len(key), found = 0, keys = 1;
	*len = 0;
	while (i < n && (unsigned char)json[i] <= ' ') i++;
	if (i == n || json[i] != '{') return 0;
	for (i++; i < n; keys = !keys) {
		while (i < n && ((unsigned char)json[i] <= ' ' || json[i] == ',' || json[i] == ':')) i++;
		uint32_t end = wf_value_end(json, n, i);
		if (end == i) return 0; /* after the last field */
		if (!keys && found) {
			*len = end - i;
			return json + i;
		}
		if (keys && (found = end - i == want + 2))
			for (uint32_t k = 0; k < want; k++) found &= json[i + 1 + k] == key[k];
		i = end;
	}
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif
