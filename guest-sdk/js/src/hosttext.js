// How a host shows in its errors what it was given, for tests under Node.

const longestQuoted = 64; // bytes
const utf8 = new TextEncoder();
const escapes = { "\x07": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"' };

const hex = (n, digits) => n.toString(16).padStart(digits, "0");

function escaped(c) {
  if (escapes[c]) return escapes[c];
  if (c === " " || !/[\p{C}\p{Z}]/u.test(c)) return c;
  const n = c.codePointAt(0);
  if (n < 0x80) return `\\x${hex(n, 2)}`;
  return n < 0x10000 ? `\\u${hex(n, 4)}` : `\\U${hex(n, 8)}`;
}

// named returns a name in quotes, with escapes.
export const named = (text) => `"${[...text].map(escaped).join("")}"`;

// quoted is named for what may be long: it is cut off.
export function quoted(text) {
  let bytes = 0, shown = "";
  for (const c of text) {
    bytes += utf8.encode(c).length;
    if (bytes > longestQuoted) return `"${shown}"…`;
    shown += escaped(c);
  }
  return `"${shown}"`;
}

// control says where the first control character of a text is, undefined if it has none.
export function control(text) {
  const at = text.search(/\p{Cc}/u);
  if (at < 0) return undefined;
  return `U+${hex(text.codePointAt(at), 4).toUpperCase()} at byte ${utf8.encode(text.slice(0, at)).length} of ${quoted(text)}`;
}

// got shows a value of an option.
export function got(v) {
  if (typeof v === "string") return quoted(v);
  if (Array.isArray(v)) return "an array";
  return typeof v === "object" && v !== null ? "an object" : JSON.stringify(v).slice(0, longestQuoted);
}

// lasting writes milliseconds as the text of a duration.
export function lasting(ms) {
  const parts = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "m"], [1000, "s"], [1, "ms"]];
  let text = "";
  for (const [length, unit] of parts) {
    const n = Math.floor(ms / length);
    if (n > 0) text += n + unit;
    ms -= n * length;
  }
  return text || "0s";
}
