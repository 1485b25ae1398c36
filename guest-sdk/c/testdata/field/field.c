/* A workflow whose input is a key, a line break and JSON. Its result is the field of that key, or nothing. */
#include "../../workflow.h"

WF_EXPORT(workflow_run) int run(void) {
	static char in[1024];
	int64_t n = wf_input(in, sizeof in);
	uint32_t end = 0, len;
	while (end < n && in[end] != '\n') end++;
	in[end++] = 0;
	const char *value = wf_field(in + end, (uint32_t)n - end, in, &len);
	return wf_complete(value, len) < 0;
}
