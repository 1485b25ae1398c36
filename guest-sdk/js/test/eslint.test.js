// Tests of the rules. They need ESLint and typescript-eslint: WFHOST_JS_TOOLS names the folder in which they are installed.
import { createRequire } from "node:module";
import { describe, it } from "node:test";
import plugin from "../src/eslint.js";

const require = createRequire(`${process.env.WFHOST_JS_TOOLS ?? process.cwd()}/`);
const { RuleTester } = require("eslint");
const { parser } = require("typescript-eslint");
RuleTester.describe = describe;
RuleTester.it = it;

const tester = new RuleTester({ languageOptions: { ecmaVersion: 2024, sourceType: "module" } });
const sdk = 'import { step, sleep, signal, race, emit as say, info } from "@wfhost/workflow"; import * as wf from "@wfhost/workflow";';
const ok = (...codes) => codes.map((code) => sdk + code);
const bad = (messageId, ...codes) => codes.map((code) => ({ code: sdk + code, errors: [{ messageId }] }));

tester.run("no-durable-call-in-body", plugin.rules["no-durable-call-in-body"], {
  valid: [...ok(
    'step("a", () => info().runId); sleep("1s");',
    'step("a", async () => { const sleep = () => {}; sleep("1s"); });',
    'step("a", () => fetch("https://example.com"));',
    'step("a", () => race({ a: fetch("https://example.com") }));',
    'function later() { return sleep("1s"); } later();',
  ), 'import { sleep, step } from "elsewhere"; step("a", () => sleep("1s"));'],
  invalid: bad("call",
    'step("a", () => sleep("1s"));',
    'step("a", async () => { await Promise.all([wf.signal("x")]); });',
    'wf.step("a", function () { say("topic", 1); });',
    'step("a", (nap = sleep("1s")) => nap);',
    'const body = async () => { await sleep("1s"); }; step("a", body); step("b", body);',
    'async function body() { if (1) { await step("inner", () => 1); } } step("a", body, { attempts: 1 });',
  ),
});

tester.run("no-captured-write-in-body", plugin.rules["no-captured-write-in-body"], {
  valid: ok(
    'let n = 0; n = await step("a", () => n + 1);',
    'step("a", () => { let n = 0; n++; for (const x of [1]) n += x; return n; });',
    'step("a", (x = 1) => { x = 2; return x; });',
    'let n = 0; sleep("1s").then(() => n++);',
    'const client = {}; step("a", () => client.set("k", 1));',
  ),
  invalid: bad("write",
    'let n = 0; step("a", () => { n++; });',
    'let n = 0; step("a", () => n += 1);',
    'const o = { list: [] }; step("a", () => { o.list[0] = 1; });',
    'let a; step("a", async () => { [a] = [1]; });',
    'let a; step("a", async () => { ({ b: a = 2 } = {}); });',
    'let x; step("a", () => { for (x of [1]); });',
    'const o = {}; step("a", () => { delete o.x; });',
    'const o = {}; step("a", () => { delete o?.x; });',
    'let n = 0; function body() { const inner = () => { n = 1; }; inner(); } step("a", body);',
  ),
});

