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
