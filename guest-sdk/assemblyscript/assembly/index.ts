// Durable workflows for wfhost in AssemblyScript.
//
//   import * as wf from "./wfhost";
//   import * as json from "./wfhost/json";
//   export { workflow_run, workflow_step, workflow_describe } from "./wfhost";
//
//   wf.workflow("welcome", (input) => {
//     const greeting = wf.body("greet", "Ada", (name) => wf.ok(json.quote("hello " + name))).wait();
//     wf.sleep("three days", "3d").wait();
//     return greeting;
//   });
//
// AssemblyScript has neither closures nor promises: functions start calls, and wait() returns when they are done, after a year if
// need be, with the same memory. Data for a function beside its argument must be in global variables.

import * as json from "./json";
import * as sys from "./sys";

/** Codes of errors: section 10 of abi/ABI.md. */
export namespace Code {
  export const OK: i32 = 0;
  export const INVALID_ARGUMENT: i32 = 1;
  export const DUPLICATE_NAME: i32 = 2;
  export const INVALID_DURATION: i32 = 3;
  export const INVALID_DATE: i32 = 4;
  export const NOT_HERE: i32 = 5;
  export const STEP_FAILED: i32 = 6;
  export const TIMEOUT: i32 = 7;
  export const CANCELLED: i32 = 8;
  export const TOO_LARGE: i32 = 9;
  export const UNKNOWN_HANDLE: i32 = 10;
  export const UNKNOWN_HANDLER: i32 = 11;
  export const DENIED: i32 = 12;
  export const LIMIT: i32 = 13;
  export const CHILD_FAILED: i32 = 14;
  export const CONFLICT: i32 = 15;
  export const QUERY: i32 = 17;
}

const names: string[] = ["OK", "INVALID_ARGUMENT", "DUPLICATE_NAME", "INVALID_DURATION", "INVALID_DATE", "NOT_HERE", "STEP_FAILED",
  "TIMEOUT", "CANCELLED", "TOO_LARGE", "UNKNOWN_HANDLE", "UNKNOWN_HANDLER", "DENIED", "LIMIT", "CHILD_FAILED", "CONFLICT", "PENDING",
  "QUERY", "RUN_BODY", "FREEZE"];

/** A result, or an error. */
export class Outcome {
  /** bytes has the result, or the error as JSON. */
  constructor(public code: i32, public bytes: ArrayBuffer) {}
  get ok(): bool { return this.code == Code.OK; }
  /** The payload, or the error, verbatim. */
  get raw(): string { return String.UTF8.decode(this.bytes); }
  /** Decodes a payload that is a JSON string. */
  get text(): string { return json.text(this.raw); }
  /** Decodes a payload that is a JSON integer. */
  get number(): i64 { return json.number(this.raw); }
  /** The name of the code. */
  get name(): string { return this.code >= 0 && this.code < names.length ? names[this.code] : "UNKNOWN"; }
  // For errors only.
  get message(): string { return json.text(json.field(this.raw, "message")); }
  get kind(): string { return json.text(json.field(this.raw, "kind")); }
  get attempts(): i64 { return json.number(json.field(this.raw, "attempts")); }
}

/** A result that is JSON or any other text. */
export function ok(payload: string): Outcome { return new Outcome(Code.OK, enc(payload)); }
/** A result of bytes. */
export function okBytes(payload: ArrayBuffer): Outcome { return new Outcome(Code.OK, payload); }
/** The maximum length of a failure's message, in bytes. A host accepts errors of at most 1 MiB, and JSON may need six bytes for
 *  one. */
const MAX_MESSAGE: i32 = 64 << 10;

/** Returns a message. It truncates a message over MAX_MESSAGE between characters, and appends "…". */
function bounded(message: string): string {
  if (String.UTF8.byteLength(message) <= MAX_MESSAGE) return message;
  const b = enc(message);
  let end = MAX_MESSAGE;
  while (end > 0 && (load<u8>(ptr(b) + end) & 0xc0) == 0x80) end--;
  return String.UTF8.decode(b.slice(0, end)) + "…";
}

