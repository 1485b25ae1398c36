import { sleep, step } from "@wfhost/workflow";

/** Asks until a job is done, at growing intervals, and returns them. */
export default async function poll(doneAt: number) {
  const waits: string[] = [];
  for (let n = 1, wait = 1; ; n++, wait = Math.min(wait * 2, 60)) {
    const done = await step("ask", async () => n >= doneAt); // a real one asks a service
    if (done) return waits;
    waits.push(`${wait}s`);
    await sleep("before the next", `${wait}s`);
  }
}
