// What a program sees of Node's process in tests. On a host there is none: process.env throws, but for NODE_ENV, and process.exit
// does not end the test as if all was well.
import { AsyncLocalStorage } from "node:async_hooks";

const real = Object.getOwnPropertyDescriptor(globalThis, "process");
const node = globalThis.process;
const program = new AsyncLocalStorage(); // whether the code that is executed is the program's

const env = new Proxy({ NODE_ENV: "production" }, {
  get(target, key) {
    if (typeof key === "symbol" || Object.hasOwn(target, key)) return target[key];
    throw new Error("a workflow has no process.env, which could change between replays: give it what it needs as input, or have a handler " +
      "of the host do the step; secrets are put into its requests by --allow-secret");
  },
});
const stand = { env };

// hide has programs see the stand-in, and returns what undoes that.
export function hide() {
  Object.defineProperty(globalThis, "process", { configurable: true, enumerable: real.enumerable,
    get: () => (program.getStore() ? stand : node), set: real.set });
  return () => Object.defineProperty(globalThis, "process", real);
}

// inProgram reports whether the code that is executed is the program's.
export const inProgram = () => program.getStore() === true;

// asProgram calls a function of the program, asNode one of the test that it has called.
export const asProgram = (fn, ...args) => program.run(true, fn, ...args);
export const asNode = (fn, ...args) => program.run(false, fn, ...args);