/** A failure, with the first 64 KiB of the message. The step is retried after it, unless retryable is false; retryAfter, in
 *  milliseconds, replaces the delay. */
export function failure(message: string, retryable: bool = true, retryAfter: i64 = -1, type: string = ""): Outcome {
  let s = "{\"message\":" + json.quote(bounded(message));
  if (type != "") s += ",\"type\":" + json.quote(type);
  if (!retryable) s += ",\"retryable\":false";
  if (retryAfter >= 0) s += ",\"retry_after_ms\":" + retryAfter.toString();
  return new Outcome(Code.STEP_FAILED, enc(s + "}"));
}

function enc(s: string): ArrayBuffer { return String.UTF8.encode(s); }
function ptr(b: ArrayBuffer): usize { return changetype<usize>(b); }

function last(): ArrayBuffer {
  const b = new ArrayBuffer(<i32>sys.last(0, 0));
  sys.last(ptr(b), b.byteLength);
  return b;
}

function outcomeOf(n: i64): Outcome {
  if (n < 0) return new Outcome(<i32>-n, last());
  return new Outcome(Code.OK, n > 0 ? last() : new ArrayBuffer(0));
}

/** The run's input, or in a step function the step's. */
export function inputBytes(): ArrayBuffer {
  const b = new ArrayBuffer(<i32>sys.input(0, 0));
  sys.input(ptr(b), b.byteLength);
  return b;
}
export function input(): string { return String.UTF8.decode(inputBytes()); }
/** JSON about the run: section 3 of abi/ABI.md. */
export function info(): string {
  const b = new ArrayBuffer(<i32>sys.info(0, 0));
  sys.info(ptr(b), b.byteLength);
  return String.UTF8.decode(b);
}
export function runID(): string { return json.text(json.field(info(), "run_id")); }
/** The run's clock, in milliseconds since 1970. It moves only while the workflow waits. */
export function now(): i64 { return sys.now(); }
/** Random bytes, the same on each replay. */
export function random(n: i32): Uint8Array {
  const b = new Uint8Array(n);
  sys.random(b.dataStart, n);
  return b;
}

/** The step of a body or step function. */
export class StepInfo {
  name: string = "";
  handler: string = "";
  /** From 1. */
  attempt: i64 = 0;
  /** Maximum number; 0 = unlimited. */
  attempts: i64 = 0;
  /** The same at every attempt: pass it to the service that the step changes. */
  idempotencyKey: string = "";
}
export function stepInfo(): StepInfo {
  const s = json.field(info(), "step"), i = new StepInfo();
  i.name = json.text(json.field(s, "name"));
  i.handler = json.text(json.field(s, "handler"));
  i.attempt = json.number(json.field(s, "attempt"));
  i.attempts = json.number(json.field(s, "attempts"));
  i.idempotencyKey = json.text(json.field(s, "idempotency_key"));
  return i;
}

const open = new Map<i64, Call>(); // calls in progress, in the order of their starts
let cancelAsked = false;

/** Reports whether a cancel of the run was requested, under the cooperative policy. */
export function cancelled(): bool { return cancelAsked; }

/** A started call: a sleep, a step, a wait for a signal, a child. */
export class Call {
  private known: Outcome | null = null;
  constructor(public handle: i64) {
    if (handle < 0) this.known = outcomeOf(handle);
    else open.set(handle, this);
  }
  get done(): bool { return this.known != null; }
  /** The outcome of a call that is done. A refused call is done at once. */
  get outcome(): Outcome { return this.known!; }
  /** Waits until the call is done. */
  wait(): Outcome {
    while (!this.done) step_();
    return this.known!;
  }
  /** Withdraws the call unless it is done: a signal stays for the next wait. A step in progress continues. */
  withdraw(): void {
    if (this.done) return;
    sys.cancel(this.handle);
    this.resolve(new Outcome(Code.CANCELLED, enc("{\"code\":\"CANCELLED\",\"message\":\"withdrawn\"}")));
  }
  /** @internal */
  resolve(o: Outcome): void {
    open.delete(this.handle);
    this.known = o;
  }
}

