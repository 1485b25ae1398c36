// What of a value and of a stack people are shown.
import { JSON } from "./json.js";

export const ofProgram = (line) => line !== "" && !line.includes("(@wfhost/workflow/") && !line.includes("at <eval> (workflow.js:");

// stackOf returns the frames of an error that are not the SDK's, those of a recursion once.
export function stackOf(e) {
  if (!(e instanceof Error) || typeof e.stack !== "string") return "";
  return folded(e.stack.split("\n").filter(ofProgram)).join("\n");
}

const longestCycle = 4; // functions that call each other in turn

function folded(lines) {
  const out = [];
  for (let i = 0; i < lines.length;) {
    let length = 1, times = 1;
    for (let n = 1; n <= longestCycle && times < 3; n++) [length, times] = [n, repeats(lines, i, n)];
    if (times < 3) {
      out.push(lines[i++]);
      continue;
    }
    out.push(...lines.slice(i, i + length), `    … and ${times - 1} times more`);
    i += length * times;
  }
  return out;
}

// repeats returns how often some lines stand there, one time after the other.
function repeats(lines, from, length) {
  let at = from + length;
  while (at < lines.length && lines[at] === lines[at - length]) at++;
  return Math.floor((at - from) / length);
}

// What the engine says of its limits has no number.
const limits = {
  "out of memory": "out of memory: an instance has at most 64 MiB",
  "stack overflow": "stack overflow: calls are nested too deeply, the stack of 2 MiB has room for some thousands",
};

// messageOf returns the message of an error alone.
export function messageOf(e) {
  const message = String(e.message);
  return e.name === "InternalError" && Object.hasOwn(limits, message) ? limits[message] : message;
}

const maxText = 65_536; // bytes of the log of one activation
const maxDepth = 50;
const punctuation = 4; // of an element: quotes of its key, colon and comma

// inspect returns a value as text. What JSON has is written as in JSON.
export function inspect(v) {
  if (typeof v === "string") return v;
  try {
    return show(v, { above: [], left: maxText });
  } catch {
    return "[what cannot be shown]"; // a proxy that was revoked, or is of the program's own
  }
}

// taken takes the room of a text.
function taken(text, at) {
  at.left -= text.length;
  return text;
}

function show(v, at) {
  if (at.left < 0) return "…";
  return typeof v === "object" && v !== null ? nested(v, at) : taken(plain(v), at);
}

function plain(v) {
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "bigint") return `${v}n`;
  if (typeof v !== "function") return String(v);
  const isClass = Object.getOwnPropertyDescriptor(v, "prototype")?.writable === false;
  return `[${isClass ? "class" : "function"} ${(typeof v.name === "string" && v.name) || "without a name"}]`;
}

function nested(v, at) {
  if (at.above.includes(v)) return "[circular]";
  if (at.above.length >= maxDepth) return "[…]";
  at.above.push(v);
  try {
    return v instanceof Error ? ofError(v, at) : ofObject(v, at);
  } finally {
    at.above.pop();
  }
}

function ofError(e, at) {
  const head = `${e.name}: ${messageOf(e)}`;
  const stack = stackOf(e);
  let text = taken(stack === "" ? head : stack.startsWith(head) ? stack : `${head}\n${stack}`, at);
  const inner = e instanceof AggregateError && Array.isArray(e.errors) ? e.errors : [];
  for (const one of inner) text += `\none of them: ${top(one, at)}`;
  return e.cause === undefined ? text : `${text}\ncaused by ${top(e.cause, at)}`;
}

const top = (v, at) => (typeof v === "string" ? taken(v, at) : show(v, at));

function ofObject(v, at) {
  if (typeof v.toJSON === "function" && !(v instanceof Date && Number.isNaN(v.getTime()))) return show(v.toJSON(""), at);
  if (v instanceof Date || v instanceof RegExp) return taken(String(v), at);
  if (Array.isArray(v)) return `[${list(v, at).join(",")}]`;
  if (ArrayBuffer.isView(v) && !(v instanceof DataView)) return `${nameOf(v)} [${list(v, at).join(",")}]`;
  if (v instanceof ArrayBuffer) return taken(`ArrayBuffer of ${v.byteLength} bytes`, at);
  if (v instanceof Promise) return "Promise";
  if (v instanceof Set) return `Set {${list(v, at).join(",")}}`;
  if (v instanceof Map) return `Map {${list(v, at, ([k, x]) => `${show(k, at)} => ${show(x, at)}`).join(",")}}`;
  const name = taken(nameOf(v), at);
  return `${name && name !== "Object" ? `${name} ` : ""}{${list(Object.keys(v), at, (key) => `${JSON.stringify(key)}:${property(v, key, at)}`).join(",")}}`;
}

const nameOf = (v) => (typeof v.constructor === "function" && typeof v.constructor.name === "string" ? v.constructor.name : "");

function property(v, key, at) {
  taken(key, at);
  try {
    return show(v[key], at);
  } catch (e) {
    return `[a getter that throws ${e?.message}]`;
  }
}

// list shows values until there is no room left.
function list(values, at, one = (x) => show(x, at)) {
  const out = [];
  for (const x of values) {
    if (at.left < 0) {
      out.push("…");
      break;
    }
    out.push(one(x));
    at.left -= punctuation;
  }
  return out;
}
