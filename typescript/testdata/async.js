// What the language says of promises, async functions and the functions that settle them: the engine has shortcuts for these.
const names = (f) => Object.getOwnPropertyNames(f).slice(0, 2).join();
const is = (f, key) => JSON.stringify(Object.getOwnPropertyDescriptor(f, key));
const caught = (e) => `${e.name} ${e.message}`;

export default async function async() {
  const made = [];
  class Own extends Promise {
    constructor(executor) {
      made.push("own");
      super(executor);
    }
  }
  const own = new Own((resolve) => resolve(1)).then((v) => v + 1);
  const subclass = [own instanceof Own, await own, made.length];

  const itself = (async () => {
    await null;
    return itself;
  })();
  const cycle = itself.catch((e) => e.name);
  const thrown = (async () => ({
    get then() {
      throw new RangeError("then");
    },
  }))().catch(caught);
  const thenable = (async () => ({ then: (resolve) => resolve("thenable") }))();

  const order = [];
  const returned = (async () => Promise.resolve())().then(() => order.push("returned"));
  const plain = (async () => {})().then(() => order.push("plain"));
  let chain = Promise.resolve();
  for (let i = 1; i <= 4; i++) chain = chain.then(() => order.push(i));
  await Promise.all([returned, plain, chain]);

  let resolve, reject;
  const promise = new Promise((...both) => ([resolve, reject] = both));
  resolve("first");
  resolve("second");
  reject(new Error("third"));

  let again;
  function Twice(executor) {
    executor(undefined, undefined);
    executor(() => {}, () => {});
    try {
      executor(() => {}, () => {});
    } catch (e) {
      again = e.name;
    }
  }
  Promise.resolve.call(Twice, 1);
  class Named {
    static name() {
      return "a method";
    }
  }
  const unmade = await Promise.resolve().then.call(Promise.reject(new Error("rejected")), undefined, caught);
  return {
    subclass,
    itself: await cycle,
    thrown: await thrown,
    thenable: await thenable,
    order: order.join(),
    once: await promise,
    again,
    unmade,
    resolver: [names(resolve), is(resolve, "name"), is(resolve, "length"), Object.getPrototypeOf(reject) === Function.prototype],
    named: [names(function two(a, b) {}), is((a) => a, "length"), Named.name(), delete resolve.name, names(resolve)],
    all: Object.keys(Promise.all([])).length,
  };
}
