// Programs that do to the promises of calls, and to what these are made of, what they can.
import { cancelled, signal, sleep, step, throwOnCancel, workflow } from "@wfhost/workflow";

workflow("like", async () => {
  const p = sleep("1s");
  const own = Object.keys(p).join();
  const same = Promise.resolve(p) === p && p instanceof Promise && p.constructor === Promise;
  const then = p.then(() => 1) instanceof Promise;
  await p;
  return [own, typeof p.cancel, same, then, p.cancel(), await Promise.all([sleep(1), p]).then((all) => all.length)];
});

workflow("bytes", async () => [await signal("go"), await signal("go"), await signal("go")]);

workflow("many", async (n) => {
  const all = [];
  for (let i = 0; i < n; i++) all.push(sleep(1 + (i % 7)));
  await Promise.all(all);
  return n;
});

workflow("rubbish", async () => {
  const refused = [];
  for (const args of [[0, "x", 0], [2, "x", 0], [-1, "x", 0], [NaN], [0.5]]) {
    const p = sleep(1);
    try {
      globalThis.__wf.open(...args);
    } catch (e) {
      refused.push(e.name);
    }
    globalThis.__wf.refuse(args[0] === 2 ? 0 : args[0], 0);
    await p;
  }
  const p = sleep("1s");
  p.handle = 0.5;
  return [refused, p.cancel()];
});

workflow("setter", async () => {
  throwOnCancel();
  Object.defineProperty(Array.prototype, "0", Object.assign(Object.create(null), { set() {}, configurable: true }));
  try {
    await Promise.all([sleep("1h"), step("a", () => 1), signal("never")]);
  } catch (e) {
    delete Array.prototype[0];
    await cancelled();
    return e.code;
  }
});

// A promise of another kind in place of the platform's, and properties that all objects inherit.
workflow("replaced", async () => {
  const native = globalThis.Promise;
  globalThis.Promise = class {
    then() {
      throw new Error("this is not for promises of the platform");
    }
  };
  await sleep(1);
  const got = await step("one", () => 1);
  globalThis.Promise = native;
  return got;
});
Object.prototype.get = 1;
Object.prototype.value = 2;
