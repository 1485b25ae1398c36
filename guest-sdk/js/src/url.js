// URL, as the URL standard says.
import { needed, tag } from "./events.js";
import { linked, replaced } from "./params.js";
import { inUser } from "./percent.js";
import { divide, hostOf, parse, pathOf, plain, ports, setFileHost, setFragment, setPort, setQuery, special, split, startPath, write } from "./urlparse.js";
import { parseHost } from "./urlhost.js";

const scalar = (v) => String(v).toWellFormed();

function parsed(input, base) {
  const text = scalar(input);
  try {
    return parse(text, base);
  } catch (why) {
    if (typeof why !== "string") throw why;
    throw Object.assign(new TypeError(`${JSON.stringify(text)} is not a URL: ${why}`), { code: "ERR_INVALID_URL", input: text });
  }
}

// quietly changes a URL, but for what is not well formed: that setters ignore.
function quietly(fn) {
  try {
    fn();
  } catch (why) {
    if (typeof why !== "string") throw why;
  }
}

const opaque = (u) => typeof u.path === "string";
const anonymous = (u) => !u.host || u.protocol === "file:"; // it can have neither user nor port

// unpad takes the spaces off at the end of an opaque path, which a query or fragment has kept.
function unpad(u) {
  if (opaque(u) && u.query === null && u.fragment === null) u.path = u.path.replace(/ +$/, "");
}

function originOf(u) {
  if (u.protocol === "blob:") {
    try {
      const inner = parse(pathOf(u));
      return inner.protocol === "http:" || inner.protocol === "https:" ? originOf(inner) : "null";
    } catch {
      return "null";
    }
  }
  return special(u) && u.protocol !== "file:" ? `${u.protocol}//${hostOf(u)}` : "null";
}

// setHost is the setters of host, and of hostname, which has no port.
function setHost(u, text, withPort) {
  const [whole, rest] = split(u, plain(text));
  if (u.protocol === "file:") return setFileHost(u, whole);
  const [name, port] = divide(whole);
  if (port !== undefined && (name === "" || !withPort)) return undefined;
  if (name === "" && (special(u) || u.username || u.password || u.port !== null)) return undefined;
  u.host = name === "" ? "" : parseHost(name, special(u));
  const digits = /^[0-9]*/.exec(port ?? "")[0];
  if (digits) setPort(u, digits);
  return rest;
}

export class URL {
  #u;
  #params;
  constructor(input, base) {
    needed(1, arguments, "URL");
    this.#u = parsed(input, base === undefined ? undefined : parsed(base));
  }
  static canParse(input, base) {
    needed(1, arguments, "URL.canParse");
    return URL.parse(input, base) !== null;
  }
  static parse(input, base) {
    needed(1, arguments, "URL.parse");
    try {
      return new URL(input, base);
    } catch (e) {
      if (e?.code !== "ERR_INVALID_URL") throw e;
      return null;
    }
  }
  get href() {
    return write(this.#u);
  }
  set href(v) {
    this.#u = parsed(v);
    this.#changed();
  }
  #changed() {
    if (this.#params) replaced(this.#params, this.#u.query ?? "");
  }
  get origin() {
    return originOf(this.#u);
  }
  get protocol() {
    return this.#u.protocol;
  }
  set protocol(v) {
    const u = this.#u, m = /^[a-zA-Z][a-zA-Z0-9+.-]*:/.exec(`${plain(scalar(v))}:`);
    if (!m) return;
    const protocol = m[0].toLowerCase();
    if (Object.hasOwn(ports, protocol) !== special(u)) return;
    if (protocol === "file:" && (u.username || u.password || u.port !== null)) return;
    if (u.protocol === "file:" && u.host === "") return;
    u.protocol = protocol;
    if (u.port === ports[protocol]) u.port = null;
  }
  get username() {
    return this.#u.username;
  }
  set username(v) {
    const text = inUser(scalar(v));
    if (!anonymous(this.#u)) this.#u.username = text;
  }
  get password() {
    return this.#u.password;
  }
  set password(v) {
    const text = inUser(scalar(v));
    if (!anonymous(this.#u)) this.#u.password = text;
  }
  get host() {
    return hostOf(this.#u);
  }
  set host(v) {
    const text = scalar(v);
    if (!opaque(this.#u)) quietly(() => setHost(this.#u, text, true));
  }
  get hostname() {
    return this.#u.host ?? "";
  }
  set hostname(v) {
    const text = scalar(v);
    if (!opaque(this.#u)) quietly(() => setHost(this.#u, text, false));
  }
  get port() {
    return this.#u.port === null ? "" : String(this.#u.port);
  }
  set port(v) {
    const text = plain(scalar(v)), digits = /^[0-9]*/.exec(text)[0];
    if (anonymous(this.#u)) return;
    if (text === "") this.#u.port = null;
    else if (digits) quietly(() => setPort(this.#u, digits));
  }
  get pathname() {
    return pathOf(this.#u);
  }
  set pathname(v) {
    const text = plain(scalar(v)), u = this.#u;
    if (opaque(u)) return;
    u.path = [];
    startPath(u, text);
    if (text === "" && u.host === null && !special(u)) u.path.push("");
  }
  get search() {
    return this.#u.query ? `?${this.#u.query}` : "";
  }
  set search(v) {
    const text = scalar(v);
    if (text === "") this.#u.query = null;
    else setQuery(this.#u, plain(text.replace(/^\?/, "")));
    unpad(this.#u);
    this.#changed();
  }
  get hash() {
    return this.#u.fragment ? `#${this.#u.fragment}` : "";
  }
  set hash(v) {
    const text = scalar(v);
    if (text === "") this.#u.fragment = null;
    else setFragment(this.#u, plain(text.replace(/^#/, "")));
    unpad(this.#u);
  }
  get searchParams() {
    this.#params ??= linked(this.#u.query ?? "", (text) => {
      this.#u.query = text === "" ? null : text;
      unpad(this.#u);
    });
    return this.#params;
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
}
tag(URL, "URL");
