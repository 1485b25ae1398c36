// Rejections that nobody handles, in tests under Node. On a host the run's log tells of them, and the run goes on; Node would have them
// fail the test, or end it.
import { inspect } from "./inspect.js";
import { inProgram } from "./nodeprocess.js";
import { host, run } from "./state.js";

const { process: node, setImmediate } = globalThis;
const told = new WeakSet(); // promises of programs, of which Node's listeners do not hear
const idle = new Set(); // is called when nothing is left that Node waits for
const ours = new WeakSet(); // what process.emit was set to here

// listen has what Node says of promises of programs go to the run's log, and all else to Node's listeners as before. It stays so: what a
// run has left is never a test's. A package that has set process.emit as well may have put an older one back since.
export function listen() {
  if (ours.has(node.emit)) return;
  const { emit } = node;
  node.emit = function (event, ...args) {
    if (event === "unhandledRejection" && inProgram()) {
      tell(...args);
      return true;
    }
    if (event === "rejectionHandled" && told.has(args[0])) return true;
    if (event === "beforeExit" && idle.size > 0) {
      setImmediate(() => {}); // Node asks again, and its listeners hear then
      for (const fn of idle) fn();
      return true;
    }
    return Reflect.apply(emit, this, [event, ...args]);
  };
  ours.add(node.emit);
}

function tell(reason, promise) {
  told.add(promise);
  if (!run.inBody) host.log(2, `a promise was rejected, and nobody handles that: ${inspect(reason)}`);
}

// whenIdle has a function called when nothing is left that Node waits for, and returns what ends this.
export function whenIdle(fn) {
  listen();
  idle.add(fn);
  return () => idle.delete(fn);
}
