// Runs the rules and random programs in the environment of tests, and writes what came of them.
import { readFileSync } from "node:fs";
import { Env } from "@wfhost/workflow/testing";
import { callsOf } from "./callsof.ts";
import { rules } from "./rules.ts";

const { rules: cases, programs } = JSON.parse(readFileSync("programs.json", "utf8"));
const out: { rules: unknown[]; programs: unknown[] } = { rules: [], programs: [] };

for (const c of cases) {
  const env = new Env();
  let asked: unknown;
  if (c.in === "query") env.at(1000, async () => void (asked = await env.query("rules")));
  if (c.in === "validator") {
    env.at(1000, () => env.update("rules").catch((e) => {
      asked = JSON.parse(e.message);
    }));
  }
  const got = await env.run(rules as any, c).catch((e) => [String(e)]);
  out.rules.push(asked ?? got);
}
for (const p of programs) {
  const env = new Env({ runId: p.name }).absent("nobody-is-there");
  for (const e of p.do ?? []) env.at(e.at, () => (e.cancel ? env.cancel() : env.signal(e.signal, e.data)));
  const told = await env.run(rules as any, p.input).then((v) => ({ Status: "completed", Result: JSON.stringify(v), Message: "" }),
    (e) => ({ Status: e.code === "CANCELLED" ? "cancelled" : "failed", Result: "", Message: e.code === "CANCELLED" ? "" : e.message }));
  out.programs.push({ ...told, Calls: callsOf(env, p.name, env) });
}
console.log(JSON.stringify(out));
