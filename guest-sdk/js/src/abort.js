// AbortController and AbortSignal.
import { milliseconds } from "./duration.js";
import { DOMException, Event, EventTarget, tag, trusted } from "./events.js";
import { run } from "./state.js";
import { alarm, nextTimeout } from "./timers.js";

const key = Symbol("AbortSignal");

// What fetch asks of a signal: whether it was made outside of the body that asks, and when a timer could end it.
export let madeOutside;
export let mayEndAt;
let end; // aborts a signal

export class AbortSignal extends EventTarget {
  #inBody = run?.inBody === true;
  #due; // of a timeout in a body
  #sources; // of any: signals that are no such ones themselves
  #dependents = []; // signals of any that end with this one
  #aborted = false;
  #reason;
  #handler = null; // onabort
  static {
    madeOutside = (s) => #inBody in s && (!s.#inBody || s.#sources?.some(madeOutside) === true);
    mayEndAt = (s) => {
      if (!(#due in s)) return nextTimeout(); // a class of the program's own
      return s.#due ?? (s.#sources ? Math.min(...s.#sources.map(mayEndAt)) : nextTimeout());
    };
    end = (signal, reason = new DOMException("This operation was aborted", "AbortError")) => {
      if (signal.#aborted) return signal;
      const all = [signal, ...signal.#dependents.filter((s) => !s.#aborted)];
      for (const s of all) {
        s.#aborted = true;
        s.#reason = reason;
      }
      for (const s of all) s.dispatchEvent(trusted(new Event("abort")));
      return signal;
    };
  }
  constructor(k) {
    super();
    if (k !== key) throw new TypeError("an AbortSignal is made by an AbortController");
  }
  get aborted() {
    return this.#aborted;
  }
  get reason() {
    return this.#reason;
  }
  get onabort() {
    return this.#handler;
  }
  set onabort(fn) {
    this.#handler = typeof fn === "function" || (typeof fn === "object" && fn !== null) ? fn : null;
    this.addEventListener("abort", this.#call); // once set it keeps its place, as in Node
  }
  #call = (event) => {
    if (typeof this.#handler === "function") this.#handler.call(this, event);
  };
  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }
  static abort(reason) {
    return end(new AbortSignal(key), reason);
  }
  static timeout(ms) {
    const s = new AbortSignal(key);
    s.#due = alarm(() => end(s, new DOMException("The operation was aborted due to timeout", "TimeoutError")), milliseconds(Number(ms)));
    return s;
  }
  static any(signals) {
    const s = new AbortSignal(key), all = [...signals];
    if (!all.every((other) => other instanceof EventTarget && "aborted" in other)) throw new TypeError("AbortSignal.any takes AbortSignals");
    s.#sources = [];
    for (const other of all) if (other.aborted) return end(s, other.reason);
    for (const other of all) {
      for (const source of (#sources in other && other.#sources) || [other]) {
        if (s.#sources.includes(source)) continue;
        s.#sources.push(source);
        if (#dependents in source) source.#dependents.push(s);
        else source.addEventListener("abort", () => end(s, source.reason), { once: true }); // of a class of the program's own
      }
    }
    return s;
  }
}
tag(AbortSignal, "AbortSignal");

export const never = () => new AbortSignal(key);

export class AbortController {
  #signal = new AbortSignal(key);
  get signal() {
    return this.#signal;
  }
  abort(reason) {
    end(this.#signal, reason);
  }
}
tag(AbortController, "AbortController");
