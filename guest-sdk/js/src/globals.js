// What programs expect of a platform, as far as the engine does not have it.
import { AbortController, AbortSignal } from "./abort.js";
import { structuredClone } from "./clone.js";
import { console } from "./console.js";
import { CustomEvent, DOMException, Event, EventTarget } from "./events.js";
import { Headers, Request, Response, fetch } from "./fetch.js";
import { check } from "./loading.js";
import { install } from "./locale.js";
import { URLSearchParams } from "./params.js";
import { plain } from "./races.js";
import { host } from "./state.js";
import { TextDecoder, TextEncoder, atob, btoa } from "./text.js";
import { clearTimeout, setInterval, setTimeout } from "./timers.js";
import { URL } from "./url.js";

const hex = [...Array(256).keys()].map((n) => n.toString(16).padStart(2, "0"));

const crypto = {
  getRandomValues(view) {
    if (!ArrayBuffer.isView(view) || view instanceof Float32Array || view instanceof Float64Array || view instanceof DataView) {
      throw new DOMException("The data argument must be an integer-type TypedArray", "TypeMismatchError");
    }
    if (view.byteLength > 65_536) throw new DOMException("The requested length exceeds 65,536 bytes", "QuotaExceededError");
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

const define = (o, values) => {
  for (const [key, value] of Object.entries(values)) Object.defineProperty(o, key, { value, writable: true, configurable: true });
};
install();
// What other engines throw when calls are nested too deeply is a RangeError.
if (typeof InternalError === "function") Object.setPrototypeOf(InternalError.prototype, RangeError.prototype);
define(Promise, { race: plain("race"), any: plain("any") });
define(globalThis, {
  AbortController, AbortSignal, CustomEvent, DOMException, Event, EventTarget, Headers, Request, Response, TextDecoder, TextEncoder, URL,
  URLSearchParams, atob, btoa, clearInterval: clearTimeout, clearTimeout, console, crypto, fetch, queueMicrotask(fn) {
    if (typeof fn !== "function") throw new TypeError("queueMicrotask takes a function");
    Promise.resolve().then(() => void fn());
  }, self: globalThis, setInterval, setTimeout, structuredClone,
  performance: { now: () => (check("performance.now()"), host.now()), timeOrigin: 0 },
});
