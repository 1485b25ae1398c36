// URLSearchParams.
import { needed, tag } from "./events.js";
import { decode, hex } from "./percent.js";

const unescape = (text) => decode(text.replace(/\+/g, " "));
const form = (text) => encodeURIComponent(text).replace(/%20|[!'()~]/g, (c) => (c === "%20" ? "+" : hex(c.charCodeAt(0))));
const scalar = (v) => String(v).toWellFormed();
const composed = (v) => (typeof v === "object" && v !== null) || typeof v === "function";

export let linked; // makes the parameters of a URL, which are told by changed
export let replaced; // replaces them by those of a query

export class URLSearchParams {
  #list = [];
  #changed;
  static {
    linked = (query, changed) => {
      const p = new URLSearchParams();
      p.#list = p.#read(query);
      p.#changed = changed;
      return p;
    };
    replaced = (p, query) => {
      p.#list = p.#read(query);
    };
  }
  constructor(init = "") {
    if (!composed(init)) this.#list = this.#read(scalar(init ?? "").replace(/^\?/, ""));
    else if (init[Symbol.iterator] !== undefined && init[Symbol.iterator] !== null) {
      for (const pair of init) {
        if (!composed(pair) || typeof pair[Symbol.iterator] !== "function") throw new TypeError("URLSearchParams are made of pairs: a name and a value");
        const list = [...pair];
        if (list.length !== 2) throw new TypeError("URLSearchParams are made of pairs: a name and a value");
        this.#list.push(list.map(scalar));
      }
    } else {
      const list = new Map();
      for (const k of Reflect.ownKeys(init)) if (Object.getOwnPropertyDescriptor(init, k)?.enumerable) list.set(`${k}`.toWellFormed(), scalar(init[k]));
      this.#list = [...list];
    }
  }
  #read(text) {
    return text.split("&").filter((p) => p !== "").map((p) => {
      const eq = p.indexOf("=");
      return eq < 0 ? [unescape(p), ""] : [unescape(p.slice(0, eq)), unescape(p.slice(eq + 1))];
    });
  }
  #update() {
    this.#changed?.(this.toString());
  }
  get size() {
    return this.#list.length;
  }
  append(name, value) {
    needed(2, arguments, "URLSearchParams.append");
    this.#list.push([scalar(name), scalar(value)]);
    this.#update();
  }
  delete(name, value) {
    needed(1, arguments, "URLSearchParams.delete");
    const key = scalar(name), v = value === undefined ? undefined : scalar(value);
    this.#list = this.#list.filter((p) => p[0] !== key || (v !== undefined && p[1] !== v));
    this.#update();
  }
  get(name) {
    needed(1, arguments, "URLSearchParams.get");
    const key = scalar(name);
    return this.#list.find(([k]) => k === key)?.[1] ?? null;
  }
  getAll(name) {
    needed(1, arguments, "URLSearchParams.getAll");
    const key = scalar(name);
    return this.#list.filter(([k]) => k === key).map(([, v]) => v);
  }
  has(name, value) {
    needed(1, arguments, "URLSearchParams.has");
    const key = scalar(name), v = value === undefined ? undefined : scalar(value);
    return this.#list.some((p) => p[0] === key && (v === undefined || p[1] === v));
  }
  set(name, value) {
    needed(2, arguments, "URLSearchParams.set");
    const key = scalar(name), v = scalar(value), at = this.#list.findIndex(([k]) => k === key);
    if (at < 0) this.#list.push([key, v]);
    else {
      this.#list[at][1] = v;
      this.#list = this.#list.filter(([k], i) => i <= at || k !== key);
    }
    this.#update();
  }
  sort() {
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#update();
  }
  forEach(fn, self) {
    if (typeof fn !== "function") throw new TypeError("URLSearchParams.forEach takes a function");
    for (const [k, v] of this) fn.call(self, v, k, this);
  }
  *keys() {
    for (const [k] of this) yield k;
  }
  *values() {
    for (const [, v] of this) yield v;
  }
  // What is appended meanwhile is seen, as in other platforms.
  *entries() {
    for (let i = 0; i < this.#list.length; i++) yield [...this.#list[i]];
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this.#list.map(([k, v]) => `${form(k)}=${form(v)}`).join("&");
  }
}
tag(URLSearchParams, "URLSearchParams");
