// The rules of a host, as cases that run on a host and in the environment of tests under Node. A test compares what each of them gives.
import {
  attribute, call, child, continueAsNew, emit, FatalError, hook, info, RetryableError, send, signal, sleep, sleepUntil, step, stepFunction, version, workflow,
} from "@wfhost/workflow";

type Case = [name: string, run: () => unknown];
const any = (v: unknown) => v as any;
const mebi = 1 << 20;
const big = (n: number) => "x".repeat(n);

const names: [string, string][] = [
  ["empty", ""], ["one letter", "a"], ["256 bytes", big(256)], ["257 bytes", big(257)], ["256 bytes of é", "é".repeat(128)], ["258 bytes of é", "é".repeat(129)],
  ["an emoji", "go 🚀"], ["wasi/", "wasi/x"], ["host/", "host/x"], ["host alone", "host"], ["a line", "a\nb"], ["a delete", "a\x7fb"], ["a control of Latin-1", "a\x85b"],
  ["a space", " "], ["a slash", "a/b"], ["a number sign", "a#2"],
];

// What takes a name.
const named: Record<string, (name: string) => unknown> = {
  sleep: (n) => sleep(n, 0), sleepUntil: (n) => sleepUntil(n, 0), step: (n) => step(n, () => 1), call: (n) => call("double", 1, { name: n }),
  signal: (n) => signal(n, { timeout: 1 }), send: (n) => send(info().runId, n, 1), "send, its name": (n) => send(info().runId, "go", 1, { name: n }),
  hook: (n) => hook(n).then(() => "a hook"), emit: (n) => emit(n, 1) >= 0, attribute: (n) => attribute(n, "v"), version: (n) => version(n, 3),
  child: (n) => child("rule-kid", 1, { name: n }), handler: (n) => (n.startsWith("host/") ? "waits for it" : call(n, 1, { name: `handler ${n.length} ${n.codePointAt(0)} ${n.codePointAt(1)}` })),
};

const options: [string, any][] = [
  ["none", {}], ["attempts 0", { attempts: 0 }], ["attempts -1", { attempts: -1 }], ["attempts 1.5", { attempts: 1.5 }], ["attempts 2^31", { attempts: 2 ** 31 }],
  ["attempts as text", { attempts: "3" }], ["attempts null", { attempts: null }], ["delay 0", { delay: 0 }], ["delay text", { delay: "1m30s" }], ["delay ISO", { delay: "PT5M" }],
  ["delay of words", { delay: "soon" }], ["delay empty", { delay: "" }], ["delay -1", { delay: -1 }], ["delay NaN", { delay: NaN }], ["delay 0.4", { delay: 0.4 }],
  ["backoff", { backoff: "linear" }], ["backoff wrong", { backoff: "cubic" }], ["factor 0.5", { factor: 0.5 }], ["factor 1", { factor: 1 }], ["jitter 2", { jitter: 2 }],
  ["jitter -1", { jitter: -1 }], ["jitter NaN", { jitter: NaN }], ["timeout 0", { timeout: 0 }], ["timeout 0.1ms", { timeout: "0.1ms" }], ["timeout of 300 years", { timeout: "15700w" }],
  ["maxElapsed empty", { maxElapsed: "" }], ["maxElapsed 0s", { maxElapsed: "0s" }], ["maxElapsed words", { maxElapsed: "long" }], ["maxDelay", { maxDelay: "1h" }],
  ["atMostOnce", { atMostOnce: true }], ["atMostOnce as text", { atMostOnce: "yes" }], ["unknown", { retries: 3 }], ["as the host writes it", { max_delay: "1s" }],
  ["too long", { delay: big(17_000) }], ["a list", { delay: [] }],
];
const childOptions: [string, any][] = [
  ["id", { id: "rule-kid-1" }], ["id empty", { id: "" }], ["id of 129 bytes", { id: big(129) }], ["id with a slash", { id: "a/b" }], ["id a number", { id: 4 }],
  ["onEnd", { onEnd: "abandon" }], ["onEnd wrong", { onEnd: "wait" }], ["timeout", { timeout: "1h" }], ["timeout wrong", { timeout: "x" }], ["version 1.5", { version: 1.5 }],
  ["version wrong", { version: "newest" }], ["attributes", { attributes: { a: "b" } }], ["attributes no texts", { attributes: { a: 1 } }], ["attributes a list", { attributes: [] }],
  ["attribute empty", { attributes: { "": "b" } }], ["attribute long", { attributes: { a: big(1025) } }], ["memo", { memo: { a: 1 } }], ["memo null", { memo: null }],
  ["memo long", { memo: big(3000) }], ["unknown", { ident: "a" }],
  ["65 attributes", { attributes: Object.fromEntries([...Array(65).keys()].map((n) => [`k${n}`, "v"])) }],
];
const hookOptions: [string, any][] = [
  ["none", {}], ["status 200", { status: 200 }], ["status 199", { status: 199 }], ["status 300", { status: 300 }], ["status text", { status: "200" }], ["body", { body: "thanks" }],
  ["body of 4097 bytes", { body: big(4097) }], ["body a number", { body: 4 }], ["type", { contentType: "text/plain" }], ["token", { token: "token-1.of:it~" }],
  ["token short", { token: "1234567" }], ["token with a slash", { token: "token/of/it" }], ["token long", { token: big(129) }],
];

