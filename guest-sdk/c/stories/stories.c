/* The story workflows of docs/reference/conformance.md in C. */
#include "text.h"

static Text in;  /* the input of the run, of the step function, or of the query in progress */
static Text out; /* the result */

static Text info(const char *key) {
	Text t;
	got(&t, wf_info(t.s, sizeof t.s));
	return field(&t, key);
}

static int64_t attempt(void) {
	Text step = info("step"), n = field(&step, "attempt");
	return number(&n);
}

/* add_attempted adds the result of a step that succeeded after some attempts. */
static void add_attempted(Text *t) {
	add(t, "\"ok after ");
	add_number(t, attempt());
	add(t, "\"");
}

/* item begins the next item of the list in out, and returns out. */
static Text *item(void) {
	add(&out, out.n == 0 ? "[" : ",");
	return &out;
}

static void item_number(int64_t n) { add_number(item(), n); }

static void item_quoted(const char *s) { add_quoted(item(), s); }

/* item_text adds a text that needs no escapes. */
static void item_text(const Text *t) {
	add(item(), "\"");
	add_n(&out, t->s, t->n);
	add(&out, "\"");
}

/* item_code adds the code of an answer. */
static void item_code(int64_t answer) { item_quoted(wf_code_name(answer < 0 ? answer : WF_OK)); }

/* item_or_code adds the result that a call has written into t, or the code of its error. */
static void item_or_code(Text *t, int64_t answer) {
	if (got(t, answer) < 0) item_code(answer);
	else add_n(item(), t->s, t->n);
}

static const char *at = "start"; /* where the workflow "queries" is */

/* answer answers a query of the workflow "queries", or accepts or refuses an update of the workflow "updates". */
static _Noreturn void answer(void) {
	Text query = info("query"), reply = {0};
	got(&in, wf_input(in.s, sizeof in.s));
	if (is(&query, "\"host/update/add\"") && number(&in) > 0) wf_query_reply(0, 0, 0);
	if (is(&query, "\"status\"") && !is(&in, "\"refuse\"")) {
		add(&reply, "{\"at\":\"");
		add(&reply, at);
		add(&reply, "\"}");
		wf_query_reply(0, reply.s, reply.n);
	}
	add(&reply, is(&query, "\"status\"") ? "{\"message\":\"refused\"}" : "{\"message\":\"only more can be added\"}");
	wf_query_reply(1, reply.s, reply.n);
}

/* await waits for a handle and reads its result, or its error. It returns the answer of wf_result, or of the refused call. */
static int64_t await(wf_handle h, Text *t) {
	if (h < 0) return got(t, h);
	int64_t told = wf_await(&h, 1);
	if (told == -WF_QUERY) answer();
	return got(t, told < 0 ? told : wf_result(h, t->s, sizeof t->s));
}

/* end returns the result in out to the host. If the run had ended before, this activation answers a query. */
static int end(void) {
	int64_t answered = wf_complete(out.s, out.n);
	if (answered == -WF_QUERY) answer();
	return answered < 0;
}

static int end_list(void) {
	add(&out, "]");
	return end();
}

static int end_number(int64_t n) {
	add_number(&out, n);
	return end();
}

static wf_handle step_start(const char *name, const char *handler, const char *input) {
	return wf_step_start(name, wf_len(name), handler, wf_len(handler), input, wf_len(input), 0, 0);
}

static wf_handle child_start(const char *name, const char *workflow, const char *input, const char *opts) {
	return wf_child_start(name, wf_len(name), workflow, wf_len(workflow), input, wf_len(input), opts, wf_len(opts));
}

static wf_handle send(const char *run, const char *signal, const char *data) {
	return wf_signal_send(signal, wf_len(signal), run, wf_len(run), signal, wf_len(signal), data, wf_len(data));
}

static int sleeps(void) {
	int64_t began = wf_now();
	wf_sleep_s("duration", 4000);
	item_number(wf_now() - began);
	wf_sleep_s("nothing", 0);
	item_number(wf_now() - began);
	wf_sleep_until("instant", 7, began + 10000);
	item_number(wf_now() - began);
	wf_sleep_text_s("text", "1h30m");
	item_number(wf_now() - began);
	wf_sleep_until("past", 4, began);
	item_number(wf_now() - began);
	return end_list();
}

static int steps(void) {
	Text v;
	item_or_code(&v, wf_step_do("greet", 5, "greet", 5, in.s, in.n, 0, 0, v.s, sizeof v.s));
	wf_handle a = step_start("a", "double", "21"), b = step_start("b", "double", "4");
	item_or_code(&v, await(a, &v));
	item_or_code(&v, await(b, &v));
	return end_list();
}

static volatile int changed; /* by a body, which the workflow must not see */

