/* A workflow in C: a step, three days of sleep, and a result made of the step's. */
#include "../../guest-sdk/c/workflow.h"

WF_EXPORT(workflow_run) int run(void) {
	char name[64];
	int64_t n = wf_input(name, sizeof name);
	if (n < 0 || n > (int64_t)sizeof name) return wf_fail_s("{\"message\":\"the name is too long\"}");

	wf_handle step = wf_step_begin_s("greet");
	if (step == 0) { /* the copy that executes the body */
		char text[80] = "\"hello ";
		uint32_t at = 7;
		for (int64_t i = 0; i < n; i++)
			if (name[i] != '"') text[at++] = name[i];
		text[at++] = '"';
		wf_step_end(0, text, at);
	}
	if (step < 0 || wf_await(&step, 1) != step) return wf_fail_s("{\"message\":\"greet cannot begin\"}");

	if (wf_sleep_text_s("three days", "3d") < 0) return wf_fail_s("{\"message\":\"cannot sleep\"}");
	wf_log_s(WF_INFO, "slept three days");

	char greeting[80];
	int64_t len = wf_result(step, greeting, sizeof greeting);
	if (len < 0) return wf_fail_s("{\"message\":\"greet failed\"}");
	return wf_complete(greeting, (uint32_t)len) < 0;
}
