/* Texts, and the minimal JSON that the stories need. */
#include "../workflow.h"

/* Text is a text that grows up to its capacity; the rest is cut off. */
typedef struct {
	uint32_t n;
	char s[2048];
} Text;

static void add_n(Text *t, const char *s, uint32_t n) {
	for (uint32_t i = 0; i < n && t->n < sizeof t->s; i++) t->s[t->n++] = s[i];
}

static void add(Text *t, const char *s) { add_n(t, s, wf_len(s)); }

static void add_number(Text *t, int64_t n) {
	char digits[20];
	uint32_t at = sizeof digits;
	uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
	do digits[--at] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (n < 0) add(t, "-");
	add_n(t, digits + at, (uint32_t)sizeof digits - at);
}

static void add_quoted(Text *t, const char *s) {
	add(t, "\"");
	add(t, s);
	add(t, "\"");
}

/* add_inside adds the contents of a JSON string without its quotes. */
static void add_inside(Text *t, const Text *string) {
	if (string->n >= 2) add_n(t, string->s + 1, string->n - 2);
}

static int64_t number(const Text *t) {
	uint32_t negative = t->n > 0 && t->s[0] == '-';
	int64_t n = 0;
	for (uint32_t i = negative; i < t->n && t->s[i] >= '0' && t->s[i] <= '9'; i++) n = 10 * n + t->s[i] - '0';
	return negative ? -n : n;
}

static int is(const Text *t, const char *s) {
	uint32_t n = wf_len(s), i = 0;
	while (i < n && i < t->n && t->s[i] == s[i]) i++;
	return i == n && t->n == n;
}

/* field returns the value of a field of an object; empty if there is none. */
static Text field(const Text *object, const char *key) {
	Text t = {0};
	uint32_t n;
	const char *value = wf_field(object->s, object->n, key, &n);
	add_n(&t, value, n);
	return t;
}

/* got sets the length of t, into which a call has written its answer. After an error it reads the JSON. It returns the answer. */
static int64_t got(Text *t, int64_t answer) {
	int64_t n = answer < 0 ? wf_last(t->s, sizeof t->s) : answer;
	t->n = n < (int64_t)sizeof t->s ? (uint32_t)n : sizeof t->s;
	return answer;
}
