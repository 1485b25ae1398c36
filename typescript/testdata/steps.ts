import { RetryableError, call, child, info, inputBytes, sleep, step, stepFunction, version, workflow } from "@wfhost/workflow";

stepFunction("double", async (n: number) => {
  await new Promise((resolve) => setTimeout(resolve, 2));
  return n * 2;
});

workflow("kid", (n: number) => n);
workflow("raw", { raw: true }, async (b: Uint8Array) => `${new TextDecoder().decode(b)} ${inputBytes().length}`);
workflow("steps", async () => {
  const kid = child<number>("kid", 1, { id: "r.kid" });
  return {
    double: await call("double", 21),
    all: await Promise.all([1, 2, 3].map((n) => step(`part ${n}`, async () => n))),
    waited: await step("wait", async () => {
      const start = Date.now();
      await new Promise((resolve) => setTimeout(resolve, 20));
      return Date.now() - start >= 19;
    }),
    version: version("v", 2),
    child: [await kid, kid.id],
    bytes: await child("raw", [1]),
    retry: await (async () => {
      const start = Date.now();
      const attempt = await step("later", () => {
        if (info().step!.attempt === 1) throw new RetryableError("busy", { retryAfter: "1h" });
        return info().step!.attempt;
      });
      return [attempt, Date.now() - start];
    })(),
  };
});
workflow("many", async (n: number) => {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += await step("add", () => i);
  await sleep("1d");
  return sum;
});
