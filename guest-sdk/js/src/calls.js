// What a workflow calls.
import { cancelling, owing, stopped } from "./cancel.js";
import { longest, milliseconds, shown } from "./duration.js";
import { WorkflowError, report } from "./error.js";
import { JSON } from "./json.js";
import { nothing, pending, refused, text as asText } from "./pending.js";
import { entered, left, waiting } from "./races.js";
import { encode, failure, host, run } from "./state.js";

const ignore = () => undefined;

// begun notes a call that has begun under a name of its own within a saga: an undo that is given next undoes it, unless another call
// was open when it began, as then nobody knows which one it is for.
const few = 16;
function begun({ saga }, label, handle) {
  if (handle <= 0) return;
  saga.open = saga.open.filter((h) => host.place(h) !== undefined);
  saga.newest = saga.open.length === 0 ? label : "*";
  if (saga.open.length < few) saga.open.push(handle);
}

// options splits what belongs to the promise from what the host reads. Numbers that JSON does not have would be null there.
const none = { signal: undefined, text: "", wrong: undefined };
function options(o, names = {}) {
  if (o === undefined && !run.saga.undoing) return none;
  const { signal, ...rest } = o ?? {};
  const out = run.saga.undoing ? { undoes: run.saga.undoing } : {};
  for (const [key, v] of Object.entries(rest)) {
    if (v === undefined) continue;
    const wrong = typeof v === "number" ? wrongNumber(key, v) : undefined;
    if (wrong) return { signal, text: "", wrong: `options: ${wrong}` };
    const name = Object.hasOwn(names, key) ? names[key] : key; // the host names what it does not know
    out[name] = typeof v === "number" && durations.has(key) ? `${v > 0 ? Math.max(v, 1e-6) : v}ms` : v; // without an exponent
  }
  return { signal, text: Object.keys(out).length > 0 ? encode(out) : "" };
}

const durations = new Set(["delay", "maxDelay", "maxElapsed", "timeout"]);

function wrongNumber(key, v) {
  if (!durations.has(key)) return Number.isFinite(v) ? undefined : `${key} must be a finite number, got ${v}${key === "attempts" ? "; 0 is no limit" : ""}`;
  try {
    milliseconds(v);
  } catch (e) {
    return `${key}: ${e.message}`;
  }
}

const stepNames = { maxDelay: "max_delay", maxElapsed: "max_elapsed", atMostOnce: "at_most_once" };
const stepOptions = (o) => options(o, stepNames);

/** sleep("5s"), sleep(1500), sleep("cool down", "1d") */
export function sleep(a, b, c) {
  const named = b !== undefined && typeof b !== "object";
  const d = named ? b : a;
  if (typeof d === "number" && !(d <= longest && d >= -longest)) {
    return refused("sleep", "INVALID_DURATION", `sleep: a duration must be a number of milliseconds from 0 to ${longest}, got ${d}`);
  }
  if (run.owed && owing()) return stopped("sleep");
  const label = host.unique(named ? a : "sleep");
  return pending(typeof d === "number" ? host.sleep(label, d % 1 === 0 ? d : Math.round(d)) : host.sleepText(label, String(d)), "sleep", (named ? c : b)?.signal, nothing);
}

const instant = /^\d{4}-/;

/** sleepUntil(date), sleepUntil("launch", "2030-01-31T09:00:00Z") */
export function sleepUntil(a, b, c) {
  const named = b !== undefined && (typeof b !== "object" || b instanceof Date);
  const when = named ? b : a;
  const at = when instanceof Date ? when.getTime() : when;
  if (!(typeof at === "number" ? Math.abs(at) <= longest : instant.test(at))) {
    return refused("sleep", "INVALID_DATE", `sleepUntil: an instant is a Date, a text such as "2030-01-31T09:00:00Z", or a number of Unix milliseconds up to ${
      longest}, got ${when instanceof Date && !Number.isNaN(at) ? when.toISOString() : shown(when)}; sleep is for durations`);
  }
  if (run.owed && owing()) return stopped("sleep");
  const label = host.unique(named ? a : "sleep");
  return pending(typeof at === "number" ? host.sleepUntil(label, Math.ceil(at)) : host.sleepText(label, String(at)), "sleep",
    (named ? c : b)?.signal, nothing);
}

