/* shim.c: QuickJS as a guest of wfhost.
 *
 * The engine is one module for all programs. `wfhost build` adds a program to it as a segment of data: bytecode, which
 * _initialize loads. The object __wf has the calls of the ABI (abi/ABI.md) for the SDK, guest-sdk/js, which makes promises of
 * handles. The loop below runs the queue of jobs until it is empty, then waits for the next event of the host, and hands it to
 * the SDK. Where it waits, the C stack is that of the entry point alone: so it can be frozen there, and thawed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wasi/api.h>

#include "quickjs.h"
#include "workflow.h"
#include "arena.h"
#include "mapping.h"

#define countof(a) (sizeof(a) / sizeof *(a))

/* The version of __wf, for an SDK that comes with a project. It grows when something is added or means something else. */
#define INTERFACE 6

/* Of the stack of C, JavaScript gets all but this: what a call of the host and the engine's own leaves need. */
#define STACK_RESERVE (64 << 10)

/* Garbage is collected when the heap has grown by this since the program was loaded. A collection writes to all objects, so that
 * all of their pages become pages of the activation. */
#define HEAP_SLACK (8 << 20)

/* A place as one number has its column in the low bits. */
#define COLUMNS 4096

/* The place of the program in memory: a head, bytecode, and the names of its files. */
#define PROGRAM_BYTES (4 << 20)
struct head {
	uint32_t code, files; /* bytes */
};
static unsigned char program[PROGRAM_BYTES] __attribute__((aligned(16)));

static JSRuntime *rt;
static JSContext *ctx;

/* What the SDK gives to hooks(), in this order: functions, and what the promises of handles inherit from. */
enum hook { ON_RUN, ON_FAILED, ON_BODY, ON_CANCEL, ON_STUCK, ON_QUERY, ON_STEP, ON_DESCRIBE, ON_IDLE, PROMISE, HOOKS };
static JSValue hooks[HOOKS];

static void *must(void *p) {
	if (!p) {
		fputs("out of memory", stderr);
		abort();
	}
	return p;
}

/* text makes a string of what a call of the host answers that may be repeated. */
static JSValue text(int64_t (*call)(void *, uint32_t)) {
	char small[4096];
	int64_t n = call(small, sizeof small);
	if (n < 0) return JS_NULL;
	if (n <= (int64_t)sizeof small) return JS_NewStringLen(ctx, small, (size_t)n);
	char *b = js_malloc(ctx, (size_t)n);
	if (!b) return JS_EXCEPTION;
	call(b, (uint32_t)n);
	JSValue v = JS_NewStringLen(ctx, b, (size_t)n);
	js_free(ctx, b);
	return v;
}

enum { INPUT, INFO, LAST };
static JSValue js_text(JSContext *c, JSValueConst this, int argc, JSValueConst *argv, int what) {
	return text(what == INPUT ? wf_input : what == INFO ? wf_info : wf_last);
}

/* js_workflow returns the name of the run's workflow: the program's only argument, or nothing in a run that began before there
 * was one. info has it, too, but has to be made and read. */
static JSValue js_workflow(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	char name[1024];
	uint8_t *args[1];
	__wasi_size_t n, bytes;
	if (__wasi_args_sizes_get(&n, &bytes) || n != 1 || bytes > sizeof name || __wasi_args_get(args, (uint8_t *)name)) return JS_UNDEFINED;
	return *name ? JS_NewString(c, name) : JS_UNDEFINED;
}

static JSValue js_bytes(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) { /* the input as it is */
	int64_t n = wf_input(NULL, 0);
	uint8_t *b = js_malloc(c, n > 0 ? (size_t)n : 1);
	if (!b) return JS_EXCEPTION;
	wf_input(b, (uint32_t)n);
	JSValue v = JS_NewArrayBufferCopy(c, b, (size_t)n);
	js_free(c, b);
	return v;
}

