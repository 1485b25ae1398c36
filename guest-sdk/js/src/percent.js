// Percent-encoding of URLs: each part of them has its own set of characters.
import { host } from "./state.js";
import { decodeUTF8 } from "./text.js";

export const hex = (n) => `%${n.toString(16).toUpperCase().padStart(2, "0")}`;

// encoder returns a function that encodes controls, what is not ASCII, and the characters of a class of regular expressions.
const encoder = (set) => {
  const any = new RegExp(`[^\\x20-\\x7e]|[${set}]`, "gu");
  const one = (c) => (c < "\x80" ? hex(c.charCodeAt(0)) : encodeURIComponent(c));
  return (text) => text.replace(any, one);
};

export const inOpaque = encoder(`\\x7f`);
export const inHash = encoder(' "<>`');
export const inQuery = encoder(' "#<>');
export const inSpecialQuery = encoder(` "#<>'`);
export const inPath = encoder(' "#<>?`{}'); // ^ since 2024, but not in Node 22
export const inUser = encoder(' "#<>?`{}^/:;=@[\\\\\\]|');

// decode decodes %XX, and reads the bytes as UTF-8.
export function decode(text) {
  if (!text.includes("%")) return text;
  const b = new Uint8Array(host.encode(text)), out = new Uint8Array(b.length);
  let n = 0;
  for (let i = 0; i < b.length; i++) {
    const code = b[i] === 0x25 && i + 2 < b.length ? String.fromCharCode(b[i + 1], b[i + 2]) : "";
    if (/^[0-9a-fA-F]{2}$/.test(code)) {
      out[n++] = parseInt(code, 16);
      i += 2;
    } else out[n++] = b[i];
  }
  return decodeUTF8(out.subarray(0, n), false);
}
