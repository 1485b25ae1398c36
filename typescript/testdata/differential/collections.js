// Arrays, typed arrays, maps and sets, objects, proxies, iterators.
import { array, bigint, key, number, object, primitive, string, value } from "./values.js";

const q = JSON.stringify;
const at = (r) => r.pick(["0", "1", "2", "-1", "-2", "5", "100", "NaN", "Infinity", "-Infinity", "1.5", "undefined"]);
const fn = (r) => r.pick(["(x) => x", "(x) => x > 2", "(x, i) => i % 2", "(x, i, l) => (o.push(i), l.length - i)", "(x) => String(x)", "(x, i) => { if (i === 2) throw new Error('at 2'); return x; }", "Number", "(x) => [x, x]", "undefined"]);
const fold = "(a, x, i) => a + '/' + String(x) + i";
// Orders are total: what becomes of a list is else the implementation's.
const text = "const [x, y] = [String(a), String(b)]; return ";
const order = (r) => r.pick(["", `(a, b) => { ${text}(x > y) - (x < y); }`, `(a, b) => { ${text}(x < y) - (x > y); }`, "() => 0", "(a, b) => String(a).length - String(b).length", "null"]);

const onArrays = {
  at: [at], concat: [array, primitive], copyWithin: [at, at, at], entries: [], every: [fn], fill: [primitive, at, at], filter: [fn], find: [fn], findIndex: [fn], findLast: [fn], findLastIndex: [fn], flat: [at],
  flatMap: [fn], forEach: [fn], includes: [primitive, at], indexOf: [primitive, at], join: [string], keys: [], lastIndexOf: [primitive, at], map: [fn], pop: [], push: [primitive, primitive],
  reduce: [() => fold, string], reduceRight: [() => fold, string], reverse: [], shift: [], slice: [at, at], some: [fn], sort: [order], splice: [at, at, primitive, primitive], toReversed: [], toSorted: [order],
  toSpliced: [at, at, primitive], toString: [], unshift: [primitive, primitive], values: [], with: [at, primitive],
};

const call = (r, methods) => {
  const name = r.pick(Object.keys(methods));
  const args = methods[name].map((arg) => arg(r)).filter((a) => a !== "");
  return `${name}(${args.slice(0, r.chance(4) ? r.int(args.length + 1) : args.length).join(", ")})`;
};
const listed = (text) => `(() => { const v = ${text}; return v && typeof v.next === "function" ? [...v] : v; })()`;

export function arrays(r) {
  const out = [`const l = ${r.chance(8) ? `Object.assign(${array(r)}, { ${r.pick(["length: 3", "7: 1", "x: 2", "length: 0"])} })` : array(r, 2)};`];
  for (let i = 0; i < 4; i++) {
    switch (r.int(10)) {
      case 0: out.push(`t(() => ${r.pick([`Array.from(${value(r)}, ${fn(r)})`, `Array.of(${primitive(r)}, ${primitive(r)})`, `Array(${r.pick([0, 3, -1, 1.5, "'3'"])})`, `Array.from({ length: ${at(r)} }, (_, i) => i)`.replace("-Infinity", "3").replace("Infinity", "2").replace("100", "4")])});`); break;
      case 1: out.push(`t(() => { l.length = ${r.pick([0, 1, 2, 6, -1, 1.5])}; });`); break;
      case 2: { const [, name, args] = /^(\w+)\((.*)\)$/s.exec(call(r, onArrays)); out.push(`t(() => { const like = { length: 3, 0: 1, 2: "x" }; const v = Array.prototype.${name}.call(like${args && `, ${args}`}); return [name(v), like]; });`.replace("name(v)", "v && typeof v.next === 'function' ? [...v] : v")); break; }
      case 3: out.push(`t(() => Object.groupBy(l, (x) => typeof x));`); break;
      case 4: out.push(`t(() => { ${r.pick(["delete l[1]", "l[l.length + 2] = 1", "l['1'] = 5", "l[-1] = 3", "l[4294967295] = 1", "if (l.length > 1) Object.freeze(l)", "Object.defineProperty(l, 1, { get() { o.push('got'); return 7; }, configurable: true })"])}; });`); break;
      default: out.push(`t(() => ${listed(`l.${call(r, onArrays)}`)});`);
    }
  }
  return [...out, "t(() => l);"].join("\n");
}

const types = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"];
const element = (r, type) => (type.startsWith("Big") ? bigint(r) : number(r));

