// fetch, in steps: the host makes the request, by the rules that the workflow was uploaded with.
import { madeOutside, mayEndAt, never } from "./abort.js";
import { milliseconds } from "./duration.js";
import { needed, tag } from "./events.js";
import { failure, host, run } from "./state.js";
import { fireUntil } from "./timers.js";

let ofRequest; // what of a Request nobody else sees: a signal that was given, and the time-out

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const cookies = "set-cookie"; // values of this name cannot be joined

const space = /^[\t\n\r ]+|[\t\n\r ]+$/g;

// nameOf and valueOf read what HTTP allows.
function nameOf(v) {
  const name = String(v);
  if (!token.test(name)) throw new TypeError(`${JSON.stringify(name)} is not the name of a header`);
  return name.toLowerCase();
}

function valueOf(v) {
  const value = String(v).replace(space, "");
  if (/[\0\n\r]|[^\0-\xff]/.test(value)) throw new TypeError(`${JSON.stringify(value)} is not the value of a header`);
  return value;
}

// byteText returns a text whose characters are bytes.
function byteText(v) {
  const text = `${v}`;
  if (/[^\0-\xff]/.test(text)) throw new TypeError(`${JSON.stringify(text)} has a character that is no byte`);
  return text;
}

// pairsOf reads the names and values that headers are made of.
function pairsOf(init) {
  if (init === undefined) return [];
  if ((typeof init !== "object" && typeof init !== "function") || init === null) throw new TypeError("Headers are made of an object, or of pairs");
  if (typeof init[Symbol.iterator] !== "function") {
    return Reflect.ownKeys(init).filter((k) => Object.getOwnPropertyDescriptor(init, k)?.enumerable).map((k) => [byteText(k), byteText(init[k])]);
  }
  return Array.from(init, (pair) => {
    const list = typeof pair === "object" && pair !== null && typeof pair[Symbol.iterator] === "function" ? [...pair] : [];
    if (list.length !== 2) throw new TypeError("Headers are made of pairs: a name and a value");
    return list.map(byteText);
  });
}

