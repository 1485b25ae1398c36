// Bodies of steps that wait for a promise that nothing can resolve, for tests under Node. A host sees that no job and no timer is left. Here
// there are the test's as well: a body waits for ever if nothing is left that could resolve its promise.
import { collect } from "./scopes.js";

const { setTimeout, clearTimeout } = globalThis;
const first = 1000, most = 10_000; // milliseconds between two looks, each of which collects garbage
const ofBody = new WeakMap(); // of handles: WeakRefs of what their attempts bring

// followed makes a function known to be the body of a handle.
export const followed = (h, fn) => (...args) => {
  const brings = (async () => fn(...args))();
  ofBody.set(h, new WeakRef(brings));
  return brings;
};

// whenStuck calls a function with an error when the body of a handle can never end, and returns what ends this.
export function whenStuck(h, fn) {
  const what = h.handler === undefined ? "body" : "step";
  let timer;
  const look = (wait) => {
    timer = setTimeout(() => {
      collect();
      if (ofBody.get(h)?.deref()) return look(Math.min(2 * wait, most));
      fn(Object.assign(new Error(`the ${what} waits for a promise that nothing can resolve`), { type: "Deadlock", retryable: false, stack: "" }));
    }, wait);
  };
  look(first);
  return () => clearTimeout(timer);
}
