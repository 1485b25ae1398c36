// Finds what bodies change outside of themselves, for tests under Node. On a host a body works on a copy of the workflow, so such a change
// is lost; here it would be kept.
import { AsyncLocalStorage } from "node:async_hooks";
import { pathToFileURL } from "node:url";
import { types } from "node:util";
import { promiseHooks } from "node:v8";
import { follows, held, label, same } from "./held.js";
import { closure, release, source, target, unbound, watchThis, written } from "./scopes.js";

const bodies = new AsyncLocalStorage(); // the Watch of the body that is executed

// nameOf returns the name under which a change is allowed: of a variable, or of a property of globalThis.
const nameOf = (variable) => /^(?:globalThis\.)?([\w$]*)/.exec(variable)[1];

// LostChange says that a body has changed what is outside of it.
export class LostChange extends Error {
  constructor(step, variable, body) {
    const { file, line } = written(unbound(body)) ?? {};
    super(`the body of step ${JSON.stringify(step)}${file ? ` (${file.slice(file.lastIndexOf("/") + 1)}:${line})` : ""} changes ${variable}, which is ` +
      "outside of it. On a host a body works on a copy of the workflow, so the change is lost: return the value as the result of the step. " +
      `If only the test needs the change, allow it: new Env({ lost: [${JSON.stringify(nameOf(variable))}] })`);
    this.code = "LOST_CHANGE";
    this.step = step;
    this.variable = variable;
  }
}
Object.defineProperty(LostChange.prototype, "name", { value: "LostChange", writable: true, configurable: true });

// KeptChange says that a run would begin with what an earlier one has left.
export class KeptChange extends Error {
  constructor({ name, file }) {
    super(`an earlier run has changed ${name}${file ? ` of ${file.slice(file.lastIndexOf("/") + 1)}` : ""}, and this one would begin with that. On a host ` +
      "each run, and each iteration of one, begins with the variables of its modules as loading has left them: keep what belongs to a run in its " +
      `function. If it makes no difference, as for a cache, allow it: new Env({ lost: [${JSON.stringify(nameOf(name))}] })`);
    this.code = "KEPT_CHANGE";
    this.variable = name;
  }
}
Object.defineProperty(KeptChange.prototype, "name", { value: "KeptChange", writable: true, configurable: true });

let kept = []; // what runs have changed in modules: differences of Watches

// begins watches the variables of modules that a workflow uses. It throws if an earlier run has changed one of them, and nothing has changed
// it back. It returns what is to be called at the run's end.
export function begins(workflow, tests, allowed) {
  const watch = new Watch(workflow, tests, allowed, true);
  const before = kept.find((d) => watch.uses(d) && d.still());
  release();
  if (before) throw new KeptChange(before);
  return () => {
    kept = [...kept.filter((d) => d.still()), ...watch.differences()];
    release();
  };
}

// globals returns the properties of globalThis, but for those that Node makes when they are used first.
const lazy = new Set(Object.entries(Object.getOwnPropertyDescriptors(globalThis)).filter(([, d]) => d.get).map(([name]) => name));
const globals = () => Object.keys(globalThis).filter((name) => !lazy.has(name)).map((name) => [name, globalThis[name]]);

const sdk = new URL(".", import.meta.url).href;

