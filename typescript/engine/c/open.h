/* open.h: the handles that are open, and their promises.
 *
 * What a workflow calls returns a promise, which is settled when the host has the outcome of the call's handle. That is done here,
 * and not by the SDK: a replay of a long journal does little else. Such a promise has the properties handle and kind, and the
 * methods that the SDK has given in hooks(). It is not settled by functions, but by the engine: what settles it is JSON, and so no
 * promise itself.
 *
 * The table has open addressing and linear probing; what follows a slot that becomes free moves up, so that nothing marks it. */

/* These are in quickjs.c. */
JSValue wfhost_promise(JSContext *c, JSValueConst prototype);
int wfhost_add(JSContext *c, JSValueConst object, JSAtom name, JSValue value);
void wfhost_settle(JSContext *c, JSValueConst promise, JSValueConst by, JS_BOOL rejected);

/* What becomes of the text of a result. */
enum read { READ_JSON, READ_NOTHING, READ_TEXT };

struct open {
	int64_t handle; /* 0: the slot is free */
	JSValue promise, kind;
	JSValue body; /* of a step, or undefined */
	JSValue caller; /* the function that has made the call, and the place there: see wfhost_caller */
	int place;
	int32_t read;
};
static struct open *opened;
static uint32_t opened_slots, opened_count; /* the former is 0, or a power of two */

#define OPENED_LEAST 16

/* open_home scatters handles, which are 1, 2, 3 …: side by side they would be one cluster, through which open_take would go each
 * time. (Multiplicative hashing by the golden ratio, D. Knuth, The Art of Computer Programming 3, 6.4.) */
static uint32_t open_home(int64_t handle) { return (uint32_t)handle * 2654435769u >> (__builtin_clz(opened_slots) + 1); }

static struct open *open_find(int64_t handle) {
	if (opened_count == 0 || handle <= 0) return NULL; /* 0 is a free slot */
	for (uint32_t i = open_home(handle);; i = (i + 1) & (opened_slots - 1)) {
		if (opened[i].handle == handle) return &opened[i];
		if (opened[i].handle == 0) return NULL;
	}
}

static struct open *open_slot(int64_t handle) { /* a free one, for a handle that is not open */
	uint32_t i = open_home(handle);
	while (opened[i].handle != 0) i = (i + 1) & (opened_slots - 1);
	return &opened[i];
}

/* open_add returns the slot of a handle that was opened, or NULL if memory is out. */
static struct open *open_add(int64_t handle) {
	if (opened_count * 2 >= opened_slots) {
		uint32_t slots = opened_slots;
		struct open *old = opened, *more = js_mallocz(ctx, sizeof *more * (slots ? 2 * slots : OPENED_LEAST));
		if (!more) return NULL;
		opened = more;
		opened_slots = slots ? 2 * slots : OPENED_LEAST;
		for (uint32_t i = 0; i < slots; i++)
			if (old[i].handle) *open_slot(old[i].handle) = old[i];
		js_free(ctx, old);
	}
	opened_count++;
	struct open *o = open_slot(handle);
	o->handle = handle;
	return o;
}

/* open_take takes a handle out that is not open any more, and returns what was known of it. The caller frees its values. */
static struct open open_take(struct open *o) {
	struct open was = *o;
	uint32_t gap = (uint32_t)(o - opened), last = opened_slots - 1;
	for (uint32_t i = (gap + 1) & last; opened[i].handle != 0; i = (i + 1) & last) {
		if (((i - open_home(opened[i].handle)) & last) < ((i - gap) & last)) continue; /* it would stand before its home */
		opened[gap] = opened[i];
		gap = i;
	}
	opened[gap].handle = 0;
	opened_count--;
	return was;
}

static void open_free(struct open *o) {
	JS_FreeValue(ctx, o->promise);
	JS_FreeValue(ctx, o->kind);
	JS_FreeValue(ctx, o->body);
	JS_FreeValue(ctx, o->caller);
}

