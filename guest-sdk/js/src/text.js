// TextEncoder, TextDecoder, atob and btoa.
import { host } from "./state.js";

export class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return new Uint8Array(host.encode(String(text).toWellFormed()));
  }
  encodeInto(text, into) {
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

const names = ["utf-8", "utf8", "unicode-1-1-utf-8"];

export class TextDecoder {
  #fatal;
  #ignoreBOM;
  #rest = new Uint8Array(0); // of a character that a chunk has cut
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!names.includes(String(label).trim().toLowerCase())) throw new RangeError(`TextDecoder knows UTF-8 only, got ${label}`);
    this.#fatal = fatal;
    this.#ignoreBOM = ignoreBOM;
  }
  get encoding() {
    return "utf-8";
  }
  get fatal() {
    return this.#fatal;
  }
  decode(input = new Uint8Array(0), { stream = false } = {}) {
    let b = input instanceof ArrayBuffer ? new Uint8Array(input) : new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    if (this.#rest.length > 0) {
      const all = new Uint8Array(this.#rest.length + b.length);
      all.set(this.#rest);
      all.set(b, this.#rest.length);
      b = all;
    }
    const whole = stream ? complete(b) : b.length;
    this.#rest = b.slice(whole);
    const text = decodeUTF8(b.subarray(0, whole), this.#fatal);
    return !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

// complete returns the length without a character that is cut at the end.
function complete(b) {
  for (let back = 1; back <= 3 && back <= b.length; back++) {
    const c = b[b.length - back];
    if (c < 0x80) return b.length;
    if (c >= 0xc0) return (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > back ? b.length - back : b.length;
  }
  return b.length;
}

// decodeUTF8 replaces what is not well formed, as the encoding standard says.
function decodeUTF8(b, fatal) {
  let bad = false, out = "", from = 0;
  const flush = (to) => {
    if (to > from) out += host.decode(b.subarray(from, to));
  };
  for (let i = 0; i < b.length;) {
    const c = b[i];
    if (c < 0x80) {
      i++;
      continue;
    }
    const more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
    let n = 1;
    for (let low = c === 0xe0 ? 0xa0 : c === 0xf0 ? 0x90 : 0x80, high = c === 0xed ? 0x9f : c === 0xf4 ? 0x8f : 0xbf; n <= more; n++) {
      const d = b[i + n];
      if (!(d >= low && d <= high)) break;
      low = 0x80;
      high = 0xbf;
    }
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
  if (bad && fatal) throw new TypeError("the bytes are not UTF-8");
  flush(b.length);
  return out;
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

export function btoa(text) {
  const s = String(text);
  let out = "";
  for (let i = 0; i < s.length; i += 3) {
    const [a, b, c] = [s.charCodeAt(i), s.charCodeAt(i + 1), s.charCodeAt(i + 2)];
    if (a > 255 || b > 255 || c > 255) throw new TypeError("btoa takes characters up to U+00FF; encode the text as UTF-8 first");
    const n = (a << 16) | ((b || 0) << 8) | (c || 0);
    out += digits[n >> 18] + digits[(n >> 12) & 63] + (i + 1 < s.length ? digits[(n >> 6) & 63] : "=") + (i + 2 < s.length ? digits[n & 63] : "=");
  }
  return out;
}

export function atob(text) {
  const s = String(text).replace(/[\t\n\f\r ]/g, "").replace(/={1,2}$/, "");
  let out = "", bits = 0, n = 0;
  if (s.length % 4 === 1) throw new TypeError("atob: the text is not base 64");
  for (const c of s) {
    const d = digits.indexOf(c);
    if (d < 0) throw new TypeError("atob: the text is not base 64");
    n = ((n << 6) | d) & 0xffffff;
    bits += 6;
    if (bits >= 8) out += String.fromCharCode((n >> (bits -= 8)) & 255);
  }
  return out;
}