/** Waits for the next outcome. */
function step_(): void {
  const h = sys.await_(0, 0);
  if (h == -Code.QUERY) answer();
  if (h == -Code.CANCELLED) {
    cancelAsked = true;
    const all = open.values();
    for (let i = 0; i < all.length; i++) {
      if (sys.cancel(all[i].handle) == 0) {
        all[i].resolve(new Outcome(Code.CANCELLED, enc("{\"code\":\"CANCELLED\",\"message\":\"the run was asked to cancel\"}")));
      }
    }
    return;
  }
  if (h < 0) throw new Error("await: " + String.UTF8.decode(last()));
  if (open.has(h)) open.get(h).resolve(outcomeOf(sys.result(h, 0, 0)));
}

/** Waits for the first of some calls, withdraws the rest, and returns the index of the first. */
export function race(calls: Call[]): i32 {
  const won = first(calls);
  for (let i = 0; i < calls.length; i++) if (i != won) calls[i].withdraw();
  return won;
}
/** Waits for the first of some calls and returns its index. */
export function first(calls: Call[]): i32 {
  while (true) {
    for (let i = 0; i < calls.length; i++) if (calls[i].done) return i;
    step_();
  }
}
/** Waits for all of the calls. */
export function all(calls: Call[]): Outcome[] {
  const list: Outcome[] = [];
  for (let i = 0; i < calls.length; i++) list.push(calls[i].wait());
  return list;
}

/** Sleeps for a duration in text ("1h30m", "7d", "PT5M"), or until an instant of RFC 3339. */
export function sleep(name: string, text: string): Call {
  const a = enc(name), b = enc(text);
  return new Call(sys.sleep_text_start(ptr(a), a.byteLength, ptr(b), b.byteLength));
}
export function sleepMs(name: string, ms: i64): Call {
  const a = enc(name);
  return new Call(sys.sleep_start(ptr(a), a.byteLength, ms));
}
/** Sleeps until an instant, in milliseconds since 1970. */
export function sleepUntil(name: string, unixMs: i64): Call {
  const a = enc(name);
  return new Call(sys.sleep_until_start(ptr(a), a.byteLength, unixMs));
}

/** Starts a step of a handler: a step function of this module by its name, or a handler of the host by "host/" and its name.
 *  Options are JSON: section 5 of abi/ABI.md. */
export function step(name: string, handler: string, payload: string, options: string = ""): Call {
  const a = enc(name), b = enc(handler), c = enc(payload), d = enc(options);
  return new Call(sys.step_start(ptr(a), a.byteLength, ptr(b), b.byteLength, ptr(c), c.byteLength, ptr(d), d.byteLength));
}
/** Runs a function with an argument as a step, at least once, on a copy of the workflow: it may read everything, its changes are
 *  lost, and only its Outcome returns. */
export function body<T>(name: string, argument: T, fn: (argument: T) => Outcome, options: string = ""): Call {
  const a = enc(name), d = enc(options);
  const h = sys.step_begin(ptr(a), a.byteLength, ptr(d), d.byteLength);
  if (h == 0) {
    const o = fn(argument);
    sys.step_end(o.ok ? 0 : 1, ptr(o.bytes), o.bytes.byteLength);
  }
  return new Call(h);
}

