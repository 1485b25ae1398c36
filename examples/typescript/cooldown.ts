import { continueAsNew, emit, signal, sleep } from "@wfhost/workflow";

/** Handles jobs that come as signals, one after the other with a pause between them, until none has come for a day. */
export default async function cooldown(state: { handled: number } = { handled: 0 }) {
  let { handled } = state;
  for (let n = 0; n < 10; n++) { // then the journal begins anew
    const job = await signal<string>("job", { timeout: "1d" });
    if (job === undefined) return handled;
    handled++;
    emit("handled", job);
    await sleep("cool down", "1m");
  }
  continueAsNew({ handled });
}
