// A run of a test under Node: the one under test, or a child.
import { AsyncResource } from "node:async_hooks";
import { outcomeOf, inTime, reported, tooLarge } from "./attempts.js";
import { asked, cancelling, cut, failing, rested } from "./cancel.js";
import { WorkflowError, parseError, report } from "./error.js";
import { named } from "./hosttext.js";
import { install } from "./locale.js";
import { LostChange, Watch, begins } from "./lost.js";
import { asProgram } from "./nodeprocess.js";
import { inside } from "./nodetimers.js";
import { Opened } from "./opened.js";
import { turned } from "./races.js";
import { workflows } from "./registry.js";
import {
  Refusal, bytesOf, cancelGrace, checkHandles, checkPayload, checkPending, checkUnique, checkUpdates, codes, maxPayload, updatePrefix,
} from "./rules.js";
import { begin, decode, encode, encodeResult, failure, run as state, use } from "./state.js";
import { callsOf } from "./testcalls.js";

const { setImmediate } = globalThis;

// endWords describes how a run has ended.
const endWords = { completed: "completed", failed: "failed", cancelled: "was cancelled", terminated: "was terminated" };

const cancelled = { code: "CANCELLED", message: "the run was cancelled" };
const late = { code: "TIMEOUT", kind: "timeout", message: "the run did not end within the time that its start gave it" };

// answered returns the answer of a query or validator, as text. It throws what the test is told of what that has thrown: the error itself
// unless a host says more.
async function answered(fn, input) {
  try {
    return encode(await inside(fn, decode(input)));
  } catch (e) {
    const { message } = JSON.parse(report(e));
    throw says(e, message) ? e : new Error(message, { cause: e });
  }
}

function says(e, message) {
  try {
    return e instanceof Error && e.message === message;
  } catch {
    return false;
  }
}

export class Run {
  over = false;
  failed; // {e, status, report} if it did not complete. report is there if its parent is told that in place of e; null is nothing
  result; // as text
  iteration = 0;
  handles = new Map(); // {kind, name, call, told, begun, running, stopped}; stopped is a step whose running attempt is its last
  names = new Set(); // of sleeps, steps and children
  versions = new Map(); // of markers
  last = "";
  inBody; // the attempt that is going on
  places = [];
  opened;
  continued;
  cooperative = false; // whether a cancel is told to the run

  calls = []; // what it has called, and what came of that
  steps = []; // names of the steps, in the order of their calls
  outputs = []; // {topic, value}
  sent = []; // {runId, signal, payload}
  #fresh = true; // an iteration is to begin
  #end; // what the function has brought
  #ended; // how the run ends where it is, as failed
  #asked; // whether a cancel is still to be told; undefined if there was none
  #ready = []; // outcomes that the run is to be given: [handle, code, text]
  #waits = []; // for signals: {handle, name}
  #came = 0; // how many signals have come
  #signals = []; // that nobody has taken: {name, text, answer, n}, in the order in which they came
  #answers = new Map(); // of updates, by handle
  #watched; // ends the watch over variables of modules

  // options are {id, name, fn, raw, input, attributes, memo, depth, done}. depth is how many runs stand above it. done is called at
  // its end.
  constructor(trial, options) {
    this.trial = trial;
    this.number = trial.number++;
    Object.assign(this, { attributes: {}, depth: 0 }, options);
    this.began = trial.now;
  }

  // again has the run begin with a function and its input: a test may have run another one.
  again(fn, input) {
    if (this.over) this.#signals = []; // they came to the run before
    this.name = [...workflows].find(([, w]) => w.fn === fn)?.[0] ?? "test";
    Object.assign(this, { fn, input, over: false, failed: undefined, result: undefined, cooperative: false });
    this.#fresh = true;
    this.#ended = this.#asked = undefined;
  }

  // busy reports whether there is something that the run does at this instant.
  busy() {
    if (this.over) return false;
    return this.#fresh || this.#asked === true || this.#ready.length > 0 || [...this.handles.values()].some((h) => h.perform && !h.begun);
  }

  // turn has something happen to the run, and everything that follows from it.
  async turn(happen) {
    if (this.state) use(this.host, this.state);
    await happen();
    use(this.host, this.state);
    await new Promise((resolve) => setImmediate(resolve));
    turned();
    rested();
    if (!this.over && !this.trial.wrong) this.#settle();
  }

