// Bodies of steps that wait for a promise that nothing can resolve, for tests under Node. A host sees that no job and no timer is left. Here
// there are the test's as well: a body waits for ever if nothing is left that could resolve its promise, or if Node waits for nothing at all.
import { whenIdle } from "./rejections.js";
import { collect } from "./scopes.js";

const { setTimeout, clearTimeout, performance } = globalThis;
const first = 1000, most = 10_000; // milliseconds between two looks, each of which collects garbage
const pause = 5000; // how long Node has nothing to wait for: what it does not wait for, such as a worker without a reference, may come yet
const ofBody = new WeakMap(); // of handles: WeakRefs of what their attempts bring

// followed makes a function known to be the body of a handle.
export const followed = (h, fn) => (...args) => {
  const brings = (async () => fn(...args))();
  ofBody.set(h, new WeakRef(brings));
  return brings;
};

// whenStuck calls a function with an error when the body of a handle can never end. It returns what ends this, and what looks at once.
export function whenStuck(h, fn) {
  const what = h.handler === undefined ? "body" : "step";
  const stuck = () => fn(Object.assign(new Error(`the ${what} waits for a promise that nothing can resolve`),
    { type: "Deadlock", retryable: false, stack: "" }));
  let timer, idle, passed;
  const can = () => {
    collect();
    return ofBody.get(h)?.deref() !== undefined;
  };
  const look = (wait) => {
    timer = setTimeout(() => (can() ? look(Math.min(2 * wait, most)) : stuck()), wait).unref();
  };
  look(first);
  const heard = whenIdle(() => {
    if (performance.now() - passed < first) return stuck(); // nothing has come during the pause
    idle = setTimeout(() => {
      idle = undefined;
      passed = performance.now();
    }, pause);
  });
  const end = () => {
    clearTimeout(timer);
    clearTimeout(idle);
    heard();
  };
  return { end, now: () => (idle || !can()) && stuck() };
}
