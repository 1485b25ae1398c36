// TextEncoder, TextDecoder, atob and btoa.
import { DOMException, needed } from "./events.js";
import { host } from "./state.js";

export class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return new Uint8Array(host.encode(String(text).toWellFormed()));
  }
  encodeInto(text, into) {
    if (!(into instanceof Uint8Array)) throw new TypeError("encodeInto writes into a Uint8Array");
    let read = 0, written = 0;
    for (const c of String(text).toWellFormed()) {
      const b = this.encode(c);
      if (written + b.length > into.length) break;
      into.set(b, written);
      written += b.length;
      read += c.length;
    }
    return { read, written };
  }
}

const names = ["unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "utf-8", "utf8", "x-unicode20utf8"];
const space = /^[\t\n\f\r ]+|[\t\n\f\r ]+$/g;

// dictionary returns options, which are an object.
function dictionary(v) {
  if (v !== undefined && v !== null && typeof v !== "object" && typeof v !== "function") throw new TypeError(`the options must be an object, got ${String(v)}`);
  return v ?? {};
}

export class TextDecoder {
  #fatal;
  #ignoreBOM;
  #begun = false; // whether something was decoded since the stream has begun
  #rest = new Uint8Array(0); // of a character that a chunk has cut
  constructor(label = "utf-8", options = undefined) {
    const { fatal = false, ignoreBOM = false } = dictionary(options);
    if (!names.includes(String(label).replace(space, "").toLowerCase())) {
      throw Object.assign(new RangeError(`TextDecoder knows UTF-8 only, got ${label}`), { code: "ERR_ENCODING_NOT_SUPPORTED" });
    }
    this.#fatal = Boolean(fatal);
    this.#ignoreBOM = Boolean(ignoreBOM);
  }
  get encoding() {
    return "utf-8";
  }
  get fatal() {
    return this.#fatal;
  }
  get ignoreBOM() {
    return this.#ignoreBOM;
  }
  decode(input = new Uint8Array(0), options = undefined) {
    const stream = Boolean(dictionary(options).stream), last = bytesOf(input), before = this.#rest;
    let b = last;
    if (before.length > 0) {
      b = new Uint8Array(before.length + last.length);
      b.set(before);
      b.set(last, before.length);
    }
    const begun = this.#begun;
    this.#rest = new Uint8Array(0);
    this.#begun = false;
    const whole = stream ? complete(b) : b.length;
    const text = decodeUTF8(b.subarray(0, whole), this.#fatal);
    if (stream) {
      this.#rest = b.slice(whole);
      this.#begun = begun || text !== "";
    }
    return !this.#ignoreBOM && !begun && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

function bytesOf(v) {
  if (v instanceof ArrayBuffer) return new Uint8Array(v);
  if (!ArrayBuffer.isView(v)) throw Object.assign(new TypeError("what is decoded must be an ArrayBuffer or a view of one"), { code: "ERR_INVALID_ARG_TYPE" });
  return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
}

// expected returns how many bytes follow the first one of a character, and from where to where the second one is; 0 if it begins none.
function expected(c) {
  const more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
  return [more, c === 0xe0 ? 0xa0 : c === 0xf0 ? 0x90 : 0x80, c === 0xed ? 0x9f : c === 0xf4 ? 0x8f : 0xbf];
}

// complete returns the length without a character that is cut at the end.
function complete(b) {
  for (let back = 1; back <= 3 && back <= b.length; back++) {
    const at = b.length - back, [more, low, high] = expected(b[at]);
    if (more >= back && (back === 1 || (b[at + 1] >= low && b[at + 1] <= high))) return at;
    if (b[at] < 0x80 || b[at] > 0xbf) return b.length;
  }
  return b.length;
}

// decodeUTF8 replaces what is not well formed, as the encoding standard says.
export function decodeUTF8(b, fatal) {
  let bad = false, out = "", from = 0;
  const flush = (to) => {
    if (to > from) out += host.decode(b.subarray(from, to));
  };
  for (let i = 0; i < b.length;) {
    if (b[i] < 0x80) {
      i++;
      continue;
    }
    let [more, low, high] = expected(b[i]), n = 1;
    for (; n <= more && b[i + n] >= low && b[i + n] <= high; n++) [low, high] = [0x80, 0xbf];
    if (more > 0 && n === more + 1) {
      i += n;
      continue;
    }
    bad = true;
    flush(i);
    out += "\ufffd";
    i += n;
    from = i;
  }
  if (bad && fatal) throw Object.assign(new TypeError("the bytes are not UTF-8"), { code: "ERR_ENCODING_INVALID_ENCODED_DATA" });
  flush(b.length);
  return out;
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

export function btoa(text) {
  needed(1, arguments, "btoa");
  const s = String(text);
  let out = "";
  for (let i = 0; i < s.length; i += 3) {
    const [a, b, c] = [s.charCodeAt(i), s.charCodeAt(i + 1), s.charCodeAt(i + 2)];
    if (a > 255 || b > 255 || c > 255) throw new DOMException("Invalid character", "InvalidCharacterError");
    const n = (a << 16) | ((b || 0) << 8) | (c || 0);
    out += digits[n >> 18] + digits[(n >> 12) & 63] + (i + 1 < s.length ? digits[(n >> 6) & 63] : "=") + (i + 2 < s.length ? digits[n & 63] : "=");
  }
  return out;
}

export function atob(text) {
  needed(1, arguments, "atob");
  const whole = String(text).replace(/[\t\n\f\r ]/g, "");
  const s = whole.length % 4 === 0 ? whole.replace(/={1,2}$/, "") : whole;
  let out = "", bits = 0, n = 0;
  if (s.length % 4 === 1 && [...s].every((c) => digits.includes(c))) throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
  for (const c of s) {
    const d = digits.indexOf(c);
    if (d < 0) throw new DOMException("Invalid character", "InvalidCharacterError");
    n = ((n << 6) | d) & 0xffffff;
    bits += 6;
    if (bits >= 8) out += String.fromCharCode((n >> (bits -= 8)) & 255);
  }
  return out;
}
