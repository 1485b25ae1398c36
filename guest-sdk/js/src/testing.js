// An environment for unit tests under Node: workflows run in memory, and sleeps take no time. Nothing is durable here.
import { info } from "./calls.js";
import { asked, cancelling, cut, failing, rested } from "./cancel.js";
import { milliseconds } from "./duration.js";
import { WorkflowError, parseError, report } from "./error.js";
import { sleepEnd } from "./instant.js";
import { install } from "./locale.js";
import { globals, inside, timed } from "./nodetimers.js";
import { Opened, numbering } from "./opened.js";
import { turned } from "./races.js";
import { begin, decode, encode, run } from "./state.js";

const real = { Date, setImmediate: globalThis.setImmediate };
const sdk = new URL(".", import.meta.url).href;
const updatePrefix = "host/update/";

const codes = { NOT_HERE: 5, INVALID_ARGUMENT: 1, INVALID_DURATION: 3, INVALID_DATE: 4, UNKNOWN_HANDLER: 11, DENIED: 12, DUPLICATE_NAME: 2 };
const stepDefaults = { attempts: 3, delay: "1s", backoff: "exponential", factor: 2, max_delay: "5m", max_elapsed: "", jitter: 0, timeout: "10m",
  at_most_once: false };
const kinds = ["fixed", "linear", "exponential"];
let running; // the environment whose run is going on

export class Env {
  #now;
  #clock = { now: () => this.#now, pass: (at) => (this.#now = Math.max(this.#now, at)) };
  #handlers = new Map();
  #children = new Map();
  #agenda = []; // what happens at an instant: {at, n, fire}
  #n = 0;
  #ready = []; // outcomes that the run is to be given: [handle, code, text]
  #handles = new Map(); // {kind, told, begun}
  #last = "";
  #inBody; // the attempt that is going on
  #waits = []; // for signals: {handle, name}
  #signals = []; // that nobody has taken: {name, text, answer}
  #answers = new Map(); // of updates, by handle
  #places = [];
  #opened;
  #input;
  #continued;
  #ended;
  #cooperative; // whether a cancel is told to the run
  #asked; // whether a cancel is still to be told; undefined if there was none
  #iteration = 0;
  #restore; // gives the platform its languages back
  #name = "test";

  steps = []; // names of the steps, in the order of their calls
  outputs = []; // {topic, value}
  sent = []; // {runId, signal, payload}
  attributes = {};

