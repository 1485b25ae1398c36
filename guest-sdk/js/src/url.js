// URL and URLSearchParams. Host names must be ASCII.

const ports = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
const special = (protocol) => protocol in ports;

const hex = (n) => `%${n.toString(16).toUpperCase().padStart(2, "0")}`;

// escape percent-encodes what is not ASCII, controls, and the characters of a set.
function escape(text, set) {
  let out = "";
  for (const c of text) {
    const n = c.codePointAt(0);
    if (n > 0x7e) out += c === "\ufffd" || (n >= 0xd800 && n <= 0xdfff) ? "%EF%BF%BD" : encodeURIComponent(c);
    else out += n < 0x20 || set.includes(c) ? hex(n) : c;
  }
  return out;
}
const inHash = ' "<>`';
const inQuery = ' "#<>';
const inPath = ' "#<>?`{}^';
const inUser = `${inPath}/:;=@[\\]|`;

const invalid = (input, why) => Object.assign(new TypeError(`${JSON.stringify(String(input))} is not a URL: ${why}`), { code: "ERR_INVALID_URL" });

function parse(input, base) {
  const text = String(input).trim().replace(/[\t\n\r]/g, "");
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(text);
  const u = { protocol: "", username: "", password: "", hostname: "", port: "", pathname: "", search: "", hash: "", opaque: false };
  let rest = text;
  if (scheme && !(base && special(base.protocol) && scheme[1].toLowerCase() + ":" === base.protocol && !/^[/\\]/.test(text.slice(scheme[0].length)))) {
    u.protocol = scheme[1].toLowerCase() + ":";
    rest = text.slice(scheme[0].length);
  } else if (base) {
    if (scheme) rest = text.slice(scheme[0].length);
    return relative(u, rest, base, input);
  } else {
    throw invalid(input, "it has no scheme, such as https:, and no base was given");
  }
  rest = tail(u, rest);
  if (special(u.protocol)) {
    const [, authority, path] = /^[/\\]*([^/\\]*)(.*)$/s.exec(rest);
    setAuthority(u, authority, input);
    u.pathname = segments(path.replace(/\\/g, "/"));
  } else if (u.protocol === "file:") {
    const [, host = "", path] = /^(?:\/\/([^/]*))?(.*)$/s.exec(rest);
    u.hostname = host === "localhost" ? "" : host.toLowerCase();
    u.pathname = segments(path);
  } else if (rest.startsWith("//")) {
    const [, authority, path] = /^\/\/([^/]*)(.*)$/s.exec(rest);
    setAuthority(u, authority, input);
    u.pathname = path === "" ? "" : segments(path);
  } else if (rest.startsWith("/")) {
    u.pathname = segments(rest);
  } else {
    u.opaque = true;
    u.pathname = escape(rest, "");
  }
  return u;
}

// tail takes the query and the fragment off.
function tail(u, text) {
  let rest = text;
  const hash = rest.indexOf("#");
  if (hash >= 0) {
    if (rest.length > hash + 1) u.hash = `#${escape(rest.slice(hash + 1), inHash)}`;
    rest = rest.slice(0, hash);
  }
  const query = rest.indexOf("?");
  if (query >= 0) {
    if (rest.length > query + 1) u.search = `?${escape(rest.slice(query + 1), special(u.protocol) ? `${inQuery}'` : inQuery)}`;
    rest = rest.slice(0, query);
  }
  return rest;
}

function relative(u, text, base, input) {
  u.protocol = base.protocol;
  if (base.opaque && !text.startsWith("#")) throw invalid(input, `${base.protocol} URLs have no path that it could be relative to`);
  let rest = tail(u, text);
  if (special(u.protocol)) rest = rest.replace(/\\/g, "/");
  if (rest.startsWith("//")) return Object.assign(parse(u.protocol + rest, undefined), { search: u.search, hash: u.hash });
  for (const key of ["username", "password", "hostname", "port", "opaque"]) u[key] = base[key];
  if (rest === "") {
    u.pathname = base.pathname;
    if (!text.startsWith("?") && u.search === "") u.search = base.search;
  } else if (rest.startsWith("/")) {
    u.pathname = segments(rest);
  } else {
    u.pathname = segments(base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1) + rest);
  }
  return u;
}

