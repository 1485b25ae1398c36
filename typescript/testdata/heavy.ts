// Workflows that compute for longer than most, and must end.
import { workflow } from "@wfhost/workflow";

workflow("loop", async (n: number) => {
  let sum = 0;
  for (let i = 0; i < n; i++) sum = (sum * 31 + i) % 1_000_003;
  return sum;
});

workflow("parse", async (n: number) => {
  const rows = JSON.stringify(Array.from({ length: n }, (_, id) => ({ id, name: `row ${id}`, ok: id % 2 === 0 })));
  const parsed: { id: number; ok: boolean }[] = JSON.parse(rows);
  return [parsed.length, parsed.at(-1)?.id, parsed.filter((row) => row.ok).length];
});
