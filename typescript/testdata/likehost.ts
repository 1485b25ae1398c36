// Workflows that a test runs on a host and in the environment of tests under Node. Each returns what it has seen.
import {
  call, child, continueAsNew, hook, info, query, race, signal, sleep, step, stepFunction, throwOnCancel, update, workflow,
} from "@wfhost/workflow";

// told returns what a call brings: the result, or the error without its places in the program.
async function told(brings: Promise<unknown>): Promise<unknown> {
  try {
    return await brings;
  } catch (e: any) {
    const { code, kind, type, attempts, step } = e, message = String(e.message).replace(/\(run [^)]*\)/g, "(run …)");
    return sorted({ code, kind, type, attempts, step, message: short(message), details: e.details, cause: e.cause?.code });
  }
}

const short = (text: string) => (text.length > 200 ? `${text.slice(0, 20)}…${text.length}` : text);

// sorted returns a value whose keys are in order, without stacks, instants and long texts.
function sorted(v: any): unknown {
  if (typeof v === "string") return short(v.replace(/\(run [^)]*\)/g, "(run …)"));
  if (typeof v !== "object" || v === null) return v;
  if (Array.isArray(v)) return v.map(sorted);
  const keys = Object.keys(v).filter((key) => key !== "stack" && key !== "start_ms").sort();
  return Object.fromEntries(keys.map((key) => [key, sorted(v[key])]));
}

const next = (name: string) => signal(name, { timeout: "1h" });

workflow("order", async () => { // the losers of a race give back their signals
  const { key } = await race({ stop: signal("stop"), a: signal("x"), b: signal("x") });
  return [key, await next("x"), await next("x")];
});
workflow("iterations", async (before?: unknown[]) => { // what the run was not told of goes over
  if (before) return [...before, await next("x"), await next("x"), await next("x")];
  const [first] = [signal("x"), signal("x")];
  return continueAsNew([await first]);
});
workflow("last-instant", async () => [(await next("x")) ?? "late", (await next("x")) ?? "late"]);
workflow("full", async () => (await next("c")) ?? "nothing");

workflow("holder", async () => void (await hook("h", { token: "token-of-holder" })));
workflow("token", async () => {
  await child("holder");
  return (await hook("h", { token: "token-of-holder" })).token;
});
workflow("ended", async () => {
  update("u", (v: unknown) => v);
  query("q", (v: unknown) => v);
  await hook("h", { token: "token-of-ended" });
  await signal("end");
});

workflow("nested", async (n: number) => (n === 0 ? "bottom" : child("nested", n - 1)));
workflow("deep", async () => [await told(child("nested", 15)), String(await told(child("nested", 16)).then(JSON.stringify as any)).slice(-110)]);
workflow("patient", () => sleep("1h"));
workflow("many", async () => {
  const refused: unknown[] = [];
  for (let n = 0; n < 1002; n++) child("patient", n, { onEnd: "terminate" }).catch((e) => refused.push([n, e.code, e.message]));
  await sleep("1s");
  return refused;
});
workflow("twin", async (n: number) => n);
workflow("twins", async () => [await told(child("twin", 1, { id: "same" })), await told(child("twin", 2, { id: "same" }))]);

const long = "x".repeat(2 << 20);
stepFunction("fails", () => {
  throw new RangeError(long);
});
workflow("fails", async (how: string) => {
  if (how === "typed") throw new TypeError("typed");
  if (how === "text") throw "a text";
  if (how === "long") throw new Error(long);
  if (how === "late") await sleep("1d");
  if (how === "result") return long;
  if (how === "update") update("u", () => { throw new Error(long); });
  return step("b", () => { throw new Error("no"); }, { attempts: 2 });
});
workflow("details", async () => {
  const all = [];
  for (const how of ["typed", "text", "long", "result", "step"]) all.push(await told(child("fails", how)));
  return [...all, await told(child("fails", "late", { timeout: "1h" })), await told(step("s", () => { throw new TypeError("no"); }, { attempts: 2 }))];
});
workflow("long-errors", async () => [
  await told(step("body", () => { throw Object.assign(new Error(long), { type: long, retryable: false }); })),
  await told(call("fails", 1, { attempts: 2 })),
]);
workflow("long-answer", async () => {
  update("u", () => { throw new Error(long); });
  await signal("end");
});

stepFunction("about", () => about());
const about = () => {
  const { workflow, attributes, memo, step } = info();
  const { name, attempt, attempts, deadline } = step ?? {};
  const seconds = deadline && Math.round((deadline.getTime() - Date.now()) / 1000);
  return { workflow, attributes, memo, step: { name, attempt, attempts, seconds } };
};
workflow("about", async () => {
  const body = await step("body", about, { timeout: "1m" });
  return { own: about(), body, function: await call("about"), child: await child("of", 0, { attributes: { a: "b" }, memo: 1 }) };
});
workflow("of", async () => ({ own: about(), function: await call("about") }));

workflow("unanswered", async (told: boolean) => {
  if (told) throwOnCancel();
  update("slow", () => sleep("1h"));
  await sleep("2h");
});

// The handler slow takes 2 s.
workflow("slow-race", async () => (await race({ done: call("host/slow"), late: sleep("1s") })).key);
workflow("side-by-side", async () => {
  const began = Date.now();
  await Promise.all([call("host/slow", 1), call("host/slow", 2)]);
  return (Date.now() - began) / 1000;
});
// The handler cancels has the run cancelled, and fails then.
workflow("cancelled-attempt", async () => {
  throwOnCancel();
  return await told(call("host/cancels", 1, { attempts: 3 }));
});