function setAuthority(u, authority, input) {
  const at = authority.lastIndexOf("@");
  if (at >= 0) {
    const [user, ...password] = authority.slice(0, at).split(":");
    u.username = escape(user, inUser);
    u.password = escape(password.join(":"), inUser);
  }
  const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(authority.slice(at + 1)) ?? [];
  if (host === undefined) throw invalid(input, "its host is not well formed");
  setHost(u, host, input);
  if (port) setPort(u, port, input);
}

function setHost(u, text, input) {
  if (!special(u.protocol)) {
    u.hostname = escape(text, "");
    return;
  }
  let host;
  try {
    host = text.startsWith("[") ? text.toLowerCase() : decodeURIComponent(text).toLowerCase();
  } catch {
    throw invalid(input, "its host is not well formed");
  }
  if (host === "") throw invalid(input, "it has no host");
  if (/[^\x21-\x7e]/.test(host)) throw invalid(input, "its host is not ASCII: give its form that begins with xn--");
  if (host.startsWith("[") ? !/^\[[0-9a-f:.]+\]$/.test(host) : /[#%/:<>?@[\\\]^|]/.test(host)) throw invalid(input, "its host is not well formed");
  u.hostname = /^[0-9.]+$/.test(host) ? ipv4(host, input) : host;
}

function ipv4(host, input) {
  const parts = host.replace(/\.$/, "").split(".").map(Number);
  const last = parts.pop();
  if (parts.length > 3 || parts.some((n) => n > 255) || last >= 256 ** (4 - parts.length) || host.includes("..")) {
    throw invalid(input, "its address is not well formed");
  }
  const n = parts.reduce((sum, p, i) => sum + p * 256 ** (3 - i), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(n / 2 ** shift) % 256).join(".");
}

function setPort(u, port, input) {
  if (!/^[0-9]+$/.test(port) || Number(port) > 65_535) throw invalid(input, `its port must be a number up to 65535, got ${port}`);
  u.port = String(Number(port)) === ports[u.protocol] ? "" : String(Number(port));
}

// segments removes . and .. from a path.
function segments(path) {
  const out = [];
  const parts = path.replace(/^\//, "").split("/");
  parts.forEach((p, i) => {
    const last = i === parts.length - 1;
    const plain = p.replace(/%2e/gi, ".");
    if (plain === "..") {
      out.pop();
      if (last) out.push("");
    } else if (plain !== ".") out.push(escape(p, inPath));
    else if (last) out.push("");
  });
  return `/${out.join("/")}`;
}

export class URL {
  #u;
  #params;
  constructor(input, base) {
    this.#u = parse(input, base === undefined ? undefined : parse(base, undefined));
  }
  static canParse(input, base) {
    return URL.parse(input, base) !== null;
  }
  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }
  get href() {
    const u = this.#u;
    const user = u.username || u.password ? `${u.username}${u.password ? `:${u.password}` : ""}@` : "";
    const authority = u.hostname !== "" || special(u.protocol) || u.protocol === "file:" ? `//${user}${this.host}` : "";
    return u.protocol + authority + u.pathname + u.search + u.hash;
  }
  set href(v) {
    this.#u = parse(v, undefined);
    this.#params?._set(this.#u.search);
  }
  get origin() {
    return special(this.#u.protocol) ? `${this.#u.protocol}//${this.host}` : "null";
  }
  get protocol() {
    return this.#u.protocol;
  }
  set protocol(v) {
    const p = /^([a-zA-Z][a-zA-Z0-9+.-]*):?$/.exec(v);
    if (!p || special(`${p[1].toLowerCase()}:`) !== special(this.#u.protocol)) return;
    this.#u.protocol = `${p[1].toLowerCase()}:`;
    if (this.#u.port === ports[this.#u.protocol]) this.#u.port = "";
  }
  get username() {
    return this.#u.username;
  }
  set username(v) {
    this.#u.username = escape(String(v), inUser);
  }
  get password() {
    return this.#u.password;
  }
  set password(v) {
    this.#u.password = escape(String(v), inUser);
  }
  get host() {
    return this.#u.port === "" ? this.#u.hostname : `${this.#u.hostname}:${this.#u.port}`;
  }
  set host(v) {
    this.#quietly((u) => {
      const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(v);
      setHost(u, host, v);
      if (port) setPort(u, port, v);
    });
  }
  get hostname() {
    return this.#u.hostname;
  }
  set hostname(v) {
    this.#quietly((u) => setHost(u, String(v), v));
  }
  get port() {
    return this.#u.port;
  }
  set port(v) {
    if (String(v) === "") this.#u.port = "";
    else this.#quietly((u) => setPort(u, String(v), v));
  }
  get pathname() {
    return this.#u.pathname;
  }
  set pathname(v) {
    if (!this.#u.opaque) this.#u.pathname = segments(String(v));
  }
  get search() {
    return this.#u.search;
  }
  set search(v) {
    this._search(v);
    this.#params?._set(this.#u.search);
  }
  get hash() {
    return this.#u.hash;
  }
  set hash(v) {
    const text = String(v).replace(/^#/, "");
    this.#u.hash = text === "" ? "" : `#${escape(text, inHash)}`;
  }
  get searchParams() {
    this.#params ??= new URLSearchParams(this.#u.search, (text) => this._search(text));
    return this.#params;
  }
  // A setter ignores what is not well formed, as the standard says.
  #quietly(fn) {
    const u = { ...this.#u };
    try {
      fn(u);
      this.#u = u;
    } catch {
      // it stays as it was
    }
  }
  _search(v) {
    const text = String(v).replace(/^\?/, "");
    this.#u.search = text === "" ? "" : `?${escape(text, special(this.#u.protocol) ? `${inQuery}'` : inQuery)}`;
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
}

const unescape = (text) => new globalThis.TextDecoder().decode(percent(text.replace(/\+/g, " ")));

// percent decodes %XX to bytes.
function percent(text) {
  const b = new globalThis.TextEncoder().encode(text);
  const out = [];
  for (let i = 0; i < b.length; i++) {
    const code = b[i] === 0x25 ? String.fromCharCode(b[i + 1], b[i + 2]) : "";
    if (/^[0-9a-fA-F]{2}$/.test(code)) {
      out.push(parseInt(code, 16));
      i += 2;
    } else out.push(b[i]);
  }
  return new Uint8Array(out);
}

const form = (text) => encodeURIComponent(String(text).toWellFormed()).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => hex(c.charCodeAt(0)));

export class URLSearchParams {
  #list = [];
  #changed;
  constructor(init = "", changed = () => {}) {
    this.#changed = typeof changed === "function" ? changed : () => {};
    if (typeof init !== "object") this._set(String(init));
    else if (typeof init[Symbol.iterator] === "function") this.#list = [...init].map(([k, v]) => [String(k), String(v)]);
    else this.#list = Object.entries(init).map(([k, v]) => [k, String(v)]);
  }
  _set(text) {
    this.#list = text.replace(/^\?/, "").split("&").filter((p) => p !== "").map((p) => {
      const eq = p.indexOf("=");
      return eq < 0 ? [unescape(p), ""] : [unescape(p.slice(0, eq)), unescape(p.slice(eq + 1))];
    });
  }
  #update() {
    this.#changed(this.toString());
  }
  get size() {
    return this.#list.length;
  }
  append(name, value) {
    this.#list.push([String(name), String(value)]);
    this.#update();
  }
  delete(name, value) {
    this.#list = this.#list.filter(([k, v]) => k !== String(name) || (value !== undefined && v !== String(value)));
    this.#update();
  }
  get(name) {
    return this.#list.find(([k]) => k === String(name))?.[1] ?? null;
  }
  getAll(name) {
    return this.#list.filter(([k]) => k === String(name)).map(([, v]) => v);
  }
  has(name, value) {
    return this.#list.some(([k, v]) => k === String(name) && (value === undefined || v === String(value)));
  }
  set(name, value) {
    const at = this.#list.findIndex(([k]) => k === String(name));
    if (at < 0) return this.append(name, value);
    this.#list = this.#list.filter(([k], i) => i <= at || k !== String(name));
    this.#list[at] = [String(name), String(value)];
    this.#update();
  }
  sort() {
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#update();
  }
  forEach(fn) {
    for (const [k, v] of this.#list) fn(v, k, this);
  }
  keys() {
    return this.#list.map(([k]) => k).values();
  }
  values() {
    return this.#list.map(([, v]) => v).values();
  }
  entries() {
    return this.#list.map(([k, v]) => [k, v]).values();
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this.#list.map(([k, v]) => `${form(k)}=${form(v)}`).join("&");
  }
}
