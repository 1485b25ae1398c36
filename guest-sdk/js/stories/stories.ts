// The story workflows of docs/reference/conformance.md, in TypeScript.
import {
  attribute, call, child, continueAsNew, emit, FatalError, hook, info, query, race, RetryableError, send, signal, sleep, sleepUntil, step,
  stepFunction, throwOnCancel, update, updatesDone, version, workflow, WorkflowError,
} from "@wfhost/workflow";
import "./rules.ts";

// codeOf returns the code with which something fails, "OK" if it does not.
async function codeOf(what: Promise<unknown>): Promise<string> {
  try {
    await what;
    return "OK";
  } catch (e) {
    return (e as WorkflowError).code;
  }
}

workflow("sleeps", async () => {
  const began = Date.now();
  const took: number[] = [];
  for (const sleeps of [
    () => sleep("duration", 4000), () => sleep("nothing", 0), () => sleepUntil("instant", began + 10_000), () => sleep("text", "1h30m"),
    () => sleepUntil("past", began),
  ]) {
    await sleeps();
    took.push(Date.now() - began);
  }
  return took;
});

workflow("steps", async (name: string) => {
  const greeting = await call("greet", name);
  const a = call("double", 21, { name: "a" }), b = call("double", 4, { name: "b" });
  return [greeting, await a, await b];
});

let changed = 0; // by bodies, which the workflow must not see

workflow("bodies", async (name: string) => {
  const one = await step("one", () => {
    changed++;
    return `body of ${name}`;
  });
  const a = step("a", () => "a"), b = step("b", () => "b");
  const both = [await a, await b];
  const inside = await step("inside", () => codeOf(sleep("nap", 1000)));
  return [one, ...both, inside, changed];
});

workflow("retries", async () => {
  const flaky = await call("flaky", null, { attempts: 3, delay: 100 });
  const body = await step("body", () => {
    const { attempt } = info().step!;
    if (attempt === 1) throw new Error("not yet");
    return `ok after ${attempt}`;
  }, { attempts: 2 });
  const later = await step("later", () => {
    const { attempt } = info().step!;
    if (attempt === 1) throw new RetryableError("busy", { retryAfter: "5s" });
    return `ok after ${attempt}`;
  });
  return [flaky, body, later];
});

// failureOf returns what a story says of a failed call.
async function failureOf(what: Promise<unknown>) {
  try {
    await what;
  } catch (e) {
    const { code, kind, attempts, message } = e as WorkflowError;
    return { code, kind, attempts, message };
  }
  throw new Error("it has not failed");
}

workflow("failures", async () => [
  await failureOf(call("never", null, { attempts: 2, delay: "10ms" })),
  await failureOf(step("fatal", () => {
    throw new FatalError("out of stock");
  })),
]);

workflow("refusals", async () => {
  const codes: string[] = [];
  for (const refused of [
    () => sleep("negative", -1), () => sleep("bare", "5"), () => sleep("date", "2026-13-01"), () => call("nobody", null),
    () => call("host/vault", null, { name: "denied" }), () => sleep("", 0),
  ]) codes.push(await codeOf(refused()));
  return codes;
});

workflow("failing", async () => {
  await sleep("nap", 1000);
  throw new Error("nothing in stock");
});

workflow("signals", { signals: ["go", "none"] }, async () => [
  (await signal("go", { timeout: "3s" })) ?? "TIMEOUT",
  await signal("go"),
  (await signal("none", { timeout: 100 })) ?? "TIMEOUT",
]);

workflow("race", { signals: ["stop"] }, async () => {
  const { key, value } = await race({ stop: signal("stop"), limit: sleep("limit", 5000) });
  const list: unknown[] = key === "stop" ? [key, value] : [key];
  await sleep("after", 1000);
  list.push((await signal("stop", { timeout: "10s" })) ?? "TIMEOUT");
  return list;
});

