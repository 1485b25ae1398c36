import { attribute, race, signal, sleepUntil, step } from "@wfhost/workflow";

const day = 24 * 60 * 60 * 1000;

/** Accompanies a trial of fourteen days, which ends early when the customer subscribes or leaves. */
export default async function trial(customer: string) {
  const start = Date.now();
  for (const n of [0, 7, 12, 14]) {
    const first = await race({
      subscribed: signal<string>("subscribed"),
      left: signal("left"),
      day: sleepUntil(`day ${n}`, start + n * day),
    });
    if (first.key === "subscribed") {
      attribute("trial", "won");
      return `${customer} took the ${first.value} plan`;
    }
    if (first.key === "left") {
      attribute("trial", "lost");
      return `${customer} left`;
    }
    if (n < 14) await step(`mail of day ${n}`, async () => true); // a real one sends mail
  }
  attribute("trial", "expired");
  return `${customer} did not subscribe`;
}
