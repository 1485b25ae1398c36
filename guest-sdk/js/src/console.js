// console writes to the run's log.
import { inspect } from "./inspect.js";
import { host } from "./state.js";

function format(args) {
  let rest = args;
  let head = "";
  if (typeof args[0] === "string" && args[0].includes("%")) {
    rest = args.slice(1);
    head = args[0].replace(/%([sdifjoO%])/g, (all, kind) => {
      if (kind === "%") return "%";
      if (rest.length === 0) return all;
      const v = rest.shift();
      if (kind === "d" || kind === "f") return String(Number(v));
      if (kind === "i") return String(Math.trunc(Number(v)));
      return inspect(v);
    });
    rest = [head, ...rest];
  }
  return rest.map(inspect).join(" ");
}

const counts = new Map();
const at = (level) => (...args) => void host.log(level, format(args));

export const console = {
  debug: at(0), trace: at(0), log: at(1), info: at(1), dir: at(1), table: at(1), warn: at(2), error: at(3),
  assert: (ok, ...args) => {
    if (!ok) host.log(3, `assertion failed${args.length > 0 ? `: ${format(args)}` : ""}`);
  },
  count: (label = "default") => {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    host.log(1, `${label}: ${counts.get(label)}`);
  },
  group: at(1), groupCollapsed: at(1), groupEnd: () => {}, time: () => {}, timeEnd: () => {}, timeLog: () => {},
};