/** step(name, fn, options): fn runs once, its result is recorded. */
export function step(name, fn, o) {
  if (typeof name !== "string" || typeof fn !== "function") {
    throw new TypeError('step(name, fn, options): name must be a string and fn a function; a handler is called by call("handler", input)');
  }
  const { signal, text, wrong } = stepOptions(o);
  if (wrong) return refused("step", "INVALID_ARGUMENT", wrong);
  if (run.owed && owing()) return stopped("step");
  const label = host.unique(name), handle = host.stepBegin(label, text);
  if (run.saga.depth > 0) begun(run, label, handle);
  return pending(handle, "step", signal, undefined, fn);
}

/** call("host/charge", input, { name: "charge" }): a handler of the host or a step function performs the step. */
export function call(handler, input, o) {
  const { name = handler.slice(handler.lastIndexOf("/") + 1), ...rest } = o ?? {};
  const { signal, text, wrong } = stepOptions(rest);
  if (wrong) return refused("step", "INVALID_ARGUMENT", wrong);
  if (run.owed && owing()) return stopped("step");
  const label = host.unique(name), handle = host.step(label, handler, encode(input), text);
  if (run.saga.depth > 0) begun(run, label, handle);
  return pending(handle, "step", signal);
}

/** signal("approved"): the next signal of the name. With a timeout, undefined if none comes. */
export function signal(name, o = {}) {
  const ms = o.timeout === undefined ? -1 : Math.round(milliseconds(o.timeout));
  if (run.owed && owing()) return stopped("signal");
  const waits = pending(host.signal(name, ms), "signal", o.signal);
  if (!o.signal) waiting(waits, name);
  if (ms < 0) return waits;
  const value = waits.catch((e) => {
    if (e instanceof WorkflowError && e.code === "TIMEOUT") return undefined;
    throw e;
  });
  if (!o.signal) waiting(value, name);
  return Object.assign(value, { handle: waits.handle, kind: "signal", cancel: (reason) => {
    value.catch(ignore);
    return waits.cancel(reason);
  } });
}

/** hook("decision"): a token to which the outside delivers signals of that name. */
export async function hook(name, o = {}) {
  const { token = "", status, contentType, body } = o;
  const text = encode({ status, content_type: contentType, body });
  if (run.owed && owing()) await stopped("hook");
  const given = await pending(host.hook(name, token, text === "{}" ? "" : text), "hook", undefined, asText);
  return { token: given, path: `/v1/hooks/${given}`, next: (options) => signal(name, options) };
}

const childNames = { onEnd: "on_end" };

/** child("invoice", input, { id }): a run of its own. */
export function child(workflow, input, o) {
  const { name = workflow, ...rest } = o ?? {};
  const { signal, text, wrong } = options(rest, childNames);
  if (wrong) return refused("child", "INVALID_ARGUMENT", wrong);
  if (run.owed && owing()) return stopped("child");
  const label = host.unique(name), handle = host.child(label, workflow, encode(input), text);
  if (run.saga.depth > 0) begun(run, label, handle);
  const promise = pending(handle, "child", signal);
  if (handle > 0) Object.defineProperty(promise, "id", { get: () => host.childId(handle) });
  return promise;
}

/** send(runId, "approved", payload): a signal to another run. */
export function send(to, name, payload, o = {}) {
  if (run.owed && owing()) return stopped("send");
  return pending(host.send(o.name ?? name, to, name, encode(payload)), "send", undefined, nothing);
}

/**
 * race({ approved: signal("approved"), late: sleep("3d") }) resolves with the key and value of the first, and withdraws the others.
 * A function gets an AbortSignal, which ends when it has lost: so is withdrawn what is no call itself.
 */
export async function race(entries) {
  const stop = new AbortController();
  const all = [];
  const lose = (winner) => {
    const losers = [];
    for (const [key, p] of all) {
      if (key === winner || typeof p?.then !== "function") continue;
      if (typeof p.cancel === "function") p.cancel();
      else {
        p.then(ignore, ignore);
        losers.push(p);
      }
    }
    stop.abort(new WorkflowError({ code: "CANCELLED", message: `it has lost a race to ${JSON.stringify(winner)}` }));
    left(losers);
  };
  let thrown; // by a function, in place of a promise: those after it are not called
  for (const [key, v] of Object.entries(entries)) {
    if (typeof v !== "function") all.push([key, v]);
    else if (!thrown) {
      try {
        all.push([key, v(stop.signal)]);
      } catch (e) {
        thrown = { key, e };
      }
    }
  }
  if (thrown) {
    lose(thrown.key);
    throw thrown.e;
  }
  if (all.length === 0) throw new TypeError("race({}): there is nothing to wait for");
  return await new Promise((resolve, reject) => {
    let over = false;
    const end = (key, settle) => {
      if (over) return;
      over = true;
      try {
        lose(key);
      } catch (e) {
        return reject(e);
      }
      settle();
    };
    for (const [key, p] of all) {
      entered(p);
      Promise.resolve(p).then((value) => end(key, () => resolve({ key, value })), (e) => end(key, () => reject(e)));
    }
  });
}