static JSValue js_now(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	struct timespec t; /* in bodies it is real, and the call now is not */
	clock_gettime(CLOCK_REALTIME, &t);
	return JS_NewFloat64(c, (double)t.tv_sec * 1e3 + (double)(t.tv_nsec / 1000000));
}

static JSValue js_math_random(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	uint64_t r;
	wf_random(&r, sizeof r);
	return JS_NewFloat64(c, (double)(r >> 11) / 9007199254740992.0);
}

/* view returns the bytes of an ArrayBuffer or of a view of one; an exception is pending where it returns NULL. */
static uint8_t *view(JSContext *c, JSValueConst v, size_t *n) {
	size_t at, len, all, each;
	JSValue buffer = JS_GetTypedArrayBuffer(c, v, &at, &len, &each);
	if (JS_IsException(buffer)) {
		JS_FreeValue(c, JS_GetException(c));
		return JS_GetArrayBuffer(c, n, v);
	}
	uint8_t *p = JS_GetArrayBuffer(c, &all, buffer);
	JS_FreeValue(c, buffer);
	*n = len;
	return p ? p + at : NULL;
}

static JSValue js_fill(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) { /* with random bytes */
	size_t n;
	uint8_t *p = view(c, argv[0], &n);
	if (!p) return JS_EXCEPTION;
	wf_random(p, (uint32_t)n);
	return JS_DupValue(c, argv[0]);
}

static JSValue js_decode(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) { /* UTF-8 */
	size_t n;
	uint8_t *p = view(c, argv[0], &n);
	return p ? JS_NewStringLen(c, (char *)p, n) : JS_EXCEPTION;
}

/* js_class returns a number that values of the same class have, such as those of proxies; 0 for what is no object */
static JSValue js_class(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	return JS_NewInt32(c, JS_IsObject(argv[0]) ? (int)JS_GetClassID(argv[0]) : 0);
}

static JSValue js_encode(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	size_t n;
	const char *s = JS_ToCStringLen(c, &n, argv[0]);
	if (!s) return JS_EXCEPTION;
	JSValue v = JS_NewArrayBufferCopy(c, (const uint8_t *)s, n);
	JS_FreeCString(c, s);
	return v;
}

/* js_unique numbers the further uses of a name: poll, poll#2, poll#3. */
int wfhost_count(JSContext *c, JSValueConst map, JSValueConst key); /* in quickjs.c */
static JSValue names; /* a Map: how often a name was used */
static JSValue js_unique(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int n = wfhost_count(c, names, argv[0]);
	if (n < 0) return JS_EXCEPTION;
	if (n == 1) return JS_DupValue(c, argv[0]);
	size_t len;
	const char *name = JS_ToCStringLen(c, &len, argv[0]);
	char *numbered = name ? js_malloc(c, len + 16) : NULL;
	JSValue v = JS_EXCEPTION;
	if (numbered) {
		memcpy(numbered, name, len);
		v = JS_NewStringLen(c, numbered, len + (size_t)snprintf(numbered + len, 16, "#%d", n));
		js_free(c, numbered);
	}
	if (name) JS_FreeCString(c, name);
	return v;
}

#include "calls.h"

static int64_t child_of;
static int64_t child_id(void *p, uint32_t n) { return wf_child_id(child_of, p, n); }
static JSValue js_child_id(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	return JS_ToInt64(c, &child_of, argv[0]) ? JS_EXCEPTION : text(child_id);
}