const cyclic: any = {};
cyclic.self = cyclic;
const values: [string, () => unknown][] = [
  ["NaN", () => NaN], ["Infinity", () => -Infinity], ["NaN inside", () => ({ a: [1, NaN] })], ["null", () => null], ["nulls", () => [null, { a: null }]], ["undefined", () => undefined],
  ["undefined inside", () => ({ a: undefined, b: [undefined] })], ["a BigInt", () => 10n], ["a BigInt inside", () => ({ cents: 10n })], ["a cycle", () => cyclic],
  ["a function", () => () => 1], ["a function inside", () => ({ f: () => 1 })], ["a symbol", () => Symbol("s")], ["a Map", () => new Map([[1, 2]])], ["a Date", () => new Date(0)],
  ["an invalid Date", () => new Date(NaN)], ["bytes", () => new Uint8Array([1, 2])], ["an error", () => new Error("e")], ["toJSON", () => ({ toJSON: () => "text" })],
  ["toJSON that throws", () => ({ toJSON: () => { throw new Error("no"); } })], ["the text null", () => "null NaN"], ["a number of an object", () => Object(4)],
];

const durations: unknown[] = [0, 1, 0.4, 1.5, -1, NaN, Infinity, 253402300799999, "0", "5", "5s", "1h30m", "1d", "1.5h", "0.4ms", "P1D", "PT1.5S", "P", "-1s", "", "1 h", "1H", "PT1S2M",
  "99999999w", "2020-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-05", "9999-12-31T23:59:59.9999Z", "2026-01-05T08:00:00+01:00", "1" + "0".repeat(70) + "s"];

const retries: [string, () => unknown, any?][] = [
  ["an error", () => { throw new Error("no"); }], ["a text", () => { throw "no"; }], ["nothing", () => { throw undefined; }], ["an object", () => { throw { code: 4 }; }],
  ["fatal", () => { throw new FatalError("no"); }], ["not retryable", () => { throw Object.assign(new Error("no"), { retryable: false }); }],
  ["retry after", () => { throw new RetryableError("busy", { retryAfter: "1h" }); }], ["retry after a Date", () => { throw new RetryableError("busy", { retryAfter: new Date(0) }); }],
  ["a type", () => { throw Object.assign(new Error("no"), { type: "Declined" }); }], ["a TypeError", () => { throw new TypeError("no"); }],
  ["once", () => { throw new Error("no"); }, { attempts: 1 }], ["five times, fixed", () => { throw new Error("no"); }, { attempts: 5, backoff: "fixed", delay: "2s" }],
  ["five times, linear", () => { throw new Error("no"); }, { attempts: 5, backoff: "linear", delay: 1500 }],
  ["six times, by 3, bounded", () => { throw new Error("no"); }, { attempts: 6, factor: 3, delay: "10s", maxDelay: "2m" }],
  ["until too late", () => { throw new Error("no"); }, { attempts: 0, maxElapsed: "10s" }], ["a delay above the bound", () => { throw new Error("no"); }, { attempts: 2, delay: "1h" }],
  ["at most once", () => { throw new Error("no"); }, { atMostOnce: true }], ["no delay", () => { throw new Error("no"); }, { delay: 0 }],
  ["at the second attempt", () => { if (info().step!.attempt < 2) throw new Error("no"); return info().step!.attempt; }],
  ["a cause", () => { throw new Error("outer", { cause: new Error("inner") }); }], ["several", () => { throw new AggregateError([new Error("a"), new Error("b")]); }],
];

