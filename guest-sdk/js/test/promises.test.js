// Promises that nobody handles, and those that nothing resolves.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { test } from "node:test";
import { promisify } from "node:util";
import { call, sleep, step, stepFunction } from "../src/index.js";
import { Env } from "../src/testing.js";

// program runs a program in a Node of its own, and returns what it writes.
function program(text) {
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", withImports(text)], { encoding: "utf8", timeout: 60_000 });
  return stdout + stderr;
}

function withImports(text) {
  return `import { sleep, step, update, signal } from ${JSON.stringify(new URL("../src/index.js", import.meta.url))};
    import { Env } from ${JSON.stringify(new URL("../src/testing.js", import.meta.url))};\n${text}`;
}

const last = (text) => text.trim().split("\n").at(-1);

test("rejections of a workflow do not reach Node's listeners, those of the test do", () => {
  const out = program(`
    const heard = [];
    process.on("unhandledRejection", (e) => heard.push(e.message));
    process.on("rejectionHandled", () => heard.push("handled"));
    const fails = (name) => step(name, () => { throw new Error(name); }, { attempts: 1 });
    const env = new Env().handle("host/own", () => void Promise.reject(new Error("a stand-in"))).at("2s", async () => {
      Promise.reject(new Error("at"));
      env.update("refuses");
      env.update("fails");
    });
    const own = (async () => {
      await new Promise((resolve) => setImmediate(resolve));
      throw new Error("beside the run");
    })();
    console.log = () => {};
    await env.run(async () => {
      update("fails", () => { throw new Error("update"); });
      update("refuses", () => 1, { validate: () => { throw new Error("validator"); } });
      fails("nobody");
      const late = fails("late"), pause = sleep("1m");
      Promise.reject(new Error("rejected"));
      setTimeout(() => { throw new Error("timer"); }, 10);
      await pause;
      await late.catch(() => {});
      await step("body", async () => void Promise.reject(new Error("body")));
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    Promise.reject(new Error("after the run"));
    await new Promise((resolve) => setTimeout(resolve, 20));
    console.error(JSON.stringify(heard.sort()));`);
  assert.deepEqual(JSON.parse(last(out)), ["after the run", "at", "beside the run", "update", "validator"], out);
});

test("a rejection of the test ends Node where nobody listens", () => {
  const out = program(`
    const env = new Env().at("1s", () => void Promise.reject(new Error("own")));
    await env.run(() => sleep("1m"));
    console.log("went on");`);
  assert.match(out, /Error: own/);
  assert.doesNotMatch(out, /went on/);
});

test("a body that can never end fails, although Node has other things to wait for", async () => {
  const server = createServer().listen(0);
  try {
    const env = new Env();
    const failed = await env.run(() => step("stuck", async () => { await new Promise(() => {}); }).catch((e) => [e.type, e.attempts, e.message]));
    assert.deepEqual(failed, ["Deadlock", 1, "the body waits for a promise that nothing can resolve"]);
    const waits = (ms) => new Promise((resolve) => server.once("go", resolve) && setTimeout(() => server.emit("go", "went"), ms));
    assert.equal(await env.run(() => step("waits", () => waits(500))), "went");
  } finally {
    server.close();
  }
});

test("a body is waited for that waits for what does not keep Node running", () => {
  const out = program(`
    import { Worker } from "node:worker_threads";
    const worker = () => new Promise((resolve) => {
      const w = new Worker("setTimeout(async () => (await import('node:worker_threads')).parentPort.postMessage('told'), 1500)", { eval: true });
      w.once("message", resolve);
      w.unref();
    });
    console.log(await new Env().run(() => step("waits", worker)));`);
  assert.equal(out, "told\n");
});