/* js_fetch(head, body) makes a request, and returns the head and the body of the response, or a code. */
static JSValue js_fetch(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	size_t head, body;
	const char *h = JS_ToCStringLen(c, &head, argv[0]);
	if (!h) return JS_EXCEPTION;
	uint8_t *b = view(c, argv[1], &body);
	char *request = b ? js_malloc(c, 4 + head + body) : NULL;
	if (!request) {
		JS_FreeCString(c, h);
		return JS_EXCEPTION;
	}
	uint32_t n = (uint32_t)head;
	memcpy(request, &n, 4);
	memcpy(request + 4, h, head);
	memcpy(request + 4 + head, b, body);
	JS_FreeCString(c, h);
	int64_t got = wf_fetch(request, (uint32_t)(4 + head + body), NULL, 0);
	js_free(c, request);
	if (got < 0) return JS_NewInt64(c, got);
	char *response = js_malloc(c, (size_t)got);
	if (!response) return JS_EXCEPTION;
	wf_last(response, (uint32_t)got);
	memcpy(&n, response, 4);
	JSValue pair = JS_NewArray(c);
	JS_SetPropertyUint32(c, pair, 0, JS_NewStringLen(c, response + 4, n));
	JS_SetPropertyUint32(c, pair, 1, JS_NewArrayBufferCopy(c, (uint8_t *)response + 4 + n, (size_t)got - 4 - n));
	js_free(c, response);
	return pair;
}

/* These are in quickjs.c. */
JSValue wfhost_caller(JSContext *c, int *pc);
int wfhost_line(JSContext *c, JSValueConst function, int pc, int *column);

/* line_of returns a place in a function as a number, which js_where turns into a text. */
static double line_of(JSValueConst function, int pc) {
	int column = 0, line = wfhost_line(ctx, function, pc, &column);
	return (double)line * COLUMNS + (column < COLUMNS ? column : COLUMNS - 1);
}

/* js_caller returns the place of the caller of the SDK. */
static JSValue js_caller(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int pc = 0;
	JSValue function = wfhost_caller(c, &pc);
	double line = line_of(function, pc);
	JS_FreeValue(c, function);
	return JS_NewFloat64(c, line);
}

static JSValue js_where(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	int64_t n;
	if (JS_ToInt64(c, &n, argv[0])) return JS_EXCEPTION;
	int line = (int)(n / COLUMNS);
	const char *file = wfhost_file(&line);
	char where[512];
	if (!file) return JS_NewString(c, "");
	snprintf(where, sizeof where, "%s:%d:%d", file, line, (int)(n % COLUMNS));
	return JS_NewString(c, where);
}

static JSValue js_pause(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) { /* milliseconds, in bodies */
	int64_t ms;
	if (JS_ToInt64(c, &ms, argv[0])) return JS_EXCEPTION;
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
	return JS_UNDEFINED;
}

#include "warm.h"

static JSValue js_hooks(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	if (argc != HOOKS) return JS_ThrowTypeError(c, "this wfhost needs another version of @wfhost/workflow");
	for (int i = 0; i < argc; i++) {
		JS_FreeValue(c, hooks[i]);
		hooks[i] = JS_DupValue(c, argv[i]);
	}
	static const char *const of_promise[] = {"handle", "kind"}; /* see js_open */
	warm_shapes(hooks[PROMISE], JS_PROP_C_W_E, countof(of_promise), of_promise);
	return JS_UNDEFINED;
}

/* die ends the module with the pending exception. Its last words are what the host shows: three lines, so the message, and the two
 * innermost calls that are not the SDK's. */
_Noreturn static void die(void) {
	JSValue e = JS_GetException(ctx), stack = JS_UNDEFINED;
	if (JS_IsObject(e)) stack = JS_GetPropertyStr(ctx, e, "stack");
	const char *m = JS_ToCString(ctx, e), *s = JS_IsString(stack) ? JS_ToCString(ctx, stack) : NULL;
	fprintf(stderr, "%s\n", m ? m : "an exception that has no text");
	for (int frames = 0; s && *s && frames < 2;) {
		int n = (int)strcspn(s, "\n");
		const char *sdk = strstr(s, "(@wfhost/workflow/");
		if (!sdk || sdk - s >= n) {
			fprintf(stderr, "%.*s\n", n, s);
			frames++;
		}
		s += n;
		s += *s == '\n';
	}
	fflush(stderr);
	abort();
}

