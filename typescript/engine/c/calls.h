/* calls.h: the calls of the host, for JavaScript. */

/* One function for all of them, whose arguments are texts and numbers in the order of the ABI. */
enum call {
	SLEEP, SLEEP_UNTIL, SLEEP_TEXT, STEP, STEP_BEGIN, STEP_END, SIGNAL, SEND, CHILD, HOOK, CANCEL, COMPLETE, FAIL, EMIT, ATTRIBUTE,
	POLICY, CONTINUE, VERSION, UPDATE_REPLY, QUERY_REPLY, LOG
};
static const struct {
	const char *name;
	const char *args; /* s a text, n a number */
} calls[] = {
	[SLEEP] = {"sleep", "sn"}, [SLEEP_UNTIL] = {"sleepUntil", "sn"}, [SLEEP_TEXT] = {"sleepText", "ss"}, [STEP] = {"step", "ssss"},
	[STEP_BEGIN] = {"stepBegin", "ss"}, [STEP_END] = {"stepEnd", "ns"}, [SIGNAL] = {"signal", "sn"}, [SEND] = {"send", "ssss"},
	[CHILD] = {"child", "ssss"}, [HOOK] = {"hook", "sss"}, [CANCEL] = {"cancel", "n"}, [COMPLETE] = {"complete", "s"},
	[FAIL] = {"fail", "s"}, [EMIT] = {"emit", "ss"}, [ATTRIBUTE] = {"attribute", "ss"}, [POLICY] = {"policy", "n"},
	[CONTINUE] = {"continueAsNew", "ss"}, [VERSION] = {"version", "sn"}, [UPDATE_REPLY] = {"updateReply", "nns"},
	[QUERY_REPLY] = {"queryReply", "ns"}, [LOG] = {"log", "ns"},
};

static int64_t perform(enum call op, const char **s, const uint32_t *l, const int64_t *n) {
	switch (op) {
	case SLEEP: return wf_sleep_start(s[0], l[0], n[0]);
	case SLEEP_UNTIL: return wf_sleep_until_start(s[0], l[0], n[0]);
	case SLEEP_TEXT: return wf_sleep_text_start(s[0], l[0], s[1], l[1]);
	case STEP: return wf_step_start(s[0], l[0], s[1], l[1], s[2], l[2], s[3], l[3]);
	case STEP_BEGIN: return wf_step_begin(s[0], l[0], s[1], l[1]);
	case STEP_END: wf_step_end((int32_t)n[0], s[0], l[0]);
	case SIGNAL: return wf_signal_start(s[0], l[0], n[0]);
	case SEND: return wf_signal_send(s[0], l[0], s[1], l[1], s[2], l[2], s[3], l[3]);
	case CHILD: return wf_child_start(s[0], l[0], s[1], l[1], s[2], l[2], s[3], l[3]);
	case HOOK: return wf_hook_start(s[0], l[0], s[1], l[1], s[2], l[2]);
	case CANCEL: return wf_cancel(n[0]);
	case COMPLETE: return wf_complete(s[0], l[0]);
	case FAIL: return wf_fail(s[0], l[0]);
	case EMIT: return wf_emit(s[0], l[0], s[1], l[1]);
	case ATTRIBUTE: return wf_set_attribute(s[0], l[0], s[1], l[1]);
	case POLICY: return wf_cancel_policy((int32_t)n[0]);
	case CONTINUE: wf_continue_as_new(s[0], l[0], s[1], l[1]);
	case VERSION: return wf_version(s[0], l[0], n[0]);
	case UPDATE_REPLY: return wf_update_reply(n[0], (int32_t)n[1], s[0], l[0]);
	case QUERY_REPLY: wf_query_reply((int32_t)n[0], s[0], l[0]);
	case LOG: return wf_log((int32_t)n[0], s[0], l[0]);
	}
	return -WF_INVALID_ARGUMENT;
}

static JSValue js_call(JSContext *c, JSValueConst this, int argc, JSValueConst *argv, int op) {
	const char *s[4] = {0};
	uint32_t l[4] = {0};
	int64_t n[4] = {0}, r = 0;
	int texts = 0, numbers = 0, bad = 0;
	for (const char *a = calls[op].args; *a && !bad; a++, argv++) {
		if (*a == 'n') {
			bad = JS_ToInt64(c, &n[numbers++], *argv);
		} else {
			size_t len;
			s[texts] = JS_ToCStringLen(c, &len, *argv);
			bad = !s[texts];
			l[texts++] = (uint32_t)len;
		}
	}
	if (!bad) r = perform((enum call)op, s, l, n);
	for (int i = 0; i < texts; i++)
		if (s[i]) JS_FreeCString(c, s[i]);
	return bad ? JS_EXCEPTION : JS_NewInt64(c, r);
}
