import { RetryableError, info, signal, sleep, step, workflow } from "@wfhost/workflow";

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