/** Waits for the next signal of a name. A negative time-out waits forever; others are milliseconds. */
export function signal(name: string, timeoutMs: i64 = -1): Call {
  const a = enc(name);
  return new Call(sys.signal_start(ptr(a), a.byteLength, timeoutMs));
}
/** Sends a signal to another run, and is done when it is durable there. */
export function send(run: string, name: string, payload: string): Call {
  const a = enc(name), r = enc(run), c = enc(payload);
  return new Call(sys.signal_send(ptr(a), a.byteLength, ptr(r), r.byteLength, ptr(a), a.byteLength, ptr(c), c.byteLength));
}
/** Opens a hook; its outcome is the token, raw. The host makes one if it is empty. Deliveries are signals of the hook's name. */
export function hook(name: string, token: string = "", options: string = ""): Call {
  const a = enc(name), t = enc(token), d = enc(options);
  return new Call(sys.hook_start(ptr(a), a.byteLength, ptr(t), t.byteLength, ptr(d), d.byteLength));
}
/** Starts a run of a workflow; its outcome is that run's. */
export function child(name: string, workflow: string, payload: string, options: string = ""): Call {
  const a = enc(name), b = enc(workflow), c = enc(payload), d = enc(options);
  return new Call(sys.child_start(ptr(a), a.byteLength, ptr(b), b.byteLength, ptr(c), c.byteLength, ptr(d), d.byteLength));
}
/** The run id of a child. */
export function childID(call: Call): string {
  const b = new ArrayBuffer(<i32>sys.child_id(call.handle, 0, 0));
  sys.child_id(call.handle, ptr(b), b.byteLength);
  return String.UTF8.decode(b);
}

/** Appends to the run's output, exactly once; returns the index, or a negated code. */
export function emit(topic: string, payload: string): i64 {
  const a = enc(topic), b = enc(payload);
  return sys.emit(ptr(a), a.byteLength, ptr(b), b.byteLength);
}
/** Sets an attribute of the run. Returns 0, or a negated code. */
export function setAttribute(key: string, value: string): i64 {
  const a = enc(key), b = enc(value);
  return sys.set_attribute(ptr(a), a.byteLength, ptr(b), b.byteLength);
}
/** Marks a change of the code: returns 0 in a run that passed here before the marker existed, else the recorded value: newest the
 *  first time. A repeated marker has the same answer within an iteration of the run, whatever newest is. Its id is in a namespace of
 *  its own: a step may have the same name. A refused marker returns 0, and the log says why. */
export function version(id: string, newest: i64): i64 {
  const a = enc(id), n = sys.version(ptr(a), a.byteLength, newest);
  if (n < 0) log("version marker refused: " + String.UTF8.decode(last()), 3);
  return n < 0 ? 0 : n;
}
/** Stores a log line: level 0 debug, 1 info, 2 warn, 3 error. */
export function log(line: string, level: i32 = 1): void {
  const b = enc(line);
  sys.log(level, ptr(b), b.byteLength);
}
/** Lets the workflow handle a cancel: its open calls are withdrawn and have the code CANCELLED, and later calls work.
 *  A step in progress at that moment is not withdrawn: it has its own outcome, and cancelled() reports the cancel.
 *  The run is cancelled if the workflow then fails, and completed if it does not. */
export function cooperativeCancel(): void { sys.cancel_policy(1); }
/** Ends this iteration of the run and begins the next one, with an empty journal. It never returns. */
export function continueAsNew(payload: string, options: string = ""): void {
  const a = enc(payload), d = enc(options);
  sys.continue_as_new(ptr(a), a.byteLength, ptr(d), d.byteLength);
}

const queries = new Map<string, (input: string) => Outcome>();
const validators = new Map<string, (input: string) => Outcome>();

/** Offers a query: fn is called on a copy of the workflow where it waits or has ended. */
export function onQuery(name: string, fn: (input: string) => Outcome): void { queries.set(name, fn); }

function answer(): void {
  const name = json.text(json.field(info(), "query"));
  const update = name.startsWith("host/update/"), known = update ? validators : queries;
  const key = update ? name.substring(12) : name;
  const o = known.has(key) ? known.get(key)(input()) : failure("the workflow has no " + (update ? "handler of update " : "query ") + key);
  sys.query_reply(o.ok ? 0 : 1, ptr(o.bytes), o.bytes.byteLength);
}

