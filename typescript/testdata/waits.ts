import { sleep, throwOnCancel, workflow } from "@wfhost/workflow";

workflow("waits", async () => { // for ever, once it was told of a cancel
  throwOnCancel();
  await sleep("1d").catch(() => {});
  await new Promise(() => {});
});
