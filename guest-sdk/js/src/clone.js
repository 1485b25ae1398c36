// structuredClone.
import { DOMException } from "./events.js";
import { host } from "./state.js";

let plain; // the classes of the engine that have nothing but properties

const refuse = (what) => {
  throw new DOMException(`${what} could not be cloned.`, "DataCloneError");
};

const kindOf = (v) => Object.prototype.toString.call(v).slice(8, -1);
const errors = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const getBuffer = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;
const typedName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

// is tells whether a method of a class of the language takes a value: an instance of it, of whatever prototype.
function is(method, v) {
  try {
    method.call(v);
    return true;
  } catch {
    return false;
  }
}

const buffer = (v) => is(getBuffer, v);

// structuredClone copies a value. Nothing can be transferred: the engine cannot take a buffer away.
export function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError("structuredClone needs a value");
  if (options !== undefined && options !== null && typeof options !== "object" && typeof options !== "function") throw new TypeError("the options of structuredClone are an object");
  const { transfer } = options ?? {};
  if ((transfer !== undefined && typeof transfer !== "object" && typeof transfer !== "function") || transfer === null) throw new TypeError("transfer is a list");
  if ([...(transfer ?? [])].length > 0) {
    throw new DOMException("structuredClone transfers nothing here: leave transfer out, and what it names is copied", "DataCloneError");
  }
  return cloned(value, new Map());
}

function cloned(value, seen) {
  if (typeof value === "function") refuse(String(value).slice(0, 100));
  if (typeof value === "symbol") refuse(String(value));
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => (seen.set(value, copy), copy);
  const copy = ofLanguage(value, keep, (v) => cloned(v, seen));
  if (copy !== undefined) return copy;
  const kind = kindOf(value);
  plain ??= new Set([{}, []].map((v) => host.classOf(v)));
  if (!plain.has(host.classOf(value)) || ofPlatform(value)) refuse(`#<${kind}>`); // proxies, promises, iterators, and the like
  const out = keep(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(value, key)) continue;
    Object.defineProperty(out, key, { value: cloned(value[key], seen), writable: true, enumerable: true, configurable: true });
  }
  return out;
}

const ofPlatform = (v) => ["Headers", "Request", "Response", "URL", "URLSearchParams", "AbortSignal", "AbortController", "EventTarget", "Event", "TextEncoder",
  "TextDecoder"].some((name) => v instanceof globalThis[name]);

// ofLanguage copies what has a copy of its own kind.
function ofLanguage(v, keep, inner) {
  if (Array.isArray(v)) return undefined;
  if (is(Date.prototype.getTime, v)) return keep(new Date(Date.prototype.getTime.call(v)));
  if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
  for (const [kind, of] of [["Number", Number], ["String", String], ["Boolean", Boolean], ["BigInt", BigInt]]) {
    if (is(of.prototype.valueOf, v)) return keep(kind === "BigInt" ? Object(BigInt.prototype.valueOf.call(v)) : Object(of.prototype.valueOf.call(v)));
  }
  if (kindOf(v) === "Symbol") refuse("Object(Symbol)");
  if (buffer(v)) return keep(v.slice(0));
  if (ArrayBuffer.isView(v)) {
    const name = typedName.call(v) ?? "DataView", bytes = inner(v.buffer);
    return keep(new globalThis[name](bytes, v.byteOffset, name === "DataView" ? v.byteLength : v.length));
  }
  if (is(Map.prototype.keys, v)) {
    const copy = keep(new Map());
    for (const [k, x] of [...Map.prototype.entries.call(v)]) copy.set(inner(k), inner(x));
    return copy;
  }
  if (is(Set.prototype.keys, v)) {
    const copy = keep(new Set());
    for (const x of [...Set.prototype.values.call(v)]) copy.add(inner(x));
    return copy;
  }
  return v instanceof Error && !(v instanceof DOMException) ? ofError(v, keep, inner) : v instanceof DOMException ? keep(new DOMException(v.message, v.name)) : undefined;
}

function ofError(v, keep, inner) {
  const name = String(v.name);
  const copy = keep(new (Object.hasOwn(errors, name) ? errors[name] : Error)());
  const own = Object.getOwnPropertyDescriptor(v, "message");
  const define = (key, value) => Object.defineProperty(copy, key, { value, writable: true, configurable: true });
  if (own && "value" in own) define("message", String(own.value));
  define("stack", v.stack);
  if (Object.hasOwn(v, "cause")) define("cause", inner(v.cause));
  return copy;
}