export class Headers {
  #map = new Map();
  constructor(init) {
    for (const [name, value] of pairsOf(init)) this.append(name, value);
  }
  append(name, value) {
    needed(2, arguments, "Headers.append");
    const k = nameOf(name), v = valueOf(value);
    this.#map.set(k, [...(this.#map.get(k) ?? []), v]);
  }
  set(name, value) {
    needed(2, arguments, "Headers.set");
    this.#map.set(nameOf(name), [valueOf(value)]);
  }
  get(name) {
    needed(1, arguments, "Headers.get");
    return this.#map.get(nameOf(name))?.join(", ") ?? null;
  }
  getSetCookie() {
    return [...(this.#map.get(cookies) ?? [])];
  }
  has(name) {
    needed(1, arguments, "Headers.has");
    return this.#map.has(nameOf(name));
  }
  delete(name) {
    needed(1, arguments, "Headers.delete");
    this.#map.delete(nameOf(name));
  }
  forEach(fn, self) {
    if (typeof fn !== "function") throw new TypeError("Headers.forEach takes a function");
    for (const [k, v] of this) fn.call(self, v, k, this);
  }
  *keys() {
    for (const [k] of this) yield k;
  }
  *values() {
    for (const [, v] of this) yield v;
  }
  // What is set meanwhile is seen, as in other platforms.
  *entries() {
    for (let i = 0; ; i++) {
      const sorted = [...this.#map].sort(([a], [b]) => (a < b ? -1 : 1));
      const all = sorted.flatMap(([k, list]) => (k === cookies ? list.map((v) => [k, v]) : [[k, list.join(", ")]]));
      if (i >= all.length) return;
      yield all[i];
    }
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}
tag(Headers, "Headers");

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

// bytesOf returns the body as bytes, and its type. There are no bytes where there is no body.
function bytesOf(body) {
  if (body === undefined || body === null) return {};
  const within = bytesIn(body);
  if (within) return { bytes: within };
  if (body instanceof ArrayBuffer) return { bytes: new Uint8Array(body.slice(0)) };
  if (ArrayBuffer.isView(body)) return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice() };
  const type = body instanceof globalThis.URLSearchParams ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8";
  return { bytes: new Uint8Array(host.encode(String(body).toWellFormed())), type };
}

const none = new Uint8Array(0);
let contentOf; // the bytes of a Body, undefined if it has none
let taken; // takes them

class Body {
  #bytes;
  #used = false;
  static {
    contentOf = (body) => body.#bytes;
    taken = (body) => {
      if (body.#used) throw new TypeError("the body was read before");
      if (body.#bytes) body.#used = true;
      return body.#bytes ?? none;
    };
  }
  constructor(bytes) {
    this.#bytes = bytes;
  }
  get body() {
    return this.#bytes ? new Stream(this.#bytes) : null;
  }
  get bodyUsed() {
    return this.#used;
  }
  async bytes() {
    return taken(this).slice();
  }
  async arrayBuffer() {
    return taken(this).slice().buffer;
  }
  async text() {
    return new globalThis.TextDecoder().decode(taken(this));
  }
  async json() {
    return JSON.parse(await this.text());
  }
}

// unread throws if the body of something that is copied was read.
function unread(body) {
  if (body.bodyUsed) throw new TypeError("the body was read before, so that there is no copy of it");
}

const forbidden = new Set(["CONNECT", "TRACE", "TRACK"]);
const usual = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"]); // others are case-sensitive
const redirects = ["follow", "manual", "error"];

function methodOf(v) {
  const method = String(v), upper = method.toUpperCase();
  if (!token.test(method)) throw new TypeError(`${JSON.stringify(method)} is no method of HTTP`);
  if (forbidden.has(upper)) throw new TypeError(`a request must not have the method ${upper}`);
  return usual.has(upper) ? upper : method;
}

function redirectOf(v) {
  if (!redirects.includes(String(v))) throw new TypeError(`redirect must be ${redirects.join(", ")}; got ${String(v)}`);
  return String(v);
}

export class Request extends Body {
  #url;
  #method;
  #headers;
  #redirect;
  #signal;
  #timeout;
  static {
    ofRequest = (r) => ({ signal: r.#signal, timeout: r.#timeout });
  }
  constructor(input, init) {
    needed(1, arguments, "Request");
    if (init !== undefined && init !== null && typeof init !== "object" && typeof init !== "function") throw new TypeError("the options of a Request are an object");
    const o = init ?? {}, from = input instanceof Request ? input : undefined;
    const method = o.method === undefined ? from?.method ?? "GET" : methodOf(o.method);
    const redirect = o.redirect === undefined ? from?.redirect ?? "follow" : redirectOf(o.redirect);
    const url = from ? from.url : new globalThis.URL(input);
    if (url.username || url.password) throw new TypeError("a Request has no user in its URL: set the header Authorization");
    const own = o.body !== undefined && o.body !== null;
    const { bytes, type } = own ? bytesOf(o.body) : { bytes: from && contentOf(from) };
    if (bytes && (method === "GET" || method === "HEAD")) throw new TypeError(`a ${method} has no body`);
    if (from && !own && bytes) taken(from);
    super(bytes);
    this.#method = method;
    this.#redirect = redirect;
    this.#url = from ? url : url.href;
    this.#headers = new Headers(o.headers === undefined ? from?.headers : o.headers);
    if (type && !this.#headers.has("content-type")) this.#headers.set("content-type", type);
    this.#timeout = o.timeout ?? (from && ofRequest(from).timeout);
    this.#signal = (o.signal === undefined ? from && ofRequest(from).signal : o.signal) ?? undefined;
  }
  get url() {
    return this.#url;
  }
  get method() {
    return this.#method;
  }
  get headers() {
    return this.#headers;
  }
  get redirect() {
    return this.#redirect;
  }
  get signal() {
    return (this.#signal ??= never());
  }
  clone() {
    unread(this);
    const { signal, timeout } = ofRequest(this);
    return new Request(this.url, { method: this.method, headers: this.headers, redirect: this.redirect, body: contentOf(this), signal, timeout });
  }
}
tag(Request, "Request");

const withoutBody = [101, 204, 205, 304];

let received; // makes of a Response one that fetch has received

export class Response extends Body {
  #url = "";
  #redirected = false;
  #type = "default";
  static {
    received = (response, status, url, redirected, type = "basic") => {
      response.#status = status;
      response.#url = url;
      response.#redirected = redirected;
      response.#type = type;
      return response;
    };
  }
  get url() {
    return this.#url;
  }
  get redirected() {
    return this.#redirected;
  }
  get type() {
    return this.#type;
  }
  #status;
  #statusText;
  #headers;
  constructor(body, init) {
    if (init !== undefined && init !== null && typeof init !== "object" && typeof init !== "function") throw new TypeError("the options of a Response are an object");
    const { headers, status: given = 200, statusText: told = "" } = init ?? {};
    const pairs = pairsOf(headers), status = Math.trunc(Number(given)) & 0xffff, statusText = byteText(told);
    if (status < 200 || status > 599) throw new RangeError(`a Response has a status from 200 to 599, got ${String(given)}`);
    if (/[^\t\x20-\x7e\x80-\xff]/.test(statusText)) throw new TypeError(`${JSON.stringify(statusText)} is no text of a status`);
    const { bytes, type } = bytesOf(body);
    if (bytes && withoutBody.includes(status)) throw new TypeError(`a Response of status ${status} has no body`);
    super(bytes);
    this.#status = status;
    this.#statusText = statusText;
    this.#headers = new Headers(pairs);
    if (type && !this.#headers.has("content-type")) this.#headers.set("content-type", type);
  }
  get status() {
    return this.#status;
  }
  get statusText() {
    return this.#statusText;
  }
  get headers() {
    return this.#headers;
  }
  get ok() {
    return this.#status >= 200 && this.#status < 300;
  }
  clone() {
    unread(this);
    const copy = new Response(contentOf(this), { statusText: this.statusText, headers: this.headers });
    return received(copy, this.status, this.url, this.redirected, this.type);
  }
  static error() {
    return received(new Response(), 0, "", false, "error");
  }
  static redirect(url, status = 302) {
    const to = new globalThis.URL(url).href;
    if (![301, 302, 303, 307, 308].includes(Number(status))) throw new RangeError(`${status} is no status of a redirect`);
    return new Response(null, { status, headers: { location: to } });
  }
  static json(v, init) {
    const text = JSON.stringify(v);
    if (text === undefined) throw new TypeError("Response.json takes what JSON can hold");
    const r = new Response(host.encode(text), init);
    if (!r.headers.has("content-type")) r.headers.set("content-type", "application/json");
    return r;
  }
}
tag(Response, "Response");

// The instance waits in the host's call, so that nothing in it can abort the request meanwhile but a timer: the request ends when
// one is due that may.
export async function fetch(input, init = {}) {
  const r = new Request(input, init), { signal, timeout } = ofRequest(r);
  let ends = limit(signal);
  const begun = host.now(); // a timer that sets itself again is due again and again
  for (; ends <= begun; ends = limit(signal)) await overdue(signal, ends);
  const headers = {};
  for (const [k, v] of r.headers) (headers[k] ??= []).push(v);
  const head = { method: r.method, url: r.url, headers };
  if (r.redirect !== "follow") head.redirect = r.redirect;
  const left = Math.max(1, ends - host.now()); // for the host, 0 is no limit
  if (timeout !== undefined) head.timeout_ms = Math.ceil(milliseconds(timeout));
  if (left < (head.timeout_ms ?? Infinity)) head.timeout_ms = left;
  const got = host.fetch(JSON.stringify(head), taken(r));
  if (typeof got !== "number") {
    const { status, headers, redirected = false, url = r.url } = JSON.parse(got[0]);
    const response = new Response(got[1]);
    for (const [k, list] of Object.entries(headers ?? {})) for (const v of list) response.headers.append(k, v);
    const [final] = new globalThis.URL(url).href.split("#");
    return received(response, status, final, redirected);
  }
  const e = failure();
  if (e.code === "NOT_HERE") {
    throw new TypeError('a workflow makes requests in steps, whose results are recorded: step("name", () => fetch(url))');
  }
  if (head.timeout_ms === left && e.kind === "timeout" && host.now() + 1 >= ends) {
    await overdue(signal, ends);
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
