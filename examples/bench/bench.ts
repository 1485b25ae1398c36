// The workflows that `wfhost bench --guest ts` measures: those of main.go. Their input is an array of whole numbers.
import { call, child, query, signal, sleep, sleepUntil, step, workflow } from "@wfhost/workflow";

/** Does nothing, in Go code of the benchmark. */
const handler = "host/bench";

type Input = number[];

/** Returns names that no call of the run had. */
function names(): () => string {
  let n = 0;
  return () => String(n++).padStart(8, "0");
}

const perform = (name: string, input?: unknown) => call(handler, input, { name });

workflow("empty", async () => {});

workflow("steps", async ([n = 0]: Input) => {
  const name = names();
  for (let i = 0; i < n; i++) await perform(name());
});

workflow("bodies", async ([n = 0]: Input) => {
  const name = names();
  for (let i = 0; i < n; i++) await step(name(), () => null);
});

workflow("sleep", async (instants: Input) => {
  const name = names();
  for (const at of instants) {
    if (at === 0) break;
    await sleepUntil(name(), at);
  }
});

workflow("sleepstep", async (instants: Input) => {
  const name = names();
  await perform(name());
  for (const at of instants) {
    if (at === 0) break;
    await sleepUntil(name(), at);
    await perform(name());
  }
});

workflow("wake", async ([at = 0, n = 0, ms = 0, steps = 0]: Input) => {
  const name = names();
  await sleepUntil(name(), at);
  for (let i = 0; i < n; i++) {
    await sleep(name(), ms);
    if (steps) await perform(name());
  }
});

workflow("calls", async ([n = 0, wakes = 0, ms = 0]: Input) => {
  const name = names();
  for (let i = 0; i < n + wakes; i++) await sleep(name(), i < n ? 0 : ms);
});

workflow("mixed", { queries: ["done"] }, async ([ms = 0, bytes = 0, steps = 0, waits = 0, kids = 0]: Input) => {
  const name = names();
  let done = 0;
  query("done", () => done);
  await step(name(), () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(bytes)))).slice(0, bytes));
  for (let i = 0; i < steps; i++) {
    await perform(name());
    done++;
  }
  if (waits === 1) await signal("go");
  if (kids === 1) await child("mixed", [10, 0, 1], { name: name() });
  const due = Date.now() + ms;
  await sleepUntil(name(), due);
  return await perform(name(), due);
});

workflow("signal", async () => await signal("go"));
