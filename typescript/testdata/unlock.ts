import { sleep, step } from "@wfhost/workflow";

// A generator whose cleanup sleeps and makes a step, and each way out of a loop over it.
async function* locked(log: string[]) {
  try {
    yield "page 1";
    yield "page 2";
  } finally {
    log.push("unlock begins");
    await sleep("settle", "1h");
    log.push(await step("unlock", () => "unlocked"));
  }
}

async function leave(way: string, log: string[]) {
  outer: for (const once of [1]) {
    for await (const page of locked(log)) {
      log.push(page);
      if (way === "break") break;
      if (way === "return") return;
      if (way === "throw") throw new Error("body");
      if (way === "continue") continue outer;
    }
  }
}

export default async function unlock(way: string) {
  const log: string[] = [];
  try {
    await leave(way, log);
  } catch (e) {
    log.push((e as Error).message);
  }
  return log;
}
