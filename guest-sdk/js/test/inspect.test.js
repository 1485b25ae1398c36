import assert from "node:assert/strict";
import { test } from "node:test";
import { report } from "../src/error.js";
import { inspect, stackOf } from "../src/inspect.js";

class Point {
  x = 1;
}
const cyclic = { a: [1, { b: new Map() }] };
cyclic.a[1].b.set("self", cyclic);

test("values", () => {
  for (const [v, want] of [
    ["plain", "plain"], [undefined, "undefined"], [null, "null"], [1n, "1n"], [Symbol("s"), "Symbol(s)"],
    [{ a: 1, b: "two", c: [true, null, undefined, 3n, NaN] }, '{"a":1,"b":"two","c":[true,null,undefined,3n,NaN]}'],
    [{ m: new Map([["k", { v: new Set([1, "x"]) }]]) }, '{"m":Map {"k" => {"v":Set {1,"x"}}}}'],
    [cyclic, '{"a":[1,{"b":Map {"self" => [circular]}}]}'],
    [[Point, new Point(), () => 1, class {}, function named() {}, Map],
      '[[class Point],Point {"x":1},[function without a name],[class without a name],[function named],[class Map]]'],
    [{ d: new Date(0), e: new Date(NaN), r: /x/g, u: new URL("http://h/a"), p: Promise.resolve() },
      '{"d":"1970-01-01T00:00:00.000Z","e":Invalid Date,"r":/x/g,"u":"http://h/a","p":Promise}'],
    [[new Uint8Array([1, 2]), new ArrayBuffer(3), Object.create(null)], "[Uint8Array [1,2],ArrayBuffer of 3 bytes,{}]"],
    [{ get a() { throw new Error("no"); } }, '{"a":[a getter that throws no]}'],
  ]) assert.equal(inspect(v), want);
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  assert.equal(inspect(proxy), "[what cannot be shown]");
});

test("errors in values", () => {
  const e = Object.assign(new TypeError("why", { cause: "because" }), { stack: "    at f (a.ts:1:2)" });
  const any = Object.assign(new AggregateError([e, "text"], ""), { stack: "" });
  assert.equal(inspect({ error: e }), '{"error":TypeError: why\n    at f (a.ts:1:2)\ncaused by because}');
  assert.equal(inspect(any), "AggregateError: \none of them: TypeError: why\n    at f (a.ts:1:2)\ncaused by because\none of them: text");
  const self = Object.assign(new Error("self"), { stack: "" });
  self.cause = self;
  assert.equal(inspect(self), "Error: self\ncaused by [circular]");
});

test("values are shown whole up to 64 KiB, however deep they are", () => {
  let v = Array.from({ length: 500 }, (_, i) => ({ id: i, name: `row ${i}`, inner: { deeper: { text: "x".repeat(40) } } }));
  for (let i = 0; i < 20; i++) v = { v };
  assert.equal(inspect(v), JSON.stringify(v));
});

test("large and deep values end", () => {
  assert.ok(inspect(Array(1_000_000).fill("x".repeat(10))).length < 70_000);
  assert.ok(inspect(new Uint8Array(1 << 20)).endsWith("…]"));
  const e = Object.assign(new Error("x"), { stack: `    at f (${"a".repeat(1000)}.ts:1:2)` });
  for (const v of [e, new Date(NaN), /abc/, { e }, new (class A {})()]) assert.ok(inspect(Array(100_000).fill(v)).length < 150_000, inspect(v));
  let twice = new Error("x"), tree = {};
  for (let i = 0; i < 40; i++) [twice, tree] = [new AggregateError([twice, twice], "m"), { a: tree, b: tree }];
  assert.ok(inspect(twice).length < 150_000 && inspect(tree).length < 150_000);
  let deep = {};
  for (let i = 0; i < 100_000; i++) deep = { deep };
  assert.match(inspect(deep), /\[…\]/);
});

test("messages of failures", () => {
  const message = (e) => JSON.parse(report(e)).message;
  const self = new Error("self");
  self.cause = self;
  for (const [e, want] of [
    [new Error("a", { cause: new Error("b", { cause: "c" }) }), "a: b: c"],
    [new TypeError("fetch failed: denied", { cause: new Error("denied") }), "fetch failed: denied"],
    [new AggregateError([new Error("x"), new Error("y")]), "AggregateError: x; y"],
    [new AggregateError([new Error("x"), new Error("y")], "none"), "none: x; y"],
    [new AggregateError([new Error("x")], "x; and what was done could not be undone"), "x; and what was done could not be undone"],
    [self, "self"], [cyclic, inspect(cyclic)], [{ a: 1 }, '{"a":1}'], [undefined, "undefined"], [new Error(""), "Error"],
    [Object.assign(new Error("out of memory"), { name: "InternalError" }), "out of memory: an instance has at most 64 MiB"],
  ]) assert.equal(message(e), want);
});

test("a recursion is shown once", () => {
  const frames = (...names) => names.map((n) => `    at ${n} (a.ts:1:2)`);
  const stack = [...frames("f"), ...Array(300).fill(frames("g")).flat(), ...Array(40).fill(frames("even", "odd")).flat(), ...frames("even", "main")];
  assert.equal(stackOf(Object.assign(new Error(), { stack: stack.join("\n") })), [
    ...frames("f", "g"), "    … and 299 times more", ...frames("even", "odd"), "    … and 39 times more", ...frames("even", "main"),
  ].join("\n"));
});