// Bodies that wait for what does not keep Node running, or for nothing that can come, while the test waits for nothing else either. ask
// has a worker answer after some milliseconds.
test("bodies while Node has nothing to wait for", { concurrency: 6 }, async (t) => {
  const cases = [
    ["answers are waited for one after the other", `async () => { for (let i = 0; i < 4; i++) await ask(1500); return "all"; }`, {}, "all"],
    ["nothing but the promise is referred to", `() => new Promise((resolve) => { globalThis.held = resolve; })`, {}, "error Deadlock 1"],
    ["the timeout comes meanwhile", `() => new Promise((resolve) => { globalThis.held = resolve; })`, { timeout: "1s" }, "error Deadlock 1"],
    ["the timeout comes later, while a timer runs", `async () => { await ask(300); await new Promise((resolve) => setTimeout(resolve, 4000)); }`,
      { timeout: "2s", attempts: 1 }, "timeout undefined 1"],
    ["timers end with the attempt", `async () => { await new Promise((resolve) => setTimeout(resolve, 2000)); console.log("went on"); }`,
      { timeout: "1s", attempts: 1 }, "timeout undefined 1"],
    ["process.emit is put back meanwhile", `() => { globalThis.put(); return new Promise((resolve) => { globalThis.held = resolve; }); }`, {},
      "error Deadlock 1"],
  ];
  await Promise.all(cases.map(([name, body, options, want]) => t.test(name, async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", withImports(`
      import { Worker } from "node:worker_threads";
      const node = process, before = process.emit;
      globalThis.put = () => { node.emit = before; };
      const start = () => new Worker("import('node:worker_threads').then(({ parentPort: p }) => " +
        "p.on('message', (ms) => setTimeout(() => p.postMessage('told'), ms)))", { eval: true });
      let w;
      globalThis.ask = (ms) => new Promise((resolve) => { (w ??= start()).once("message", resolve); w.unref(); w.postMessage(ms); });
      const told = (e) => e.kind + " " + e.type + " " + e.attempts;
      console.log(await new Env({ lost: ["held"] }).run(() => step("waits", ${body}, ${JSON.stringify(options)}).catch(told)));`)], { timeout: 60_000 });
    assert.equal(stdout, `${want}\n`);
  })));
});

test("rejections are heard of after a package has put process.emit back", () => {
  const out = program(`
    process.on("unhandledRejection", (e) => console.log("node heard of", e.message));
    const before = process.emit;
    await new Env().run(() => sleep("s", "1s"));
    process.emit = before;
    await new Env().run(async () => {
      Promise.reject(new Error("the workflow's"));
      await sleep("s", "1s");
    });
    Promise.reject(new Error("the test's"));`);
  assert.equal(out.match(/node heard of.*/g).join(), "node heard of the test's");
});

stepFunction("unreferenced", () => waitsUnreferenced());
const waitsUnreferenced = () => new Promise((resolve) => setTimeout(resolve, 20, "fired").unref());

test("timers that keep Node running or not fire in bodies and step functions", async () => {
  const got = await new Env().run(async () => [await step("body", waitsUnreferenced), await call("unreferenced")]);
  assert.deepEqual(got, ["fired", "fired"]);
});

test("the limit of a stand-in's request does not keep Node running", () => {
  const began = performance.now();
  const out = program(`
    import { call } from ${JSON.stringify(new URL("../src/index.js", import.meta.url))};
    const env = new Env().handle("host/quick", async () => AbortSignal.timeout(60_000).aborted);
    console.log(await env.run(() => call("host/quick")));`);
  assert.equal(out, "false\n");
  assert.ok(performance.now() - began < 30_000);
});

test("what a run finds of the platform is there only while it goes on", async () => {
  const before = [performance, AbortSignal.timeout, Date, setTimeout];
  const within = await new Env().run(async () => {
    const is = [performance, AbortSignal.timeout, Date, setTimeout].map((v, n) => v === before[n]);
    await sleep("1h");
    return [...is, performance.now() === Date.now()];
  });
  assert.deepEqual(within, [false, false, false, false, true]);
  assert.deepEqual([performance, AbortSignal.timeout, Date, setTimeout].map((v, n) => v === before[n]), [true, true, true, true]);
});
