import { cancelled, emit, race, saga, sleep, step, throwOnCancel, workflow } from "@wfhost/workflow";

workflow("plain", async () => await sleep("1d"));
workflow("told", async () => {
  const first = await race({ nap: sleep("1d"), stop: cancelled() });
  return first.key === "stop" ? "stopped" : "slept";
});
workflow("saga", async () =>
  await saga(async (undo) => {
    await step("reserve", () => true);
    undo(() => emit("undone", "release"));
    undo(async () => {
      await step("refund", () => true);
      await sleep("1s");
      emit("undone", "refund");
    });
    await sleep("1d");
  }));
workflow("late", async () => {
  throwOnCancel();
  try {
    await sleep("1d");
  } catch (e: any) {
    return `carried on after ${e.code}`;
  }
});
