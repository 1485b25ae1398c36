// The engine's part: it installs what programs expect of a platform, and answers the loop in typescript/engine/shim.c.
import "./globals.js";
import { asked, cancelling, cut, failing, rested } from "./cancel.js";
import { allow, checkEarly, forbid } from "./early.js";
import { report } from "./error.js";
import { inspect } from "./inspect.js";
import { JSON } from "./json.js";
import { loaded } from "./loading.js";
import { cancel, notJSON } from "./pending.js";
import { turned } from "./races.js";
import { description, sole, steps, workflow, workflows } from "./registry.js";
import { begin, decode, encode, encodeResult, failure, host, run } from "./state.js";
import { fireTimer } from "./timers.js";

const needed = 6; // version of __wf
const native = globalThis.__wf;
if (!(native?.interface >= needed)) throw new Error("this SDK needs a newer wfhost");
begin(native);
forbid();

// What the promises of handles inherit from: made before the program can change what a platform has.
const promises = Object.create(Promise.prototype, { cancel: { value: cancel, writable: true, configurable: true } });

// serve registers what a program exports as its default, and hands the hooks to the engine. file is the program's; unnamed says why
// the default has no name, and is empty if it has one.
export function serve(program, file, name, unnamed) {
  loaded();
  const fn = program.default?.default ?? program.default; // of CommonJS, too
  if (typeof fn === "function" && ![...workflows.values()].some((w) => w.fn === fn)) {
    if (unnamed) throw plainError(`${file}: ${unnamed}`);
    workflow(name, program.options ?? {}, fn);
  }
  if (workflows.size === 0) {
    throw plainError(`${file}: the program has no workflow: export a function as its default, or call workflow("name", fn)`);
  }
  native.hooks(onRun, onFailed, onBody, asked, onStuck, onQuery, onStep, onDescribe, onIdle, promises);
}

// plainError returns an error that says itself where: it has no stack.
function plainError(message) {
  return Object.assign(new Error(message), { stack: "" });
}

function onDescribe() {
  checkEarly();
  native.complete(JSON.stringify(description()));
}

function info() {
  return JSON.parse(host.info());
}

function input() {
  try {
    return decode(host.input());
  } catch (e) {
    throw new TypeError(`the input is not JSON: ${e.message}; workflow("name", { raw: true }, fn) takes it as bytes`);
  }
}

// settle calls a function, and hands what it brings, as text, or what it throws to one of two others.
async function settle(fn, brought, thrown, write = encode) {
  let text;
  try {
    text = write(await fn());
  } catch (e) {
    return thrown(e);
  }
  brought(text);
}

function onRun() {
  allow();
  const w = sole ?? workflows.get(host.workflow?.() ?? info().workflow); // the only one runs, whatever its name
  if (!w) return end(new Error(`the program has no workflow ${JSON.stringify(info().workflow)}`));
  const { fn, options } = w;
  settle(() => fn(options.raw ? new Uint8Array(host.bytes()) : input()), complete, end);
}

function complete(text) {
  if (run.owed && cut()) return end(cancelling()); // looked at here, so that most runs call nothing
  if (!finish(host.complete(text), 1)) end(failure());
}

// end fails the run.
function end(e) {
  finish(host.fail(report(e)), 2);
}

const queried = -17; // the activation was made for a query, and the run has ended

function finish(code, done) {
  if (code === queried) onQuery();
  else if (code >= 0) run.done = done;
  return code >= 0 || code === queried;
}

// onFailed returns the error of a handle that has failed, or whose result is not JSON because of a cause.
function onFailed(kind, place, cause) {
  return failing(kind, place, cause === undefined ? failure() : notJSON(kind, cause));
}

function onBody(fn) {
  run.inBody = true;
  settle(fn, (text) => host.stepEnd(0, text), (e) => host.stepEnd(1, report(e)), encodeResult);
}

function onStep() {
  allow();
  run.inBody = true;
  const { step } = info();
  const fn = steps.get(step.handler);
  settle(() => {
    if (!fn) throw Object.assign(new Error(`the program has no step function ${JSON.stringify(step.handler)}`), { retryable: false });
    return fn(decode(host.input()));
  }, complete, end, encodeResult);
}

const updatePrefix = "host/update/";

function onQuery() {
  const name = info().query;
  run.answering = true;
  settle(async () => {
    const input = decode(host.input());
    if (name.startsWith(updatePrefix)) {
      const validate = run.updates.get(name.slice(updatePrefix.length));
      if (!validate) throw new Error(`the workflow takes no update ${JSON.stringify(name.slice(updatePrefix.length))} where it waits`);
      await validate(input);
      return undefined;
    }
    const fn = run.queries.get(name);
    if (!fn) throw new Error(`the workflow answers no query ${JSON.stringify(name)} where it waits`);
    return fn(input);
  }, (text) => host.queryReply(0, text), (e) => host.queryReply(1, report(e)));
}

function onStuck() {
  host.fail(JSON.stringify({ message: "deadlock: the workflow waits for a promise that nothing can resolve", kind: "deadlock", type: "deadlock" }));
  run.done = 2;
}

const rejected = new Map();
let rejections = 0; // its size
native.rejections((promise, reason, handled) => {
  if (handled) rejected.delete(promise);
  else rejected.set(promise, reason);
  rejections = rejected.size;
});

function tellRejections() {
  for (const reason of rejected.values()) {
    host.log(2, `a promise was rejected, and nobody handles that: ${inspect(reason)}`);
  }
  rejected.clear();
  rejections = 0;
}

// onIdle is called when no job is left. It returns 0 if there is something to wait for, else 1 and the exit code. A replay does it
// for each outcome.
function onIdle() {
  turned();
  if (run.owed) rested();
  if (rejections > 0 && !run.inBody) tellRejections();
  if (run.answering) host.queryReply(1, JSON.stringify({ message: "the query waits for a promise that nothing can resolve" }));
  if (!run.inBody || run.done) return run.done;
  if (fireTimer()) return 0;
  host.fail(JSON.stringify({ message: "the step waits for a promise that nothing can resolve", type: "Deadlock", retryable: false }));
  return 2; // the end of a body is the engine's
}

native.keep(); // what there is by now: the program's own files come next
