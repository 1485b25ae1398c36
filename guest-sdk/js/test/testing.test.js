import assert from "node:assert/strict";
import { test } from "node:test";
import util from "node:util";
import {
  FatalError, RetryableError, attribute, call, cancelled, child, continueAsNew, emit, hook, info, query, race, saga, send, signal, sleep, sleepUntil, step,
  throwOnCancel, update, updatesDone,
} from "../src/index.js";
import { Env } from "../src/testing.js";

test("sleeps take no time", async () => {
  const env = new Env();
  const from = env.now;
  const napped = await env.run(async () => {
    const start = Date.now();
    await sleep("3d");
    await sleep("nap", 1500);
    await sleepUntil(new Date(start));
    await new Promise((resolve) => setTimeout(resolve, 500));
    return new Date().getTime() - start;
  });
  assert.equal(napped, 3 * 86_400_000 + 2000);
  assert.equal(env.now - from, napped);
});

test("a duration that is none", async () => {
  await assert.rejects(new Env().run(() => sleep("5 seconds")), { code: "INVALID_DURATION" });
  await assert.rejects(new Env().run(() => sleep("2030-13-01T00:00:00Z")), { code: "INVALID_DATE" });
});

test("an input that is too large", async () => {
  await assert.rejects(new Env().run(() => 1, "x".repeat(1 << 20)), { code: "TOO_LARGE", message: "the input has 1048578 bytes, the limit is 1048576" });
});

test("numbers that are no durations", async () => {
  for (const [fn, code, message] of [
    [() => sleep(NaN), "INVALID_DURATION", /to 253402300799999, got NaN/], [() => sleep("nap", Infinity), "INVALID_DURATION", /got Infinity/],
    [() => sleep(-1), "INVALID_DURATION", /-1/], [() => sleepUntil("tomorrow"), "INVALID_DATE", /an instant is a Date.*got "tomorrow"/],
    [() => step("s", () => 1, { delay: NaN }), "INVALID_ARGUMENT", /options: delay: .*got NaN/],
    [() => step("s", () => 1, { attempts: Infinity }), "INVALID_ARGUMENT", /attempts must be a finite number, got Infinity; 0 is no limit/],
    [() => child("c", 1, { timeout: Infinity }), "INVALID_ARGUMENT", /timeout/],
  ]) await assert.rejects(new Env().run(fn), { code, message });
});

test("steps are tried again after their delays", async () => {
  const env = new Env();
  const got = await env.run(async () => {
    const start = Date.now();
    const flaky = await step("flaky", () => {
      if (info().step.attempt < 3) throw new Error("not yet");
      return info().step.idempotencyKey;
    });
    const waited = Date.now() - start;
    await step("later", () => {
      if (info().step.attempt === 1) throw new RetryableError("busy", { retryAfter: "1h" });
    });
    return { flaky, waited, later: Date.now() - start - waited };
  });
  assert.deepEqual(got, { flaky: "key-of-0-flaky", waited: 3000, later: 3_600_000 });
  assert.deepEqual(env.steps, ["flaky", "later"]);
});

// A test that waits for a timer that never fires does not end, and says nothing.
test("timers of steps really wait, those of the workflow take no time", async () => {
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const real = performance.now(), timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  const env = new Env().handle("host/mail", (to) => wait(5).then(() => `sent to ${to}`)).child("invoice", (n) => wait(5).then(() => n * 2))
    .at("3h", async () => {
      env.signal("go", 1);
      await wait(5);
      env.signal("go", 2);
    });
  const got = await env.run(async () => {
    const start = Date.now();
    const slept = wait(3_600_000).then(() => Date.now() - start);
    const polls = await step("poll", async () => {
      setTimeout(() => assert.fail("a body is over"), 60_000);
      setTimeout(() => assert.fail("a body is over"), 30 * 86_400_000);
      let polls = 0;
      for (const until = Date.now() + 20; Date.now() < until; polls++) await wait(5);
      return polls;
    });
    const ticks = await step("tick", () => new Promise((resolve, reject) => {
      const never = setTimeout(reject, 1);
      clearTimeout(never);
      let ticks = 0;
      const timer = setInterval((by) => {
        if ((ticks += by) < 6) return;
        clearInterval(timer);
        resolve(ticks);
      }, 2, 2);
    }));
    const attempts = await step("flaky", async () => {
      await wait(1);
      if (info().step.attempt < 2) throw new Error("not yet");
      return info().step.attempt;
    });
    const ended = await step("ends", async () => {
      new Promise((resolve) => setImmediate(resolve)).then(() => wait(60_000)).then(() => assert.fail("a body is over"));
    });
    const others = [await call("host/mail", "ada"), await child("invoice", 4)];
    return { polls, ticks, attempts, ended, others, slept: await slept, go: [await signal("go"), await signal("go")] };
  });
  assert.deepEqual(got, { polls: 4, ticks: 6, attempts: 2, others: ["sent to ada", 8], slept: 3_600_000, go: [1, 2] });
  assert.equal(env.now - new Date("2026-01-05T08:00:00Z"), 3 * 3_600_000 + 5);
  assert.ok(performance.now() - real < 30_000);
  assert.equal(timers(), before);
  await assert.rejects(new Env().run(() => step("s", () => setTimeout("x", 1), { attempts: 1 })), { message: /take a function/ });
});

