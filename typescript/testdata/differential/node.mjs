// Runs programs in Node: each line of the input is an input of all(), or asks for sources.
import readline from "node:readline";
import { all, areas, compile, listed, program } from "./index.js";
import { modules } from "./modules.js";

// parses reports whether a program is one: a module of others does not load.
const parses = (source) => {
  try {
    return Boolean(compile(source));
  } catch {
    return false;
  }
};

process.on("unhandledRejection", () => {}); // programs have some
for await (const line of readline.createInterface({ input: process.stdin })) {
  const input = JSON.parse(line);
  const out = input.modules ? Array.from({ length: input.count }, (_, i) => modules(input.seed * 100003 + i, i, areas, parses)) : input.list ? listed(input.seed, input.count, input.platform).map(([area, n]) => ({ area, seed: n, source: program(area, n) })) : await all(input);
  console.log(JSON.stringify(out));
}
