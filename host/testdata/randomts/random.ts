// A random workflow, chosen by its input: promises, races, timers, withdrawals, bodies that change globals, draw randomness and read
// the clock, and retries.
import { race, sleep, step, workflow } from "@wfhost/workflow";

let changed = 0;
const seen = new Map([["a", 1], ["b", 2], ["c", 3]]);
const garbage: Uint8Array[] = [];
const lines: string[] = [];

type Random = (n: number) => number; // from 0 to n-1

// from returns the numbers of a seed (mulberry32, by T. Ettinger, in the public domain).
function from(seed: number): Random {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

// body does everything that would break a replay if it leaked.
async function body(tag: string, fails: boolean): Promise<string> {
  seen.set(tag, ++changed);
  if (seen.size > 5) seen.delete(seen.keys().next().value!);
  const [r, s] = crypto.getRandomValues(new Uint32Array(2));
  for (let i = 0; i < r % 20; i++) garbage.push(new Uint8Array(r % 3000));
  if (s % 8 === 0) await wait(0);
  if (s % 4 === 1) {
    const code = await sleep("inner", "1s").then(() => "OK", (e) => e.code);
    if (code !== "NOT_HERE") throw new Error(`a sleep in a body: ${code}`);
  }
  if (fails && s % 2 === 0) throw new Error("now and then");
  return `${tag}=${r % 1000} at ${typeof Date.now()}`;
}

async function branch(path: string, depth: number, r: Random): Promise<void> {
  for (let k = 0, n = 2 + r(3); k < n; k++) {
    const p = `${path}.${k}`;
    switch (r(9)) {
      case 0: case 1: case 2: {
        const fails = r(3) === 0;
        const v = await step(p, () => body(p, fails), { attempts: 1 + r(3), delay: "100ms" }).catch((e) => e.code);
        lines.push(`${p} ${v}`);
        break;
      }
      case 3:
        await wait(1 + r(5000));
        lines.push(`${p} waited`);
        break;
      case 4:
        lines.push(`${p} ${await sleep(p, 1 + r(5000))}`);
        break;
      case 5:
        if (depth < 2) {
          const forks = Array.from({ length: 2 + r(2) }, (_, j) => branch(`${p}/${j}`, depth + 1, from(r(1 << 30))));
          await Promise.all(forks);
          lines.push(`${p} joined`);
        }
        break;
      case 6: {
        const first = await race({ a: sleep(`${p} a`, 1 + r(3000)), b: sleep(`${p} b`, 1 + r(3000)), c: (signal) => sleep(`${p} c`, 1500, { signal }) });
        lines.push(`${p} ${first.key}`);
        break;
      }
      case 7: {
        let timer;
        const first = await Promise.race([wait(1 + r(2000)).then(() => "waited"), new Promise((resolve) => {
          timer = setTimeout(resolve, 1000, "late");
        })]);
        clearTimeout(timer);
        lines.push(`${p} ${first}`);
        break;
      }
      default: {
        const order = [...new Set([4, 2, 3, 1])].join("");
        let bytes = 0;
        for (let i = 0; i < 50; i++) bytes += new Uint8Array(10_000).length;
        lines.push(`${p} ${order} ${bytes} ${Math.random()} ${crypto.randomUUID()} ${Date.now()}`);
      }
    }
  }
}

workflow("random", async (seed: number) => {
  await branch("r", 0, from(seed));
  if (changed !== 0 || garbage.length !== 0 || seen.size !== 3) throw new Error("memory of a body leaked");
  return lines;
});
