import { RetryableError, call, child, info, signal, sleep, sleepUntil, step, workflow } from "@wfhost/workflow";

workflow("deadlock", async () => await new Promise(() => {}));
workflow("stuck", async () => await step("wait", () => new Promise(() => {})));
workflow("inside", async () => await step("nap", () => sleep("1s"), { attempts: 1 }));
workflow("again", async () =>
  await step("fail", () => {
    throw new Error(`trouble ${info().step!.attempt}`);
  }, { delay: 5 }));
workflow("options", async () => await step("fail", () => 1, { attemps: 1 } as any));
workflow("cycle", async () => {
  const a: any = {};
  a.a = a;
  return a;
});
workflow("big", async () => await step("big", () => 1n, { attempts: 1 }));
workflow("duration", async () =>
  await step("busy", () => {
    throw new RetryableError("busy", { retryAfter: "soon" });
  }, { attempts: 1 }));
workflow("signal", async () => await signal("go"));
workflow("warned", async () => {
  (async () => {
    throw new Error("lost");
  })();
  await Promise.race([signal("go"), sleep("1s")]);
  console.log("%j %d", { a: 1 }, "5", "x");
  return "fine";
});

// What is no duration, no instant, or no number.
const numbers: (() => unknown)[] = [
  () => sleep(NaN), () => sleep("nap", Infinity), () => sleep(1e20), () => sleepUntil("tomorrow"), () => sleepUntil("t", new Date(NaN)),
  () => sleepUntil(NaN), () => sleepUntil(1e20), () => sleepUntil(new Date(8.64e15)), () => sleepUntil("5s"), () => signal("go", { timeout: Infinity }),
  () => step("a", () => 1, { timeout: NaN }), () => step("b", () => 1, { delay: Infinity }), () => step("c", () => 1, { attempts: Infinity }),
  () => step("d", () => 1, { factor: NaN }), () => call("host/x", 1, { maxElapsed: 1e20 }), () => child("kid", 1, { timeout: NaN }),
  () => new RetryableError("", { retryAfter: NaN }), () => new RetryableError("", { retryAfter: new Date(NaN) }), () => sleep(-1),
];
workflow("numbers", async () => {
  const all: string[] = [];
  for (const fn of numbers) {
    try {
      await fn();
      all.push("nothing was thrown");
    } catch (e: any) {
      all.push(`${e.code ?? e.name}: ${e.message}`);
    }
  }
  await sleep(0.4);
  await step("tiny", () => 1, { maxElapsed: 1e-9, delay: 1e-7 });
  return all;
});

console.log("while it is loaded");
class Cart {
  items = new Map([["tea", 2]]);
}
const cyclic: any = { m: new Map([["a", 1]]) };
cyclic.self = cyclic;
workflow("shown", async () => {
  console.error("failed", { error: new Error("why") }, [new Error("in list")]);
  console.log(cyclic, Cart, new Cart());
  return await Promise.any([Promise.reject(new Error("one")), Promise.reject(new Error("two"))]);
});
const odd = (n: number): number => 1 + even(n + 1), even = (n: number): number => 1 + odd(n + 1);
workflow("deep", async () => odd(0));
workflow("large", async () => {
  const all: string[] = [];
  for (let i = 0; ; i++) all.push(`${i}`.repeat(100_000));
});
