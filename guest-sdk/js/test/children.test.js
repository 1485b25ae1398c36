import assert from "node:assert/strict";
import { test } from "node:test";
import { call, child, continueAsNew, emit, hook, info, query, send, signal, sleep, step, throwOnCancel, update, updatesDone, workflow } from "../src/index.js";
import { Env } from "../src/testing.js";

workflow("ride", async (km) => {
  if (km < 0) throw new TypeError("backwards");
  query("at", () => km);
  emit("began", info().runId);
  const tip = await signal("tip", { timeout: "1h" });
  await sleep(km * 60_000);
  return { km, tip: tip ?? 0, by: await call("host/driver", km, { attempts: 2 }) };
});
workflow("chain", async (n) => (n === 0 ? "end" : child("chain", n - 1)));
workflow("patient", async (how) => {
  if (how === "told") throwOnCancel();
  try {
    return await sleep("wait", "1d");
  } catch (e) {
    await step("clean", () => 1);
    throw e;
  }
});
workflow("counts", async (n) => {
  update("add", (m) => n + m);
  await signal("go");
  await updatesDone();
  return n < 2 ? continueAsNew(n + 1) : n;
});

test("registered workflows run as children, beside each other", async () => {
  const env = new Env({ runId: "trip" }).handle("host/driver", (km, s) => {
    if (s.attempt < 2) throw new Error("busy");
    return `driver ${km}`;
  }).at("30m", async () => {
    env.childRun("second").signal("tip", 5);
    assert.equal(await env.childRun("second").query("at"), 20);
  });
  const got = await env.run(async () => {
    const rides = [child("ride", 10), child("ride", 20, { id: "second" })];
    const failed = await child("ride", -1).catch((e) => [e.code, e.kind, e.type, e.message]);
    return [await Promise.all(rides), failed];
  });
  assert.deepEqual(got, [[{ km: 10, tip: 0, by: "driver 10" }, { km: 20, tip: 5, by: "driver 20" }],
    ["CHILD_FAILED", "failed", "TypeError", 'child "ride#3" (run trip.3) failed: backwards']]);
  const second = env.childRun("second");
  assert.deepEqual(second.outputs, [{ topic: "began", value: "second" }]);
  assert.deepEqual(second.calls.map((c) => [c.kind, c.at, c.ended, c.code, c.attempts]), [["emit", 0, 0, "OK", undefined],
    ["signal_wait", 0, 1_800_000, "OK", undefined], ["sleep", 1_800_000, 3_000_000, "OK", undefined], ["step", 3_000_000, 3_001_000, "OK", 2]]);
  assert.deepEqual(env.calls.map((c) => [c.kind, c.target, c.input, c.runId, c.code]),
    [["child", "ride", 10, "trip.1", "OK"], ["child", "ride", 20, "second", "OK"], ["child", "ride", -1, "trip.3", "CHILD_FAILED"]]);
});

test("children of children", async () => {
  assert.equal(await new Env().run((n) => child("chain", n), 5), "end");
});

test("what becomes of children", async () => {
  const env = new Env().handle("host/driver", () => 1);
  const got = await env.run(async () => {
    const kinds = [];
    for (const [how, onEnd] of [["final", "cancel"], ["told", "cancel"], ["told", "terminate"], ["told", "abandon"]]) {
      const c = child("patient", how, { name: `${how} ${onEnd}`, onEnd });
      await sleep(1);
      c.cancel();
      await c.catch((e) => kinds.push(e.code));
    }
    await sleep("2d");
    return kinds;
  });
  assert.deepEqual(got, ["CANCELLED", "CANCELLED", "CANCELLED", "CANCELLED"]);
  const steps = ["final cancel", "told cancel", "told terminate", "told abandon"].map((name) => {
    const run = env.childRun(env.calls.find((c) => c.name === name).runId);
    return [run.steps.length, run.calls[run.calls.length - 1 - run.steps.length].code];
  });
  assert.deepEqual(steps, [[0, undefined], [1, "WITHDRAWN"], [0, undefined], [0, "OK"]]);
});

test("an iteration that ends is told nothing of its children", async () => {
  const env = new Env();
  const got = await env.run(async (n) => {
    if (n === 1) return "again";
    child("patient", "final", { onEnd: "terminate" }).catch(() => {});
    await sleep("1m");
    return continueAsNew(1);
  }, 0);
  assert.equal(got, "again");
  assert.deepEqual(env.calls.map((c) => [c.kind, c.code]), [["child", undefined], ["sleep", "OK"], ["continue_as_new", "OK"]]);
});

test("an id that is taken, a run that is not there, and one that has ended", async () => {
  const env = new Env().absent("nobody");
  const got = await env.run(async () => {
    const first = child("chain", 0, { id: "one" });
    const codes = [await child("chain", 0, { name: "again", id: "one" }).catch((e) => `${e.code} ${e.message}`)];
    await first;
    for (const to of ["nobody", "one", "somebody"]) codes.push(await send(to, "go").catch((e) => `${e.code} ${e.message}`));
    codes.push(await child("nothing", 1).catch((e) => `${e.code} ${e.message}`));
    return codes;
  });
  assert.deepEqual(got.map((v) => v ?? "OK"), ['CONFLICT child "again" was not started: run "one": run exists', 'CONFLICT there is no run "nobody"',
    'CONFLICT run "one" takes no signals: it has ended', "OK",
    'CHILD_FAILED child "nothing" (run test.6) failed: workflow "nothing": not found in this test: register it, or stand in for it by env.child']);
});

test("signals between runs, and deliveries", async () => {
  const env = new Env({ runId: "boss" }).at("1h", () => env.deliver("token-of-mine", "paid"));
  workflow("worker", async () => {
    await send("boss", "hello", info().runId);
    return signal("work");
  });
  const got = await env.run(async () => {
    const c = child("worker");
    const from = await signal("hello");
    await send(from, "work", "dig");
    const paid = await hook("paid", { token: "token-of-mine" });
    return [from, await c, await paid.next()];
  });
  assert.deepEqual(got, ["boss.1", "dig", "paid"]);
  assert.throws(() => env.deliver("another-token"), /no hook has the token/);
});

test("a child that continues as new takes updates", async () => {
  const answers = [];
  const env = new Env();
  for (let n = 0; n < 3; n++) {
    env.at(`${n + 1}m`, () => void env.childRun("counter").update("add", 10).then((v) => answers.push(v)));
    env.at(`${n + 1}m30s`, () => env.childRun("counter").signal("go"));
  }
  assert.equal(await env.run(() => child("counts", 0, { id: "counter" })), 2);
  assert.deepEqual(answers, [10, 11, 12]);
});
