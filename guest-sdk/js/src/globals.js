// What programs expect of a platform, as far as the engine does not have it.
import { AbortController, AbortSignal, DOMException, Event, EventTarget } from "./abort.js";
import { console } from "./console.js";
import { Headers, Request, Response, fetch } from "./fetch.js";
import { check } from "./loading.js";
import { install } from "./locale.js";
import { plain } from "./races.js";
import { host } from "./state.js";
import { TextDecoder, TextEncoder, atob, btoa } from "./text.js";
import { clearTimeout, setInterval, setTimeout } from "./timers.js";
import { URL, URLSearchParams } from "./url.js";

const hex = [...Array(256).keys()].map((n) => n.toString(16).padStart(2, "0"));

const crypto = {
  getRandomValues(view) {
    if (!ArrayBuffer.isView(view) || view instanceof Float32Array || view instanceof Float64Array || view instanceof DataView) {
      throw new TypeError("getRandomValues takes an array of integers");
    }
    if (view.byteLength > 65_536) throw new DOMException("getRandomValues takes at most 65,536 bytes", "QuotaExceededError");
    check("crypto.getRandomValues()", true);
    return host.fill(view);
  },
  randomUUID() {
    check("crypto.randomUUID()", true);
    const b = host.fill(new Uint8Array(16));
    b[6] = (b[6] & 15) | 64;
    b[8] = (b[8] & 63) | 128;
    return [...b].map((n, i) => (i === 4 || i === 6 || i === 8 || i === 10 ? `-${hex[n]}` : hex[n])).join("");
  },
};

// structuredClone copies what JSON can hold, and dates, maps, sets, errors and binary data; cycles, too. It ignores options: what is
// to be transferred is copied.
function structuredClone(value) {
  return cloned(value, new Map());
}

function cloned(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") throw new DOMException(`a ${typeof value} cannot be cloned`, "DataCloneError");
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => (seen.set(value, copy), copy);
  if (value instanceof Date) return keep(new Date(value));
  if (value instanceof RegExp) return keep(new RegExp(value));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (value instanceof DataView) return keep(new DataView(value.buffer.slice(0), value.byteOffset, value.byteLength));
  if (ArrayBuffer.isView(value)) return keep(value.slice());
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [k, v] of value) copy.set(cloned(k, seen), cloned(v, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const v of value) copy.add(cloned(v, seen));
    return copy;
  }
  if (value instanceof Error) {
    const copy = keep(Object.assign(Object.create(Object.getPrototypeOf(value)), { message: value.message }));
    return Object.assign(copy, { name: value.name, stack: value.stack });
  }
  const copy = keep(Array.isArray(value) ? [] : {});
  for (const key of Object.keys(value)) copy[key] = cloned(value[key], seen);
  return copy;
}

const define = (o, values) => {
  for (const [key, value] of Object.entries(values)) Object.defineProperty(o, key, { value, writable: true, configurable: true });
};
install();
// What other engines throw when calls are nested too deeply is a RangeError.
if (typeof InternalError === "function") Object.setPrototypeOf(InternalError.prototype, RangeError.prototype);
define(Promise, { race: plain("race"), any: plain("any") });
define(globalThis, {
  AbortController, AbortSignal, DOMException, Event, EventTarget, Headers, Request, Response, TextDecoder, TextEncoder, URL,
  URLSearchParams, atob, btoa, clearInterval: clearTimeout, clearTimeout, console, crypto, fetch, queueMicrotask: (fn) => {
    Promise.resolve().then(fn);
  }, self: globalThis, setInterval, setTimeout, structuredClone,
  performance: { now: () => (check("performance.now()"), host.now()), timeOrigin: 0 },
});