export function typed(r) {
  const type = r.pick(types), e = () => (r.chance(20) ? primitive(r) : element(r, type));
  const callback = () => r.pick(["(x) => x", "(x, i) => i % 2 === 0", "(x) => { o.push(x); return true; }"]);
  const methods = { at: [at], copyWithin: [at, at, at], every: [callback], fill: [e, () => "0", at], filter: [callback], find: [callback], findLast: [callback], includes: [e, at], indexOf: [e], join: [string], lastIndexOf: [e],
    map: [() => "(x) => x"], reverse: [], set: [() => `[${e()}, ${e()}]`, (x) => x.pick(["0", "1", "-1", "9"])], slice: [at, at], sort: [() => ""], subarray: [at, at], toReversed: [], toSorted: [], with: [at, e], toString: [],
    reduce: [() => fold, string], keys: [], entries: [] };
  const out = [`const a = new ${type}([${r.many(5, () => element(r, type)).join()}]);`];
  const views = ["Int8", "Uint8", "Int16", "Uint16", "Int32", "Uint32", "Float32", "Float64", "BigInt64", "BigUint64"];
  for (let i = 0; i < 4; i++) {
    switch (r.int(8)) {
      case 0: out.push(`t(() => new ${r.pick(types)}(a.buffer, ${r.pick([0, 1, 4, 8, 100])}${r.chance(2) ? `, ${r.int(3)}` : ""}));`); break;
      case 1: { const v = r.pick(views), big = v.startsWith("Big"); out.push(`t(() => { const d = new DataView(a.buffer); d.set${v}(${r.pick([0, 1, 3, -1, 100])}, ${big ? bigint(r) : number(r)}, ${r.pick(["true", "false", ""])}); return [d.get${v}(${r.int(3)}, true), d.get${v}(${r.int(3)})]; });`.replace(", )", ")")); break; }
      case 2: out.push(`t(() => { a[${r.pick([0, 1, 9, -1, "'1'", "'-0'", "1.5"])}] = ${e()}; });`); break;
      case 3: out.push(`t(() => new ${r.pick(types)}(${r.pick(["a", array(r, 0), "3", "-1", "new Set([1, 2])", "a.buffer.slice(0, 8)", "{ length: 2, 0: 7 }", "'2'"])}));`); break;
      default: out.push(`t(() => ${listed(`a.${call(r, methods)}`)});`);
    }
  }
  return [...out, "t(() => [a, a.byteLength, a.byteOffset, Object.keys(a)]);"].join("\n");
}

export function maps(r) {
  const out = [`const m = new ${r.pick(["Map([[1, 'a'], [NaN, 'b'], ['x', 'c']])", "Set([1, NaN, 'x', -0])"])};`, "const isMap = m instanceof Map;"];
  for (let i = 0; i < 5; i++) {
    const p = () => r.pick(["1", "NaN", "'x'", "-0", "0", "2", "{}", primitive(r)]);
    out.push(`t(() => ${r.pick([`isMap ? m.set(${p()}, ${primitive(r)}).size : m.add(${p()}).size`, `m.delete(${p()})`, `m.has(${p()})`, `isMap ? m.get(${p()}) : [...m.entries()]`, "m.clear()", "[...m.keys()]",
      `(() => { const seen = []; let n = 0; m.forEach((v, k) => { seen.push(v, k); if (n++ < 3) { m.delete(${p()}); isMap ? m.set(n + 50, n) : m.add(n + 50); } }); return seen; })()`,
      `(() => { const seen = []; for (const x of m) { seen.push(x); if (seen.length > 4) break; m.delete(${p()}); isMap ? m.set(${p()}, 1) : m.add(${p()}); } return seen; })()`,
      `Map.groupBy(${array(r)}, (x) => typeof x)`, `new ${r.pick(["Map", "Set"])}(${value(r)})`, `(() => { const it = m[Symbol.iterator](); it.next(); m.clear(); const x = it.next(); isMap ? m.set(5, 5) : m.add(5); return [x, it.next()]; })()`])});`);
  }
  return [...out, "t(() => m);"].join("\n");
}

const descriptor = (r) => `{ ${["value: 1", "get() { return 2; }", "set(v) { o.push(v); }", "writable: true", "enumerable: true", "configurable: true", "writable: false", "enumerable: false"].filter(() => r.chance(3)).join(", ")} }`;

