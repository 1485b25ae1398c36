// Every way out of `for await` waits until the generator has closed; platform-free, so that Node can run it.

// locked logs what it does into a list; its cleanup takes turns of the queue, and can fail.
const locked = (log, fails) => (async function* () {
  try {
    yield 1;
    yield 2;
  } finally {
    log.push("close");
    await null;
    await null;
    log.push("closed");
    if (fails) throw new Error("unlock failed");
  }
})();

// by makes an iterable of methods, and logs their calls. ret is what return gives.
const by = (log, ret, next = () => ({ value: 1, done: false })) => ({
  [Symbol.asyncIterator]() { return this; },
  next() { log.push("next"); return next(); },
  return(...args) { log.push(`return/${args.length}`); return ret(); },
});

const over = async (log, fn) => {
  let got;
  try {
    got = `returned ${await fn(log)}`;
  } catch (e) {
    got = `threw ${e.constructor === Error ? e.message : e.name}`; // messages are the engine's own
  }
  return [...log, got];
};

const ways = {
  break: async (log) => { for await (const x of locked(log)) { log.push(x); break; } },
  return: async (log) => { for await (const x of locked(log)) return x; },
  throw: async (log) => { for await (const x of locked(log)) throw new Error(`at ${x}`); },
  done: async (log) => { for await (const x of locked(log)) log.push(x); },
  continueOuter: async (log) => { outer: for (const i of [1, 2]) for await (const x of locked(log)) { log.push(i + x); continue outer; } },
  breakOuter: async (log) => { outer: for (;;) for await (const x of locked(log)) { log.push(x); break outer; } },
  breakBlock: async (log) => { block: { for await (const x of locked(log)) { log.push(x); break block; } } },
  nested: async (log) => { for await (const x of locked(log)) for await (const y of locked(log)) return x + y; },
  nestedThrow: async (log) => { for await (const x of locked(log)) for await (const y of locked(log, true)) throw new Error(`at ${x + y}`); },
  inFinally: async (log) => { try { for await (const x of locked(log)) return x; } finally { log.push("finally"); } },
  throughFinally: async (log) => { for await (const x of locked(log)) { try { return x; } finally { await null; log.push("inner"); } } },
  breakFails: async (log) => { for await (const x of locked(log, true)) { log.push(x); break; } },
  returnFails: async (log) => { for await (const x of locked(log, true)) return x; },
  throwFails: async (log) => { for await (const x of locked(log, true)) throw new Error(`at ${x}`); },
  caught: async (log) => { try { for await (const x of locked(log)) throw new Error(`at ${x}`); } catch (e) { log.push("caught"); return e.message; } },
  destructuring: async (log) => { for await (const { a: { b } } of locked(log)) log.push(b); },
  elements: async (log) => { for await (const [a] of locked(log)) log.push(a); },
  assignment: async (log) => { const o = { set x(v) { throw new Error(`set ${v}`); } }; for await (o.x of locked(log)); },
  defaults: async (log) => { for await (const { a = log.push("default") && missing() } of locked(log)) log.push(a); },
  generator: async (log) => { const g = (async function* () { for await (const x of locked(log)) yield x; })(); await g.next(); return JSON.stringify(await g.return(7)); },
  generatorThrow: async (log) => { const g = (async function* () { for await (const x of locked(log)) yield x; })(); await g.next(); return g.throw(new Error("in")); },
  generatorReturns: async (log) => { const g = (async function* () { for await (const x of locked(log)) return x; })(); return JSON.stringify(await g.next()); },
  delegated: async (log) => { const g = (async function* () { yield* locked(log); })(); await g.next(); return JSON.stringify(await g.return(Promise.resolve(7))); },
  delegatedThrow: async (log) => { const g = (async function* () { yield* locked(log); })(); await g.next(); return g.throw(new Error("in")); },
  notAnObject: async (log) => { for await (const x of by(log, () => 5)) break; },
  notAnObjectThrow: async (log) => { for await (const x of by(log, () => 5)) throw new Error("body"); },
  promised: async (log) => { for await (const x of by(log, async () => ({}))) break; },
  promisedNothing: async (log) => { for await (const x of by(log, async () => undefined)) return 1; },
  rejected: async (log) => { for await (const x of by(log, async () => { throw new Error("rejected"); })) break; },
  rejectedThrow: async (log) => { for await (const x of by(log, async () => { throw new Error("rejected"); })) throw new Error("body"); },
  throws: async (log) => { for await (const x of by(log, () => { throw new Error("return"); })) return 1; },
  throwsThrow: async (log) => { for await (const x of by(log, () => { throw new Error("return"); })) throw new Error("body"); },
  nextThrows: async (log) => { for await (const x of by(log, () => ({}), () => { throw new Error("next"); })) log.push(x); },
  nextRejects: async (log) => { for await (const x of by(log, () => ({}), async () => { throw new Error("next"); })) log.push(x); },
  nextNoObject: async (log) => { for await (const x of by(log, () => ({}), () => 1)) log.push(x); },
  valueThrows: async (log) => { for await (const x of by(log, () => ({}), () => ({ done: false, get value() { throw new Error("value"); } }))) log.push(x); },
  doneCloses: async (log) => { for await (const x of by(log, () => ({}), () => ({ done: true }))) log.push(x); },
  noReturn: async (log) => { for await (const x of { [Symbol.asyncIterator]: () => ({ next: () => ({ value: 1 }) }) }) return x; },
  noMethod: async (log) => { for await (const x of { [Symbol.asyncIterator]: () => ({ next: () => ({ value: 1 }), return: 3 }) }) return x; },
  ofSync: async (log) => { for await (const x of (function* () { try { yield Promise.resolve(1); yield 2; } finally { log.push("sync closed"); } })()) return x; },
  ofSyncThrow: async (log) => { for await (const x of (function* () { try { yield 1; } finally { log.push("sync closed"); } })()) throw new Error(`at ${x}`); },
  syncInGenerator: async (log) => { const g = (async function* () { for (const x of (function* () { try { yield 1; } finally { log.push("sync closed"); } })()) return x; })(); const p = g.next(); log.push("called"); return JSON.stringify(await p); },
  turns: async (log) => { // how many turns of the queue closing takes
    let n = 0, go = true;
    (async () => { while (go) { await null; n++; } })();
    for await (const x of locked(log)) break;
    go = false;
    return n;
  },
  turnsThrow: async (log) => {
    let n = 0, go = true;
    (async () => { while (go) { await null; n++; } })();
    try { for await (const x of locked(log)) throw new Error("t"); } catch { /* counted */ }
    go = false;
    return n;
  },
  turnsDelegated: async (log) => {
    let n = 0, go = true;
    (async () => { while (go) { await null; n++; } })();
    const g = (async function* () { yield* locked(log); })();
    await g.next();
    await g.return(1);
    go = false;
    return n;
  },
};

export default async function exits() {
  const out = {};
  for (const [name, fn] of Object.entries(ways)) {
    const log = [];
    const got = await over(log, fn);
    for (let i = 0; i < 20; i++) await null;
    out[name] = [got, log.length - got.length + 1]; // what came later than it should
  }
  return out;
}
