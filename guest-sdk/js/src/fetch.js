// fetch, in steps: the host makes the request, by the rules that the workflow was uploaded with.
import { failure, host } from "./state.js";

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

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
    this.#map.set(k, this.#map.has(k) ? `${this.#map.get(k)}, ${String(value).trim()}` : String(value).trim());
  }
  set(name, value) {
    this.#map.set(this.#key(name), String(value).trim());
  }
  get(name) {
    return this.#map.get(this.#key(name)) ?? null;
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
    return [...this.#map.keys()].sort().values();
  }
  values() {
    return [...this].map(([, v]) => v).values();
  }
  entries() {
    return [...this.#map].sort(([a], [b]) => (a < b ? -1 : 1)).values();
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

// bytesOf returns the body as bytes, and its type.
function bytesOf(body) {
  if (body === undefined || body === null) return { bytes: new Uint8Array(0) };
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

export async function fetch(input, init = {}) {
  const r = new Request(input, init);
  (init.signal ?? undefined)?.throwIfAborted?.();
  const headers = Object.fromEntries([...r.headers].map(([k, v]) => [k, [v]]));
  const head = { method: r.method, url: r.url, headers };
  if (r.timeout !== undefined) head.timeout_ms = r.timeout;
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
  throw Object.assign(new TypeError(`fetch failed: ${e.message}`, { cause: e }), { code: e.code }, e.code === "DENIED" ? { retryable: false } : {});
}
