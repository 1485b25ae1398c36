// Races of promises that are no calls themselves, but come of a wait for a signal.
import { hook, race, signal, sleep, workflow } from "@wfhost/workflow";

// lost has a wait lose a race, waits for the signal again, and returns whether the second wait has got the only signal.
async function lost(compete: () => Promise<unknown>) {
  await compete();
  const got = await race({ go: signal("go"), late: sleep("1h") });
  return got.key === "go";
}

const wrapped = async () => await signal("go");

workflow("then", () => lost(() => Promise.race([signal("go").then((x) => x), sleep("1s")])));
workflow("wrapped", () => lost(() => Promise.race([wrapped(), sleep("1s")])));
workflow("later", () => lost(() => Promise.race([sleep(1).then(wrapped), sleep("1s")])));
workflow("any", () => lost(() => Promise.any([wrapped(), sleep("1s")])));
workflow("direct", () => lost(() => Promise.any([signal("go"), sleep("1s")])));
workflow("next", () => lost(async () => {
  const h = await hook("go");
  await Promise.race([h.next(), sleep("1s")]);
}));

// The SDK's race withdraws no wait of another promise.
workflow("own-then", () => lost(() => race({ go: signal("go").then((x) => x), nap: sleep("1s") })));
workflow("own-wrapped", () => lost(() => race({ go: wrapped(), nap: sleep("1s") })));
workflow("own-deaf", () => lost(() => race({ go: () => wrapped(), nap: sleep("1s") })));
workflow("own-nested", () => lost(() => race({ inner: race({ go: signal("go"), far: sleep("1d") }), nap: sleep("1s") })));

// What follows is right, and is not warned of.
workflow("own-direct", () => lost(() => race({ go: signal("go"), timed: signal("go", { timeout: "1d" }), nap: sleep("1s") })));
workflow("own-function", () => lost(() => race({
  go: async (stop) => await signal("go", { signal: stop }),
  inner: (stop) => race({ go: signal("go", { signal: stop }), far: sleep("1d", { signal: stop }) }),
  nap: sleep("1s"),
})));
workflow("own-again", async () => { // the promise that has lost is waited for
  const go = wrapped();
  await race({ go, nap: sleep("1s") });
  await go;
  return true;
});
workflow("own-twice", async () => { // the promise that has lost races a later wait
  const go = wrapped();
  await race({ go, nap: sleep("1s") });
  return (await race({ go, later: signal("go") })).key === "go";
});
workflow("twice", async () => {
  const go = wrapped();
  await Promise.race([go, sleep("1s")]);
  const later = signal("go").then((x) => x);
  await Promise.race([go, later]);
  await later;
  return true;
});

// A pump takes signals for the program, and tells it by promises that may have lost a race meanwhile.
const pump = (taken: () => void) => void (async () => {
  for (;;) {
    await signal("go");
    taken();
  }
})();
workflow("pump", async () => {
  let got = 0, notify!: () => void;
  const next = () => new Promise<void>((resolve) => (notify = resolve));
  let changed = next();
  pump(() => {
    got++;
    notify();
  });
  while (got < 2) {
    const first = await race({ changed, tick: sleep("5s") });
    if (first.key !== "tick") changed = next();
  }
  return true;
});
workflow("pump-list", async () => {
  let got = 0;
  const waiters: (() => void)[] = [];
  pump(() => {
    got++;
    for (const w of waiters.splice(0)) w();
  });
  while (got < 2) await race({ changed: new Promise<void>((resolve) => waiters.push(resolve)), tick: sleep("5s") });
  return true;
});
workflow("pump-until", async () => {
  let got = 0;
  const waiters: { n: number; resolve: () => void }[] = [];
  const until = (n: number) => new Promise<void>((resolve) => (got >= n ? resolve() : waiters.push({ n, resolve })));
  pump(() => {
    got++;
    for (const w of waiters) if (got >= w.n) w.resolve();
  });
  await race({ some: until(1), reminder: sleep("5s") });
  await Promise.race([until(1), sleep("5s")]);
  await until(2);
  return true;
});
workflow("again", async () => { // the promise that has lost is waited for
  const go = wrapped();
  await Promise.race([go, sleep("1s")]);
  await go;
  return true;
});
workflow("others", async () => { // two take signals in turn, and one of them races something else meanwhile
  let left = 4;
  const take = async (pause: string) => {
    while (left-- > 0) {
      await signal("go");
      await Promise.race([sleep(pause).then(() => 1), sleep("2s")]);
    }
  };
  await Promise.all([take("1s"), take("3s")]);
  return true;
});
workflow("ended", async () => { // the wait has a time-out of its own, and got nothing
  await Promise.race([signal("go", { timeout: "2s" }).then((x) => x), sleep("1s")]);
  await Promise.all([signal("go"), sleep("5s")]);
  return true;
});
workflow("withdrawn", async () => { // by a signal of its own
  const stop = new AbortController();
  await Promise.race([signal("go", { signal: stop.signal }), sleep("1s")]);
  stop.abort();
  await signal("go");
  return true;
});
workflow("long", async () => { // one promise races many others
  const stop = new Promise(() => {});
  for (let i = 0; i < 50_000; i++) await Promise.race([stop, Promise.resolve(i)]);
  return true;
});
workflow("throws", async () => { // one entry at once: the waits before and after it are withdrawn
  const called: string[] = [];
  const e = await race({
    before: signal("go"),
    bad: () => {
      throw new Error("bad");
    },
    later: () => {
      called.push("later");
      return signal("go");
    },
    after: signal("go"),
    aborted: (stop) => signal("go", { signal: stop }),
  }).catch((e) => e.message);
  const got = await race({ go: signal("go"), late: sleep("1h") });
  return [e, got.key, called];
});
workflow("wrong", async () => {
  const all: string[] = [];
  for (const first of [Promise.race, Promise.any]) await first.call(Promise, undefined as any).catch((e) => all.push(e.name));
  return all;
});
