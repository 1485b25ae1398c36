// Tells the stories in the environment of tests, and writes what came of each.
import { readFileSync } from "node:fs";
import { Env } from "@wfhost/workflow/testing";
import { callsOf } from "./callsof.ts";
import { workflows } from "./node_modules/@wfhost/workflow/src/registry.js";
import "./stories.ts";

type Told = { status: string; result?: unknown; faults: string[]; calls: unknown[] };
const told: Record<string, Told> = {};

// happen has an event happen, and returns what is wrong with what came of it.
async function happen(env: any, e: any): Promise<string[]> {
  try {
    let got;
    if (e.signal) env.signal(e.signal, e.data);
    else if (e.deliver) env.deliver(e.deliver, e.data);
    else if (e.cancel) env.cancel();
    else if (e.query) got = await env.query(e.query, e.data);
    else got = await env.update(e.update, e.data);
    if (e.error) return [`at ${e.at}: it succeeded, and should fail with ${e.error}`];
    return e.want !== undefined && JSON.stringify(got) !== JSON.stringify(e.want) ? [`at ${e.at}: ${JSON.stringify(got)}`] : [];
  } catch (error: any) {
    return e.error && error.message.includes(e.error) ? [] : [`at ${e.at}: ${error}`];
  }
}

for (const name of JSON.parse(readFileSync("names.json", "utf8"))) {
  const story = JSON.parse(readFileSync(`${name}.json`, "utf8"));
  const w = (workflows as Map<string, any>).get(story.workflow);
  if (!w) continue;
  const env = new Env({ runId: name, lost: ["changed"] }).absent("nobody-is-there");
  const faults: string[] = [], answers: Promise<void>[] = [];
  const add = (e: any) => void answers.push(happen(env, e).then((more) => void faults.push(...more)));
  for (const e of story.do ?? []) if (e.at !== "end") env.at(e.at, () => add(e));
  const out: Told = { status: "completed", faults, calls: [] };
  try {
    out.result = await env.run(w.fn, story.input);
  } catch (e: any) {
    out.status = e.code === "CANCELLED" || e.message === "cancelled" ? "cancelled" : "failed";
  }
  for (const e of story.do ?? []) if (e.at === "end") add(e);
  await Promise.all(answers);
  out.calls = callsOf(env, name, env);
  told[name] = out;
}
console.log(JSON.stringify(told));