/** An update: a request to the run whose sender waits for the answer. */
export class Update {
  constructor(private handle: i64, public input: string) {}
  /** Answers the update. If the host refuses the answer because it is over 1 MiB, the update fails with that refusal. */
  reply(o: Outcome): void {
    const n = sys.update_reply(this.handle, o.ok ? 0 : 1, ptr(o.bytes), o.bytes.byteLength);
    if (n >= 0) return;
    const why = last();
    if (n == -Code.TOO_LARGE) sys.update_reply(this.handle, 1, ptr(why), why.byteLength);
    log("an answer to an update was refused: " + String.UTF8.decode(why), 3);
  }
}
/** The updates of a name, from its creation on. accepts decides on a copy of the waiting workflow; a failure refuses the update. */
export class Updates {
  private open: Call;
  constructor(private name: string, accepts: (input: string) => Outcome) {
    validators.set(name, accepts);
    this.open = signal("host/update/" + name);
  }
  /** Waits for an update; null if a cancel of the run was requested. When it returns, the wait for the next update is open. */
  next(): Update | null {
    const call = this.open, o = call.wait();
    if (!o.ok) return null;
    this.open = signal("host/update/" + this.name);
    return new Update(call.handle, o.raw);
  }
}

/** The maximum Retry-After in seconds: a year. */
const MAX_RETRY_AFTER: i64 = 365 * 24 * 3600;

/** Reads a Retry-After in seconds, as milliseconds; -1 if it is a date, or empty. */
function retryAfterMs(text: string): i64 {
  if (text == "") return -1;
  let s: i64 = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < 0x30 || c > 0x39) return -1;
    s = min(10 * s + (c - 0x30), MAX_RETRY_AFTER);
  }
  return 1000 * s;
}

/** A response, or why there is none. */
export class Response {
  status: i32 = 0;
  /** The source of the answer: the request's URL, or where redirects led. */
  url: string = "";
  /** Whether redirects were followed. */
  redirected: bool = false;
  headers: string = "{}";
  body: ArrayBuffer = new ArrayBuffer(0);
  constructor(public error: Outcome) {}
  get text(): string { return String.UTF8.decode(this.body); }
  /** The first value of a header, by its canonical name. */
  header(name: string): string {
    const values = json.elements(json.field(this.headers, name));
    return values.length > 0 ? json.text(values[0]) : "";
  }
  /** The body of an answer below 400, and a failure otherwise: 408, 425, 429 and from 500 are retryable, after the seconds of
   *  the header Retry-After; other statuses are not. */
  checked(): Outcome {
    if (!this.error.ok) return this.error;
    if (this.status < 400) return okBytes(this.body);
    const again = this.status == 408 || this.status == 425 || this.status == 429 || this.status >= 500;
    return failure("the server has answered " + this.status.toString() + ": " + this.text.substring(0, 200), again,
      again ? retryAfterMs(this.header("Retry-After")) : -1);
  }
}
/** Makes a request, in bodies and step functions. headers alternates names and values. The version needs a grant for the host. redirect
 *  is "follow", which follows up to 20 redirects, none with a secret; "manual", which returns the redirect itself; or "error". */
