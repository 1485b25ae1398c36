// setTimeout and setInterval: durable in workflows, as sleep is; in bodies and step functions they really wait.
import { longest } from "./duration.js";
import { nothing, pending } from "./pending.js";
import { host, run } from "./state.js";

const real = new Map(); // of a body: by id, when and what

// delay returns how many milliseconds a timer waits.
export function delay(ms) {
  const n = Number(ms);
  return n > 0 ? Math.min(Math.ceil(n), longest) : 0;
}

function arm(fn, ms, args, every) {
  if (typeof fn !== "function") throw new TypeError("setTimeout and setInterval take a function");
  const id = ++run.timerIds;
  if (run.inBody) {
    real.set(id, { at: host.now() + delay(ms), fire: () => fn(...args), every: every ? Math.max(1, delay(ms)) : 0 });
    return id;
  }
  const next = (wait) => {
    const p = pending(host.sleep(host.unique("setTimeout"), wait), "sleep", undefined, nothing);
    run.timers.set(id, { promise: p, again: next });
    p.then(() => {
      if (every) next(delay(ms));
      else run.timers.delete(id);
      fn(...args);
    }, (e) => {
      if (run.timers.get(id)?.promise !== p) return; // it was cleared, or began again
      run.timers.delete(id);
      throw e;
    });
    return p;
  };
  next(delay(ms));
  return id;
}

export const setTimeout = (fn, ms, ...args) => arm(fn, ms, args, false);
export const setInterval = (fn, ms, ...args) => arm(fn, ms, args, true);

export function clearTimeout(id) {
  if (real.delete(id)) return;
  const timer = run.timers.get(id);
  run.timers.delete(id);
  timer?.promise.cancel();
}

// alarm is setTimeout for AbortSignal.timeout. In a body it returns when that ends.
export function alarm(fn, ms) {
  const t = real.get(setTimeout(fn, ms));
  if (t) t.alarm = true;
  return t?.at;
}

// nextTimeout returns when the next setTimeout of a body is due, Infinity if there is none.
export function nextTimeout() {
  let at = Infinity;
  for (const t of real.values()) if (!t.every && !t.alarm && t.at < at) at = t.at;
  return at;
}

function first() {
  let first;
  for (const [id, t] of real) if (!first || t.at < first.t.at) first = { id, t };
  return first;
}

function fire({ id, t }) {
  if (t.every) t.at += t.every;
  else real.delete(id);
  t.fire();
}

// fireTimer waits for the next timer of a body, and fires it. It returns false if there is none.
export function fireTimer() {
  const next = first();
  if (!next) return false;
  const wait = next.t.at - host.now();
  if (wait > 0) host.pause(wait);
  fire(next);
  return true;
}

// fireUntil fires the timers of a body that are due at an instant.
export function fireUntil(at) {
  for (let next = first(); next && next.t.at <= at; next = first()) fire(next);
}
