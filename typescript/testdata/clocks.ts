import { hook, query, race, signal, sleep, workflow } from "@wfhost/workflow";

// waits for 60 s in one of the ways there are, after something else has happened.
workflow("clocks", async (kind: string) => {
  query("now", () => Date.now());
  await signal("go");
  const began = Date.now();
  const mono = performance.now();
  await waits[kind]();
  return { began, ended: Date.now(), mono: Math.round(performance.now() - mono) };
});

const ms = 60_000;

const waits: Record<string, () => Promise<unknown>> = {
  setTimeout: () => new Promise((resolve) => setTimeout(resolve, ms)),
  setInterval: () => new Promise<void>((resolve) => {
    let n = 0;
    const timer = setInterval(() => {
      if (++n < 4) return;
      clearInterval(timer);
      resolve();
    }, ms / 4);
  }),
  abort: () => new Promise((resolve) => AbortSignal.timeout(ms).addEventListener("abort", resolve)),
  sleep: () => sleep("1m"),
  signal: async () => {
    if (await signal("b", { timeout: ms }) !== undefined) throw new Error("a signal");
  },
  hook: async () => {
    const h = await hook("h");
    if (await h.next({ timeout: ms }) !== undefined) throw new Error("a delivery");
  },
  race: () => race({ signal: signal("b"), timeout: sleep(ms) }),
  "race of a timer": () => Promise.race([signal("b"), new Promise((resolve) => setTimeout(resolve, ms))]),
};