/** emit("progress", value) appends to the run's output, once, and returns the index. */
export function emit(topic, value) {
  return checked(host.emit(topic, encode(value)));
}

/** attribute("customer", "ada") sets a searchable attribute. */
export function attribute(key, value) {
  checked(host.attribute(key, value instanceof Date ? value.toISOString() : String(value)));
}

/** version("new mail", 1): 1 for runs that come here first, 0 for older ones. */
export function version(id, newest) {
  return checked(host.version(id, newest));
}

function checked(code) {
  if (code < 0) throw failure();
  return code;
}

/** info() of the run; in steps also of the attempt. */
export function info() {
  const { run_id, started_at, run_attempt, suggest_continue, step, ...rest } = JSON.parse(host.info());
  const out = { runId: run_id, startedAt: new Date(started_at), runAttempt: run_attempt, suggestContinue: suggest_continue === true, ...rest };
  if (step) {
    out.step = { name: step.name, handler: step.handler, attempt: step.attempt, attempts: step.attempts, idempotencyKey: step.idempotency_key,
      deadline: step.deadline_ms ? new Date(step.deadline_ms) : undefined, lastError: step.last_error };
  }
  return out;
}

/** inputBytes() returns the input as it was sent. */
export function inputBytes() {
  return new Uint8Array(host.bytes());
}

/** continueAsNew(input) ends this iteration and begins the next with an empty journal. It does not return. */
export function continueAsNew(input, o) {
  if (run.owed && owing()) throw cancelling();
  host.continueAsNew(encode(input), o === undefined ? "" : encode(o));
  throw new Error("the run has continued as new"); // not reached on a host
}

/** query("status", () => status) answers queries from here on. */
export function query(name, fn) {
  run.queries.set(name, fn);
}

function cooperate() {
  if (run.policy) return;
  run.policy = true;
  checked(host.policy(1));
}

/** cancelled() resolves when the run is asked to cancel, which then does not end it. */
export function cancelled() {
  cooperate();
  if (!run.throwing) run.owed = undefined; // this tells of a cancel that came before, and nothing is refused for it any more
  run.cancelled ??= {};
  run.cancelled.promise ??= new Promise((resolve) => {
    run.cancelled.resolve = resolve;
  });
  return run.cancelled.promise;
}

/** throwOnCancel() has a cancel reject what the run waits for, so that catch and finally clean up. */
export function throwOnCancel() {
  cooperate();
  run.throwing = true;
}

/** update("add", fn, { validate }) answers updates from here on: requests whose senders wait. */
export function update(name, fn, o = {}) {
  if (run.updates.has(name)) throw new Error(`update ${JSON.stringify(name)} is handled twice`);
  run.updates.set(name, o.validate ?? ignore);
  const next = () => {
    const waits = pending(host.signal(`host/update/${name}`, -1), "update");
    waits.then((input) => {
      next();
      run.updating++;
      (async () => encode(await fn(input)))().then((text) => answer(waits.handle, 0, text), (e) => answer(waits.handle, 1, report(e))).finally(() => {
        if (--run.updating === 0) for (const resolve of run.rest.splice(0)) resolve();
      });
    }, (e) => console.error(`updates ${name} are not taken any more:`, e));
  };
  next();
}

function answer(handle, failed, text) {
  if (host.updateReply(handle, failed, text) >= 0) return;
  const e = failure();
  if (e.code === "TOO_LARGE") host.updateReply(handle, 1, report(e));
  console.error("an update has no answer:", e);
}

/** updatesDone() resolves when all updates that were taken are answered. */
export async function updatesDone() {
  while (run.updating > 0) await new Promise((resolve) => run.rest.push(resolve));
}
