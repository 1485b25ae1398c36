// What functions see: the variables outside of them, and their `this`. Only Node's inspector knows, so this is for tests alone.
import { Session } from "node:inspector";

const key = "__wfhostScopes"; // of globalThis, by which values get from here to the inspector and back
const group = "wfhost";
const arrow = /^(async\s*)?(\(|[\w$]+\s*=>)/;

let session;
const files = new Map(); // of scripts, by their ids
const known = new WeakMap(); // where functions are written: {file, line}
let entered; // is called with the `this` of an arrow function that watchThis was given

function post(method, params) {
  let out;
  session.post(method, params, (e, result) => {
    if (e) throw new Error(`${method}: ${e.message}`);
    out = result;
  });
  return out;
}

function connect() {
  if (session) return;
  session = new Session();
  session.connect();
  session.on("Debugger.scriptParsed", ({ params }) => files.set(params.scriptId, params.url));
  session.on("Debugger.paused", ({ params }) => { // nothing stops: the session is on the thread that it looks at
    if (!entered) return;
    const { callFrameId } = params.callFrames[0];
    const { result: self } = post("Debugger.evaluateOnCallFrame", { callFrameId, expression: "this", objectGroup: group });
    if (self.objectId) entered(valueOf(self.objectId));
  });
  post("Debugger.enable");
}

// remote returns the inspector's id of an object.
function remote(o) {
  connect();
  globalThis[key] = o;
  try {
    return post("Runtime.evaluate", { expression: `globalThis.${key}`, objectGroup: group }).result.objectId;
  } finally {
    delete globalThis[key];
  }
}

// valueOf returns what stands behind an id of the inspector.
function valueOf(objectId) {
  const box = globalThis[key] = {};
  try {
    post("Runtime.callFunctionOn", { objectId, functionDeclaration: `function () { globalThis.${key}.is = this; }` });
    return box.is;
  } finally {
    delete globalThis[key];
  }
}

function details(o) {
  const { privateProperties = [], internalProperties = [] } = post("Runtime.getProperties", { objectId: remote(o), ownProperties: true });
  return { fields: privateProperties, part: (name) => internalProperties.find((p) => p.name === name)?.value };
}

// release has the inspector forget what it was asked about.
export function release() {
  if (session) post("Runtime.releaseObjectGroup", { objectGroup: group });
}

// collect has the engine collect its garbage.
export function collect() {
  connect();
  post("HeapProfiler.collectGarbage");
}

export const source = (fn) => Function.prototype.toString.call(fn);

// written returns the file and line of a function, undefined if it is the engine's.
export function written(fn) {
  if (!known.has(fn)) {
    const at = details(fn).part("[[FunctionLocation]]")?.value;
    known.set(fn, at && { file: files.get(at.scriptId) ?? "", line: at.lineNumber + 1 });
  }
  return known.get(fn);
}

// unbound returns the function that a bound one calls.
export function unbound(fn) {
  for (let is; (is = details(fn).part("[[TargetFunction]]")); fn = valueOf(is.objectId));
  return fn;
}

// closure returns the scopes around a function, the inner ones first, as {kind, variables}, a Map; and what it is bound to.
export function closure(fn) {
  const { part } = details(fn);
  const list = part("[[Scopes]]");
  const scopes = list ? Array.from(valueOf(list.objectId)).filter((s) => s.description !== "Global") : [];
  const bound = ["[[TargetFunction]]", "[[BoundThis]]", "[[BoundArgs]]"].map(part).filter((v) => v?.objectId).map((v) => valueOf(v.objectId));
  return { scopes: scopes.map(({ description: kind, object }) => ({ kind, variables: read(object) })), bound };
}

// read returns the variables of a scope that have a value: a let further down has none yet.
function read(scope) {
  const variables = new Map();
  for (const name of Object.keys(scope)) {
    try {
      variables.set(name, scope[name]);
    } catch {
      // it has none
    }
  }
  return variables;
}

// target returns what a proxy stands for.
export function target(proxy) {
  const is = details(proxy).part("[[Target]]");
  return is?.objectId && valueOf(is.objectId);
}

// entries returns those of a weak collection, as [key, value].
export function entries(weak) {
  const list = details(weak).part("[[Entries]]");
  const { result } = post("Runtime.getProperties", { objectId: list.objectId, ownProperties: true });
  return result.filter((p) => p.value.objectId).map((p) => valueOf(p.value.objectId)).map(({ key, value }) => [key, value]);
}

// position returns where a generator stands.
export function position(generator) {
  const { part } = details(generator);
  return JSON.stringify(["[[GeneratorState]]", "[[GeneratorLocation]]"].map((name) => part(name)?.value));
}

// fields returns the private fields of an object, as [name, value].
export function fields(o) {
  return details(o).fields.filter((p) => p.value).map(({ name, value }) => [name, value.objectId ? valueOf(value.objectId) : primitive(value)]);
}

const primitive = (v) => (v.type === "undefined" ? undefined : v.subtype === "null" ? null : v.unserializableValue ?? v.value);

// watchThis calls seen with the `this` of arrow functions when they are called: it is no variable, and nothing else tells. It returns
// a function that ends this.
export function watchThis(fns, seen) {
  const ids = fns.filter((fn) => arrow.test(source(fn)) && /\bthis\b|\bsuper\b/.test(source(fn)))
    .map((fn) => post("Debugger.setBreakpointOnFunctionCall", { objectId: remote(fn) }).breakpointId);
  entered = seen;
  return () => {
    entered = undefined;
    for (const breakpointId of ids) post("Debugger.removeBreakpoint", { breakpointId });
  };
}
