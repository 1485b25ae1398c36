/* A mail campaign, an approval by link, and an order, in C: the same as examples/drip, approval and orders. */
#include "../../guest-sdk/c/workflow.h"

/* Text is a text that grows at its end, up to its room; what is over is cut off. */
typedef struct {
	uint32_t n;
	char s[1024];
} Text;

static void add_n(Text *t, const char *s, uint32_t n) {
	for (uint32_t i = 0; i < n && t->n < sizeof t->s; i++) t->s[t->n++] = s[i];
}
static void add(Text *t, const char *s) { add_n(t, s, wf_len(s)); }
static void add_text(Text *t, const Text *other) { add_n(t, other->s, other->n); }

/* field adds the value of a field of an object. Strings keep their quotes. */
static void field(Text *out, const Text *object, const char *name) {
	uint32_t n;
	const char *value = wf_field(object->s, object->n, name, &n);
	add_n(out, value, n);
}

/* unquoted adds a field that is a string, without its quotes. */
static void unquoted(Text *out, const Text *object, const char *name) {
	static Text t;
	t.n = 0;
	field(&t, object, name);
	if (t.n >= 2) add_n(out, t.s + 1, t.n - 2);
}

static int equal(const Text *t, const char *s) {
	uint32_t n = wf_len(s), i = 0;
	while (i < n && i < t->n && t->s[i] == s[i]) i++;
	return i == n && t->n == n;
}

static int begins(const char *s, const char *with) {
	while (*with && *s == *with) s++, with++;
	return !*with;
}

/* last_failure fails the run with the newest error. */
static int last_failure(void) {
	static char json[4096];
	int64_t n = wf_last(json, sizeof json);
	wf_fail(json, n < (int64_t)sizeof json ? (uint32_t)n : sizeof json);
	return 1;
}

/* outcome waits for a handle and gets its result, or answers a negated code. */
static int64_t outcome(wf_handle h, Text *out) {
	if (h < 0) return h;
	if (wf_await(&h, 1) < 0) return -1;
	int64_t n = wf_result(h, out->s, sizeof out->s);
	if (n >= 0) out->n = n < (int64_t)sizeof out->s ? (uint32_t)n : sizeof out->s;
	return n;
}

/* step_field adds a field of what the info says of the step: "idempotency_key". */
static void step_field(Text *out, const char *name) {
	static Text info, step;
	int64_t n = wf_info(info.s, sizeof info.s);
	info.n = n < (int64_t)sizeof info.s ? (uint32_t)n : sizeof info.s;
	step.n = 0;
	field(&step, &info, "step");
	field(out, &step, name);
}

/* mail is a step that sends a mail. A real one hands the idempotency key to its mail service. */
static int64_t mail(const Text *name, const Text *text) {
	static Text key;
	key.n = 0;
	wf_handle h = wf_step_begin(name->s, name->n, 0, 0);
	if (h == 0) {
		wf_log(WF_INFO, text->s, text->n);
		step_field(&key, "idempotency_key");
		wf_step_end(0, key.s, key.n);
	}
	return outcome(h, &key);
}

static Text input;

/* drip sends four mails over six days, and its result is their number. */
static int drip(void) {
	static const struct {
		const char *name, *pause;
	} mails[] = {{"welcome", "3d"}, {"tips", "2d"}, {"success stories", "1d"}, {"offer", 0}};
	for (int i = 0; i < 4; i++) {
		Text name = {0}, text = {0};
		add(&name, "mail ");
		add(&name, mails[i].name);
		add(&text, mails[i].name);
		add(&text, " to ");
		unquoted(&text, &input, "email");
		if (mail(&name, &text) < 0) return last_failure();
		if (!mails[i].pause) continue;
		Text after = {0};
		add(&after, "after ");
		add(&after, mails[i].name);
		if (wf_sleep_text(after.s, after.n, mails[i].pause, wf_len(mails[i].pause)) < 0) return last_failure();
	}
	return wf_complete_s("4");
}

/* approval sends a link, reminds after three days, and gives up after seven. */
static int approval(void) {
	static const char reply[] = "{\"status\":200,\"content_type\":\"text/plain\",\"body\":\"Thank you.\\n\"}";
	Text token = {0}, name = {0}, text = {0};
	if (outcome(wf_hook_start("decision", 8, 0, 0, reply, sizeof reply - 1), &token) < 0) return last_failure();
	add(&name, "ask");
	add(&text, "please approve ");
	unquoted(&text, &input, "Number");
	add(&text, " by /v1/hooks/");
	add_text(&text, &token);
	if (mail(&name, &text) < 0) return last_failure();
	for (int days = 3; days <= 4; days++) {
		Text decision = {0}, approved = {0}, out = {0};
		int64_t n = wf_signal_wait_s("decision", days * 86400000ll, decision.s, sizeof decision.s);
		if (n < 0 && n != -WF_TIMEOUT) return last_failure();
		if (n >= 0) {
			decision.n = n < (int64_t)sizeof decision.s ? (uint32_t)n : sizeof decision.s;
			field(&approved, &decision, "Approved");
			int yes = equal(&approved, "true");
			add(&out, yes ? "\"approved by " : "{\"message\":\"refused by ");
			unquoted(&out, &decision, "By");
			add(&out, yes ? "\"" : "\"}");
			return yes ? wf_complete(out.s, out.n) < 0 : (wf_fail(out.s, out.n), 1);
		}
		name.n = 0;
		add(&name, days == 3 ? "remind after 3" : "remind after 4");
		if (mail(&name, &text) < 0) return last_failure();
	}
	return wf_fail_s("{\"message\":\"nobody decided within seven days\"}");
}

