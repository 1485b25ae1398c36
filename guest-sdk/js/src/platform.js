// What stands in for Node's platform while a run goes on in a test.
import { dateOf } from "./attempts.js";
import { hide } from "./nodeprocess.js";
import { globals, timeout } from "./nodetimers.js";
import { listen } from "./rejections.js";

const real = { Date };

// stage puts it in place, and returns what takes it away again.
export function stage(trial) {
  const now = () => trial.now;
  const kept = Object.fromEntries(Object.keys(globals).map((key) => [key, globalThis[key]]));
  const ofPerformance = Object.getOwnPropertyDescriptor(globalThis, "performance");
  const ofSignal = Object.getOwnPropertyDescriptor(AbortSignal, "timeout");
  listen();
  Object.assign(globalThis, globals, { Date: dateOf(now) });
  Object.defineProperty(globalThis, "performance", { value: clockOf(performance, now), writable: true, configurable: true, enumerable: true });
  Object.defineProperty(AbortSignal, "timeout", { ...ofSignal, value: timeout });
  const shown = hide();
  return () => {
    shown();
    Object.defineProperty(AbortSignal, "timeout", ofSignal);
    Object.defineProperty(globalThis, "performance", ofPerformance);
    Object.assign(globalThis, kept, { Date: real.Date });
  };
}

// clockOf makes a performance whose clock is that of a run, as Date's is.
function clockOf(performance, now) {
  return new Proxy(performance, {
    get: (target, key) => {
      if (key === "now") return now;
      if (key === "timeOrigin") return 0;
      const v = Reflect.get(target, key);
      return typeof v === "function" ? v.bind(target) : v;
    },
  });
}