const inBody: Record<string, () => unknown> = {
  sleep: () => sleep(1), step: () => step("inner", () => 1), call: () => call("double", 1), signal: () => signal("go"), send: () => send(info().runId, "go"), hook: () => hook("h"),
  child: () => child("rule-kid"), emit: () => emit("t", 1), attribute: () => attribute("a", "b"), version: () => version("v", 1), continueAsNew: () => continueAsNew(1),
};

function* cases(): Generator<Case> {
  for (const [what, f] of Object.entries(named)) for (const [kind, name] of names) yield [`${what}, ${kind}`, () => f(name)];
  for (const [kind, o] of options) {
    yield [`step, ${kind}`, () => step(`step ${kind}`, () => 1, o)];
    yield [`call, ${kind}`, () => call("double", 2, { name: `call ${kind}`, ...o })];
  }
  for (const [kind, o] of childOptions) yield [`child, ${kind}`, () => child("rule-kid", 1, { name: `child ${kind}`, ...o })];
  for (const name of ["", "nobody", "a b", "-x", big(129), "über"]) yield [`child of ${name.slice(0, 9)}`, () => child(name, 1, { name: `child of ${name.slice(0, 9)}` })];
  for (const [kind, o] of hookOptions) yield [`hook, ${kind}`, () => hook("decision", o).then((h) => h.token.length > 8)];
  yield ["hook, a token again", () => hook("decision", { token: "token-1.of:it~" })];
  for (const [kind, f] of values) {
    yield [`result, ${kind}`, () => step(`result ${kind}`, f)];
    yield [`result of a function, ${kind}`, () => call("brings", kind, { name: `brings ${kind}` })];
    yield [`input, ${kind}`, () => call("same", f(), { name: `input ${kind}` })];
    yield [`emit, ${kind}`, () => emit("value", f()) >= 0];
  }
  for (const n of [mebi - 2, mebi - 1, 2 * mebi]) {
    yield [`result of ${n}`, () => step(`big ${n}`, () => big(n)).then((s) => s.length)];
    yield [`result of a function of ${n}`, () => call("big", n, { name: `big call ${n}` }).then((s: any) => s.length)];
    yield [`input of ${n}`, () => call("length", big(n), { name: `big input ${n}` })];
    yield [`emit of ${n}`, () => emit("big", big(n)) >= 0];
    yield [`send of ${n}`, () => send(info().runId, "big", big(n))];
    yield [`input of a child of ${n}`, () => child("rule-length", big(n), { name: `big child ${n}` })];
  }
  for (const d of durations) {
    yield [`sleep ${String(d).slice(0, 20)}`, () => sleep(any(d))];
    yield [`sleepUntil ${String(d).slice(0, 20)}`, () => (typeof d === "number" && d > 1e12 ? "too far" : sleepUntil(any(d)))];
    if (typeof d === "number" && d > 1e12 || d === "99999999w") continue;
    yield [`timeout ${String(d).slice(0, 20)}`, () => signal("never", { timeout: any(d) })];
  }
  for (const [kind, f, o] of retries) yield [`fails by ${kind}`, () => step(`fails ${kind}`, f, o)];
  for (const [kind, , o] of retries) yield [`a function fails by ${kind}`, () => call("fails", kind, { name: `fails too ${kind}`, ...o })];
  for (const [kind, f] of Object.entries(inBody)) {
    yield [`${kind} in a body`, () => step(`in ${kind}`, async () => {
      try {
        return ["got", await f()];
      } catch (e: any) {
        return e.code ?? e.message;
      }
    })];
  }
  yield ["no handler", () => call("nobody", 1)];
  const ofNode: Record<string, () => unknown> = { "process.env": () => process.env.HOME, NODE_ENV: () => process.env.NODE_ENV, "process.exit": () => {
    try {
      process.exit(0);
    } catch {
      return "throws";
    }
  } };
  for (const [kind, f] of Object.entries(ofNode)) {
    yield [kind, f];
    yield [`${kind} in a body`, () => step(`body ${kind}`, f, { attempts: 1 })];
    yield [`${kind} in a function`, () => call(`of ${kind}`, 1, { attempts: 1 })];
  }
  yield ["names again", () => Promise.all([step("again", () => 1), sleep("again", 1), child("rule-kid", 1, { name: "again" }), call("double", 1, { name: "again" })])];
  yield ["a number that a repeated name has", async () => {
    await sleep("poll#2", 0);
    await sleep("poll", 0);
    await sleep("poll", 0);
  }];
  yield ["markers", () => [version("tax", 2), version("tax", 3), version("tax", 2), version("again", 7)]];
  for (const n of [0, -1, 2 ** 31 - 1, 2 ** 31, 1.5, NaN]) yield [`version ${n}`, () => version(`version ${n}`, n)];
  yield ["a run that nobody can name", () => send("a/b", "go", 1)];
  for (const n of [1024, 1025]) yield [`attribute of ${n}`, () => attribute("long", big(n))];
  yield ["attribute with a line", () => attribute("line", "a\nb")];
  yield ["attributes", () => {
    for (let i = 0; i < 70; i++) attribute(`attribute ${i}`, "v");
  }];
  yield ["attribute that there is", () => attribute("long", "v")];
}