const fails = (name: string) => step(name, () => { throw new Error(name); }, { attempts: 1 });
workflow("handled-late", async () => {
  const a = step("a", () => 1), pause = sleep("pause", "1m"), b = fails("b");
  await a;
  await pause;
  return await told(b);
});
workflow("unhandled", async () => {
  Promise.reject(new Error("nobody"));
  sleep("x", "bad");
  call("stays", 1, { attempts: 1 });
  (async () => {
    await sleep("q", "1s");
    throw new Error("late");
  })();
  setTimeout(() => { throw new Error("timer"); }, 1000);
  await sleep("1h");
  return "ok";
});
workflow("unhandled-in-body", async () => {
  await step("body", async () => void Promise.reject(new Error("in a body")));
  fails("s");
  await sleep("1h");
});
workflow("continues", async (how: string) => {
  if (how === "timer") setTimeout(() => continueAsNew("then"), 1000);
  else if (how === "then") sleep("x", "1s").then(() => continueAsNew("end"));
  else return how;
  await sleep("1h");
});

workflow("abort-timeouts", async () => {
  const began = Date.now(), seen: unknown[] = [];
  const note = async (brings: Promise<unknown>) => {
    seen.push(await brings.catch((e) => [e.name, e.message]), Date.now() - began);
  };
  const first = AbortSignal.timeout(5000);
  await note(sleep("s", "1h", { signal: first }));
  seen.push(first.aborted, first instanceof AbortSignal);
  await note(signal("x", { signal: AbortSignal.any([AbortSignal.timeout(2000), AbortSignal.timeout(1000)]) }));
  await note(step("body", async () => {
    const began = Date.now(), limit = AbortSignal.timeout(20);
    await new Promise((resolve) => limit.addEventListener("abort", resolve));
    return [limit.reason.name, Date.now() - began >= 20];
  }));
  seen.pop(); // the body has taken about 20 ms
  for (const ms of [-1, NaN, "x"] as number[]) {
    try {
      AbortSignal.timeout(ms);
    } catch (e: any) {
      seen.push([e.name, e.message]);
    }
  }
  return seen;
});
workflow("performance", async () => {
  const began = performance.now(), same = began === Date.now();
  await sleep("1h");
  const slept = performance.now() - began;
  const worked = await step("body", async () => {
    const began = performance.now(), date = Date.now();
    await new Promise((resolve) => setTimeout(resolve, 20));
    return performance.now() - began >= 20 && Math.abs(performance.now() - began - Date.now() + date) < 5;
  });
  return [same, slept, worked, performance.timeOrigin];
});

stepFunction("stuck", () => new Promise(() => {}));
workflow("stuck", async () => {
  const never = new Promise(() => {}), began = Date.now();
  const stuck = [
    await told(step("at once", () => new Promise(() => {}), { timeout: "1s" })),
    await told(step("chain", async () => { await Promise.all([1, (async () => never)()]); })),
    await told(call("stuck", 1, { timeout: "1s" })),
    Date.now() - began,
  ];
  const slept = sleep("5s");
  return [...stuck, await told(step("of the workflow", () => slept)), await told(step("timer", async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await new Promise(() => {});
  }))];
});

const throws: Record<string, () => unknown> = {
  text: () => { throw "text"; }, null: () => { throw null; }, undefined: () => { throw undefined; }, number: () => { throw 42; },
  object: () => { throw { message: "m", code: "C" }; }, error: () => { throw new RangeError("r"); }, empty: () => { throw new TypeError(""); },
  proxy: () => { throw new Proxy({}, { get() { throw new Error("trap"); } }); },
  "proxy of an error": () => { throw new Proxy(new Error("inner"), { get() { throw new Error("trap"); } }); },
  cause: () => { throw new Error("a", { cause: new Error("b", { cause: "c" }) }); },
  aggregate: () => { throw new AggregateError([new Error("x"), "y", null], "agg"); },
  symbol: () => { throw Symbol("s"); }, long: () => { throw new Error("x".repeat(100_000)); }, bigint: () => 1n,
};
workflow("refusals", async () => {
  update("u", (key: string) => key, { validate: (key: string) => throws[key]?.() });
  update("v", (key: string) => throws[key]());
  query("q", (key: string) => throws[key]());
  await signal("end");
});

// What is due at the same instant. Attempts are made beside each other on a host, so that any of them may end first.
const again = (name: string, o: object) => step(name, () => { throw new Error(name); }, o);
workflow("ties", async (n: number) => {
  const order: any[] = [], began = Date.now();
  const note = (name: string, brings: Promise<unknown>) => brings.catch(() => {}).then(() => order.push([name, Date.now() - began]));
  const calls: Record<string, () => Promise<unknown>> = {
    a: () => again("a", { attempts: 3, delay: "1s" }), b: () => again("b", { attempts: 2, delay: "3s" }), // both end after 3 s
    c: () => again("c", { attempts: 4, delay: "1s", backoff: "fixed" }), d: () => sleep("d", "3s"), e: () => signal("e", { timeout: "3s" }),
    f: () => sleep("f1", "1s").then(() => sleep("f2", "2s")), g: () => call("stays", 1, { name: "g", attempts: 2, delay: "3s" }),
    h: () => again("h", { attempts: 3, delay: "2s", backoff: "fixed" }), // after 4 s
  };
  const names = Object.keys(calls);
  for (let left = names.length, k = n; left > 0; k = Math.floor(k / left--)) {
    const [name] = names.splice(k % left, 1);
    note(name, calls[name]());
  }
  await sleep("1m");
  const ofSteps = (name: any) => /[abcgh]/.test(name);
  return [...order.filter(([name]) => !ofSteps(name)), ...order.filter(([name]) => ofSteps(name)).sort(), order.findIndex(([name]) => ofSteps(name))];
});
stepFunction("stays", () => { throw new Error("g"); });