  constructor({ now = "2026-01-05T08:00:00Z", runId = "test", memo } = {}) {
    this.#now = new real.Date(now).getTime();
    if (Number.isNaN(this.#now)) throw new RangeError(`now: ${now} is no date`);
    this.runId = runId;
    this.memo = memo;
  }

  get now() {
    return new real.Date(this.#now);
  }

  // handle stands in for a handler of the host, or performs a step function: fn(input, step).
  handle(name, fn) {
    this.#handlers.set(name, fn);
    return this;
  }

  // child stands in for another workflow: fn(input).
  child(name, fn) {
    this.#children.set(name, fn);
    return this;
  }

  // at calls a function when so much time has passed since now.
  at(after, fn) {
    this.#plan(this.#now + milliseconds(after), () => timed(this.#clock, false, fn));
    return this;
  }

  signal(name, payload) {
    this.#deliver({ name, text: encode(payload) });
  }

  async query(name, input) {
    const fn = run.queries.get(name);
    if (!fn) throw new Error(`the workflow answers no query ${JSON.stringify(name)} where it waits`);
    return decode(encode(await inside(fn, decode(encode(input)))));
  }

  async update(name, input) {
    const validate = run.updates.get(name);
    if (!validate) throw new Error(`the workflow takes no update ${JSON.stringify(name)} where it waits`);
    await inside(validate, decode(encode(input)));
    return new Promise((resolve, reject) => {
      this.#deliver({ name: updatePrefix + name, text: encode(input), answer: (failed, text) =>
        failed ? reject(parseError(text.includes('"code"') ? text : JSON.stringify({ code: "STEP_FAILED", ...JSON.parse(text) }))) : resolve(decode(text)) });
    });
  }

  // cancel asks the run to cancel.
  cancel() {
    if (this.#cooperative && this.#inBody) this.#asked ??= true; // it ends first, since it has no copy of the run
    else if (this.#cooperative) this.#ask();
    else this.#ended = new WorkflowError({ code: "CANCELLED", message: "the run was cancelled" });
  }

  // ask tells the run of a cancel; of a second one it hears nothing.
  #ask() {
    if (this.#asked === undefined) asked();
    this.#asked = false;
  }

  // run runs a workflow function to its end, and returns its result.
  async run(fn, input) {
    if (running) throw new Error("another run is going on in this process: await it first");
    running = this;
    const kept = Object.fromEntries(Object.keys(globals).map((key) => [key, globalThis[key]]));
    Object.assign(globalThis, globals, { Date: this.#date() });
    this.#restore = install();
    this.#cooperative = false;
    this.#asked = undefined;
    try {
      this.#input = encode(input);
      for (;;) {
        const outcome = await this.#iterate(fn);
        if (!this.#continued) return outcome;
        this.#input = this.#continued.input;
        this.#iteration++;
      }
    } finally {
      this.#restore();
      Object.assign(globalThis, kept, { Date: real.Date });
      running = undefined;
    }
  }

  async #iterate(fn) {
    this.#continued = undefined;
    this.#agenda = this.#agenda.filter((e) => e.handle === undefined);
    this.#ready = [];
    this.#handles.clear();
    this.#waits = [];
    begin(this.#calls());
    let end;
    (async () => fn(decode(this.#input)))().then((v) => (end ??= cut() ? { e: cancelling() } : { v }), (e) => (end ??= { e }));
    for (;;) {
      await new Promise((resolve) => real.setImmediate(resolve));
      turned();
      rested();
      if (this.#continued) return undefined;
      if (this.#ended) throw this.#ended;
      if (end) break;
      await this.#advance();
    }
    if ("e" in end) throw end.e;
    return decode(encode(end.v));
  }

  // advance performs a step, gives the run the next outcome, or moves the clock to the next thing that happens.
  async #advance() {
    if (this.#asked) {
      this.#asked = undefined;
      return this.#ask();
    }
    const [handle, h] = [...this.#handles].find(([, h]) => h.perform && !h.begun) ?? [];
    if (h) {
      h.begun = true;
      return this.#attempt(handle, h, 1);
    }
    if (this.#ready.length > 0) {
      const [handle, code, text] = this.#ready.shift();
      return this.#tell(handle, code, text);
    }
    this.#agenda.sort((a, b) => a.at - b.at || a.n - b.n);
    const next = this.#agenda.shift();
    if (!next) {
      throw new Error("deadlock: the workflow waits for what nothing in this test brings: env.signal, env.handle or env.at may be missing");
    }
    this.#clock.pass(next.at);
    await next.fire();
  }

  #tell(handle, code, text) {
    const h = this.#handles.get(handle);
    h.told = true;
    if (code) this.#opened.fail(handle, (kind, place) => failing(kind, place, parseError(text)));
    else this.#opened.resolve(handle, text);
  }

  #plan(at, fire, handle) {
    this.#agenda.push({ at, n: this.#n++, fire, handle });
  }

  #resolve(handle, text) {
    this.#ready.push([handle, 0, text]);
  }

  #open(kind, more) {
    const handle = this.#handles.size + 1;
    this.#handles.set(handle, { kind, ...more });
    return handle;
  }

  #refuse(code, message) {
    this.#last = JSON.stringify({ code, message });
    return -codes[code];
  }

  async #attempt(handle, h, n) {
    this.#inBody = { name: h.name, handler: h.handler, attempt: n, attempts: h.options.attempts, idempotency_key: `key-of-${this.#iteration}-${h.name}`,
      last_error: h.lastError };
    run.inBody = true;
    let outcome;
    try {
      outcome = { text: encode(await h.perform()) };
    } catch (e) {
      outcome = { e: JSON.parse(report(e)) };
    }
    this.#inBody = undefined;
    run.inBody = false;
    if (outcome.e === undefined) return this.#resolve(handle, outcome.text);
    const { message, type, retryable, retry_after_ms: after, stack } = outcome.e;
    h.lastError = { code: "STEP_FAILED", message };
    const o = h.options;
    const delay = after ?? Math.min(milliseconds(o.max_delay),
      milliseconds(o.delay) * (o.backoff === "fixed" ? 1 : o.backoff === "linear" ? n : o.factor ** (n - 1)));
    const late = o.max_elapsed && o.max_elapsed !== "0s" && this.#now + delay > h.since + milliseconds(o.max_elapsed);
    if (retryable !== false && (o.attempts === 0 || n < o.attempts) && !late) {
      this.#plan(this.#now + delay, () => this.#attempt(handle, h, n + 1), handle);
      return;
    }
    this.#ready.push([handle, 6, JSON.stringify(h.kind === "child" ? { code: "CHILD_FAILED", name: h.name, kind: "failed", type, details: outcome.e,
      message: `child ${JSON.stringify(h.name)} (run ${h.id}) failed${message ? `: ${message}` : ""}` }
      : { code: "STEP_FAILED", message, name: h.name, kind: "error", type, attempts: n, details: stack ? { details: { stack } } : undefined })]);
  }

