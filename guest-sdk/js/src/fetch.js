// fetch, in steps: the host makes the request, by the rules that the workflow was uploaded with.
import { madeOutside, mayEndAt } from "./abort.js";
import { milliseconds } from "./duration.js";
import { failure, host, run } from "./state.js";
import { fireUntil } from "./timers.js";

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const cookies = "set-cookie"; // values of this name cannot be joined

export class Headers {
  #map = new Map();
  constructor(init) {
    if (!init) return;
    for (const [k, v] of typeof init[Symbol.iterator] === "function" ? init : Object.entries(init)) this.append(k, v);
  }
  #key(name) {
    if (!token.test(name)) throw new TypeError(`${JSON.stringify(name)} is not the name of a header`);
    return String(name).toLowerCase();
  }
  append(name, value) {
    const k = this.#key(name);
    this.#map.set(k, [...(this.#map.get(k) ?? []), String(value).trim()]);
  }
  set(name, value) {
    this.#map.set(this.#key(name), [String(value).trim()]);
  }
  get(name) {
    return this.#map.get(this.#key(name))?.join(", ") ?? null;
  }
  getSetCookie() {
    return [...(this.#map.get(cookies) ?? [])];
  }
  has(name) {
    return this.#map.has(this.#key(name));
  }
  delete(name) {
    this.#map.delete(this.#key(name));
  }
  forEach(fn) {
    for (const [k, v] of this) fn(v, k, this);
  }
  keys() {
    return [...this].map(([k]) => k).values();
  }
  values() {
    return [...this].map(([, v]) => v).values();
  }
  entries() {
    const sorted = [...this.#map].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.flatMap(([k, list]) => (k === cookies ? list.map((v) => [k, v]) : [[k, list.join(", ")]])).values();
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

let bytesIn; // of a Stream

// Stream stands for a body that has come as a whole.
class Stream {
  locked = false;
  #bytes;
  static {
    bytesIn = (v) => (v !== null && typeof v === "object" && #bytes in v ? v.#bytes : undefined);
    const unread = ["getReader", "pipeThrough", "pipeTo", "tee", Symbol.asyncIterator];
    for (const key of unread) {
      this.prototype[key] = () => {
        throw new TypeError("there are no streams here, a body comes as a whole: read it by text(), json(), bytes() or arrayBuffer()");
      };
    }
  }
  constructor(bytes) {
    this.#bytes = bytes;
  }
  async cancel() {}
}

// bytesOf returns the body as bytes, and its type.
function bytesOf(body) {
  if (body === undefined || body === null) return { bytes: new Uint8Array(0) };
  const within = bytesIn(body);
  if (within) return { bytes: within };
  if (body instanceof ArrayBuffer) return { bytes: new Uint8Array(body) };
  if (ArrayBuffer.isView(body)) return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength) };
  const type = body instanceof globalThis.URLSearchParams ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8";
  return { bytes: new Uint8Array(host.encode(String(body))), type };
}

class Body {
  #bytes;
  bodyUsed = false;
  constructor(bytes) {
    this.#bytes = bytes;
  }
  get body() {
    return this.#bytes.length > 0 ? new Stream(this.#bytes) : null;
  }
  #take() {
    if (this.bodyUsed) throw new TypeError("the body was read before");
    this.bodyUsed = true;
    return this.#bytes;
  }
  _peek() {
    return this.#bytes;
  }
  async bytes() {
    return this.#take().slice();
  }
  async arrayBuffer() {
    return this.#take().slice().buffer;
  }
  async text() {
    return new globalThis.TextDecoder().decode(this.#take());
  }
  async json() {
    return JSON.parse(await this.text());
  }
}

export class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const { bytes, type } = init.body === undefined && from ? { bytes: from._peek() } : bytesOf(init.body);
    super(bytes);
    this.url = from?.url ?? new globalThis.URL(input).href;
    this.method = String(init.method ?? from?.method ?? "GET").toUpperCase();
    this.headers = new Headers(init.headers ?? from?.headers);
    this.timeout = init.timeout ?? from?.timeout;
    this.signal = (init.signal === undefined ? from?.signal : init.signal) ?? undefined;
    if (type && !this.headers.has("content-type")) this.headers.set("content-type", type);
    if (bytes.length > 0 && (this.method === "GET" || this.method === "HEAD")) throw new TypeError(`a ${this.method} has no body`);
  }
  clone() {
    return new Request(this);
  }
}

export class Response extends Body {
  constructor(body, init = {}) {
    const { bytes, type } = bytesOf(body);
    super(bytes);
    this.status = init.status ?? 200;
    this.statusText = init.statusText ?? "";
    this.headers = new Headers(init.headers);
    this.url = init.url ?? "";
    if (type && !this.headers.has("content-type")) this.headers.set("content-type", type);
  }
  get ok() {
    return this.status >= 200 && this.status < 300;
  }
  clone() {
    return new Response(this._peek(), this);
  }
  static json(v, init = {}) {
    const r = new Response(JSON.stringify(v), init);
    r.headers.set("content-type", "application/json");
    return r;
  }
}

// The instance waits in the host's call, so that nothing in it can abort the request meanwhile but a timer: the request ends when
// one is due that may.
export async function fetch(input, init = {}) {
  const r = new Request(input, init);
  let ends = limit(r.signal);
  const begun = host.now(); // a timer that sets itself again is due again and again
  for (; ends <= begun; ends = limit(r.signal)) await overdue(r.signal, ends);
  const headers = {};
  for (const [k, v] of r.headers) (headers[k] ??= []).push(v);
  const head = { method: r.method, url: r.url, headers };
  const left = Math.max(1, ends - host.now()); // for the host, 0 is no limit
  if (r.timeout !== undefined) head.timeout_ms = Math.ceil(milliseconds(r.timeout));
  if (left < (head.timeout_ms ?? Infinity)) head.timeout_ms = left;
  const got = host.fetch(JSON.stringify(head), r._peek());
  if (typeof got !== "number") {
    const { status, headers } = JSON.parse(got[0]);
    const response = new Response(got[1], { status, url: r.url });
    for (const [k, list] of Object.entries(headers ?? {})) for (const v of list) response.headers.append(k, v);
    return response;
  }
  const e = failure();
  if (e.code === "NOT_HERE") {
    throw new TypeError('a workflow makes requests in steps, whose results are recorded: step("name", () => fetch(url))');
  }
  if (head.timeout_ms === left && e.kind === "timeout" && host.now() + 1 >= ends) {
    await overdue(r.signal, ends);
    throw new TypeError("fetch failed: a timer of the step was due that might have aborted its signal, so that the request was given up, and " +
      "did not abort it: give fetch AbortSignal.timeout(ms)");
  }
  throw Object.assign(new TypeError(`fetch failed: ${e.message}`, { cause: e }), { code: e.code }, e.code === "DENIED" ? { retryable: false } : {});
}

// limit returns when a signal may end. It throws if it has, or could not be seen to.
function limit(signal) {
  if (signal?.aborted) throw signal.reason;
  if (!signal || !run.inBody) return Infinity; // the host says that this is no step
  if (madeOutside(signal)) {
    throw Object.assign(new TypeError("fetch: the signal was made outside of the step, which has a copy of it that never ends: make one in the step, " +
      "such as AbortSignal.timeout(ms); step(name, fn, { signal }) withdraws a step that has not begun"), { retryable: false });
  }
  return mayEndAt(signal);
}

const turns = 10; // in which what waits for a timer may abort a signal

// overdue fires the timers that are due, and throws if they have aborted a signal.
async function overdue(signal, at) {
  fireUntil(at);
  for (let i = 0; i < turns && !signal.aborted; i++) await undefined;
  if (signal.aborted) throw signal.reason;
}