static int bodies(void) {
	Text v = {0};
	wf_handle one = wf_step_begin_s("one");
	if (one == 0) {
		changed++;
		add(&v, "\"body of ");
		add_inside(&v, &in);
		add(&v, "\"");
		wf_step_end(0, v.s, v.n);
	}
	item_or_code(&v, await(one, &v));
	wf_handle a = wf_step_begin_s("a");
	if (a == 0) wf_step_end_s(0, "\"a\"");
	wf_handle b = wf_step_begin_s("b");
	if (b == 0) wf_step_end_s(0, "\"b\"");
	item_or_code(&v, await(a, &v));
	item_or_code(&v, await(b, &v));
	wf_handle inside = wf_step_begin_s("inside");
	if (inside == 0) {
		v.n = 0;
		add_quoted(&v, wf_code_name(wf_sleep_start_s("nap", 1000)));
		wf_step_end(0, v.s, v.n);
	}
	item_or_code(&v, await(inside, &v));
	item_number(changed);
	return end_list();
}

/* end_attempt ends a body: the first attempt with a failure, later ones with a result. */
static _Noreturn void end_attempt(const char *failure) {
	Text t = {0};
	if (attempt() == 1) wf_step_end_s(1, failure);
	add_attempted(&t);
	wf_step_end(0, t.s, t.n);
}

static int retries(void) {
	static const char three[] = "{\"attempts\":3,\"delay\":\"100ms\"}", two[] = "{\"attempts\":2}";
	Text v;
	item_or_code(&v, wf_step_do("flaky", 5, "flaky", 5, "null", 4, three, sizeof three - 1, v.s, sizeof v.s));
	wf_handle body = wf_step_begin("body", 4, two, sizeof two - 1);
	if (body == 0) end_attempt("{\"message\":\"not yet\"}");
	item_or_code(&v, await(body, &v));
	wf_handle later = wf_step_begin_s("later");
	if (later == 0) end_attempt("{\"message\":\"busy\",\"retry_after_ms\":5000}");
	item_or_code(&v, await(later, &v));
	return end_list();
}

/* item_failure adds an object with these fields of an error, whose values are copied verbatim. */
static void item_failure(const Text *error) {
	static const char *const keys[] = {"code", "kind", "attempts", "message"};
	for (int i = 0; i < 4; i++) {
		Text value = field(error, keys[i]);
		add(i == 0 ? item() : &out, i == 0 ? "{\"" : ",\"");
		add(&out, keys[i]);
		add(&out, "\":");
		add_n(&out, value.s, value.n);
	}
	add(&out, "}");
}

static int failures(void) {
	static const char two[] = "{\"attempts\":2,\"delay\":\"10ms\"}";
	Text v;
	got(&v, wf_step_do("never", 5, "never", 5, "null", 4, two, sizeof two - 1, v.s, sizeof v.s));
	item_failure(&v);
	wf_handle fatal = wf_step_begin_s("fatal");
	if (fatal == 0) wf_step_end_s(1, "{\"message\":\"out of stock\",\"retryable\":false}");
	await(fatal, &v);
	item_failure(&v);
	return end_list();
}

static int refusals(void) {
	item_code(wf_sleep_s("negative", -1));
	item_code(wf_sleep_text_s("bare", "5"));
	item_code(wf_sleep_text_s("date", "2026-13-01"));
	item_code(wf_step_do_s("nobody", "nobody", "null", 0, 0));
	item_code(wf_step_do_s("denied", "host/vault", "null", 0, 0));
	item_code(wf_sleep_s("", 0));
	return end_list();
}

static int names(void) {
	item_code(wf_sleep_s("x", 0));
	item_code(wf_sleep_s("x", 0));
	return end_list();
}

static int failing(void) {
	wf_sleep_s("nap", 1000);
	return wf_fail_s("{\"message\":\"nothing in stock\"}");
}

static int signals(void) {
	Text v;
	item_or_code(&v, wf_signal_wait_s("go", 3000, v.s, sizeof v.s));
	item_or_code(&v, wf_signal_wait_s("go", -1, v.s, sizeof v.s));
	item_or_code(&v, wf_signal_wait_s("none", 100, v.s, sizeof v.s));
	return end_list();
}

static int race(void) {
	Text v;
	wf_handle both[] = {wf_signal_start_s("stop", -1), wf_sleep_start_s("limit", 5000)};
	int stopped = wf_await(both, 2) == both[0];
	item_quoted(stopped ? "stop" : "limit");
	if (stopped) item_or_code(&v, wf_result(both[0], v.s, sizeof v.s));
	wf_cancel(both[stopped]);
	wf_sleep_s("after", 1000);
	item_or_code(&v, wf_signal_wait_s("stop", 10000, v.s, sizeof v.s));
	return end_list();
}

