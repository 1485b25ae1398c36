import { query, signal, sleep, update, updatesDone, workflow } from "@wfhost/workflow";

workflow("cart", { queries: ["count"], updates: ["add"] }, async () => {
  let count = 0;
  query("count", () => count);
  update("add", async (n: number) => {
    await sleep("1ms");
    return (count += n);
  }, {
    validate: (n) => {
      if (!(n > 0)) throw new Error("add more than nothing");
    },
  });
  await signal("checkout");
  await updatesDone();
  return count;
});
