// Bodies of steps that wait for a promise that nothing can resolve, for tests under Node. A host sees that no job and no timer is left. Here
// there are the test's as well: a body waits for ever if nothing is left that could resolve its promise, or if Node waits for nothing at all.
import { createHook } from "node:async_hooks";
import { whenIdle } from "./rejections.js";
import { collect } from "./scopes.js";

const { setTimeout, clearTimeout, setImmediate } = globalThis;
const first = 1000, most = 10_000; // milliseconds between two looks, each of which collects garbage
const pause = 5000; // how long Node has nothing to wait for: what it does not wait for, such as a worker without a reference, may come yet
const ofBody = new WeakMap(); // of handles: WeakRefs of what their attempts bring

// followed makes a function known to be the body of a handle.
export const followed = (h, fn) => (...args) => {
  const brings = (async () => fn(...args))();
  ofBody.set(h, new WeakRef(brings));
  return brings;
};

// whenStuck calls a function with an error when the body of a handle can never end. It returns what ends this, and what looks at once,
// which timeout, the timer of the step's timeout, does.
export function whenStuck(h, timeout, fn) {
  const what = h.handler === undefined ? "body" : "step";
  const stuck = () => fn(Object.assign(new Error(`the ${what} waits for a promise that nothing can resolve`),
    { type: "Deadlock", retryable: false, stack: "" }));
  let timer, idle;
  let quiet = false; // a pause has begun, and nothing has come since
  const came = createHook({ before: (id) => (quiet &&= [timer, idle, timeout].some((own) => own && +own === id)) });
  const can = () => {
    collect();
    return ofBody.get(h)?.deref() !== undefined;
  };
  const look = (wait) => {
    timer = setTimeout(() => (can() ? look(Math.min(2 * wait, most)) : stuck()), wait).unref();
  };
  look(first);
  const heard = whenIdle(() => {
    if (quiet) return stuck();
    setImmediate(() => { // after that with which Node asks again
      quiet = true;
      came.enable();
    });
    idle = setTimeout(() => {}, pause);
  });
  const end = () => {
    clearTimeout(timer);
    clearTimeout(idle);
    came.disable();
    heard();
  };
  return { end, now: () => (quiet || !can()) && stuck() };
}
