// A module is loaded once for all of its runs, so that what a program draws while it is loaded is the same in each of them. Programs
// are stopped there. Packages are not: they draw seeds and counters, and who uses them cannot change that.
import { ofProgram } from "./inspect.js";

let loading = true;
const native = { Date, now: Date.now, random: Math.random };

const ofPackage = (frame) => frame.includes("node_modules/");

// check throws if a program draws. What is secret may not come from a function of a package that the program calls, either.
export function check(what, secret = false) {
  if (!loading) return;
  const frames = new Error().stack.split("\n").filter((line) => ofProgram(line) && /:\d+:\d+\)?$/.test(line));
  // Modules of CommonJS are functions, which are called by their paths.
  const from = secret ? frames.find((line) => /at \S*\/\S* \(/.test(line)) ?? frames.at(-1) : frames[0];
  if (from === undefined || ofPackage(from)) return;
  throw new Error(`${what} is called while the module is loaded, which is done once for all runs: each would have the same value. Call it in the workflow`);
}

const now = () => {
  check("Date.now()");
  return native.now();
};
const random = () => {
  check("Math.random()");
  return native.random();
};
const traps = {
  apply: (target) => {
    check("Date()");
    return target();
  },
  construct: (target, args, as) => {
    if (args.length === 0) check("new Date()");
    return Reflect.construct(target, args, as);
  },
};

Math.random = random;
native.Date.now = now;
globalThis.Date = native.Date.prototype.constructor = new Proxy(native.Date, traps);

// loaded gives the platform back what belongs to it, unless the program has put something else there. Date stays the proxy, without
// traps: a program may have kept it, in a map of classes for one, and there is to be one Date.
export function loaded() {
  loading = false;
  delete traps.apply;
  delete traps.construct;
  if (native.Date.now === now) native.Date.now = native.now;
  if (Math.random === random) Math.random = native.random;
}
