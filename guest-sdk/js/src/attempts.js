// What comes of attempts of steps, for tests under Node.
import { report } from "./error.js";
import { named } from "./hosttext.js";
import { bytesOf, maxPayload, retryDelay } from "./rules.js";
import { whenStuck } from "./stuck.js";

const sdk = new URL(".", import.meta.url).href;
const real = { Date, setTimeout, clearTimeout, performance };

class TimedOut extends Error {}

// inTime rejects if an attempt of a step takes longer than it may, or is a body that can never end.
export async function inTime(h, promise) {
  const { timeout } = h.options, began = real.performance.now();
  let timer, watch;
  const over = () => new TimedOut(`the attempt ran over the step's timeout of ${timeout / 1000}s`);
  const late = new Promise((_, reject) => {
    const tell = () => {
      watch?.now();
      reject(over());
    };
    if (h.kind === "step" && timeout < 2 ** 31) timer = real.setTimeout(tell, timeout);
    if (!h.body) return; // what stands in for a handler may wait for anything
    timer?.unref(); // whenStuck keeps Node alive
    watch = whenStuck(h, timer, reject);
  });
  try {
    const v = await Promise.race([promise, late]);
    if (h.kind === "step" && real.performance.now() - began > timeout) throw over();
    return v;
  } finally {
    real.clearTimeout(timer);
    watch?.end();
    h.endTimers?.();
  }
}

// reported returns what is known of what an attempt has thrown.
export const reported = (e) => (e instanceof TimedOut ? { kind: "timeout", message: e.message } : JSON.parse(report(e)));

// tooLarge returns the error of a result that is too large.
export function tooLarge(name, text) {
  const n = bytesOf(text);
  if (n <= maxPayload) return undefined;
  return { code: "TOO_LARGE", message: `result of step ${named(name)} has ${n} bytes, the limit is ${maxPayload}`, retryable: false };
}

// outcomeOf returns when a step or child is tried again whose n-th attempt has failed, or the error with which it fails for good.
export function outcomeOf(h, n, began, now, e) {
  const { kind = "error", message, type, retryable, retry_after_ms: after, stack } = e;
  const { attempts, max_elapsed: elapsed, at_most_once: once } = h.options;
  const one = { code: e.code === "TOO_LARGE" && type === undefined ? e.code : "STEP_FAILED", message, name: h.name, kind, type, attempts: n,
    details: stack ? { stack } : undefined };
  h.lastError = { code: "STEP_FAILED", message };
  const due = now + (after ?? retryDelay(h.options, n));
  const final = h.stopped || retryable === false || (attempts > 0 && n >= attempts) || (once && kind !== "error");
  if (!final && !(elapsed > 0 && due > h.since + elapsed)) {
    (h.history ??= []).push({ attempt: n, start_ms: began, duration_ms: now - began, error: { ...one, retryable: true } });
    return { due };
  }
  if (h.kind === "child") {
    return { failed: { code: "CHILD_FAILED", name: h.name, kind: "failed", type: type || undefined, details: e,
      message: `child ${named(h.name)} (run ${h.id}) failed${message ? `: ${message}` : ""}` } };
  }
  if (h.history) one.details = { details: one.details ?? null, history: h.history };
  return { failed: one };
}

// whereOf returns the place in the program of a stack.
export const whereOf = (stack) => /\(?([^\s(]+:\d+:\d+)\)?$/.exec(stack.split("\n").slice(1).find((line) => !line.includes(sdk)) ?? "")?.[1] ?? "";

// dateOf makes a Date whose clock is that of a run.
export function dateOf(now) {
  return new Proxy(real.Date, {
    construct: (target, args, as) => Reflect.construct(target, args.length > 0 ? args : [now()], as),
    apply: () => new real.Date(now()).toString(),
    get: (target, key) => (key === "now" ? now : Reflect.get(target, key)),
  });
}
