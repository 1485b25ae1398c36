// Calls that come too early: while the files of a program are loaded, which happens once for all runs; and process.env, which is never
// there.
import { stackOf } from "./inspect.js";
import { host, use } from "./state.js";

const ofRuns = ["attribute", "bytes", "child", "continueAsNew", "emit", "hook", "info", "policy", "send", "signal", "sleep", "sleepText", "sleepUntil", "step",
  "stepBegin", "version"];
const ofSDK = /^\s*at (\w+) \(@wfhost\/workflow\//;
let early; // the error of the first call that was made too early
let native;

// forbid has the calls of runs throw until a run begins.
export function forbid() {
  native = host;
  use(Object.assign(Object.create(native), Object.fromEntries(ofRuns.map((name) => [name, refuse]))));
}

// allow says that a run has begun.
export function allow() {
  use(native);
}

// refuse throws an error that names the function of the SDK that the program has called, and where.
function refuse() {
  const e = new Error();
  let name = "a call";
  for (const line of e.stack.split("\n")) {
    if (!line.includes("@wfhost/workflow/")) break;
    const frame = ofSDK.exec(line);
    if (frame) name = `${frame[1].replace(/\d+$/, "")}()`; // a bundle numbers what has the name of something else
  }
  e.message = `${name} is a call of a run, and there is none while a file is loaded: call it in the function of the workflow`;
  e.stack = stackOf(e);
  early ??= e;
  throw e;
}

// checkEarly throws what a program may have caught: the first call that was made too early.
export function checkEarly() {
  if (early) throw early;
}

// process.env in a program becomes __wfEnvironment, unless the program asks first whether there is a process.
Object.defineProperty(globalThis, "__wfEnvironment", { configurable: true, get() {
  if (globalThis.process) return globalThis.process.env; // the program has made one
  throw new Error("a workflow has no process.env, which could change between replays: give it what it needs as input, or have a handler " +
    "of the host do the step; secrets are put into its requests by --allow-secret");
} });