  // advance begins an iteration, performs a step, tells the run of a cancel, or gives it the next outcome.
  advance() {
    if (this.#fresh) return this.#begin();
    const [handle, h] = [...this.handles].find(([, h]) => h.perform && !h.begun) ?? [];
    if (!h && this.#asked) {
      this.#asked = undefined;
      return this.#ask();
    }
    if (!h) return this.#tell(...this.#ready.shift());
    h.begun = true;
    h.body ??= h.handler === undefined && h.kind === "step" ? this.opened.body(handle) : undefined;
    return this.#attempt(handle, h, 1);
  }

  #begin() {
    this.#fresh = false;
    this.continued = this.#end = undefined;
    this.trial.drop(this);
    this.#ready = [];
    this.#waits = [];
    this.handles.clear();
    this.names.clear();
    this.versions.clear();
    this.#release();
    this.activated = this.trial.now;
    this.opened = new Opened();
    this.host = callsOf(this);
    begin(this.host);
    this.state = state;
    this.#watched = begins(this.fn, this.trial.tests, this.trial.lost);
    const input = this.raw ? new TextEncoder().encode(this.input) : decode(this.input);
    (async () => asProgram(this.fn, input))().then((v) => (this.#end ??= cut() ? { e: cancelling() } : { v }), (e) => (this.#end ??= { e }));
  }

  // settle looks whether the iteration has come to its end.
  #settle() {
    if (this.continued) {
      this.#over("continued as new");
      this.input = this.continued.input;
      this.iteration++;
      this.#fresh = true;
      return;
    }
    if (this.#ended) return this.finish(this.#ended);
    if (!this.#end) return;
    let { e } = this.#end, failed = "e" in this.#end; // a program may throw undefined
    if (!failed) {
      try {
        this.result = encode(this.#end.v);
        if (bytesOf(this.result) > maxPayload) {
          this.refuse("TOO_LARGE", `the result has ${bytesOf(this.result)} bytes, the limit is ${maxPayload}`);
          failed = true;
          e = failure();
        }
      } catch (thrown) {
        failed = true;
        e = thrown;
      }
    }
    this.finish(failed ? { e, status: this.#failedStatus() } : undefined);
  }

  // finish ends the run, with an error and a status if it did not complete.
  finish(failed) {
    this.over = true;
    this.failed = failed;
    this.trial.drop(this);
    this.#release();
    this.#over(endWords[failed?.status ?? "completed"]);
    this.done?.(this);
  }

  // release gives up the tokens of hooks.
  #release() {
    for (const [token, { run }] of this.trial.tokens) if (run === this) this.trial.tokens.delete(token);
  }

  // over ends what belongs to an iteration. It is told nothing more, and gives back the signals that it was not told of.
  #over(how) {
    for (const [handle, h] of this.handles) {
      if (h.told) continue;
      h.told = true;
      h.child?.leave(h.onEnd);
      if (!h.signal) continue;
      this.#answers.delete(handle);
      this.#keep(h.signal);
    }
    const lost = JSON.stringify({ code: "CONFLICT", message: `the run ${how} before it had answered the update` });
    for (const answer of this.#answers.values()) answer(1, lost);
    this.#answers.clear();
    if (this.over) for (const s of this.#signals) s.answer?.(1, lost);
    this.#watched?.();
  }

  // leave does with a run for which its parent does not wait any more what the options say.
  leave(onEnd) {
    if (this.over || onEnd === "abandon") return;
    if (onEnd === "terminate") this.finish({ e: undefined, status: "terminated", report: null });
    else this.cancel();
  }

  // cancel asks the run to cancel.
  cancel() {
    if (this.over) return;
    if (this.cooperative && (this.inBody || this.state !== state)) this.#asked ??= true; // it is told in its own turn
    else if (this.cooperative) this.#ask();
    else this.end({ e: new WorkflowError(cancelled), status: "cancelled", report: null });
  }

  // deadline ends a run whose time is over. One that takes a cancel is told, and has some time to clean up.
  deadline(asked = false) {
    if (this.over) return;
    if (this.cooperative && !asked) {
      this.cancel();
      this.plan(this.trial.now + cancelGrace, () => this.deadline(true));
    } else this.finish({ e: new WorkflowError(late), status: "failed", report: late });
  }

  // ends reports whether the iteration has ended, though its code goes on for a moment, which a host's does not.
  ends() {
    return this.over || this.continued !== undefined || this.#ended !== undefined;
  }

  // end ends the run where it is.
  end(failed) {
    this.#ended = { status: this.#failedStatus(), ...failed };
    if (this.state !== state) this.finish(this.#ended);
  }

  // failedStatus returns the status of a run that an error ends.
  #failedStatus() {
    return this.#asked === undefined ? "failed" : "cancelled";
  }

  // ask tells the run of a cancel; of a second one it hears nothing.
  #ask() {
    if (this.#asked === undefined) asked();
    this.#asked = false;
  }

  #tell(handle, code, text) {
    const h = this.handles.get(handle);
    h.told = true;
    if (code) this.opened.fail(handle, (kind, place) => failing(kind, place, parseError(text)));
    else this.opened.resolve(handle, text);
  }

  // resolve brings the outcome of a handle: what it has brought, or with a code the error.
  resolve(handle, text, code = 0, attempts = undefined) {
    this.#ready.push([handle, code, text]);
    const { call } = this.handles.get(handle);
    Object.assign(call, { ended: this.#since(), code: "OK", attempts });
    if (code) {
      const e = JSON.parse(text);
      Object.assign(call, { code: e.code, message: e.message, attempts: e.attempts });
    } else if (text !== "") call.result = call.kind === "hook" ? text : decode(text);
  }

  #since = () => this.trial.now - this.began;

  // note records a call.
  note(call) {
    const c = { iteration: this.iteration, ...call, at: this.#since(), ended: this.#since() };
    this.calls.push(c);
    return c;
  }

  // open makes the handle of a call.
  open(kind, call, more) {
    const handle = this.handles.size + 1;
    delete call.ended;
    this.handles.set(handle, { kind, call, ...more });
    return handle;
  }

  plan(at, fire, handle, attempt = false) {
    this.trial.plan(at, fire, this, handle, attempt);
  }

  refuse(code, message) {
    this.last = JSON.stringify({ code, message });
    return -codes[code];
  }

  // named refuses a name that is used twice, and takes it.
  named(name) {
    checkUnique(name, this.names);
    this.room();
    this.names.add(name);
  }

  room() {
    checkHandles([...this.handles.values()].filter((h) => !h.told).length);
  }

  // attempt performs an attempt. The run has its outcome when as much time has passed, and goes on meanwhile.
  async #attempt(handle, h, n) {
    const { trial } = this, began = trial.now;
    let outcome;
    const ended = await trial.attempt(async () => {
      outcome = await this.#perform(h, n, began);
    });
    if (this.over) return;
    if (ended === began && !this.#asked) return this.#judge(handle, h, n, began, outcome);
    h.running = true;
    this.plan(ended, () => this.#judge(handle, h, n, began, outcome), handle, true);
  }

  // perform performs an attempt, and returns what it has brought: {text}, or {e} if it has failed.
  async #perform(h, n, began) {
    const { trial } = this, { attempts, timeout } = h.options;
    this.inBody = {
      name: h.name, handler: h.handler, attempt: n, attempts, idempotency_key: `key-of-${this.iteration}-${h.name}`,
      deadline_ms: began + timeout, last_error: h.lastError,
    };
    this.state.inBody = true;
    const watch = h.body && new Watch(h.body, trial.tests, trial.lost);
    let outcome;
    try {
      outcome = { text: (h.kind === "step" ? encodeResult : encode)(await inTime(h, watch ? watch.run(h.perform) : h.perform())) };
      if (h.kind === "step") outcome.e = tooLarge(h.name, outcome.text);
    } catch (e) {
      outcome = { e: reported(e) };
      if (outcome.e.kind === "timeout") trial.clock.pass(began + timeout);
    }
    outcome.e = this.inBody.cut ?? outcome.e;
    if (watch) await new Promise((resolve) => setImmediate(resolve)); // what follows from promises that the body does not wait for
    const changed = watch?.changed();
    if (changed !== undefined) trial.wrong ??= new LostChange(h.name, changed, h.body);
    this.inBody = undefined;
    this.state.inBody = false;
    return outcome;
  }

  // judge has a step succeed, be tried again, or fail for good.
  #judge(handle, h, n, began, { text, e }) {
    h.running = false;
    if (e === undefined) return this.resolve(handle, text, 0, h.kind === "step" ? n : undefined);
    const { due, failed } = outcomeOf(h, n, began, this.trial.now, e);
    if (due !== undefined) this.plan(due, () => this.#attempt(handle, h, n + 1), handle, true);
    else this.resolve(handle, JSON.stringify(failed), codes[failed.code]);
  }

  // outside calls what stands in for a handler of the host, which has the languages of the platform.
  async outside(fn) {
    this.trial.restore();
    try {
      return await fn();
    } finally {
      this.trial.restore = install();
    }
  }

  // deliver gives a signal to the oldest wait for it, or keeps it for the next one. It throws where there is no room for it.
  deliver(s) {
    if (this.over) throw new Error(`run ${named(this.id)}: run has ended: ${this.failed?.status ?? "completed"}`);
    const wait = this.#waits.findIndex((w) => w.name === s.name);
    if (wait < 0) checkPending(s.name, s.text, this.#signals);
    if (s.answer) checkUpdates(this.#answers.size + this.#signals.filter(({ answer }) => answer).length);
    s.n = this.#came++;
    if (wait < 0) this.#keep(s);
    else this.#take(this.#waits.splice(wait, 1)[0].handle, s);
  }

  // keep keeps a signal for the next wait.
  #keep(s) {
    this.#signals.push(s);
    this.#signals.sort((a, b) => a.n - b.n);
  }

  #take(handle, s) {
    this.trial.drop(this, handle);
    if (s.answer) this.#answers.set(handle, s.answer);
    this.handles.get(handle).signal = s;
    this.resolve(handle, s.text);
  }

  // wait opens the wait for a signal, which ends at an instant unless that is undefined.
  wait(handle, name, due) {
    const n = this.#signals.findIndex((s) => s.name === name);
    if (n >= 0) return this.#take(handle, this.#signals.splice(n, 1)[0]);
    this.#waits.push({ handle, name });
    if (due === undefined) return undefined;
    return this.plan(due, () => {
      this.#waits = this.#waits.filter((w) => w.handle !== handle);
      this.resolve(handle, JSON.stringify({ code: "TIMEOUT", message: "no signal came in time", name }), codes.TIMEOUT);
    }, handle);
  }

  // answer answers the update that a handle has brought.
  answer(handle, failed, text) {
    this.#answers.get(handle)?.(failed, text);
    this.#answers.delete(handle);
  }

  withdraw(handle) {
    const h = this.handles.get(handle);
    if (h.told) return 1;
    if (h.kind === "step" && (h.running || this.#ready.some(([other]) => other === handle))) { // its outcome is told
      h.stopped = true;
      return 2;
    }
    h.told = true;
    h.perform = undefined;
    h.child?.leave(h.onEnd);
    this.trial.drop(this, handle);
    this.#waits = this.#waits.filter((w) => w.handle !== handle);
    this.#ready = this.#ready.filter(([other]) => other !== handle);
    if (h.signal) this.#keep(h.signal);
    Object.assign(h.call, { code: "WITHDRAWN", ended: this.#since(), result: undefined });
    return 0;
  }

  async query(name, input) {
    if (this.state) use(this.host, this.state);
    const asked = encode(input);
    checkPayload("the input of query", name, asked);
    const fn = this.state?.queries.get(name);
    if (!fn) throw new Error(`the workflow answers no query ${JSON.stringify(name)} where it waits`);
    const text = await answered(fn, asked);
    if (bytesOf(text) > maxPayload) throw new Refusal("TOO_LARGE", `the answer has ${bytesOf(text)} bytes, the limit is ${maxPayload}`);
    return decode(text);
  }

  async update(name, input) {
    const text = encode(input);
    checkPayload("the input of update", name, text);
    if (this.over) throw new Error(`run ${named(this.id)}: run has ended: it takes no update`);
    if (this.state) use(this.host, this.state);
    const validate = this.state?.updates.get(name);
    if (!validate) throw new Error(`the workflow takes no update ${JSON.stringify(name)} where it waits`);
    await answered(async (v) => void (await validate(v)), text);
    return new Promise((resolve, reject) => {
      const answer = AsyncResource.bind((failed, said) => (failed ? reject(parseError(said.includes('"code"') ? said
        : JSON.stringify({ code: "STEP_FAILED", ...JSON.parse(said) }))) : resolve(decode(said))));
      this.trial.when(this, () => this.deliver({ name: updatePrefix + name, text, answer }));
    });
  }
}