test("a workflow goes on beside what the test waits for", async () => {
  const env = new Env().at("1h", async () => {
    env.cancel();
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(await env.query("timer"), "number");
  });
  await env.run(async () => {
    query("timer", () => {
      const id = setTimeout(() => {}, 1);
      clearTimeout(id);
      return typeof id;
    });
    throwOnCancel();
    await sleep("1d").catch(() => new Promise((resolve) => setTimeout(resolve, 86_400_000)));
  });
  assert.equal(env.now - new Date("2026-01-05T08:00:00Z"), 3_600_000 + 86_400_000);
});

test("a step that fails for good", async () => {
  const e = await new Env().run(() => step("charge", () => {
    throw new FatalError("no money");
  })).catch((e) => e);
  assert.deepEqual([e.code, e.message, e.step, e.attempts, e.type], ["STEP_FAILED", "no money", "charge", 1, "FatalError"]);
  assert.match(e.stack, /testing\.test\.js/);
});

test("an error of the SDK has its message in its stack", async () => {
  for (const [fn, message] of [
    [() => sleepUntil(new Date(NaN)), "sleepUntil: an instant is a Date"], [() => sleep("5 seconds"), "5 seconds"], [() => call("host/none"), "host/none"],
    [() => step("x", () => {
      throw new Error("boom\ntwice");
    }, { attempts: 1 }), "WorkflowError: boom\ntwice\n    at "],
    [() => step("y", () => {
      throw "text";
    }, { attempts: 1 }), "WorkflowError: text"],
  ]) {
    const e = await new Env().run(async () => await fn()).then(() => assert.fail("it has not failed"), (e) => e);
    assert.ok(e.stack.startsWith("WorkflowError: ") && e.stack.includes(message), e.stack);
    assert.equal(e.stack.split("boom").length, message.split("boom").length);
    assert.match(e.stack, /testing\.test\.js:\d+/);
    assert.ok(util.inspect(e).includes(e.message));
  }
});

test("handlers, children and signals to others", async () => {
  const env = new Env().handle("host/charge", (cents, s) => ({ cents, attempt: s.attempt })).child("invoice", (n) => {
    if (n < 0) throw new Error("negative");
    return n * 2;
  });
  const got = await env.run(async () => {
    const c = child("invoice", 4);
    await send("other", "go", { n: 1 });
    const failed = await child("invoice", -1, { name: "third", id: "mine" }).catch((e) => [e.code, e.kind, "attempts" in e, e.message, e.type, e.details.message,
      e.stack.includes("testing.test.js")]);
    return { charge: await call("host/charge", 5), child: await c, id: c.id, failed };
  });
  assert.deepEqual(got, { charge: { cents: 5, attempt: 1 }, child: 8, id: "test.1", failed: ["CHILD_FAILED", "failed", false,
    'child "third" (run mine) failed: negative', "Error", "negative", true] });
  assert.deepEqual(env.sent, [{ runId: "other", signal: "go", payload: { n: 1 } }]);
  await assert.rejects(new Env().run(() => call("host/none")), { code: "UNKNOWN_HANDLER" });
});

test("signals, hooks and time-outs", async () => {
  const env = new Env().at("1h", () => env.signal("go", 1)).at("2h", () => env.signal("decision", { ok: true }));
  const got = await env.run(async () => {
    const go = await signal("go");
    const h = await hook("decision");
    const decision = await h.next({ timeout: "1d" });
    const none = await signal("go", { timeout: "1m" });
    return { go, path: h.path, decision, none: none === undefined };
  });
  assert.deepEqual(got, { go: 1, path: "/v1/hooks/token-2.test", decision: { ok: true }, none: true });
});