tester.run("no-plain-race", plugin.rules["no-plain-race"], {
  valid: ok(
    'race({ a: signal("a"), b: sleep("1s") });',
    'Promise.race([fetch("x"), sleep("1s")]);',
    'Promise.all([signal("a"), signal("b")]);',
    'const s = await signal("a"); Promise.race([s, sleep("1s")]);',
    'const stop = new AbortController(); Promise.race([signal("a", { signal: stop.signal }), sleep("1s")]);',
    'const nap = async () => { await sleep("1s"); }; Promise.race([nap(), sleep("1s")]);',
    'const start = async () => { const later = async () => await signal("a"); return later; }; Promise.race([start(), sleep("1s")]);',
    'async function again() { await sleep("1s"); return again(); } Promise.race([again(), sleep("1s")]);',
    'const it = { next: async () => 1 }; Promise.race([it.next(), sleep("1s")]);',
    'const s = s.then(() => s); Promise.race([s, sleep("1s")]);',
    'let s = signal("a"); s = sleep("1s"); Promise.race([s, sleep("2s")]);',
    'const s = signal("a"); race({ a: s, b: sleep("1s") });',
    'race({ a: signal("a", { timeout: "1d" }), b: wf.signal("b"), c: () => signal("c"), d() { return signal("d"); } });',
    'const h = await wf.hook("a"); const entries = { a: h.next(), b: sleep("1s") }; race(entries);',
    'race({ a: async (stop) => await signal("a", { signal: stop }), b: (stop) => signal("b", { signal: stop }).then((x) => x) });',
    'const w = () => signal("a"); race({ a: w(), b: w, c: sleep("1s") });',
    'const w = async (stop) => { const x = await signal("a", { signal: stop }); return x; }; race({ a: (stop) => w(stop), b: w });',
    'race({ a: (stop) => race({ x: signal("x", { signal: stop }), y: sleep("1s", { signal: stop }) }), b: sleep("1d") });',
    'const nap = async () => { await sleep("1s"); }; race({ a: nap(), b: nap, c: fetch("x").then((r) => r.text()) });',
    'const a = async () => { await b(); }, b = async () => { await a(); }; race({ a: a(), b });',
    'import { race as other } from "elsewhere"; other({ a: signal("a").then((x) => x) }); race();',
  ),
  invalid: [...bad("entry",
    'race({ a: signal("a").then((x) => x), b: sleep("1s") });',
    'const s = signal("a").catch(() => 1); const entries = { a: s, b: sleep("1s") }; wf.race(entries);',
    'const w = async () => await signal("a"); race({ a: w(), b: sleep("1s") });',
    'const w = async () => await signal("a"); race({ a: w, b: sleep("1s") });',
    'async function w() { await wf.signal("a"); } race({ a: () => w(), b: sleep("1s") });',
    'const w = () => signal("a").then((x) => x); race({ a: w(), b: sleep("1s") });',
    'race({ a: () => { if (1) return signal("a").then((x) => x); }, b: sleep("1s") });',
    'race({ a: race({ x: signal("x"), y: sleep("1d") }), b: sleep("1s") });',
    'race({ a: async () => (await race({ x: signal("x"), y: sleep("1d") })).key, b: sleep("1s") });',
    'race({ a: Promise.all([signal("a"), signal("b")]), c: sleep("1s") });',
    'const h = await wf.hook("a"); race({ a: h.next().then((x) => x), b: sleep("1s") });',
  ), ...bad("race",
    'Promise.race([signal("a"), sleep("1s")]);',
    'Promise.any([wf.signal("a").then((x) => x), signal("b")]);',
    'Promise.race(["a", "b"].map((name) => signal(name)));',
    'const s = signal("a"); await Promise.race([s, sleep("1s")]);',
    'const s = signal("a").then((x) => x); await Promise.race([s.catch(() => 1), sleep("1s")]);',
    'const all = [signal("a"), sleep("1s")]; await Promise.race(all);',
    'const h = await wf.hook("a"); await Promise.race([h.next(), sleep("1s")]);',
    'await Promise.race([(await wf.hook("a")).next(), sleep("1s")]);',
    'const w = async () => await signal("a"); await Promise.race([w(), sleep("1s")]);',
    'const w = () => signal("a"); await Promise.race([w(), sleep("1s")]);',
    'async function w() { for (;;) { if (await signal("a")) return; } } await Promise.race([w(), sleep("1s")]);',
    'async function outer() { await inner(); } async function inner() { const x = await signal("a"); return x; } Promise.any([outer(), sleep("1s")]);',
    'await Promise.race([(async () => await signal("a"))(), sleep("1s")]);',
    'const w = async () => (await race({ a: signal("a"), b: sleep("1h") })).key; await Promise.race([w(), sleep("1s")]);',
  )],
});

const typed = new RuleTester({ languageOptions: { parser } });

typed.run("no-captured-write-in-body in TypeScript", plugin.rules["no-captured-write-in-body"], {
  valid: ok('const n: number = await step<number>("a", (): number => { let m = 0 as number; m++; return m; }, { attempts: 1 });'),
  invalid: bad("write", 'const o: { n?: number } = {}; step("a", () => { o!.n = 1; });', 'const o = {}; step("a", () => { (o satisfies object).n = 1; });', 'let n = 0; step<void>("a", () => { (n as number)++; });'),
});

typed.run("no-durable-call-in-body in TypeScript", plugin.rules["no-durable-call-in-body"], {
  valid: ok('type Later = typeof sleep; step("a", (): Later | undefined => undefined);'),
  invalid: bad("call", 'step("a", async (): Promise<void> => { await (sleep("1s") as Promise<void>); });'),
});

typed.run("no-plain-race in TypeScript", plugin.rules["no-plain-race"], {
  valid: ok('const s = (await signal("a")) as string; Promise.race([s, sleep("1s")]);',
    'race({ a: signal<string>("a") as Promise<string>, b: sleep("1s")! });'),
  invalid: [...bad("entry", 'race({ a: signal<string>("a").then((x) => x) as Promise<string>, b: sleep("1s") });'),
    ...bad("race", 'const s = signal<string>("a") as Promise<string>; Promise.race<string | void>([s!, sleep("1s")]);')],
});