static int parallel(void) {
	static const char *const sleepers[] = {"c", "a", "b"};
	wf_handle all[] = {wf_sleep_start_s("c", 3000), wf_sleep_start_s("a", 1000), wf_sleep_start_s("b", 2000)};
	for (int n = 0; n < 3; n++) {
		wf_handle woke = wf_await(0, 0);
		for (int i = 0; i < 3; i++)
			if (all[i] == woke) item_quoted(sleepers[i]);
	}
	return end_list();
}

static int cancels(void) {
	Text v;
	if (!is(&in, "\"final\"")) wf_cancel_policy(1);
	wf_handle slumber = wf_sleep_start_s("long", 3600000);
	int64_t slept = await(slumber, &v);
	if (slept >= 0) return wf_complete_s("\"slept\"");
	wf_cancel(slumber); /* the cancel has ended the wait, but not the sleep */
	wf_step_do_s("clean up", "greet", "\"cleaner\"", v.s, sizeof v.s);
	if (!is(&in, "\"ignore\"")) return wf_fail_s("{\"message\":\"cancelled\"}");
	add(&out, "\"");
	add(&out, wf_code_name(slept));
	add(&out, ", but done\"");
	return end();
}

static int parent(void) {
	Text v, kind;
	item_or_code(&v, wf_child_run_s("first", "child", "20", v.s, sizeof v.s));
	wf_handle second = child_start("second", "child", "40", "{\"id\":\"parent-second\"}");
	got(&v, wf_child_id(second, v.s, sizeof v.s));
	item_text(&v);
	item_or_code(&v, await(second, &v));
	int64_t third = got(&v, wf_child_run_s("third", "child", "-1", v.s, sizeof v.s));
	item_code(third);
	kind = field(&v, "kind");
	add_n(item(), kind.s, kind.n);
	return end_list();
}

static int child(void) {
	int64_t n = number(&in);
	if (n < 0) return wf_fail_s("{\"message\":\"negative\"}");
	wf_sleep_s("nap", 1000);
	return end_number(n + 1);
}

static int counter(void) {
	Text v, sum = {0};
	got(&v, wf_signal_wait_s("add", -1, v.s, sizeof v.s));
	add_number(&sum, number(&in) + number(&v));
	if (number(&sum) < 10) wf_continue_as_new(sum.s, sum.n, 0, 0);
	return end_number(number(&sum));
}

static int queries(void) {
	Text v;
	at = "nap";
	await(wf_sleep_start_s("nap", 10000), &v);
	at = "end";
	add(&out, "\"done\"");
	return end();
}

static int updates(void) {
	int64_t total = 0;
	for (wf_handle h = wf_signal_start_s("host/update/add", -1), next; total < 10; h = next) {
		Text v, sum = {0};
		if (await(h, &v) < 0) return wf_fail_s("{\"message\":\"cancelled\"}");
		next = wf_signal_start_s("host/update/add", -1);
		total += number(&v);
		add_number(&sum, total);
		wf_update_reply(h, 0, sum.s, sum.n);
	}
	return end_number(total);
}

static int output(void) {
	item_number(wf_emit_s("progress", "\"started\""));
	wf_set_attribute("customer", 8, "ada", 3);
	item_number(wf_version("change", 6, 2));
	wf_sleep_s("nap", 1000);
	item_number(wf_emit_s("progress", "{\"percent\":100}"));
	return end_list();
}

static int markers(void) {
	int64_t newest = number(&in);
	Text next = {0};
	for (int i = 0; i < 3; i++) item_number(wf_version("tax", 3, newest));
	wf_sleep_s("tax", 1000);
	item_number(wf_version("tax", 3, newest + 1));
	item_number(wf_version("nap", 3, 1));
	wf_sleep_s("nap", 1000);
	item_number(wf_version("nap", 3, 5));
	add(&out, "]");
	wf_emit("tax", 3, out.s, out.n);
	add_number(&next, newest + 1);
	if (newest < 3) wf_continue_as_new(next.s, next.n, 0, 0);
	return end();
}

static int hooks(void) {
	static const char token[] = "token-of-the-story";
	static const char reply[] = "{\"status\":200,\"content_type\":\"text/plain\",\"body\":\"thanks\"}";
	Text v;
	await(wf_hook_start("paid", 4, token, sizeof token - 1, reply, sizeof reply - 1), &v);
	item_text(&v);
	item_code(await(wf_hook_start("paid", 4, token, sizeof token - 1, 0, 0), &v));
	item_or_code(&v, wf_signal_wait_s("paid", -1, v.s, sizeof v.s));
	return end_list();
}

