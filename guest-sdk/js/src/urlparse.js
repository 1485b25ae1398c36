// The parts of URLs, as the URL standard reads them. Where the standard has a machine that looks at one character after the other,
// this looks for the next character that ends a part.
import { inHash, inOpaque, inPath, inQuery, inSpecialQuery, inUser } from "./percent.js";
import { parseHost } from "./urlhost.js";

export const ports = { "ftp:": 21, "file:": null, "http:": 80, "https:": 443, "ws:": 80, "wss:": 443 };
export const special = (u) => Object.hasOwn(ports, u.protocol);
const scheme = /^[a-zA-Z][a-zA-Z0-9+.-]*:/;

const empty = () => ({ protocol: "", username: "", password: "", host: null, port: null, path: [], query: null, fragment: null });
const opaque = (u) => typeof u.path === "string";
const copied = (base, ...keys) => Object.fromEntries(keys.map((k) => [k, k === "path" && !opaque(base) ? [...base.path] : base[k]]));

export const plain = (text) => text.replace(/[\t\n\r]/g, "");

// parse returns the parts of a URL, or throws why it is none.
export function parse(input, base) {
  const text = plain(input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "")), u = empty(), m = scheme.exec(text);
  if (!m) {
    withoutScheme(u, text, base);
    return u;
  }
  u.protocol = m[0].toLowerCase();
  const rest = text.slice(m[0].length);
  if (u.protocol === "file:") file(u, rest, base?.protocol === "file:" ? base : undefined);
  else if (special(u)) {
    if (base?.protocol === u.protocol && !rest.startsWith("//")) relative(u, rest, base);
    else authority(u, rest.replace(/^[/\\]+/, ""));
  } else if (rest.startsWith("//")) authority(u, rest.slice(2));
  else if (rest.startsWith("/")) end(u, rest.slice(1), addPath);
  else end(u, rest, opaquePath);
  return u;
}

function withoutScheme(u, text, base) {
  if (!base) throw "it has no scheme, such as https:, and no base was given";
  u.protocol = base.protocol;
  if (opaque(base)) {
    if (!text.startsWith("#")) throw `${base.protocol} URLs have no path that it could be relative to`;
    Object.assign(u, copied(base, "path", "query"));
    end(u, text, () => {});
  } else if (base.protocol === "file:") file(u, text, base);
  else relative(u, text, base);
}

// end takes the query and the fragment off, and hands what is before them to path.
function end(u, text, path) {
  const hash = text.indexOf("#"), before = hash < 0 ? text : text.slice(0, hash), question = before.indexOf("?");
  path(u, question < 0 ? before : before.slice(0, question), question >= 0 || hash >= 0);
  if (question >= 0) setQuery(u, before.slice(question + 1));
  if (hash >= 0) setFragment(u, text.slice(hash + 1));
}

export function setQuery(u, text) {
  u.query = (special(u) ? inSpecialQuery : inQuery)(text);
}

export function setFragment(u, text) {
  u.fragment = inHash(text);
}

function opaquePath(u, text, more) {
  u.path = inOpaque(more ? text.replace(/ $/, "%20") : text);
}

const slashed = (u, text) => text.startsWith("/") || (special(u) && text.startsWith("\\"));

// inherit takes over what a path is relative to.
function inherit(u, text, base) {
  Object.assign(u, copied(base, "username", "password", "host", "port", "path", "query"));
  if (text === "" || text.startsWith("#")) return end(u, text, () => {});
  u.query = null;
  if (text.startsWith("?")) return end(u, text, () => {});
  return undefined;
}