  // outside calls what stands in for a handler of the host, which has the languages of the platform.
  async #outside(fn) {
    this.#restore();
    try {
      return await fn();
    } finally {
      this.#restore = install();
    }
  }

  #deliver(s) {
    const wait = this.#waits.findIndex((w) => w.name === s.name);
    if (wait < 0) {
      this.#signals.push(s);
      return;
    }
    const [{ handle }] = this.#waits.splice(wait, 1);
    this.#take(handle, s);
  }

  #take(handle, s) {
    this.#agenda = this.#agenda.filter((e) => e.handle !== handle);
    if (s.answer) this.#answers.set(handle, s.answer);
    this.#handles.get(handle).signal = s;
    this.#resolve(handle, s.text);
  }

  #options(text) {
    const o = { ...stepDefaults, ...(text === "" ? {} : JSON.parse(text)) };
    const unknown = Object.keys(o).find((key) => !(key in stepDefaults));
    if (unknown) throw new TypeError(`options: there is no field ${JSON.stringify(unknown)}`);
    if (!kinds.includes(o.backoff)) throw new TypeError(`options: backoff must be one of ${kinds.join(", ")}, got ${JSON.stringify(o.backoff)}`);
    for (const key of ["delay", "max_delay", "timeout"]) milliseconds(o[key]);
    return o;
  }

  #step(name, handler, text, perform) {
    let options;
    try {
      options = this.#options(text);
    } catch (e) {
      return this.#refuse("INVALID_ARGUMENT", e.message);
    }
    this.steps.push(name);
    const handle = this.#open("step", { name, handler, options, since: this.#now });
    this.#handles.get(handle).perform = perform ?? (() => timed(this.#clock, true, this.#opened.body(handle)));
    return handle;
  }

  #calls() {
    this.#opened = new Opened();
    const caller = () => {
      const at = {};
      Error.captureStackTrace(at);
      return this.#places.push(at.stack) - 1;
    };
    const calls = {
      ...this.#opened.calls(caller),
      unique: numbering(),
      caller,
      input: () => this.#input,
      bytes: () => new TextEncoder().encode(this.#input).buffer,
      last: () => this.#last,
      now: () => (this.#inBody ? real.Date.now() : this.#now),
      info: () => JSON.stringify({ run_id: this.runId, workflow: this.#name, version: 1, module: "", started_at: this.#now, iteration: this.#iteration,
        run_attempt: 1, position: this.#handles.size, suggest_continue: false, attributes: this.attributes, memo: this.memo, step: this.#inBody }),
      where: (n) => /\(?([^\s(]+:\d+:\d+)\)?$/.exec(this.#places[n].split("\n").slice(1).find((line) => !line.includes(sdk)) ?? "")?.[1] ?? "",
      log: (level, text) => void console.log(text),
      sleep: (name, ms) => (ms < 0 ? this.#refuse("INVALID_DURATION", `a duration must not be negative, got ${ms} ms`) : this.#sleep(this.#now + ms)),
      sleepUntil: (name, at) => this.#sleep(at),
      sleepText: (name, text) => {
        const { at, code, message } = sleepEnd(text, this.#now);
        return code ? this.#refuse(code, message) : this.#sleep(at);
      },
      step: (name, handler, input, text) => {
        const fn = this.#handlers.get(handler);
        if (!fn) return this.#refuse("UNKNOWN_HANDLER", `the test has no handler ${JSON.stringify(handler)}: env.handle(${JSON.stringify(handler)}, fn)`);
        return this.#step(name, handler, text, () => this.#outside(() => timed(this.#clock, false, fn, decode(input), info().step)));
      },
      stepBegin: (name, text) => this.#step(name, undefined, text),
      signal: (name, ms) => {
        const handle = this.#open("signal", { name });
        const n = this.#signals.findIndex((s) => s.name === name);
        if (n >= 0) this.#take(handle, this.#signals.splice(n, 1)[0]);
        else {
          this.#waits.push({ handle, name });
          if (ms >= 0) {
            this.#plan(this.#now + ms, () => {
              this.#waits = this.#waits.filter((w) => w.handle !== handle);
              this.#ready.push([handle, 7, JSON.stringify({ code: "TIMEOUT", message: `no signal ${name} has come in time`, name })]);
            }, handle);
          }
        }
        return handle;
      },
      send: (name, runId, signal, payload) => {
        this.sent.push({ runId, signal, payload: decode(payload) });
        if (runId === this.runId) this.#deliver({ name: signal, text: payload });
        const handle = this.#open("send");
        this.#resolve(handle, "");
        return handle;
      },
      child: (name, workflow, input, text) => {
        const fn = this.#children.get(workflow);
        if (!fn) return this.#refuse("INVALID_ARGUMENT", `the test has no child ${JSON.stringify(workflow)}: env.child(${JSON.stringify(workflow)}, fn)`);
        const handle = this.#open("child", { name, since: this.#now, options: { ...stepDefaults, attempts: 1 } });
        const id = decode(text)?.id ?? `${this.runId}.${handle}`;
        Object.assign(this.#handles.get(handle), { id, perform: () => timed(this.#clock, false, fn, decode(input)) });
        return handle;
      },
      childId: (handle) => this.#handles.get(handle).id,
      hook: (name, token) => {
        const handle = this.#open("hook");
        this.#resolve(handle, token || `token-${handle}.${this.runId}`);
        return handle;
      },
      cancel: (handle) => this.#withdraw(handle),
      emit: (topic, text) => this.outputs.push({ topic, value: decode(text) }) - 1,
      attribute: (key, value) => {
        this.attributes[key] = value;
        return 0;
      },
      policy: () => {
        this.#cooperative = true;
        return 0;
      },
      version: (id, max) => max,
      continueAsNew: (input) => {
        this.#continued = { input };
      },
      updateReply: (handle, failed, text) => {
        this.#answers.get(handle)?.(failed, text);
        return 0;
      },
    };
    return this.#guarded(calls);
  }

  // guarded refuses in bodies what belongs to the workflow.
  #guarded(calls) {
    const free = ["input", "bytes", "info", "now", "last", "caller", "where", "log", "open", "opened", "place", "refuse"];
    return Object.fromEntries(Object.entries(calls).map(([name, fn]) => [name, free.includes(name) ? fn : (...args) => this.#inBody
      ? this.#refuse("NOT_HERE", "this call belongs to the workflow, a step cannot make it") : fn(...args)]));
  }

  #sleep(at) {
    const handle = this.#open("sleep");
    if (at <= this.#now) this.#resolve(handle, "");
    else this.#plan(at, () => this.#resolve(handle, ""), handle);
    return handle;
  }

  #withdraw(handle) {
    const h = this.#handles.get(handle);
    if (h.told) return 1;
    if (h.kind === "step" && this.#ready.some(([other]) => other === handle)) return 2; // as a host, where its outcome is to be told
    h.told = true;
    h.perform = undefined;
    this.#agenda = this.#agenda.filter((e) => e.handle !== handle);
    this.#waits = this.#waits.filter((w) => w.handle !== handle);
    this.#ready = this.#ready.filter(([other]) => other !== handle);
    if (h.signal) this.#signals.unshift(h.signal); // it stays for the next wait
    return 0;
  }

  // date makes a Date whose clock is that of the run.
  #date() {
    const env = this;
    return new Proxy(real.Date, {
      construct: (target, args, as) => Reflect.construct(target, args.length > 0 ? args : [env.#now], as),
      apply: () => new real.Date(env.#now).toString(),
      get: (target, key) => (key === "now" ? () => env.#now : Reflect.get(target, key)),
    });
  }
}
