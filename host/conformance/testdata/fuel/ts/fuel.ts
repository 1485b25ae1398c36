// Computes until its fuel is gone: the input says what.
import { workflow } from "@wfhost/workflow";

let x = 1;
let sink = 0;

function next(): number {
  x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
  return x;
}

workflow("fuel", async (what: number) => {
  const counts = new Map<number, number>();
  for (;;) {
    if (what === 0) {
      for (let i = 0; i < 1_000_000; i++) next();
    } else if (what === 1) {
      const numbers = [];
      for (let i = 0; i < 10_000; i++) numbers.push(next());
      numbers.sort((a, b) => a - b);
    } else if (what === 2) {
      for (let i = 0; i < 100_000; i++) {
        const key = (next() >>> 12) % 8000;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    } else {
      let text = "";
      for (let i = 0; i < 10_000; i++) text += (next() >>> 8) + " ";
      sink += text.split(" ").length;
    }
    sink += x;
  }
});