function relative(u, text, base) {
  u.protocol = base.protocol;
  if (slashed(u, text)) {
    const rest = text.slice(1);
    if (slashed(u, rest)) return authority(u, special(u) ? rest.replace(/^[/\\]+/, "") : rest.slice(1));
    Object.assign(u, copied(base, "username", "password", "host", "port"));
    return end(u, rest, addPath);
  }
  inherit(u, text, base);
  if (text === "" || /^[?#]/.test(text)) return undefined;
  shorten(u);
  return end(u, text, addPath);
}

const drive = /^[a-zA-Z][:|]$/, drives = /^[a-zA-Z][:|](?:[/\\?#]|$)/, plainDrive = /^[a-zA-Z]:$/;

function file(u, text, base) {
  u.host = "";
  if (/^[/\\]/.test(text)) {
    const rest = text.slice(1);
    if (/^[/\\]/.test(rest)) return fileHost(u, rest.slice(1));
    if (base) {
      u.host = base.host;
      if (!drives.test(rest) && plainDrive.test(base.path[0] ?? "")) u.path = [base.path[0]];
    }
    return end(u, rest, addPath);
  }
  if (base) {
    inherit(u, text, base);
    if (text === "" || /^[?#]/.test(text)) return undefined;
    if (drives.test(text)) u.path = [];
    else shorten(u);
  }
  return end(u, text, addPath);
}

function fileHost(u, text) {
  const name = /^[^/\\?#]*/.exec(text)[0];
  if (drive.test(name)) return end(u, text, addPath);
  setFileHost(u, name);
  return end(u, text.slice(name.length), startPath);
}

export function setFileHost(u, name) {
  const host = name === "" ? "" : parseHost(name, true);
  u.host = host === "localhost" ? "" : host;
}

// split returns what is before the first of the characters that end a host, and the rest.
export function split(u, text) {
  const at = text.search(special(u) ? /[/\\?#]/ : /[/?#]/);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at)];
}

function authority(u, text) {
  const [whole, rest] = split(u, text), at = whole.lastIndexOf("@"), where = whole.slice(at + 1);
  if (at >= 0) {
    if (where === "") throw "it has no host";
    const user = whole.slice(0, at), colon = user.indexOf(":");
    u.username = inUser(colon < 0 ? user : user.slice(0, colon));
    u.password = colon < 0 ? "" : inUser(user.slice(colon + 1));
  }
  const [name, port] = divide(where);
  if (name === "" && (special(u) || port !== undefined)) throw "it has no host";
  u.host = name === "" ? "" : parseHost(name, special(u));
  if (port) {
    if (!/^[0-9]+$/.test(port)) throw `its port must be a number up to 65535, got ${port}`;
    setPort(u, port);
  }
  end(u, rest, startPath);
}

// divide returns a host, and its port: undefined if there is no colon.
export function divide(text) {
  let inside = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "[") inside = true;
    else if (text[i] === "]") inside = false;
    else if (text[i] === ":" && !inside) return [text.slice(0, i), text.slice(i + 1)];
  }
  return [text];
}

export function setPort(u, digits) {
  if (Number(digits) > 65_535) throw `its port must be a number up to 65535, got ${digits}`;
  u.port = Number(digits) === ports[u.protocol] ? null : Number(digits);
}

// startPath reads the path behind a host.
export function startPath(u, text) {
  if (special(u) || text !== "") addPath(u, slashed(u, text) ? text.slice(1) : text);
}

function shorten(u) {
  if (u.protocol === "file:" && u.path.length === 1 && plainDrive.test(u.path[0])) return;
  u.path.pop();
}

const single = /^(?:\.|%2e)$/i, double = /^(?:\.|%2e){2}$/i;

// addPath adds the segments of a path, whose first slash is taken off.
function addPath(u, text) {
  const list = text.split(special(u) ? /[/\\]/ : "/");
  list.forEach((part, i) => {
    const last = i === list.length - 1;
    if (double.test(part)) {
      shorten(u);
      if (last) u.path.push("");
    } else if (single.test(part)) {
      if (last) u.path.push("");
    } else if (u.protocol === "file:" && u.path.length === 0 && drive.test(part)) u.path.push(`${part[0]}:`);
    else u.path.push(inPath(part));
  });
}

export const pathOf = (u) => (opaque(u) ? u.path : u.path.map((p) => `/${p}`).join(""));

export function hostOf(u) {
  return (u.host ?? "") + (u.port === null ? "" : `:${u.port}`);
}

export function write(u) {
  const user = u.username || u.password ? `${u.username}${u.password && `:${u.password}`}@` : "";
  const where = u.host !== null ? `//${user}${hostOf(u)}` : !opaque(u) && u.path.length > 1 && u.path[0] === "" ? "/." : "";
  return u.protocol + where + pathOf(u) + (u.query === null ? "" : `?${u.query}`) + (u.fragment === null ? "" : `#${u.fragment}`);
}
