// What a program makes while it is loaded is freed when it is dropped: each workflow hands more through such an object than a guest may
// have, 64 MiB.
import { workflow } from "@wfhost/workflow";

class Job {
  next?: Job;
  constructor(public data: number[]) {}
}
let newest = new Job([]);
workflow("list", async () => {
  for (let i = 0; i < 1200; i++) newest = newest.next = new Job(new Array(8000).fill(i + 0.5));
  return newest.data[0];
});

class Queue<T> {
  private head: any = {};
  private tail: any = this.head;
  push(v: T) {
    this.tail = this.tail.next = { v };
  }
  shift(): T {
    this.head = this.head.next;
    return this.head.v;
  }
}
const queue = new Queue<string>();
workflow("queue", async () => {
  let n = 0;
  for (let i = 0; i < 20_000; i++) {
    queue.push(`item ${i} `.repeat(400));
    n += queue.shift().length;
  }
  return n;
});

function deferred() {
  let resolve: any;
  const promise = new Promise<any>((r) => (resolve = r));
  return { promise, resolve };
}
let last = deferred(), at = last.promise;
workflow("stream", async () => {
  let n = 0;
  for (let i = 0; i < 1200; i++) {
    const d = deferred();
    last.resolve({ value: new Array(8000).fill(i + 0.5), next: d.promise });
    last = d;
    const e = await at;
    at = e.next;
    n += e.value.length;
  }
  return n;
});

const maps = Array.from({ length: 24 }, () => new Map<number, number>());
workflow("maps", async () => {
  let n = 0;
  for (let i = 0; i < maps.length; i++) {
    for (let k = 0; k < 80_000; k++) maps[i].set(k, k + 0.5);
    n += maps[i].size;
    maps[i] = new Map();
  }
  return n;
});
