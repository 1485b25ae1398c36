/* The workflows that `wfhost bench --guest c` measures, one in a module: -DWORKFLOW=name. The input is an array of whole
 * numbers; what each takes is told in ../main.go. */
#include "../../../guest-sdk/c/workflow.h"

#ifndef WORKFLOW
#define WORKFLOW empty
#endif

static char text[4096]; /* the input */
static int64_t length, position, serial;

/* number gives the next number of the input, 0 if there is none. */
static int64_t number(void) {
	int64_t n = 0;
	while (position < length && (text[position] < '0' || text[position] > '9')) position++;
	while (position < length && text[position] >= '0' && text[position] <= '9') n = n * 10 + text[position++] - '0';
	return n;
}

#define NAME_BYTES 8

/* name gives a name that no call of the run had. */
static const char *name(void) {
	static char digits[NAME_BYTES];
	int64_t rest = serial++;
	for (int i = NAME_BYTES; i > 0; rest /= 10) digits[--i] = (char)('0' + rest % 10);
	return digits;
}

static void nap(int64_t ms) { wf_sleep(name(), NAME_BYTES, ms); }

/* step has the handler that does nothing perform a step. */
static void step(void) {
	char out[64];
	wf_step_do(name(), NAME_BYTES, "host/bench", 10, 0, 0, 0, 0, out, sizeof out);
}

static inline void empty(void) {}

static inline void steps(void) {
	for (int64_t n = number(); n > 0; n--) step();
}

static inline void bodies(void) {
	for (int64_t n = number(); n > 0; n--) {
		wf_handle h = wf_step_begin(name(), NAME_BYTES, 0, 0);
		if (h == 0) wf_step_end(0, 0, 0);
		wf_await(&h, 1);
	}
}

/* until is `sleep`, a name that C has for itself. */
static inline void until(void) {
	for (int64_t instant; (instant = number());) wf_sleep_until(name(), NAME_BYTES, instant);
}
#define sleep until

static inline void sleepstep(void) {
	step();
	for (int64_t instant; (instant = number());) {
		wf_sleep_until(name(), NAME_BYTES, instant);
		step();
	}
}

static inline void wake(void) {
	wf_sleep_until(name(), NAME_BYTES, number());
	int64_t n = number(), ms = number(), with = number();
	while (n-- > 0) {
		nap(ms);
		if (with) step();
	}
}

static inline void calls(void) {
	int64_t n = number(), wakes = number(), ms = number();
	while (n-- > 0) nap(0);
	while (wakes-- > 0) nap(ms);
}

static inline void signal(void) {
	char out[64];
	wf_signal_wait("go", 2, -1, out, sizeof out);
}

WF_EXPORT(workflow_run) int run(void) {
	length = wf_input(text, sizeof text);
	if (length > (int64_t)sizeof text) return wf_fail_s("{\"message\":\"the input is too long\"}");
	WORKFLOW();
	return 0;
}
