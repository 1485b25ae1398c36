// The timers of tests under Node: those of the SDK for workflows, and Node's for what Env calls beside them.
import { AsyncLocalStorage } from "node:async_hooks";
import { milliseconds } from "./duration.js";
import { asNode, asProgram } from "./nodeprocess.js";
import { alarm, clearTimeout, delay, setInterval, setTimeout } from "./timers.js";

const longest = 2 ** 31 - 1; // milliseconds; Node takes more for 1

const workflow = { setTimeout, setInterval, clearTimeout, clearInterval: clearTimeout };
const node = Object.fromEntries(Object.keys(workflow).map((key) => [key, globalThis[key]]));
const within = new AsyncLocalStorage(); // the timers of the code that is executed, if they are not the workflow's

// globals choose by who calls them: a workflow may go on while what a test calls beside it waits.
export const globals = Object.fromEntries(Object.keys(workflow).map((key) => [key, (...args) => (within.getStore() ?? workflow)[key](...args)]));

// timeout is AbortSignal.timeout, by one of these timers.
export function timeout(ms) {
  const c = new AbortController();
  (within.getStore()?.alarm ?? alarm)(() => c.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")), milliseconds(Number(ms)));
  return c.signal;
}

const asked = new AsyncLocalStorage(); // whether the code that is executed answers the test

// inside calls a function of the workflow for the test: that of a query, or the validator of an update.
export const inside = (fn, ...args) => within.run(undefined, () => asked.run(true, asProgram, fn, ...args));

// answering reports whether such a function is executed.
export const answering = () => asked.getStore() === true;

// timed calls a function whose timers really wait. Until it returns, what they wait for passes by the run's clock as well. The
// timers of a body end with its attempt: body is its handle, whose endTimers ends them.
export async function timed(clock, body, fn, ...args) {
  const left = new Set();
  let over = false;
  const arm = (kind) => (fn, ms, ...args) => {
    if (typeof fn !== "function") throw new TypeError("setTimeout and setInterval take a function");
    const wait = Math.min(delay(ms), longest);
    let due = clock.now() + wait;
    const timer = node[kind](() => {
      if (!over) clock.pass(due);
      due += wait;
      fn(...args);
    }, wait);
    left.add(timer);
    if (body) timer.unref = () => timer; // the timers of a host have none
    if (over && body) node.clearTimeout(timer);
    return timer;
  };
  const end = () => {
    over = true;
    if (body) for (const timer of left) node.clearTimeout(timer);
  };
  if (body) body.endTimers = end;
  try {
    const timers = { ...node, setTimeout: arm("setTimeout"), setInterval: arm("setInterval") };
    timers.alarm = (fn, ms) => timers.setTimeout(fn, ms).unref();
    return await within.run(timers, body ? asProgram : asNode, fn, ...args);
  } finally {
    end();
  }
}
