// Runs workflows of likehost.ts in the environment of tests, and writes what has come of them, and of what has happened to them.
import { readFileSync } from "node:fs";
import { Env } from "@wfhost/workflow/testing";
import "./likehost.ts";
import { workflows } from "./node_modules/@wfhost/workflow/src/registry.js";

const { log } = console;
let logs: string[] = [];
console.log = (text) => logs.push(text.split("\n")[0]);
const out: unknown[] = [];
for (const c of JSON.parse(readFileSync("cases.json", "utf8"))) {
  const env = new Env({ runId: "test" }), answers: string[] = (c.events ?? []).map(() => "no answer"), open: Promise<void>[] = [];
  env.handle("host/slow", () => new Promise((resolve) => setTimeout(resolve, 2000)));
  env.handle("host/cancels", () => {
    env.cancel();
    throw new Error("no");
  });
  if (c.workflow === "twins") env.child("twin", (n) => n);
  const happen = async (e: any) => {
    const data = e.bytes ? "x".repeat(e.bytes - 2) : e.data;
    if (e.cancel) env.cancel();
    else if (e.signal) env.signal(e.signal, data);
    else if (e.deliver) env.deliver(e.deliver, data);
    else return JSON.stringify(await (e.query ? env.query(e.query, data) : env.update(e.update, data)));
    return "";
  };
  const add = (e: any, n: number) => {
    open.push(happen(e).catch((error) => error.message).then((answer) => void (answers[n] = answer)));
  };
  const events = c.events ?? [];
  for (const at of new Set<string>(events.map((e: any) => e.at))) {
    if (at !== "end") env.at(at, () => events.forEach((e: any, n: number) => e.at === at && add(e, n)));
  }
  const { fn } = workflows.get(c.workflow)!;
  const result = await env.run(fn, c.input).then((v: unknown) => JSON.stringify(v) ?? "", (e: any) => e.code ?? e.message);
  events.forEach((e: any, n: number) => e.at === "end" && add(e, n));
  await Promise.race([Promise.all(open), new Promise((resolve) => setTimeout(resolve, 1000))]); // an answer may never come
  out.push({ result, answers, logs });
  logs = [];
}
log(JSON.stringify(out));