/* js_open(handle, kind, read, body) returns the promise of a handle. */
static JSAtom name_handle, name_kind;
static JSValue js_open(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int64_t h;
	int32_t read;
	if (JS_ToInt64(c, &h, argv[0]) || JS_ToInt32(c, &read, argv[2])) return JS_EXCEPTION;
	if (h <= 0 || open_find(h)) return JS_ThrowRangeError(c, "open: this is no handle that was given just now");
	JSValue p = wfhost_promise(c, hooks[PROMISE]);
	struct open *o = NULL;
	if (!JS_IsException(p) && wfhost_add(c, p, name_handle, JS_NewInt64(c, h)) == 0 &&
		wfhost_add(c, p, name_kind, JS_DupValue(c, argv[1])) == 0)
		o = open_add(h);
	if (!o) {
		JS_FreeValue(c, p);
		return JS_EXCEPTION;
	}
	o->promise = JS_DupValue(c, p);
	o->kind = JS_DupValue(c, argv[1]);
	o->body = JS_DupValue(c, argv[3]);
	o->read = read;
	o->caller = wfhost_caller(c, &o->place);
	return p;
}

/* js_opened returns the promises of the handles that are open, in no order. */
static JSValue js_opened(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	JSValue list = JS_NewArray(c);
	if (JS_IsException(list)) return list;
	uint32_t n = 0;
	for (uint32_t i = 0; i < opened_slots; i++) {
		if (opened[i].handle == 0) continue;
		if (JS_DefinePropertyValueUint32(c, list, n++, JS_DupValue(c, opened[i].promise), JS_PROP_C_W_E) >= 0) continue;
		JS_FreeValue(c, list);
		return JS_EXCEPTION;
	}
	return list;
}

/* js_place returns the place of the call of a handle, and undefined if it is not open. */
static JSValue js_place(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int64_t h;
	if (JS_ToInt64(c, &h, argv[0])) return JS_EXCEPTION;
	struct open *o = open_find(h);
	return o ? JS_NewFloat64(c, line_of(o->caller, o->place)) : JS_UNDEFINED;
}

/* js_refuse(handle, reason) rejects the promise of a handle, which is not open then. */
static JSValue js_refuse(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int64_t h;
	if (JS_ToInt64(c, &h, argv[0])) return JS_EXCEPTION;
	struct open *o = open_find(h);
	if (!o) return JS_UNDEFINED;
	struct open was = open_take(o);
	wfhost_settle(c, was.promise, argv[1], 1);
	open_free(&was);
	return JS_UNDEFINED;
}

/* parse reads JSON of n bytes, behind which is a zero. What is no UTF-8 becomes U+FFFD, as in texts. */
static JSValue parse(const char *b, size_t n) {
	JSValue v = JS_ParseJSON(ctx, b, n, "result");
	if (!JS_IsException(v)) return v;
	JS_FreeValue(ctx, JS_GetException(ctx));
	JSValue text = JS_NewStringLen(ctx, b, n);
	const char *clean = JS_IsException(text) ? NULL : JS_ToCStringLen(ctx, &n, text);
	if (clean) {
		v = JS_ParseJSON(ctx, clean, n, "result");
		JS_FreeCString(ctx, clean);
	}
	JS_FreeValue(ctx, text);
	return v;
}

/* resolved settles the promise of a handle by its outcome. */
static void resolved(int64_t h) {
	char small[1024], *b = small;
	int64_t n = wf_result(h, small, sizeof small - 1);
	struct open *o = open_find(h);
	if (!o) return;
	struct open was = open_take(o);
	JSValue v = was.read == READ_TEXT ? JS_NewString(ctx, "") : JS_UNDEFINED;
	if (n > 0 && was.read != READ_NOTHING) {
		if (n >= (int64_t)sizeof small) {
			b = must(js_malloc(ctx, (size_t)n + 1));
			wf_last(b, (uint32_t)n);
		}
		b[n] = 0; /* the parser needs it */
		JS_FreeValue(ctx, v);
		v = was.read == READ_TEXT ? JS_NewStringLen(ctx, b, (size_t)n) : parse(b, (size_t)n);
		if (b != small) js_free(ctx, b);
	}
	int failed = n < 0 || JS_IsException(v);
	if (failed) {
		JSValue cause = n < 0 ? JS_UNDEFINED : JS_GetException(ctx);
		JSValue args[] = {JS_DupValue(ctx, was.kind), JS_NewFloat64(ctx, line_of(was.caller, was.place)), cause};
		if (n < 0) JS_FreeValue(ctx, v);
		v = ask(ON_FAILED, 3, args);
	}
	wfhost_settle(ctx, was.promise, v, failed);
	JS_FreeValue(ctx, v);
	open_free(&was);
}