workflow("parallel", async () => {
  const names: string[] = [];
  const woke = (name: string) => () => void names.push(name);
  await Promise.all([sleep("c", 3000).then(woke("c")), sleep("a", 1000).then(woke("a")), sleep("b", 2000).then(woke("b"))]);
  return names;
});

workflow("cancels", async (how: string) => {
  if (how !== "final") throwOnCancel();
  try {
    await sleep("long", "1h");
  } catch (e) {
    await call("greet", "cleaner", { name: "clean up" });
    if (how === "ignore") return `${(e as WorkflowError).code}, but done`;
    throw new Error("cancelled");
  }
  return "slept";
});

workflow("parent", async () => {
  const first = await child("child", 20, { name: "first" });
  const second = child("child", 40, { name: "second", id: "parent-second" });
  const n = await second;
  const third = await failureOf(child("child", -1, { name: "third" }));
  return [first, second.id, n, third.code, third.kind];
});

workflow("child", async (n: number) => {
  if (n < 0) throw new Error("negative");
  await sleep("nap", 1000);
  return n + 1;
});

workflow("counter", { signals: ["add"] }, async (n: number) => {
  n += await signal<number>("add");
  if (n < 10) continueAsNew(n);
  return n;
});

workflow("queries", { queries: ["status"] }, async () => {
  let at = "start";
  query("status", (how: string) => {
    if (how === "refuse") throw new Error("refused");
    return { at };
  });
  at = "nap";
  await sleep("nap", "10s");
  at = "end";
  return "done";
});

workflow("updates", { updates: ["add"] }, async () => {
  let total = 0;
  await new Promise<void>((enough) => {
    update("add", (n: number) => {
      total += n;
      if (total >= 10) enough();
      return total;
    }, {
      validate: (n: number) => {
        if (n <= 0) throw new Error("only more can be added");
      },
    });
  });
  await updatesDone();
  return total;
});

workflow("output", async () => {
  const first = emit("progress", "started");
  attribute("customer", "ada");
  const change = version("change", 2);
  await sleep("nap", 1000);
  return [first, change, emit("progress", { percent: 100 })];
});

workflow("markers", async (newest: number) => {
  const got = [0, 1, 2].map(() => version("tax", newest));
  await sleep("tax", 1000);
  got.push(version("tax", newest + 1), version("nap", 1));
  await sleep("nap", 1000);
  got.push(version("nap", 5));
  emit("tax", got);
  if (newest < 3) continueAsNew(newest + 1);
  return got;
});

workflow("hooks", { signals: ["paid"] }, async () => {
  const paid = await hook("paid", { token: "token-of-the-story", status: 200, contentType: "text/plain", body: "thanks" });
  const taken = await codeOf(hook("paid", { token: "token-of-the-story" }));
  return [paid.token, taken, await paid.next()];
});

workflow("sender", async () => {
  const nobody = await codeOf(send("nobody-is-there", "go", "hello"));
  const listener = child("listener", null, { id: "sender-listener" });
  await sleep("nap", 1000); // the child has begun by then
  const sent = await codeOf(send(listener.id, "go", "hello"));
  return [nobody, sent, await listener];
});

workflow("listener", { signals: ["go"] }, () => signal("go"));

workflow("long", async (n: number) => {
  let sum = 0;
  for (let i = 0; i < n; i++) {
    sum = await step(`body ${i}`, () => sum + i);
    if (i % 10 === 9) await sleep(`sleep ${i}`, "1m");
  }
  return sum;
});

workflow("chance", async () => {
  const draw = () => String(crypto.getRandomValues(new Uint8Array(8)));
  const before = draw();
  await sleep("nap", 1000);
  return [before !== draw(), info().runId === "chance"];
});

stepFunction("greet", (name: string) => `hello ${name}`);
stepFunction("double", (n: number) => 2 * n);
stepFunction("flaky", () => {
  const { attempt } = info().step!;
  if (attempt < 3) throw new Error(`attempt ${attempt}`);
  return `ok after ${attempt}`;
});
stepFunction("never", () => {
  throw new Error(`attempt ${info().step!.attempt}`);
});