for (const kind of ["process.env", "NODE_ENV", "process.exit"]) stepFunction(`of ${kind}`, () => all.find(([name]) => name === kind)![1]());
stepFunction("double", (n: number) => 2 * n);
stepFunction("same", (v: unknown) => v);
stepFunction("length", (v: string) => v.length);
stepFunction("big", big);
stepFunction("brings", (kind: string) => values.find(([k]) => k === kind)![1]());
stepFunction("fails", (kind: string) => retries.find(([k]) => k === kind)![1]());

const short = (v: unknown) => (typeof v === "string" && v.length > 100 ? v.length : v);

// tell returns what came of a case, and how long it took.
async function tell(run: () => unknown) {
  const began = Date.now(), took = () => Date.now() - began;
  try {
    return { got: short((await run()) ?? null), took: took() };
  } catch (e: any) {
    const { code, kind, attempts, type, name, step: of, details } = e;
    return { code, kind, attempts, type, name, step: of, history: details?.history?.map((h: any) => [h.attempt, h.error.code, h.error.kind, h.error.message]),
      message: e.message?.replace(/\(run [^)]*\)/, "(run …)"), took: took() };
  }
}

// A run performs a part of the cases, since a retry replays what came before it.
const part = 60;
const all = [...cases()];
export const parts = Math.ceil(all.length / part);

export const rules = workflow("rules", async (n: number) => {
  const out: Record<string, unknown> = {};
  for (const [name, run] of all.slice(n * part, (n + 1) * part)) out[name] = await tell(run);
  return out;
});
workflow("parts", () => parts);

workflow("rule-kid", (n: number) => n);
workflow("rule-length", (s: string) => s.length);

// Runs that end in one way. They are told what, as JSON.
const ends: Record<string, () => unknown> = {
  ...Object.fromEntries(values.map(([kind, f]) => [`result, ${kind}`, f])),
  "result of a mebibyte": () => big(mebi - 2), "result of more": () => big(mebi - 1), "continue of more": () => continueAsNew(big(mebi)),
  "continue, options": () => continueAsNew("done", any({ version: "oldest" })), "continue, unknown option": () => continueAsNew("done", any({ iteration: 1 })),
  "continue, NaN": () => continueAsNew(NaN), "an error": () => { throw new Error("no"); }, "a text": () => { throw "no"; },
  nothing: () => { throw undefined; },
};
export const ending = workflow("ending", (what: string) => (what === "done" ? "continued" : ends[what]()));
export const endings = Object.keys(ends);
