import assert from "node:assert/strict";
import { test } from "node:test";
import { call, cancelled, child, race, signal, sleep, step, throwOnCancel } from "../src/index.js";
import { Env } from "../src/testing.js";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const times = (env) => env.calls.map((c) => [c.name, c.at, c.ended, c.code, c.attempts]);

test("attempts take their time beside each other", async () => {
  const env = new Env().handle("host/slow", async (ms) => {
    await pause(ms);
    return ms;
  }).child("far", () => pause(50));
  const got = await env.run(() => Promise.all([call("host/slow", 40), call("host/slow", 20), step("body", () => pause(30)), child("far"), sleep(25)]));
  assert.deepEqual(got, [40, 20, null, null, null]);
  assert.deepEqual(times(env), [["slow", 0, 40, "OK", 1], ["slow#2", 0, 20, "OK", 1], ["body", 0, 30, "OK", 1], ["far", 0, 50, "OK", undefined],
    ["sleep", 0, 25, "OK", undefined]]);
});

test("the run goes on while an attempt waits", async () => {
  const env = new Env().handle("host/slow", () => pause(40)).at(10, () => env.signal("go", "early"));
  const got = await env.run(async () => {
    const slow = call("host/slow");
    const first = await race({ slow: () => slow, go: signal("go") });
    await sleep(10);
    return [first, await slow];
  });
  assert.deepEqual(got, [{ key: "go", value: "early" }, null]);
  assert.deepEqual(times(env), [["slow", 0, 40, "OK", 1], ["go", 0, 10, "OK", undefined], ["sleep", 10, 20, "OK", undefined]]);
});

test("what a handler does to the run when it has waited happens then", async () => {
  const env = new Env().handle("host/slow", async () => {
    await pause(20);
    env.signal("go", env.now - began);
    await pause(20);
  });
  const began = env.now;
  const got = await env.run(async () => {
    const slow = call("host/slow");
    const late = await signal("go", { timeout: 10 });
    const go = await signal("go");
    await slow;
    return [late ?? "none", go];
  });
  assert.deepEqual(got, ["none", 20]);
  assert.deepEqual(times(env).map((c) => c.slice(0, 3)), [["slow", 0, 40], ["go", 0, 10], ["go", 10, 20]]);
  const stopped = new Env().handle("host/slow", async () => {
    await pause(20);
    stopped.cancel();
  });
  await assert.rejects(stopped.run(() => Promise.all([call("host/slow"), sleep("10ms").then(() => sleep("1h"))])), { code: "CANCELLED" });
  assert.deepEqual(times(stopped).map((c) => c.slice(0, 3)), [["slow", 0, undefined], ["sleep", 0, 10], ["sleep#2", 10, undefined]]);
});

test("an attempt that runs over its timeout lasts as long as that", async () => {
  const env = new Env();
  await assert.rejects(env.run(() => step("hangs", () => pause(200), { timeout: 20, attempts: 2, delay: 100 })), { kind: "timeout" });
  assert.deepEqual(times(env), [["hangs", 0, 140, "STEP_FAILED", 2]]);
});

test("a step that is withdrawn while an attempt runs has its outcome, and no further attempt", async () => {
  const env = new Env().handle("host/slow", async () => {
    await pause(20);
    throw new Error("no");
  });
  const got = await env.run(async () => {
    const slow = call("host/slow");
    await race({ slow, late: sleep(10) });
    return slow.catch((e) => [e.message, e.attempts]);
  });
  assert.deepEqual(got, ["no", 1]);
  assert.deepEqual(times(env)[0], ["slow", 0, 20, "STEP_FAILED", 1]);
});

test("a cancel during attempts", async () => {
  const env = new Env().handle("host/cancels", () => {
    env.cancel();
    throw new Error("no");
  }).handle("host/other", () => "done");
  const told = (e) => [e.code, e.cause?.code, e.cause?.attempts];
  assert.deepEqual(await env.run(async () => {
    throwOnCancel();
    return Promise.all([call("host/cancels").catch(told), call("host/other").catch(told)]);
  }), [["CANCELLED", "STEP_FAILED", 1], "done"]);
  const again = new Env().handle("host/cancels", (_, { attempt }) => {
    if (attempt > 1) return attempt;
    again.cancel();
    throw new Error("no");
  });
  assert.equal(await again.run(async () => {
    cancelled(); // the workflow is told, and its steps go on
    return call("host/cancels");
  }), 2);
});

test("at one instant timers fire before attempts are made, each in the order of the calls", async () => {
  const order = [];
  const again = (name, options) => step(name, () => { throw new Error(name); }, options);
  const calls = { a: () => again("a", { attempts: 3, delay: "1s" }), b: () => again("b", { attempts: 2, delay: "3s" }), c: () => sleep("c", "3s"),
    d: () => sleep("1s").then(() => sleep("d", "2s")), e: () => again("e", { attempts: 4, delay: "1s", backoff: "fixed" }) };
  await new Env().run(() => Promise.all(Object.entries(calls).map(([name, fn]) => fn().catch(() => {}).then(() => order.push(name)))));
  assert.deepEqual(order, ["c", "d", "a", "b", "e"]);
});