/* ask calls a hook, and frees its arguments. */
static JSValue ask(enum hook h, int argc, JSValue *argv) {
	if (JS_IsUndefined(hooks[h])) {
		fputs("the program does not import @wfhost/workflow, so that it has no workflow", stderr);
		abort();
	}
	JSValue r = JS_Call(ctx, hooks[h], JS_UNDEFINED, argc, (JSValueConst *)argv);
	if (JS_IsException(r)) die();
	for (int i = 0; i < argc; i++) JS_FreeValue(ctx, argv[i]);
	return r;
}

static int call_hook(enum hook h, int argc, JSValue *argv) {
	JSValue r = ask(h, argc, argv);
	int32_t n = 0;
	JS_ToInt32(ctx, &n, r);
	JS_FreeValue(ctx, r);
	return n;
}

static void drain(void) {
	JSContext *c;
	int r;
	while ((r = JS_ExecutePendingJob(rt, &c)) > 0) {
	}
	if (r < 0) die();
}

/* idle runs jobs until none is left. It returns 0 if the workflow goes on, else 1 and its exit code. */
static int idle(void) {
	drain();
	return call_hook(ON_IDLE, 0, NULL);
}

#include "open.h"

/* body executes the body of a step; it ends in a call that does not return. */
static void body(int64_t h) {
	struct open *o = open_find(h);
	JSValue args[] = {o ? JS_DupValue(ctx, o->body) : JS_UNDEFINED};
	call_hook(ON_BODY, 1, args);
	while (idle() == 0) {
	}
	static const char stuck[] = "{\"message\":\"the body waits for a promise that nothing can resolve\",\"type\":\"Deadlock\","
		"\"retryable\":false}";
	wf_step_end(1, stuck, sizeof stuck - 1);
}

/* Kinds of events. */
enum { RESOLVED, RUN_BODY, CANCELLED, DUMP, QUERY };

/* loop hands over events until the workflow has ended, and returns its exit code. It begins with the wait: a run that is thawed
 * there has done nothing else than one that has not been frozen. */
static int loop(void) {
	for (;;) {
		int64_t e = wf_wait_event(-1);
		if (e == -WF_FREEZE) return 0;
		switch (e > 0 ? e & 7 : -1) {
		case RESOLVED: resolved(e >> 3); break;
		case RUN_BODY: body(e >> 3); break;
		case CANCELLED: call_hook(ON_CANCEL, 0, NULL); break;
		case DUMP: call_hook(ON_STUCK, 0, NULL); break;
		case QUERY: call_hook(ON_QUERY, 0, NULL); break;
		}
		int done = idle();
		if (done) return done - 1;
	}
}

WF_EXPORT(workflow_run) int workflow_run(void) {
	JS_UpdateStackTop(rt);
	call_hook(ON_RUN, 0, NULL);
	int done = idle();
	return done ? done - 1 : loop();
}

WF_EXPORT(workflow_thaw) int workflow_thaw(void) { return loop(); }

WF_EXPORT(workflow_step) int workflow_step(void) {
	JS_UpdateStackTop(rt);
	call_hook(ON_STEP, 0, NULL);
	int done;
	while ((done = idle()) == 0) {
	}
	return done - 1;
}

WF_EXPORT(workflow_describe) void workflow_describe(void) {
	JS_UpdateStackTop(rt);
	call_hook(ON_DESCRIBE, 0, NULL);
}

static void function(JSValue o, const char *name, int argc, JSCFunction *f) {
	JS_SetPropertyStr(ctx, o, name, JS_NewCFunction(ctx, f, name, argc));
}