// testFiles returns the files of tests: that with which Node has begun, and that which makes an environment.
export function testFiles() {
  const at = {};
  Error.captureStackTrace(at);
  const line = at.stack.split("\n").slice(1).find((line) => !line.includes(sdk)) ?? "";
  const file = /\(?([^\s(]+):\d+:\d+\)?$/.exec(line)?.[1] ?? "";
  return new Set([process.argv[1] ?? "", file].map((f) => (f.startsWith("/") ? pathToFileURL(f).href : f)));
}

// differing returns the label of the first thing that an object holds no more, or holds since then.
function differing(before, now) {
  const n = now.findIndex(([name, v], i) => before[i]?.[0] !== name || !same(before[i][1], v));
  if (n < 0 && now.length === before.length) return undefined;
  const gone = now.length < before.length && before.find(([name]) => !now.some(([other]) => other === name));
  return (gone || now[n] || before[now.length])[0];
}

// Watch keeps what a body could change, from before it begins.
export class Watch {
  #body;
  #home; // the file in which it stands
  #scopes = []; // of functions: {module, fn, n, variables}
  #objects = new Map(); // {path, holds}
  #functions = new Set();
  #queue = []; // what is to be looked at: [object, path]
  #globals;
  #tests;
  #onlyModules;
  #allowed;
  #made = new WeakSet(); // promises that the body has made
  #settled = false; // whether it has settled another

  // tests are the files of tests: of the functions there, those are followed that stand where the body stands. Others stand in for something.
  // allowed are variables that the body may change.
  // If modules is set, it watches only their variables.
  constructor(body, tests, allowed, modules = false) {
    this.#body = body;
    this.#onlyModules = modules;
    this.#home = written(unbound(body))?.file;
    this.#tests = tests;
    this.#allowed = new Set(allowed);
    this.#function(body, "");
    this.#lookAll();
    this.#globals = new Map(modules ? [] : globals());
  }

  // run calls the body. It returns what that returns, and the name of something that it has changed, or undefined.
  async run(perform) {
    const stopThis = watchThis([...this.#functions], (self) => {
      if (this.#allowed.has("this")) return;
      this.#value(self, "this");
      this.#lookAll();
    });
    const stopPromises = promiseHooks.createHook({
      init: (promise) => bodies.getStore() === this && this.#made.add(promise),
      settled: (promise) => {
        if (bodies.getStore() === this && !this.#made.has(promise)) this.#settled = true;
      },
    });
    try {
      return await bodies.run(this, perform);
    } finally {
      stopPromises();
      stopThis();
    }
  }

  #value(v, path) {
    if ((typeof v === "object" && v !== null) || typeof v === "function") this.#queue.push([v, path]);
  }

  #lookAll() {
    for (let next; (next = this.#queue.shift());) this.#look(...next);
  }

  #look(o, path) {
    if (this.#objects.has(o)) return;
    if (types.isProxy(o) && typeof o === "object") return this.#value(target(o), path);
    if (!follows(o)) return;
    if (typeof o === "function" && !this.#function(o, path)) return;
    const holds = held(o);
    this.#objects.set(o, { path, holds });
    for (const [name, v] of holds) this.#value(v, path + name);
  }

  // function looks at those variables that a function names, and tells whether it is followed.
  #function(fn, path) {
    const file = written(fn)?.file;
    if (this.#functions.has(fn)) return true;
    if (fn !== this.#body && this.#tests.has(file) && file !== this.#home) return false;
    this.#functions.add(fn);
    const named = new Set(source(fn).match(/[\p{L}\p{Nl}$_][\p{L}\p{Nl}\p{Mn}\p{Nd}$_]*/gu));
    const { scopes, bound } = closure(fn);
    scopes.forEach(({ kind, variables }, n) => {
      if (this.#onlyModules && kind !== "Module") return;
      for (const [name, v] of variables) if (named.has(name) && !this.#allowed.has(name)) this.#watch(kind === "Module" && file, fn, n, name, v);
    });
    for (const v of bound) this.#value(v, typeof v === "function" ? path : "this");
    return true;
  }

  // watch keeps a variable of a scope. One of a module is that of all its functions.
  #watch(module, fn, n, name, v) {
    let scope = this.#scopes.find((s) => (module ? s.module === module : s.fn === fn && s.n === n));
    if (!scope) this.#scopes.push(scope = { module, fn, n, variables: new Map() });
    if (scope.variables.has(name)) return;
    scope.variables.set(name, v);
    this.#value(v, name);
  }

  // changed returns the name of something that the body has changed, undefined if it has changed nothing.
  changed() {
    try {
      const { value } = this.differences().next();
      return value?.name ?? this.#global() ?? (this.#settled && !this.#allowed.has("promise") ? "promise" : undefined);
    } finally {
      release();
    }
  }

  // differences yields what was changed: its name, its file if it is a variable of a module, and whether it is still as it is now.
  *differences() {
    for (const { module: file, fn, n, variables } of this.#scopes) {
      const read = (name) => closure(fn).scopes[n]?.variables.get(name);
      const now = closure(fn).scopes[n]?.variables;
      for (const [name, v] of variables) {
        const is = now?.get(name);
        if (!Object.is(is, v)) yield { name, file, still: () => Object.is(read(name), is) };
      }
    }
    for (const [object, { path, holds: before }] of this.#objects) {
      const now = held(object), at = differing(before, now);
      if (at !== undefined) yield { name: path + at, object, still: () => differing(now, held(object)) === undefined };
    }
  }

  // uses tells whether what another Watch has found to be changed is watched here.
  uses({ name, file, object }) {
    return object ? this.#objects.has(object) : this.#scopes.some((s) => s.module === file && s.variables.has(name));
  }

  #global() {
    const changed = globals().find(([name, v]) => !this.#allowed.has(name) && !Object.is(this.#globals.get(name), v));
    return changed && `globalThis${label(changed[0])}`;
  }
}