/* report ends a body by a failure. Without fatal, it is tried again, after a time in seconds if one is given. */
static _Noreturn void report(int64_t status, int fatal, const Text *retry_after) {
	Text out = {0};
	char digits[4] = {(char)('0' + status / 100 % 10), (char)('0' + status / 10 % 10), (char)('0' + status % 10), 0};
	add(&out, "{\"message\":\"the server has answered ");
	add(&out, digits);
	add(&out, fatal ? "\",\"retryable\":false" : "\"");
	if (!fatal && retry_after->n > 0) {
		add(&out, ",\"retry_after_ms\":");
		add_text(&out, retry_after);
		add(&out, "000");
	}
	add(&out, "}");
	wf_step_end(1, out.s, out.n);
}

/* post is a step that sends JSON with the step's idempotency key. Its result is the id in the answer. */
static int64_t post(const char *name, const char *path, const Text *body, Text *id) {
	static const char opts[] = "{\"attempts\":6,\"timeout\":\"10s\"}";
	wf_handle h = wf_step_begin(name, wf_len(name), opts, sizeof opts - 1);
	if (h != 0) return outcome(h, id);
	Text request = {.n = 4}; /* the length of the head comes first */
	add(&request, "{\"method\":\"POST\",\"url\":\"");
	unquoted(&request, &input, "Service");
	add(&request, path);
	add(&request, "\",\"headers\":{\"Content-Type\":[\"application/json\"],\"Authorization\":[\"Bearer {{secret:SHOP}}\"],"
		"\"Idempotency-Key\":[");
	step_field(&request, "idempotency_key");
	add(&request, "]}}");
	uint32_t head = request.n - 4;
	__builtin_memcpy(request.s, &head, 4);
	add_text(&request, body);
	static Text answer;
	int64_t n = wf_fetch(request.s, request.n, answer.s, sizeof answer.s);
	if (n == -WF_DENIED) wf_step_end(1, "{\"message\":\"the service is not allowed\",\"retryable\":false}", 58);
	if (n < 0) { /* the network: what the host says of it is the report */
		n = wf_last(answer.s, sizeof answer.s);
		wf_step_end(1, answer.s, n < (int64_t)sizeof answer.s ? (uint32_t)n : sizeof answer.s);
	}
	answer.n = n < (int64_t)sizeof answer.s ? (uint32_t)n : sizeof answer.s;
	__builtin_memcpy(&head, answer.s, 4);
	static Text top, rest, status, after;
	add_n(&top, answer.s + 4, head);
	add_n(&rest, answer.s + 4 + head, answer.n - 4 - head);
	field(&status, &top, "status");
	int64_t code = 0;
	for (uint32_t i = 0; i < status.n; i++) code = 10 * code + status.s[i] - '0';
	for (uint32_t i = 0; i + 15 < top.n && after.n == 0; i++) { /* "Retry-After":["7"] */
		if (!begins(top.s + i, "\"Retry-After\":[\"")) continue;
		for (i += 16; i < top.n && top.s[i] >= '0' && top.s[i] <= '9'; i++) add_n(&after, top.s + i, 1);
	}
	if (after.n > 7) after.n = 0; /* months: the back-off is better, and far longer ones would be no instant */
	if (code >= 400) report(code, code < 500 && code != 408 && code != 425 && code != 429, &after);
	id->n = 0;
	field(id, &rest, "ID");
	wf_step_end(0, id->s, id->n);
}

/* order charges, then ships; if no courier takes it, the charge is given back. */
static int order(void) {
	static Text charge, parcel, refund, body, out;
	add(&body, "{\"cents\":");
	field(&body, &input, "Cents");
	add(&body, "}");
	if (post("charge", "/charges", &body, &charge) < 0) return last_failure();
	body.n = 0;
	add(&body, "{\"item\":");
	field(&body, &input, "Item");
	add(&body, "}");
	if (post("ship", "/parcels", &body, &parcel) < 0) {
		static char why[4096];
		int64_t n = wf_last(why, sizeof why);
		body.n = 0;
		add(&body, "{\"charge\":");
		add_text(&body, &charge);
		add(&body, "}");
		if (post("refund", "/refunds", &body, &refund) < 0) wf_log_s(WF_ERROR, "the refund has failed");
		wf_fail(why, n < (int64_t)sizeof why ? (uint32_t)n : sizeof why);
		return 1;
	}
	add(&out, "{\"Charge\":");
	add_text(&out, &charge);
	add(&out, ",\"Parcel\":");
	add_text(&out, &parcel);
	add(&out, "}");
	return wf_complete(out.s, out.n) < 0;
}

WF_EXPORT(workflow_run) int run(void) {
	Text info = {0}, workflow = {0};
	int64_t n = wf_input(input.s, sizeof input.s), m = wf_info(info.s, sizeof info.s);
	if (n > (int64_t)sizeof input.s || m > (int64_t)sizeof info.s) return wf_fail_s("{\"message\":\"the input is too long\"}");
	input.n = (uint32_t)n;
	info.n = (uint32_t)m;
	unquoted(&workflow, &info, "workflow");
	if (equal(&workflow, "drip")) return drip();
	if (equal(&workflow, "approval")) return approval();
	return order();
}

WF_EXPORT(workflow_describe) void describe(void) {
	wf_complete_s("{\"workflows\":[{\"name\":\"drip\"},{\"name\":\"approval\",\"signals\":[\"decision\"]},{\"name\":\"orders\"}],"
		"\"sdk\":\"c/1.0\"}");
}
