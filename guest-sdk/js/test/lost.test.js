import assert from "node:assert/strict";
import { test } from "node:test";
import { attribute, continueAsNew, info, query, signal, sleep, step } from "../src/index.js";
import { Env, KeptChange, LostChange } from "../src/testing.js";
import * as state from "./lost/state.js";
import { Cart, add, bump, cart, list, mailer, reset, runs, store } from "./lost/state.js";

let moduleTotal = 0;
const symbol = Symbol("s");

// Each body changes something that is lost on a host: the name of that, and a workflow.
const changes = {
  "a local variable": ["total", async () => {
    let total = 0;
    for (const n of [1, 2, 3]) await step("add", async () => { total += n; });
    return total;
  }],
  "a variable, after a wait of the body": ["total", async () => {
    let total = 0;
    await step("add", async () => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      total++;
    });
  }],
  "a variable, in a promise that the body does not wait for": ["total", async () => {
    let total = 0;
    await step("add", () => {
      Promise.resolve().then(() => {}).then(() => {}).then(() => { total++; });
    });
    return total;
  }],
  "a variable, through a function of the workflow": ["total", async () => {
    let total = 0;
    const more = () => { total++; };
    await step("add", () => more());
  }],
  "a variable, through functions of functions": ["total", async () => {
    let total = 0;
    const counter = () => ({ up: () => () => { total++; } });
    const { up } = counter();
    await step("add", () => { up()(); });
  }],
  "a variable of a function that makes the body": ["n", async () => {
    const counting = () => {
      let n = 0;
      return () => ++n;
    };
    await step("count", counting());
  }],
  "a parameter": ["input", (input) => step("set", () => { input = 2; })],
  "a variable of a block": ["i", async () => {
    for (let i = 0; i < 3;) await step("up", () => { i++; });
  }],
  "a variable that a body sets to undefined": ["a", async () => {
    let a = 1;
    await step("drop", () => { a = undefined; });
    return a;
  }],
  "a variable, and the body fails": ["tries", async () => {
    let tries = 0;
    await step("try", () => {
      if (++tries < 2) throw new Error("not yet");
    });
  }],
  "a variable, and the workflow catches": ["tries", async () => {
    let tries = 0;
    await step("try", () => {
      tries++;
      throw new Error("no");
    }, { attempts: 1 }).catch(() => {});
  }],
  "an array": ["got[0]", async () => {
    const got = [];
    await step("push", () => { got.push(1); });
  }],
  "the length of an array": ["got[0]", async () => {
    const got = [1];
    await step("pop", () => got.pop());
  }],
  "the order of an array": ["got[0]", async () => {
    const got = [3, 1, 2];
    await step("sort", () => got.sort());
  }],
  "a property": ["order.paid", async () => {
    const order = { paid: false };
    await step("pay", () => { order.paid = true; });
  }],
  "a property that is deleted": ["order.paid", async () => {
    const order = { id: 1, paid: false };
    await step("pay", () => { delete order.paid; });
  }],
  "a property deep inside": ["order.lines[0][\"net price\"]", async () => {
    const order = { lines: [{ "net price": 1 }] };
    await step("price", () => { order.lines[0]["net price"] = 2; });
  }],
  "a property of a symbol": ["order[Symbol(s)]", async () => {
    const order = { [symbol]: 1 };
    await step("price", () => { order[symbol] = 2; });
  }],
  "an object that is frozen": ["order", async () => {
    const order = { id: 1 };
    await step("freeze", () => void Object.freeze(order));
  }],
  "a Map": ['map.get("a")', async () => {
    const map = new Map();
    await step("set", () => { map.set("a", 1); });
  }],
  "a value in a Map": ['map.get("a").n', async () => {
    const map = new Map([["a", { n: 1 }]]);
    await step("set", () => { map.get("a").n++; });
  }],
  "a Set": ['set.has("b")', async () => {
    const set = new Set(["a"]);
    await step("add", () => { set.add("b"); });
  }],
  "a WeakMap": ["weak", async () => {
    const weak = new WeakMap(), key = {};
    await step("set", () => { weak.set(key, 1); });
  }],
  "a Date": ["date", async () => {
    const date = new Date(0);
    await step("set", () => { date.setFullYear(2000); });
  }],
  "a regular expression": ["re.lastIndex", async () => {
    const re = /a/g;
    await step("test", () => re.test("aa"));
  }],
  "bytes": ["bytes", async () => {
    const bytes = new Uint8Array(4);
    await step("fill", () => { bytes[2] = 7; });
  }],
  "URLSearchParams": ["params", async () => {
    const params = new URLSearchParams("a=1");
    await step("add", () => params.append("b", "2"));
  }],
  "Headers": ["headers", async () => {
    const headers = new Headers();
    await step("add", () => headers.set("b", "2"));
  }],
  "an AbortController": ["stop", async () => {
    const stop = new AbortController();
    await step("abort", () => stop.abort());
  }],
  "a promise": ["promise", async () => {
    let done;
    const told = new Promise((resolve) => { done = resolve; });
    await step("tell", () => { done(1); });
    return told;
  }],
  "a generator": ["ids", async () => {
    const ids = (function* () {
      yield 1;
      yield 2;
    })();
    await step("next", () => ids.next().value);
  }],
  "a proxy": ["seen.n", async () => {
    const seen = new Proxy({ n: 0 }, {});
    await step("up", () => { seen.n++; });
  }],
  "a class field, by this of an arrow function": ["this.total", () => new class {
    total = 0;
    async run() {
      await step("add", () => { this.total++; });
    }
  }().run()],
  "a class field, by an arrow function that is called": ["this.total", () => new class {
    total = 0;
    async run() {
      const more = () => { this.total++; };
      await step("add", () => more());
    }
  }().run()],
  "a class field, by an async arrow function and a method": ["this.total", () => new class {
    total = 0;
    more() {
      this.total++;
    }
    async run() {
      await step("add", async () => { this.more(); });
    }
  }().run()],
  "a class field, by a bound method": ["this.total", () => new class {
    total = 0;
    more() {
      this.total++;
    }
    async run() {
      await step("add", this.more.bind(this));
    }
  }().run()],
  "a private field": ["this.#total", () => new class {
    #total = 0;
    async run() {
      await step("add", () => { this.#total++; });
    }
  }().run()],
  "a private field of an instance": ["cart.#total", () => step("add", () => cart.add(1))],
  "a field of an instance": ["cart.items[0]", () => step("put", () => cart.put(1))],
  "a field, by a function of an instance": ["mine.items[0]", async () => {
    const mine = new Cart();
    await step("put", mine.viaArrow());
    return mine.items; // so that there is a variable of the body's that has it
  }, /^(this|mine)\.items\[0\]$/],
  "a static field": ["Cart.made", () => step("make", () => { Cart.made++; })],
  "a private static field": ["Cart.#secret", () => step("tell", () => Cart.tell())],
  "a variable of this module": ["moduleTotal", () => step("add", () => { moduleTotal++; })],
  "a variable of another module": ["total", () => step("add", () => add(1))],
  "a variable of another module that is not exported": ["hidden", () => step("bump", () => bump())],
  "an array of another module": ["list[0]", () => step("push", () => { list.push(1); })],
  "an array of another module, by its namespace": ["list[0]", () => step("push", () => { state.list.push(1); }), /list\[\d\]$/],
  "a property of a function": ["count.n", async () => {
    const count = () => {};
    count.n = 0;
    await step("count", () => { count.n++; });
  }],
  "a method that is replaced": ["mailer.send", () => step("replace", () => { mailer.send = () => 0; })],
  "a global": ["globalThis.lostGlobal", () => step("set", () => { globalThis.lostGlobal = 1; })],
};

for (const [what, [variable, workflow, match]] of Object.entries(changes)) {
  test(`a body that changes ${what} fails the run`, async () => {
    const e = await new Env().run(workflow, 1).then((v) => assert.fail(`it is ${v}`), (e) => e);
    assert.ok(e instanceof LostChange, e.stack);
    if (match) assert.match(e.variable, match);
    else assert.equal(e.variable, variable);
    assert.match(e.message, new RegExp(`^the body of step "${e.step}" \\((lost\\.test|state)\\.js:\\d+\\) changes`));
    assert.equal(e.code, "LOST_CHANGE");
  });
}

test("bodies that change nothing outside of themselves", async (t) => {
  const send = t.mock.fn((to) => `sent to ${to}`);
  t.mock.method(mailer, "send", (to) => {
    sent.push(to);
    return to;
  });
  const sent = [];
  const cache = new Map([["a", 1]]);
  const frozen = Object.freeze({ a: [1] });
  const env = new Env({ memo: { a: 1 } }).at("1h", () => env.signal("go"));
  const got = await env.run(async () => {
    let total = 0;
    const all = [];
    query("total", () => total);
    for (const n of [1, 2, 3]) {
      total += await step("add", async () => {
        let sum = 0;
        const own = [], map = new Map(cache);
        own.push(n);
        map.set("b", 2);
        const mine = new Cart();
        mine.add(1);
        for (const x of own) sum += x;
        await new Promise((resolve) => setTimeout(resolve, 1));
        return sum + frozen.a[0] - 1;
      });
      all.push(total);
    }
    attribute("total", total);
    await signal("go");
    await Promise.all([step("a", () => send("ada")), step("b", () => mailer.send("bob")), step("c", () => Promise.all([1, 2].map(async (x) => x))), sleep(5)]);
    await step("info", () => info().step.attempt);
    await step("structures", () => JSON.stringify([structuredClone(all), new Date(), Math.random() < 2, /a/g.test("a"), crypto.randomUUID().length]));
    return { total, all };
  });
  assert.deepEqual(got, { total: 6, all: [1, 3, 6] });
  assert.deepEqual([send.mock.callCount(), sent], [1, ["bob"]]);
});

test("a change that the test allows", async () => {
  let tries = 0;
  const sent = [];
  await new Env({ lost: ["tries", "sent"] }).run(() => step("flaky", () => {
    sent.push(1);
    if (++tries < 3) throw new Error("not yet");
  }));
  assert.deepEqual([tries, sent.length], [3, 3]);
});

test("a change of a global is allowed by the name that the error gives", async () => {
  const sets = () => step("sets", () => { globalThis.wasSet = true; });
  const refused = await new Env().run(sets).catch((e) => e);
  const [, name] = /lost: \["(\w+)"\]/.exec(refused.message);
  delete globalThis.wasSet;
  await new Env({ lost: [name] }).run(sets);
  delete globalThis.wasSet;
});

test("what the workflow does itself is kept", async () => {
  assert.equal(await new Env().run(async () => {
    let total = 0;
    const parts = await Promise.all([1, 2, 3].map((n) => step("n", () => n).then((v) => {
      total += v;
      return v;
    })));
    return [total, parts];
  }).then(String), "6,1,2,3");
});

test("a run does not begin with what an earlier one has left", async () => {
  const counts = async () => {
    bump();
    return state.seen();
  };
  reset();
  assert.equal(await new Env().run(counts), 1);
  await assert.rejects(new Env().run(counts), (e) => e instanceof KeptChange && e.variable === "hidden" && /hidden of state\.js/.test(e.message));
  reset();
  assert.equal(await new Env().run(counts), 1);
  assert.equal(await new Env({ lost: ["hidden"] }).run(counts), 2);
  reset();
  assert.equal(await new Env().run(async () => "uses nothing of it"), "uses nothing of it");

  const notes = async () => runs.push(1);
  await new Env().run(notes);
  await assert.rejects(new Env().run(notes), { code: "KEPT_CHANGE", variable: "runs[0]" });
  await assert.rejects(new Env().run(async (n) => {
    store.n++;
    if (n === 0) continueAsNew(1);
  }, 0), { code: "KEPT_CHANGE", variable: "store.n" });
});