test("a race withdraws the losers", async () => {
  const env = new Env().at("1h", () => env.signal("s", "late"));
  const got = await env.run(async () => {
    let aborted = false;
    const first = await race({ s: signal("s"), t: sleep("1m"), f: async (abort) => {
      abort.addEventListener("abort", () => (aborted = true));
      await sleep("1d", { signal: abort });
    } });
    await Promise.resolve();
    return { key: first.key, aborted, s: await signal("s") };
  });
  assert.deepEqual(got, { key: "t", aborted: true, s: "late" });
  assert.equal(env.now - new Date("2026-01-05T08:00:00Z"), 3_600_000);
});

// lost has a wait lose a race, waits for the signal again, and returns what was warned of.
async function lost(t, compete) {
  const log = t.mock.method(console, "log", () => {});
  const env = new Env().at("10s", () => env.signal("go")).at("20s", () => env.signal("go"));
  await env.run(async () => {
    await compete();
    await race({ go: signal("go"), late: sleep("1h") });
    await sleep("1m");
  });
  log.mock.restore();
  return log.mock.calls.map((c) => String(c.arguments[0]));
}

test("a race warns of what it cannot withdraw", async (t) => {
  const wrapped = async () => await signal("go");
  for (const compete of [
    () => race({ go: signal("go").then((x) => x), nap: sleep("1s") }), () => race({ go: wrapped(), nap: sleep("1s") }),
    () => race({ go: wrapped, nap: sleep("1s") }), () => race({ inner: race({ go: signal("go"), far: sleep("1d") }), nap: sleep("1s") }),
  ]) {
    const warned = await lost(t, compete);
    assert.equal(warned.length, 1, String(compete));
    assert.match(warned[0], /lost a race\({…}\) has taken the signal "go", and a later wait for it is open: make the entry a function/);
  }
  for (const compete of [
    () => race({ go: signal("go"), nap: sleep("1s") }), () => race({ go: async (stop) => await signal("go", { signal: stop }), nap: sleep("1s") }),
    async () => {
      const go = wrapped();
      await race({ go, nap: sleep("1s") });
      await go;
    },
    async () => { // who takes the signal for a promise that has lost waits for the next one
      let taken;
      const changed = new Promise((resolve) => (taken = resolve));
      void (async () => {
        for (;;) taken(await signal("go"));
      })();
      await race({ changed, nap: sleep("1s") });
      await changed;
    },
    async () => { // a promise that has lost races again
      const go = wrapped();
      await race({ go, nap: sleep("1s") });
      await race({ go, later: signal("go") });
    },
    async () => { // a sleep that has lost is over while another signal is waited for
      const go = signal("go"), slow = sleep("15s").then(() => 1);
      await race({ slow, nap: sleep("1s") });
      await go;
      const again = signal("go");
      await slow;
      await again;
    },
  ]) assert.deepEqual(await lost(t, compete), [], String(compete));
});

test("a race whose entry throws at once leaves no wait", async () => {
  const env = new Env().at("1m", () => env.signal("go"));
  const got = await env.run(async () => {
    const e = await race({ before: signal("go"), bad: () => {
      throw new Error("bad");
    }, later: () => signal("go"), after: signal("go") }).catch((e) => e.message);
    return [e, (await race({ go: signal("go"), late: sleep("1h") })).key];
  });
  assert.deepEqual(got, ["bad", "go"]);
});

test("a saga undoes what was done, also when the run is cancelled", async () => {
  const undone = [];
  const env = new Env().at("1h", () => env.cancel());
  await assert.rejects(env.run(() => saga(async (undo) => {
    undo(() => undone.push("first"));
    undo(() => step("undo", () => 1).then(() => undone.push("second")));
    await sleep("1d");
  })), { code: "CANCELLED" });
  assert.deepEqual(undone, ["second", "first"]);
});

test("cancel", async () => {
  const plain = new Env().at("1h", () => plain.cancel());
  await assert.rejects(plain.run(() => sleep("1d")), { code: "CANCELLED" });
  const told = new Env().at("1h", () => told.cancel());
  assert.equal(await told.run(async () => (await race({ stop: cancelled(), nap: sleep("1d") })).key), "stop");
  const thrown = new Env().at("1h", () => thrown.cancel());
  assert.equal(await thrown.run(async () => {
    throwOnCancel();
    return await sleep("1d").catch((e) => e.code);
  }), "CANCELLED");
});

