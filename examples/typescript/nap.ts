import { sleep } from "@wfhost/workflow";

/** Sleeps, and holds neither a thread nor memory meanwhile. */
export default async function nap(name: string) {
  await sleep("5s");
  return `good morning, ${name}`;
}