export function objects(r) {
  const out = [`const x = ${object(r, 2)};`, `const y = Object.create(x, { z: ${descriptor(r)} });`];
  const k = () => q(key(r)), target = () => r.pick(["x", "y", value(r)]);
  for (let i = 0; i < 5; i++) {
    out.push(`t(() => ${r.pick([`Object.keys(${target()})`, `Object.entries(${target()})`, `Object.values(${target()})`, `Object.getOwnPropertyNames(${target()})`, `Object.getOwnPropertyDescriptors(${target()})`,
      `Object.assign({}, ${target()}, ${target()})`, `({ ...${target()}, ...${target()} })`, `Object.fromEntries(${r.pick([`Object.entries(${target()})`, array(r), "[[1, 2], ['a', 3]]"])})`,
      `Object.defineProperty(${target()}, ${k()}, ${descriptor(r)})`, `Reflect.defineProperty(${target()}, ${k()}, ${descriptor(r)})`, `(x[${k()}] = ${primitive(r)})`, `(y[${k()}] = ${primitive(r)})`, `delete x[${k()}]`,
      `Reflect.deleteProperty(${target()}, ${k()})`, `Reflect.set(y, ${k()}, 5, ${target()})`, `Reflect.get(y, ${k()}, ${target()})`, `${k()} in x`, `Object.${r.pick(["freeze", "seal", "preventExtensions"])}(${r.pick(["x", "y"])})`,
      `[Object.isFrozen(x), Object.isSealed(x), Object.isExtensible(y)]`, `Object.setPrototypeOf(${target()}, ${r.pick(["null", "x", "y", "{}", "1"])})`, `x.hasOwnProperty?.(${k()})`, `Object.hasOwn(${target()}, ${k()})`,
      `(() => { const seen = []; for (const k in y) seen.push(k); return seen; })()`, `(() => { const { [${k()}]: a = 1, ...rest } = y; return [a, rest]; })()`, `Object.prototype.toString.call(${target()})`,
      `Object.is(${primitive(r)}, ${primitive(r)})`, `x?.[${k()}]?.b?.[0]`, `x[${k()}]?.()`, `(x[${k()}] ${r.pick(["??=", "||=", "&&="])} ${primitive(r)})`, `Reflect.ownKeys(${target()})`, `Reflect.apply(${primitive(r)}, x, [1])`])});`);
  }
  return [...out, "t(() => [x, y]);"].join("\n");
}

const traps = ["get", "set", "has", "deleteProperty", "ownKeys", "getOwnPropertyDescriptor", "defineProperty", "getPrototypeOf", "setPrototypeOf", "isExtensible", "preventExtensions", "apply", "construct"];

export function proxies(r) {
  const bad = r.chance(3) ? r.pick(traps) : "";
  const answer = r.pick(["undefined", "true", "false", "null", "[]", "['a']", "{ value: 1 }", "({})"]);
  const target = r.pick(["{ a: 1, b: 2 }", "[1, 2, 3]", "function f(a) { return a; }", "class A { constructor() { this.n = new.target === A; } }", "Object.freeze({ a: 1 })"]);
  const out = [`const target = ${target.startsWith("{") ? `(${target})` : target};`,
    `const p = new Proxy(target, new Proxy({}, { get(_, trap) { return (...args) => { o.push(trap + ":" + String(args[1]).slice(0, 20)); return ${bad ? `trap === ${q(bad)} ? ${answer} : ` : ""}Reflect[trap](...args); }; } }));`];
  for (let i = 0; i < 4; i++) {
    const k = q(r.pick(["a", "b", "0", "length", "name", "prototype", "zz"]));
    out.push(`t(() => ${r.pick([`p[${k}]`, `(p[${k}] = 5)`, `delete p[${k}]`, `${k} in p`, "Object.keys(p)", "Object.entries(p)", "({ ...p })", "JSON.stringify(p)", "Object.getOwnPropertyDescriptor(p, 'a')", `Object.defineProperty(p, ${k}, { value: 3 })`,
      "Object.getPrototypeOf(p)", "Object.setPrototypeOf(p, null)", "Object.isExtensible(p)", "Object.preventExtensions(p)", "Object.freeze(p)", "Object.isFrozen(p)", "p(1)", "new p(1)", "[...p]", "p instanceof Object", "p instanceof p",
      "Array.isArray(p)", "typeof p", "[].concat(p)", "Array.prototype.push.call(p, 4)", "Array.prototype.splice.call(p, 0, 1)", "Object.assign({}, p)", 
      "(() => { const { a, ...rest } = p; return [a, rest]; })()", "Object.prototype.toString.call(p)", "Reflect.ownKeys(p)", `Reflect.set(p, ${k}, 1, {})`, "Object.create(p).a", `(Object.create(p)[${k}] = 1)`, "p.slice?.(1)"])});`);
  }
  return out.join("\n");
}
