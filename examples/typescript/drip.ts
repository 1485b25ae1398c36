import { info, sleep, step } from "@wfhost/workflow";

const mails = [
  { name: "welcome", pause: "3d" },
  { name: "tips", pause: "2d" },
  { name: "success stories", pause: "1d" },
  { name: "offer" },
];

/** Sends the mails of a campaign, and returns how many. */
export default async function drip({ email = "someone@example.com" } = {}) {
  for (const { name, pause } of mails) {
    await step(`mail ${name}`, async () => {
      console.log(`mail ${JSON.stringify(name)} to ${email}`); // a real one hands the key to its mail service
      return info().step?.idempotencyKey;
    });
    if (pause) await sleep(`after ${name}`, pause);
  }
  return mails.length;
}