static int sender(void) {
	Text v;
	item_code(await(send("nobody-is-there", "go", "\"hello\""), &v));
	wf_handle listener = child_start("listener", "listener", "null", "{\"id\":\"sender-listener\"}");
	wf_sleep_s("nap", 1000);
	item_code(await(send("sender-listener", "go", "\"hello\""), &v));
	item_or_code(&v, await(listener, &v));
	return end_list();
}

static int listener(void) {
	got(&out, wf_signal_wait_s("go", -1, out.s, sizeof out.s));
	return end();
}

static int many(void) {
	int64_t sum = 0;
	for (int64_t i = 0, n = number(&in); i < n; i++) {
		Text v = {0};
		add(&v, "body ");
		add_number(&v, i);
		wf_handle body = wf_step_begin(v.s, v.n, 0, 0);
		if (body == 0) {
			v.n = 0;
			add_number(&v, sum + i);
			wf_step_end(0, v.s, v.n);
		}
		await(body, &v);
		sum = number(&v);
		if (i % 10 != 9) continue;
		v.n = 0;
		add(&v, "sleep ");
		add_number(&v, i);
		wf_sleep(v.s, v.n, 60000);
	}
	return end_number(sum);
}

static int bytes(void) {
	wf_handle twice = wf_step_begin_s("twice");
	if (twice == 0) {
		add_n(&out, in.s, in.n);
		add_n(&out, in.s, in.n);
		wf_step_end(0, out.s, out.n);
	}
	await(twice, &out);
	return end();
}

static int chance(void) {
	uint64_t before = 0, after = 0;
	wf_random(&before, sizeof before);
	wf_sleep_s("nap", 1000);
	wf_random(&after, sizeof after);
	Text run = info("run_id");
	add(item(), before != after ? "true" : "false");
	add(item(), is(&run, "\"chance\"") ? "true" : "false");
	return end_list();
}

/* The workflows, each with the rest of its description. */
static const struct {
	const char *name;
	int (*run)(void);
	const char *more;
} workflows[] = {
	{"sleeps", sleeps, ""}, {"steps", steps, ""}, {"bodies", bodies, ""}, {"retries", retries, ""}, {"failures", failures, ""},
	{"refusals", refusals, ""}, {"names", names, ""}, {"failing", failing, ""},
	{"signals", signals, ",\"signals\":[\"go\",\"none\"]"}, {"race", race, ",\"signals\":[\"stop\"]"}, {"parallel", parallel, ""},
	{"cancels", cancels, ""}, {"parent", parent, ""}, {"child", child, ""}, {"counter", counter, ",\"signals\":[\"add\"]"},
	{"queries", queries, ",\"queries\":[\"status\"]"}, {"updates", updates, ",\"updates\":[\"add\"]"}, {"output", output, ""},
	{"markers", markers, ""}, {"hooks", hooks, ",\"signals\":[\"paid\"]"}, {"sender", sender, ""}, {"listener", listener, ",\"signals\":[\"go\"]"},
	{"long", many, ""}, {"bytes", bytes, ""}, {"chance", chance, ""},
};

enum { known = sizeof workflows / sizeof *workflows };

WF_EXPORT(workflow_run) int run(void) {
	Text quoted = info("workflow"), name = {0};
	add_inside(&name, &quoted);
	got(&in, wf_input(in.s, sizeof in.s));
	for (int i = 0; i < known; i++)
		if (is(&name, workflows[i].name)) return workflows[i].run();
	return wf_fail_s("{\"message\":\"the module has no such workflow\"}");
}

WF_EXPORT(workflow_step) int step(void) {
	Text step = info("step"), handler = field(&step, "handler"), failure = {0};
	int64_t n = attempt();
	got(&in, wf_input(in.s, sizeof in.s));
	if (is(&handler, "\"greet\"")) {
		add(&out, "\"hello ");
		add_inside(&out, &in);
		add(&out, "\"");
		return end();
	}
	if (is(&handler, "\"double\"")) return end_number(2 * number(&in));
	if (is(&handler, "\"flaky\"") && n >= 3) {
		add_attempted(&out);
		return end();
	}
	add(&failure, "{\"message\":\"attempt "); /* of flaky and never */
	add_number(&failure, n);
	add(&failure, "\"}");
	wf_fail(failure.s, failure.n);
	return 1;
}

WF_EXPORT(workflow_describe) void describe(void) {
	for (int i = 0; i < known; i++) {
		add(&out, i == 0 ? "{\"workflows\":[{\"name\":\"" : ",{\"name\":\"");
		add(&out, workflows[i].name);
		add(&out, "\"");
		add(&out, workflows[i].more);
		add(&out, "}");
	}
	add(&out, "],\"steps\":[\"greet\",\"double\",\"flaky\",\"never\"],\"sdk\":\"c/1.0\"}");
	wf_complete(out.s, out.n);
}
