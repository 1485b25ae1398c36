// Computes until its fuel is gone: the input says what.
@external("workflow_v1", "input") declare function input(p: usize, n: i32): i64;

let x: u32 = 1;
export let sink: u32 = 0;

function next(): u32 { return x = x * 1664525 + 1013904223; }

export function workflow_run(): i32 {
  const what = new Uint8Array(1);
  input(what.dataStart, 1);
  const counts = new Map<u32, u32>();
  const numbers = new Array<u32>(10000);
  while (true) {
    if (what[0] == 48) {
      for (let i = 0; i < 1000000; i++) next();
    } else if (what[0] == 49) {
      for (let i = 0; i < 10000; i++) numbers[i] = next();
      numbers.sort((a, b) => a < b ? -1 : a > b ? 1 : 0);
    } else if (what[0] == 50) {
      for (let i = 0; i < 100000; i++) {
        const key = (next() >> 12) % 8000;
        counts.set(key, (counts.has(key) ? counts.get(key) : 0) + 1);
      }
    } else {
      const list = new Array<string>();
      for (let i = 0; i < 10000; i++) list.push((next() >> 8).toString());
      sink += list.join(" ").split(" ").length;
    }
    sink += x;
  }
  return 0;
}
