// Runs the cases of rules.ts in the environment of tests under Node, and writes what comes of them.
import { Env } from "@wfhost/workflow/testing";
import { ending, endings, parts, rules } from "./rules.ts";

const env = () => new Env({ runId: "rules" });
const out: { rules: unknown[]; ends: Record<string, unknown> } = { rules: [], ends: {} };
for (let n = 0; n < parts; n++) out.rules.push(await env().run(rules, n));
for (const what of endings) {
  out.ends[what] = await env().run(ending, what).then((v) => (v === undefined ? "" : JSON.stringify(v)), (e) => `failed: ${e?.code ?? ""} ${e?.code ? "" : e?.name ?? typeof e}`);
}
console.log(JSON.stringify(out));
