import { milliseconds } from "./duration.js";
import { inspect, messageOf, ofProgram, stackOf } from "./inspect.js";
import { JSON } from "./json.js";

// WorkflowError is a refusal of the host, or the failure of a step, child or wait.
export class WorkflowError extends Error {
  constructor(e) {
    super(e.message);
    this.code = e.code;
    if (e.name) this.step = e.name;
    for (const key of ["kind", "type", "attempts", "retryable", "details"]) if (e[key] !== undefined) this[key] = e[key];
  }
}
Object.defineProperty(WorkflowError.prototype, "name", { value: "WorkflowError", writable: true, configurable: true });

// FatalError ends the attempts of a step.
export class FatalError extends Error {
  constructor(message, options) {
    super(message, options);
    this.retryable = false;
  }
}
Object.defineProperty(FatalError.prototype, "name", { value: "FatalError", writable: true, configurable: true });

// RetryableError sets the delay before the next attempt of a step.
export class RetryableError extends Error {
  constructor(message, options = {}) {
    super(message, options);
    if (options.retryAfter === undefined) return;
    if (!(options.retryAfter instanceof Date)) milliseconds(options.retryAfter); // throws if it is none
    else if (Number.isNaN(options.retryAfter.getTime())) throw new RangeError("retryAfter: the Date is invalid");
    this.retryAfter = options.retryAfter;
  }
}
Object.defineProperty(RetryableError.prototype, "name", { value: "RetryableError", writable: true, configurable: true });

// parseError reads error JSON of the host. Its stack is that of the code that failed, as far as the host has it.
export function parseError(text) {
  try {
    const e = JSON.parse(text);
    if (e && typeof e.code === "string") return new WorkflowError(e);
  } catch {
    // it is no JSON: the text itself is the message
  }
  return new WorkflowError({ code: "STEP_FAILED", message: text });
}

// Limits of characters, so that a report is far below the 1 MiB that a host takes, also if JSON escapes all of them.
const maxStack = 8 << 10, maxMessage = 64 << 10, maxType = 1 << 10;

// cut returns a text, or its beginning and "…" if it is longer than a limit.
const cut = (text, limit) => (text.length > limit ? `${text.slice(0, limit).replace(/[\uD800-\uDBFF]$/, "")}…` : text);

const headed = new Error("headed").stack.includes("headed"); // stacks begin with the error itself, as those of Node

// cameFrom makes the stack of a call's failure: the frames of the code that failed, and the place of the call.
export function cameFrom(e, label, where) {
  const inner = e.details?.details?.stack ?? e.details?.stack;
  const frames = typeof inner === "string" ? inner.split("\n").filter(ofProgram) : [];
  if (headed) {
    const first = frames.findIndex((line) => /^\s+at /.test(line));
    frames.splice(0, first < 0 ? frames.length : first, `${e.name}: ${e.message}`);
  }
  if (where) frames.push(`    at ${label} (${where})`);
  e.stack = frames.join("\n");
  return e;
}

// report makes the failure report of what was thrown.
export function report(e) {
  try {
    return described(e);
  } catch {
    return JSON.stringify({ message: "what was thrown cannot be read: its own code throws when one looks at it, as traps of a Proxy do", type: typeof e });
  }
}

function described(e) {
  const type = typeof e?.type === "string" ? e.type : e instanceof Error ? e.name : typeof e;
  const r = { message: cut(told(e), maxMessage), type: typeof type === "string" ? cut(type, maxType) : type };
  if (e instanceof WorkflowError) {
    r.code = e.code;
    if (e.step) r.name = e.step;
    if (e.attempts) r.attempts = e.attempts;
  }
  if (e?.retryable === false) r.retryable = false;
  if (e instanceof RetryableError && e.retryAfter !== undefined) r.retry_after_ms = retryMs(e.retryAfter);
  const stack = stackOf(e);
  if (stack) r.stack = stack.slice(0, maxStack);
  return JSON.stringify(r);
}

function retryMs(v) {
  if (v instanceof Date) return Math.max(0, v.getTime() - Date.now());
  return Math.max(0, Math.round(milliseconds(v)));
}

// told returns the message of what was thrown, with those of its causes that it does not repeat.
function told(e, above = []) {
  if (typeof e === "string") return e;
  if (!(e instanceof Error)) return inspect(e);
  const own = messageOf(e);
  if (above.includes(e)) return own;
  const causes = e instanceof AggregateError && Array.isArray(e.errors) ? [...e.errors] : [];
  if (e.cause !== undefined) causes.push(e.cause);
  const more = causes.map((c) => told(c, [...above, e])).filter((text) => !own.includes(text));
  const head = own || (more.length > 0 && !(e instanceof AggregateError) ? "" : e.name);
  return [head, more.join("; ")].filter(Boolean).join(": ");
}