test("a cancel while a step runs refuses what is called next, once", async () => {
  const dids = [];
  const env = new Env();
  const ask = () => env.cancel();
  await assert.rejects(env.run(() => saga(async (undo) => {
    await step("reserve", ask);
    undo(() => step("release", () => 1).then(() => sleep("1s")).then(() => dids.push("release")));
    await step("charge", () => 1);
    dids.push("charge");
  })), { code: "CANCELLED" });
  assert.deepEqual([env.steps, dids], [["reserve", "release"], ["release"]]);

  const fail = () => {
    env.cancel();
    throw new FatalError("no");
  };
  const e = await env.run(() => {
    throwOnCancel();
    return step("reserve", fail);
  }).catch((e) => e);
  assert.deepEqual([e.code, e.step, e.cause.code, e.cause.message], ["CANCELLED", "reserve", "STEP_FAILED", "no"]);

  env.handle("host/ask", ask);
  assert.deepEqual(await env.run(async () => {
    throwOnCancel();
    await call("host/ask");
    const all = await Promise.allSettled([step("s", () => 1), signal("go"), child("c"), send("c", "go"), hook("go"), call("host/ask"), sleep(1),
      sleepUntil(0)]);
    return [all.map((s) => s.reason?.code), await step("s", () => 2)];
  }), [Array(8).fill("CANCELLED"), 2]);

  assert.deepEqual(await env.run(async () => { // timers hear of nothing, so that the step after them is refused
    throwOnCancel();
    await step("reserve", ask);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return await sleep("7d").catch((e) => e.code);
  }), "CANCELLED");

  assert.deepEqual(await env.run(async () => { // the sleep is told, and the clean-up that follows is not refused when the step ends
    throwOnCancel();
    try {
      await Promise.all([step("reserve", ask), sleep("1d")]);
    } catch (e) {
      await sleep("1s");
      return await step("clean up", () => e.code);
    }
  }), "CANCELLED");

  assert.deepEqual(await env.run(async () => {
    throwOnCancel();
    await step("reserve", ask);
    try {
      continueAsNew();
    } catch (e) {
      return e.code;
    }
  }), "CANCELLED");

  assert.deepEqual(await env.run(async () => { // the saga fails by itself, and is swallowed: what comes after it is still told
    await saga(async (undo) => {
      await step("reserve", ask);
      undo(() => step("release", () => 1).then(() => dids.push("again")));
      throw new Error("refused");
    }).catch(() => {});
    return await sleep("7d").catch((e) => e.code);
  }), "CANCELLED");
  assert.deepEqual(dids, ["release", "again"]);
});

test("what undoes something is not refused when a step ends that ran at the cancel", async () => {
  const env = new Env(), dids = [];
  await assert.rejects(env.run(() => saga(async (undo) => {
    const charge = step("charge", () => env.cancel());
    undo(async () => {
      await charge;
      await step("refund", () => 1);
      dids.push("refund");
    });
    await Promise.all([charge, signal("approved")]);
  })), { code: "CANCELLED" });
  assert.deepEqual(dids, ["refund"]);
});

test("a cancel has timers fire at once, and what is called next is refused", async () => {
  const day = 86_400_000, delay = () => new Promise((resolve) => setTimeout(resolve, day));
  const dids = [];
  const cancel = () => {
    const env = new Env().at("1h", () => env.cancel());
    return env;
  };
  await assert.rejects(cancel().run(() => saga(async (undo) => {
    undo(() => step("release", () => 1).then(() => sleep("1s")).then(() => dids.push("release")));
    await delay();
    await step("charge", () => 1);
    dids.push("charge");
  })), { code: "CANCELLED" });
  await assert.rejects(cancel().run(() => saga(async (undo) => {
    undo(() => step("release", () => 1).then(() => dids.push("again")));
    await delay();
  })), { code: "CANCELLED" });
  assert.deepEqual(dids, ["release", "again"]);

  await assert.rejects(cancel().run(() => {
    throwOnCancel();
    return delay();
  }), { code: "CANCELLED" });

  const env = cancel();
  assert.equal(await env.run(async () => { // an interval ticks at once, and goes on
    throwOnCancel();
    let ticks = 0;
    await new Promise((resolve) => {
      const every = setInterval(() => {
        if (++ticks < 3) return;
        clearInterval(every);
        resolve();
      }, 2 * 3_600_000);
    });
    return await sleep("1d").catch((e) => `${e.code} ${env.now.toISOString()}`);
  }), "CANCELLED 2026-01-05T13:00:00.000Z");
});

test("a cancel after continueAsNew, before the iteration says how it takes one", async () => {
  const env = new Env().at("1h", () => env.cancel());
  assert.equal(await env.run(async (n) => {
    if (n === 0) {
      cancelled();
      continueAsNew(1);
    }
    return await sleep("1d").catch((e) => cancelled().then(() => e.code));
  }, 0), "CANCELLED");
  assert.deepEqual(await env.run(async (n) => { // it says so after the cancel, which came in a step
    if (n === 0) {
      cancelled();
      continueAsNew(1);
    }
    await step("load", () => env.cancel());
    const stop = cancelled();
    const first = await race({ go: signal("go"), stop });
    return [first.key, await step("clean up", () => 1)];
  }, 0), ["stop", 1]);
});