export function fetch(method: string, url: string, headers: string[], payload: string = "", redirect: string = "follow"): Response {
  let head = "{\"method\":" + json.quote(method) + ",\"url\":" + json.quote(url) + ",\"headers\":{";
  for (let i = 0; i + 1 < headers.length; i += 2) {
    head += (i > 0 ? "," : "") + json.quote(headers[i]) + ":[" + json.quote(headers[i + 1]) + "]";
  }
  const a = enc(head + "},\"redirect\":" + json.quote(redirect) + "}"), b = enc(payload), all = new ArrayBuffer(4 + a.byteLength + b.byteLength);
  store<u32>(ptr(all), a.byteLength);
  memory.copy(ptr(all) + 4, ptr(a), a.byteLength);
  memory.copy(ptr(all) + 4 + a.byteLength, ptr(b), b.byteLength);
  const n = sys.fetch(ptr(all), all.byteLength, 0, 0);
  const got = last();
  if (n < 0) {
    const code = <i32>-n, why = String.UTF8.decode(got);
    if (code == Code.STEP_FAILED || !why.endsWith("}")) return new Response(new Outcome(code, got)); // the network
    return new Response(new Outcome(code, enc(why.substring(0, why.length - 1) + ",\"retryable\":false}"))); // permanent
  }
  const r = new Response(ok("")), size = <i32>load<u32>(ptr(got));
  const h = String.UTF8.decode(got.slice(4, 4 + size));
  r.status = <i32>json.number(json.field(h, "status"));
  r.headers = json.field(h, "headers");
  const final = json.field(h, "url");
  r.redirected = final != "";
  r.url = r.redirected ? json.text(final) : url;
  r.body = got.slice(4 + size);
  return r;
}

/** The description of a workflow: queries, signals, updates, and JSON Schemas as text. */
export class Description {
  queries: string[] = [];
  signals: string[] = [];
  updates: string[] = [];
  inputSchema: string = "";
  outputSchema: string = "";
}

const workflows = new Map<string, (input: string) => Outcome>();
const descriptions = new Map<string, Description>();
const steps = new Map<string, (input: string) => Outcome>();

/** Registers a workflow. Call it at the top of a file. */
export function workflow(name: string, fn: (input: string) => Outcome): Description {
  const d = new Description();
  workflows.set(name, fn);
  descriptions.set(name, d);
  return d;
}
/** Registers a step function, which step() calls by its name in a separate instance. Call it at the top of a file. */
export function stepFunction(name: string, fn: (input: string) => Outcome): void { steps.set(name, fn); }

function end(o: Outcome): i32 {
  const n = o.ok ? sys.complete(ptr(o.bytes), o.bytes.byteLength) : sys.fail(ptr(o.bytes), o.bytes.byteLength);
  if (n == -Code.QUERY) answer(); // the run had ended before
  if (n < 0) {
    const why = last();
    sys.fail(ptr(why), why.byteLength);
    return 1;
  }
  return o.ok ? 0 : 1;
}

// The entry points: export them from the program's own file.
export function workflow_run(): i32 {
  const name = json.text(json.field(info(), "workflow"));
  if (workflows.has(name)) return end(workflows.get(name)(input()));
  if (workflows.size == 1) return end(workflows.values()[0](input()));
  return end(failure("the module has no workflow " + name));
}
export function workflow_step(): i32 {
  const name = stepInfo().handler;
  if (!steps.has(name)) return end(failure("the module has no step function " + name, false));
  return end(steps.get(name)(input()));
}

function list(names: string[]): string {
  const quoted: string[] = [];
  for (let i = 0; i < names.length; i++) quoted.push(json.quote(names[i]));
  return "[" + quoted.join(",") + "]";
}
export function workflow_describe(): void {
  const all: string[] = [], keys = descriptions.keys();
  for (let i = 0; i < keys.length; i++) {
    const d = descriptions.get(keys[i]);
    let s = "{\"name\":" + json.quote(keys[i]);
    if (d.queries.length > 0) s += ",\"queries\":" + list(d.queries);
    if (d.signals.length > 0) s += ",\"signals\":" + list(d.signals);
    if (d.updates.length > 0) s += ",\"updates\":" + list(d.updates);
    if (d.inputSchema != "") s += ",\"input_schema\":" + d.inputSchema;
    if (d.outputSchema != "") s += ",\"output_schema\":" + d.outputSchema;
    all.push(s + "}");
  }
  end(ok("{\"workflows\":[" + all.join(",") + "],\"steps\":" + list(steps.keys()) + ",\"sdk\":\"assemblyscript/0.1.0\"}"));
}