/* provide defines __wf, and Math.random by the journal. */
static void provide(void) {
	JSValue global = JS_GetGlobalObject(ctx), o = JS_NewObject(ctx), math = JS_GetPropertyStr(ctx, global, "Math");
	function(o, "workflow", 0, js_workflow);
	function(o, "bytes", 0, js_bytes);
	function(o, "now", 0, js_now);
	function(o, "fill", 1, js_fill);
	function(o, "decode", 1, js_decode);
	function(o, "encode", 1, js_encode);
	function(o, "classOf", 1, js_class);
	function(o, "childId", 1, js_child_id);
	function(o, "fetch", 2, js_fetch);
	function(o, "caller", 0, js_caller);
	function(o, "unique", 1, js_unique);
	function(o, "where", 1, js_where);
	function(o, "pause", 1, js_pause);
	function(o, "hooks", HOOKS, js_hooks);
	function(o, "open", 4, js_open);
	function(o, "opened", 0, js_opened);
	function(o, "place", 1, js_place);
	function(o, "refuse", 2, js_refuse);
	name_handle = JS_NewAtom(ctx, "handle");
	name_kind = JS_NewAtom(ctx, "kind");
	static const char *const texts[] = {[INPUT] = "input", [INFO] = "info", [LAST] = "last"};
	for (int i = 0; i < (int)countof(texts); i++)
		JS_SetPropertyStr(ctx, o, texts[i], JS_NewCFunctionMagic(ctx, js_text, texts[i], 0, JS_CFUNC_generic_magic, i));
	for (int i = 0; i < (int)countof(calls); i++)
		JS_SetPropertyStr(ctx, o, calls[i].name, JS_NewCFunctionMagic(ctx, js_call, calls[i].name, (int)strlen(calls[i].args),
			JS_CFUNC_generic_magic, i));
	JS_SetPropertyStr(ctx, o, "interface", JS_NewInt32(ctx, INTERFACE));
	JS_DefinePropertyValueStr(ctx, global, "__wf", o, 0);
	JS_SetPropertyStr(ctx, math, "random", JS_NewCFunction(ctx, js_math_random, "random", 0));
	JS_FreeValue(ctx, math);
	JS_FreeValue(ctx, global);
}

/* rejection tells the SDK of promises that were rejected without a handler, and of those that got one later. */
static JSValue on_rejection;
static void rejection(JSContext *c, JSValueConst promise, JSValueConst reason, JS_BOOL handled, void *opaque) {
	if (JS_IsUndefined(on_rejection)) return;
	JSValueConst args[] = {promise, reason, JS_NewBool(c, handled)};
	JSValue r = JS_Call(c, on_rejection, JS_UNDEFINED, 3, args);
	if (JS_IsException(r)) JS_FreeValue(c, JS_GetException(c));
	JS_FreeValue(c, r);
}
static JSValue js_rejections(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	on_rejection = JS_DupValue(c, argv[0]);
	return JS_UNDEFINED;
}

/* keep says that the SDK has been loaded, and the program begins. */
void wfhost_keep(JSRuntime *rt);
static JSValue js_keep(JSContext *c, JSValueConst this, int argc, JSValueConst *argv) {
	wfhost_keep(rt);
	return JS_UNDEFINED;
}

extern unsigned char __global_base; /* where the data begins, and the stack ends, which lies before it */

