// Events, AbortController and AbortSignal.
import { milliseconds } from "./duration.js";
import { run } from "./state.js";
import { alarm, nextTimeout } from "./timers.js";

export class DOMException extends Error {
  #name;
  constructor(message = "", name = "Error") {
    super(message);
    this.#name = name;
  }
  get name() {
    return this.#name;
  }
}

export class Event {
  constructor(type, init = {}) {
    this.type = String(type);
    this.cancelable = init.cancelable === true;
    this.defaultPrevented = false;
    this.target = null;
  }
  preventDefault() {
    if (this.cancelable) this.defaultPrevented = true;
  }
}

export class EventTarget {
  #listeners = [];
  addEventListener(type, fn, options) {
    if (!fn || this.#listeners.some((l) => l.type === type && l.fn === fn)) return;
    this.#listeners.push({ type, fn, once: options?.once === true });
  }
  removeEventListener(type, fn) {
    this.#listeners = this.#listeners.filter((l) => l.type !== type || l.fn !== fn);
  }
  dispatchEvent(event) {
    event.target = this;
    for (const l of [...this.#listeners]) {
      if (l.type !== event.type || !this.#listeners.includes(l)) continue;
      if (l.once) this.removeEventListener(l.type, l.fn);
      if (typeof l.fn === "function") l.fn.call(this, event);
      else l.fn.handleEvent(event);
    }
    return !event.defaultPrevented;
  }
}

const key = Symbol("AbortSignal");

// What fetch asks of a signal: whether it was made outside of the body that asks, and when a timer could end it.
export let madeOutside;
export let mayEndAt;

export class AbortSignal extends EventTarget {
  #inBody = run?.inBody === true;
  #due; // of a timeout in a body
  #sources; // of any
  aborted = false;
  reason = undefined;
  onabort = null;
  static {
    madeOutside = (s) => #inBody in s && (!s.#inBody || s.#sources?.some(madeOutside) === true);
    mayEndAt = (s) => {
      if (!(#due in s)) return nextTimeout(); // a class of the program's own
      return s.#due ?? (s.#sources ? Math.min(...s.#sources.map(mayEndAt)) : nextTimeout());
    };
  }
  constructor(k) {
    super();
    if (k !== key) throw new TypeError("an AbortSignal is made by an AbortController");
  }
  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }
  static abort(reason) {
    return end(new AbortSignal(key), reason);
  }
  static timeout(ms) {
    const s = new AbortSignal(key);
    s.#due = alarm(() => end(s, new DOMException("the time is over", "TimeoutError")), milliseconds(Number(ms)));
    return s;
  }
  static any(signals) {
    const s = new AbortSignal(key);
    s.#sources = [...signals];
    for (const other of s.#sources) {
      if (other.aborted) return end(s, other.reason);
    }
    for (const other of s.#sources) other.addEventListener("abort", () => end(s, other.reason), { once: true });
    return s;
  }
}

function end(signal, reason = new DOMException("it was aborted", "AbortError")) {
  if (signal.aborted) return signal;
  signal.aborted = true;
  signal.reason = reason;
  const event = new Event("abort");
  signal.onabort?.(event);
  signal.dispatchEvent(event);
  return signal;
}

export class AbortController {
  signal = new AbortSignal(key);
  abort(reason) {
    end(this.signal, reason);
  }
}