test("a run is told of one cancel", async () => {
  const env = new Env().at("1h", () => env.cancel()).at("2h", () => env.cancel());
  await env.run(async () => {
    throwOnCancel();
    await sleep("1d").catch(() => sleep("1d"));
  });
});

test("a step whose outcome is still to be told is not withdrawn, and one that waits for its next attempt is", async () => {
  const got = await new Env().run(async () => {
    const first = step("first", () => 1), second = step("second", () => 2);
    await first;
    const is = second.cancel();
    const failing = step("failing", () => {
      throw new Error("no");
    }, { delay: "1h" });
    const { key } = await race({ failing, nap: sleep("1m") });
    return [is, await second, key, await failing.catch((e) => e.code)];
  });
  assert.deepEqual(got, ["running", 2, "nap", "CANCELLED"]);
});

test("queries and updates", async () => {
  const answers = [];
  const env = new Env()
    .at("1h", async () => answers.push(await env.query("count")))
    .at("2h", () => void env.update("add", 5).then((n) => answers.push(n)))
    .at("3h", () => env.update("add", -1).catch((e) => answers.push(e.message)))
    .at("4h", () => env.signal("stop"));
  const count = await env.run(async () => {
    let count = 1;
    query("count", () => count);
    update("add", async (n) => {
      await sleep("1m");
      return (count += n);
    }, { validate: (n) => {
      if (n < 0) throw new Error("negative");
    } });
    await signal("stop");
    await updatesDone();
    return count;
  });
  assert.equal(count, 6);
  assert.deepEqual(answers, [1, 6, "negative"]);
});

test("continue as new, output, attributes", async () => {
  const env = new Env();
  const last = await env.run(async (n) => {
    emit("n", n);
    attribute("n", n);
    await sleep("1h");
    if (n < 2) continueAsNew(n + 1);
    return { n, iteration: info().iteration };
  }, 0);
  assert.deepEqual(last, { n: 2, iteration: 2 });
  assert.deepEqual(env.outputs.map((o) => o.value), [0, 1, 2]);
  assert.deepEqual(env.attributes, { n: "2" });
});

test("what cannot go on says so", async () => {
  await assert.rejects(new Env().run(() => signal("never")), /deadlock/);
  await assert.rejects(new Env().run(() => step("s", () => sleep("1s"), { attempts: 1 })), /belongs to the workflow/);
  await assert.rejects(new Env().run(() => step("s", () => 1, { tries: 2 })), { code: "INVALID_ARGUMENT", message: /tries/ });
  assert.throws(() => step("s", "host/charge"), /call\(/);
});

// What a host would format otherwise than asked for throws in a test as well, though Node could do it.
test("languages", async () => {
  const env = new Env().handle("host/format", (n) => n.toLocaleString("de-DE", { style: "currency", currency: "EUR" }) + "a".localeCompare("b"));
  const got = await env.run(async () => {
    const refused = [];
    for (const fn of [
      () => new Date(0).toLocaleString("en-US", { timeZone: "America/New_York" }), () => new Date(0).toLocaleDateString("de-DE", { weekday: "long" }),
      () => (1.5).toLocaleString("de-DE"), () => [1.5].toLocaleString("de-DE"), () => "a".localeCompare("b"), () => Intl.NumberFormat(),
      () => "i".toLocaleUpperCase("tr"),
    ]) {
      try {
        refused.push(fn());
      } catch (e) {
        refused.push(e.message.split(" ").slice(0, 3).join(" "));
      }
    }
    return { refused, plain: [new Date(0).toLocaleString(), (1234.5).toLocaleString()], handler: await call("host/format", 1.5) };
  });
  assert.deepEqual(got, {
    refused: ["Date.prototype.toLocaleString knows no", "Date.prototype.toLocaleDateString knows no", "Number.prototype.toLocaleString knows no",
      "Number.prototype.toLocaleString knows no", "String.prototype.localeCompare is not", "Intl.NumberFormat is not",
      "String.prototype.toLocaleUpperCase does not"],
    plain: ["1/1/1970, 12:00:00 AM", "1,234.5"], handler: "1,50\u00a0€-1",
  });
  assert.equal((1.5).toLocaleString("de-DE"), "1,5");
});

test("the clock is the machine's again afterwards", async () => {
  await new Env().run(() => sleep("100d"));
  assert.ok(Date.now() > new Date("2026-02-01"));
});
