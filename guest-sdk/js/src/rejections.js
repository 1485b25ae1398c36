// Rejections that nobody handles, in tests under Node. On a host the run's log tells of them, and the run goes on; Node would have them
// fail the test, or end it.
import { inspect } from "./inspect.js";
import { inProgram } from "./nodeprocess.js";
import { host, run } from "./state.js";

const { setImmediate } = globalThis;
const told = new WeakSet(); // promises of programs, of which Node's listeners do not hear
let idle; // is called when nothing is left that Node waits for
let listens = false;

// listen has what Node says of promises of programs go to the run's log, and all else to Node's listeners as before. It stays so: what a
// run has left is never a test's.
export function listen() {
  if (listens) return;
  listens = true;
  const { emit } = process;
  process.emit = function (event, ...args) {
    if (event === "unhandledRejection" && inProgram()) {
      tell(...args);
      return true;
    }
    if (event === "rejectionHandled" && told.has(args[0])) return true;
    if (event === "beforeExit" && idle) {
      setImmediate(() => {}); // Node asks again, and its listeners hear then
      idle();
      return true;
    }
    return Reflect.apply(emit, this, [event, ...args]);
  };
}

function tell(reason, promise) {
  told.add(promise);
  if (!run.inBody) host.log(2, `a promise was rejected, and nobody handles that: ${inspect(reason)}`);
}

// whenIdle calls a function when nothing is left that Node waits for, and returns what ends this.
export function whenIdle(fn) {
  idle = fn;
  return () => (idle = undefined);
}
