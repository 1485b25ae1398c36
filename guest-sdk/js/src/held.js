// What objects hold that belongs to a program, for tests under Node.
import { types } from "node:util";
import { entries, fields, position, source, written } from "./scopes.js";

const sdk = new URL(".", import.meta.url).href;

// ofProgram tells whether a function is written in the program: not in the platform, a package or the SDK.
export function ofProgram(fn) {
  const file = written(fn)?.file;
  return Boolean(file) && !/^(node|evalmachine)\b/.test(file) && !file.includes("/node_modules/") && !file.startsWith(sdk);
}

// Classes of the platform whose instances a text says all about.
const asText = [
  [URL, String], [URLSearchParams, String], [Date, (d) => Date.prototype.getTime.call(d)], [Headers, (h) => JSON.stringify([...h])],
  [AbortSignal, (s) => s.aborted], [AbortController, (c) => c.signal.aborted],
];
const ofLanguage = new Set(["Object", "Array", "Map", "Set"]); // of any realm
const isBytes = (o) => types.isArrayBufferView(o) || types.isAnyArrayBuffer(o);
const textOf = (o) => asText.find(([kind]) => o instanceof kind)?.[1];

// follows tells whether what is in an object belongs to the program. What is in instances of the classes of packages and of the
// platform does not: caches, mostly.
export function follows(o) {
  if (types.isProxy(o) || o === console || o === process || o === globalThis) return false;
  if (typeof o === "function") return ofProgram(o);
  if (types.isModuleNamespaceObject(o) || types.isGeneratorObject(o) || isBytes(o) || textOf(o)) return true;
  const proto = Object.getPrototypeOf(o);
  if (proto === null) return true;
  if (types.isProxy(proto)) return false;
  const maker = Object.getOwnPropertyDescriptor(proto, "constructor")?.value;
  if (typeof maker !== "function") return follows(proto);
  return written(maker) ? ofProgram(maker) : globalThis[maker.name] === maker || ofLanguage.has(maker.name);
}

// label returns how a program writes a property.
export function label(name) {
  if (typeof name === "symbol") return `[${String(name)}]`;
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return `.${name}`;
  return /^\d+$/.test(name) ? `[${name}]` : `[${JSON.stringify(name)}]`;
}

const shown = (v) => (typeof v === "string" ? JSON.stringify(v) : typeof v === "object" && v !== null || typeof v === "function" ? "…" : String(v));

// Weak has the entries of a weak collection, whose order means nothing.
class Weak extends Map {}

export function same(a, b) {
  if (!(a instanceof Weak && b instanceof Weak)) return Object.is(a, b);
  return a.size === b.size && [...a].every(([k, v]) => b.has(k) && Object.is(b.get(k), v));
}

// held returns what an object holds, as [label, value], in an order that does not change.
export function held(o) {
  const text = textOf(o);
  if (text) return [["", text(o)]];
  if (isBytes(o)) return [["", (types.isArrayBufferView(o) ? Buffer.from(o.buffer, o.byteOffset, o.byteLength) : Buffer.from(o)).toString("latin1")]];
  const out = [];
  if (types.isMap(o)) for (const [k, v] of Map.prototype.entries.call(o)) out.push([`.get(${shown(k)})`, v], [`.keys()`, k]);
  else if (types.isSet(o)) for (const v of Set.prototype.values.call(o)) out.push([`.has(${shown(v)})`, v]);
  else if (types.isWeakMap(o) || types.isWeakSet(o)) out.push(["", new Weak(entries(o))]);
  else if (types.isGeneratorObject(o)) out.push(["", position(o)]);
  for (const name of Reflect.ownKeys(o)) {
    const d = types.isModuleNamespaceObject(o) ? bindingOf(o, name) : Reflect.getOwnPropertyDescriptor(o, name);
    if (d && "value" in d) out.push([label(name), d.value]);
    else if (d) out.push([label(name), d.get], [label(name), d.set]);
  }
  if (typeof o !== "function") out.push([".__proto__", Object.getPrototypeOf(o)]);
  out.push(["", Object.isExtensible(o)]);
  if (hides(o)) for (const [name, v] of fields(o)) out.push([`.${name}`, v]);
  return out;
}

function bindingOf(namespace, name) {
  try {
    return { value: namespace[name] };
  } catch {
    return undefined; // it has no value yet
  }
}

// hides tells whether an object may have private fields.
function hides(o) {
  const maker = typeof o === "function" ? o : Object.getOwnPropertyDescriptor(Object.getPrototypeOf(o) ?? {}, "constructor")?.value;
  for (let c = maker; typeof c === "function" && written(c); c = Object.getPrototypeOf(c)) if (source(c).includes("#")) return true;
  return false;
}