/* engine makes the engine without WeakRef and FinalizationRegistry, in which one could see when garbage is collected. */
static void engine(void) {
	rt = must(JS_NewRuntime2(&arena_functions, NULL));
	JS_SetMaxStackSize(rt, (size_t)&__global_base - STACK_RESERVE);
	JS_SetStripInfo(rt, JS_STRIP_SOURCE);
	ctx = must(JS_NewContextRaw(rt));
	JS_AddIntrinsicBaseObjects(ctx);
	JS_AddIntrinsicDate(ctx);
	JS_AddIntrinsicEval(ctx);
	JS_AddIntrinsicStringNormalize(ctx);
	JS_AddIntrinsicRegExp(ctx);
	JS_AddIntrinsicJSON(ctx);
	JS_AddIntrinsicProxy(ctx);
	JS_AddIntrinsicMapSet(ctx);
	JS_AddIntrinsicTypedArrays(ctx);
	JS_AddIntrinsicPromise(ctx);
	for (int i = 0; i < HOOKS; i++) hooks[i] = JS_UNDEFINED;
	on_rejection = JS_UNDEFINED;
	JSValue global = JS_GetGlobalObject(ctx), map = JS_GetPropertyStr(ctx, global, "Map");
	names = JS_CallConstructor(ctx, map, 0, NULL);
	JS_FreeValue(ctx, map);
	JS_SetHostPromiseRejectionTracker(rt, rejection, NULL);
	provide();
	JSValue o = JS_GetPropertyStr(ctx, global, "__wf");
	function(o, "rejections", 1, js_rejections);
	function(o, "keep", 0, js_keep);
	JS_FreeValue(ctx, o);
	JS_FreeValue(ctx, global);
	warm();
}

void wfhost_keep_loaded(JSRuntime *rt);

/* boot loads the program, and leaves the memory that activations start from. */
__attribute__((constructor)) static void boot(void) {
	struct head head;
	memcpy(&head, program, sizeof head);
	engine();
	if (head.code == 0) return; /* the engine alone, which compiles */
	char *files = must(js_malloc(ctx, head.files + 1));
	memcpy(files, program + sizeof head + head.code, head.files);
	files[head.files] = 0;
	place_names(files, head.files);
	JSValue r = JS_ReadObject(ctx, program + sizeof head, head.code, JS_READ_OBJ_BYTECODE);
	if (!JS_IsException(r)) r = JS_EvalFunction(ctx, r);
	if (JS_IsException(r)) die();
	JS_FreeValue(ctx, r);
	drain();
	JS_RunGC(rt);
	memset(program, 0, sizeof head + head.code + head.files); /* zeros take no room */
	JSMemoryUsage use;
	JS_ComputeMemoryUsage(rt, &use);
	JS_SetGCThreshold(rt, (size_t)use.malloc_size + HEAP_SLACK);
	wfhost_keep_loaded(rt);
	arena_freeze();
}

/* For builds: where a program goes, and how large it may be. */
WF_EXPORT(wfhost_program) void *wfhost_program(void) { return program; }
WF_EXPORT(wfhost_program_bytes) uint32_t wfhost_program_bytes(void) { return PROGRAM_BYTES - sizeof(struct head); }
WF_EXPORT(wfhost_allocate) void *wfhost_allocate(uint32_t n) { return js_malloc(ctx, n); }

/* wfhost_compile compiles a script with count entries of a table of places, as strict code: see wfhost_sloppy. It returns the
 * address of the bytecode behind its length, 4 bytes; or 0, and an exception that wfhost_error has. The script ends with a zero
 * byte. */
WF_EXPORT(wfhost_compile) void *wfhost_compile(const char *script, uint32_t n, const struct place *table, uint32_t count) {
	places = table;
	place_count = count;
	JSValue f = JS_Eval(ctx, script, n, "workflow.js", JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_STRICT | JS_EVAL_FLAG_COMPILE_ONLY);
	if (JS_IsException(f)) return NULL;
	size_t size;
	uint8_t *code = JS_WriteObject(ctx, &size, f, JS_WRITE_OBJ_BYTECODE);
	char *out = code ? js_malloc(ctx, 4 + size) : NULL;
	if (!out) return NULL;
	uint32_t length = (uint32_t)size;
	memcpy(out, &length, 4);
	memcpy(out + 4, code, size);
	return out;
}

/* wfhost_error returns the text of the exception of a compilation, with a zero byte. */
WF_EXPORT(wfhost_error) const char *wfhost_error(void) {
	JSValue e = JS_GetException(ctx);
	const char *s = JS_ToCString(ctx, e);
	return s ? s : "out of memory";
}
