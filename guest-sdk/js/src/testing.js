// An environment for unit tests under Node: workflows run in memory, and sleeps take no time. Nothing is durable here.
import { milliseconds } from "./duration.js";
import { install } from "./locale.js";
import { KeptChange, LostChange, testFiles } from "./lost.js";
import { timed } from "./nodetimers.js";
import { stage } from "./platform.js";
import { checkInput, checkName, checkPayload } from "./rules.js";
import { decode, encode } from "./state.js";
import { Run } from "./testrun.js";
import { Trial } from "./trial.js";

export { KeptChange, LostChange };

const real = { Date };

let running; // the environment whose run is going on

// RunView is what a test does to a run, and sees of it.
class RunView {
  #of;

  constructor(of) {
    this.#of = of;
  }

  get runId() {
    return this.#of().id;
  }

  get steps() {
    return this.#of().steps;
  }

  get calls() {
    return this.#of().calls;
  }

  get outputs() {
    return this.#of().outputs;
  }

  get sent() {
    return this.#of().sent;
  }

  get attributes() {
    return this.#of().attributes;
  }

  signal(name, payload) {
    const text = encode(payload);
    checkName("signal name", name);
    checkPayload("the payload of signal", name, text);
    const run = this.#of();
    run.trial.when(run, () => run.deliver({ name, text }));
  }

  async query(name, input) {
    return this.#of().query(name, input);
  }

  async update(name, input) {
    return this.#of().update(name, input);
  }

  // cancel asks the run to cancel.
  cancel() {
    const run = this.#of();
    run.trial.when(run, () => run.cancel());
  }
}

export class Env extends RunView {
  #trial = new Trial();
  #run;

  constructor({ now = "2026-01-05T08:00:00Z", runId = "test", memo, lost = [] } = {}) {
    super(() => this.#run);
    const at = new real.Date(now).getTime();
    if (Number.isNaN(at)) throw new RangeError(`now: ${now} is no date`);
    Object.assign(this.#trial, { now: at, tests: testFiles(), lost });
    this.#run = new Run(this.#trial, { id: runId, memo });
  }

  get now() {
    return new real.Date(this.#trial.now);
  }

  // handle stands in for a handler of the host, or performs a step function: fn(input, step).
  handle(name, fn) {
    this.#trial.handlers.set(name, fn);
    return this;
  }

  // child stands in for another workflow: fn(input).
  child(name, fn) {
    this.#trial.children.set(name, fn);
    return this;
  }

  // absent says that there is no run of this id.
  absent(runId) {
    this.#trial.absent.add(runId);
    return this;
  }

  // at calls a function when so much time has passed since now.
  at(after, fn) {
    this.#trial.plan(this.#trial.now + milliseconds(after), () => timed(this.#trial.clock, false, fn));
    return this;
  }

  // deliver delivers to the hook of a token.
  deliver(token, payload) {
    const held = this.#trial.tokens.get(token);
    if (!held) throw new Error(`no hook has the token ${JSON.stringify(token)}`);
    const text = encode(payload);
    checkPayload("the payload of signal", held.name, text);
    this.#trial.when(held.run, () => held.run.deliver({ name: held.name, text }));
  }

  // childRun is a child that the run has started, or a child of that, by its id; undefined if there is none.
  childRun(runId) {
    const run = this.#trial.runs.get(runId);
    return run && run !== this.#run ? new RunView(() => run) : undefined;
  }

  // run runs a workflow function to its end, and returns its result.
  async run(fn, input) {
    if (running) throw new Error("another run is going on in this process: await it first");
    running = this;
    const trial = this.#trial, unstage = stage(trial);
    trial.restore = install();
    trial.wrong = undefined;
    const run = this.#run;
    try {
      const text = encode(input);
      checkInput(text);
      run.again(fn, text);
      trial.runs.set(run.id, run);
      trial.ids.add(run.id);
      await trial.play(run);
      if (run.failed) throw run.failed.e;
      return decode(run.result);
    } finally {
      trial.restore();
      unstage();
      running = undefined;
    }
  }
}
