// Control flow with every exit: loops, labels, try and finally, generators, and asynchronous functions and the order of their turns.
export const prelude = `
let turn = 0;
const odd = () => (turn++ % 3) !== 1;
function* it(n) { try { yield n + "a"; yield n + "b"; yield n + "c"; } finally { o.push("f" + n); } }
async function* ait(n) { try { yield n + "a"; await 0; yield n + "b"; } finally { o.push("g" + n); await 0; o.push("h" + n); } }
const own = (n, ret) => ({ i: 0, [Symbol.iterator]() { return this; }, [Symbol.asyncIterator]() { return this; }, next(v) { o.push("n" + n + v); return { value: n + this.i, done: this.i++ > 1 }; },
  return(v) { o.push("r" + n + v); return ret; }, throw(e) { o.push("t" + n + err(e)); throw "T" + n; } });
const rejected = (n) => Promise.reject("R" + n), resolved = (n) => Promise.resolve("P" + n);
const thenable = (n) => ({ then(f, g) { o.push("then" + n); f("H" + n); } });
`;

class Maker {
  constructor(r) { this.r = r; this.uid = 0; }
  n() { return this.uid++; }
  push() { return `o.push(${this.n()});`; }
  block(depth, c, most = 2) { return this.r.some(1, most, () => this.statement(depth - 1, c)).join("\n"); }

  source(c) {
    const n = this.n(), r = this.r;
    if (c.awaits && r.chance(2)) return { each: "for await", of: r.pick([`ait(${n})`, `it(${n})`, `own(${n}, ${r.pick(["{}", "1", "undefined", "resolved(1)", `rejected(${n})`])})`, `[rejected(${n}), 1]`, `[resolved(${n}), 2]`].slice(0, r.chance(4) ? 5 : 3)) };
    return { each: "for", of: r.pick([`it(${n})`, `it(${n})`, `[${n}, 2]`, `own(${n}, ${r.pick(["{}", "1", "undefined"])})`, `"ab"`, `new Map([[1, ${n}]])`]) };
  }

  statement(depth, c) {
    const r = this.r, kinds = ["push", "push"];
    if (depth > 0) kinds.push("try", "catch", "both", "for", "of", "of", "if", "scope", "label", "switch", "while", "inner", "inner", "closure");
    if (c.awaits) kinds.push("await", "await", "rejected");
    if (c.yields) kinds.push("yield", "yield", "delegate");
    kinds.push("return", "throw", "destructure");
    if (c.loop) kinds.push("break", "continue");
    if (c.labels.length) kinds.push("out");
    return this[r.pick(kinds)](depth, c);
  }
  try(d, c) { return `try {\n${this.block(d, c)}\n} finally {\n${this.push()}\n${this.r.chance(2) ? this.block(d, c) : ""}\n}`; }
  catch(d, c) { return `try {\n${this.block(d, c)}\n} catch (e) { o.push("c" + err(e));\n${this.block(d, c)}\n}`; }
  both(d, c) { return `try {\n${this.block(d, c)}\n} catch { ${this.push()}\n${this.block(d, c, 1)}\n} finally {\n${this.push()}\n${this.r.chance(3) ? this.block(d, c, 1) : ""}\n}`; }
  for(d, c) { return `for (let i = 0; i < 3; i++) {\n${this.block(d, { ...c, loop: true })}\n${this.push()}\n}`; }
  while(d, c) { return `{ let w = 0; ${this.r.chance(2) ? `while (w++ < 2) {\n${this.block(d, { ...c, loop: true })}\n}` : `do {\n${this.block(d, { ...c, loop: true })}\n} while (w++ < 1);`} }`; }
  of(d, c) {
    const { each, of } = this.source(c);
    const bind = this.r.pick(["const x", "let x", "const [x]", "const { length: x }", "const [x = o.push('d'), ...y]", "var x"]);
    return `${each} (${bind} of ${of}) {\n${this.block(d, { ...c, loop: true })}\no.push(x);\n}`;
  }
  if(d, c) { return `if (odd()) {\n${this.block(d, c)}\n} else {\n${this.block(d, c, 1)}\n}`; }
  scope(d, c) { const n = this.n(); return `{ let s = ${n};\n${this.block(d, c)}\no.push(() => s); o.push(o.pop()()); }`; }
  label(d, c) {
    const l = `L${this.n()}`;
    if (this.r.chance(2)) return `${l}: {\n${this.block(d, { ...c, labels: [...c.labels, [l, false]] })}\n}`;
    return `${l}: for (const z of [1, 2]) {\n${this.block(d, { ...c, loop: true, labels: [...c.labels, [l, true]] })}\n}`;
  }
  switch(d, c) { return `switch (${this.r.int(3)}) {\ncase 0: ${this.block(d, { ...c, sw: true })}\ndefault: ${this.block(d, c)}\ncase 1: ${this.push()}\n${this.r.chance(2) ? "break;" : ""}\ncase 9: ${this.push()}\n}`; }
  await(d, c) { const n = this.n(); return `o.push("w" + await ${this.r.pick([`${n}`, `resolved(${n})`, `thenable(${n})`, `(async () => { await 0; return ${n}; })()`])});`; }
  rejected() { return `await rejected(${this.n()});`; }
  yield(d, c) { return `o.push("y" + (yield ${c.awaits && this.r.chance(3) ? `resolved(${this.n()})` : this.n()}));`; }
  delegate(d, c) { return `o.push("s" + (yield* ${c.awaits ? this.r.pick([`ait(${this.n()})`, `own(${this.n()}, {})`, `it(${this.n()})`]) : this.r.pick([`it(${this.n()})`, `own(${this.n()}, {})`, "[1, 2]"])}));`; }
  return(d, c) { return this.r.chance(2) ? this.push() : `if (odd()) return ${c.awaits ? this.r.pick([`${this.n()}`, `resolved(${this.n()})`, `rejected(${this.n()})`, `thenable(${this.n()})`]) : this.n()};`; }
  throw() { return this.r.chance(2) ? this.push() : `if (odd()) throw ${this.n()};`; }
  break() { return "if (odd()) break;"; }
  continue() { return "if (!odd()) continue;"; }
  out(d, c) { const [l, loop] = this.r.pick(c.labels); return `if (odd()) ${loop && this.r.chance(2) ? "continue" : "break"} ${l};`; }
  closure() { return `{ const fs = []; for (let i = 0; i < 2; i++) { fs.push(() => i++); } o.push(fs.map((f) => f() + f())); }`; }
  destructure() {
    const n = this.n();
    return this.r.pick([`{ const [a${n}, ...b${n}] = it(${n}); o.push(a${n} + b${n}); }`, `{ const [a${n}] = it(${n}); o.push(a${n}); }`, `{ const { x = o.push("dx"), ...y } = { y: 1, z: ${n} }; o.push(Object.keys(y)); }`,
      `{ let a, b; [a, b = (o.push("db"), a)] = own(${n}, {}); o.push(a + b); }`, `{ try { const [[a${n}]] = own(${n}, {}); o.push(a${n}); } catch (e) { o.push(e.constructor.name); } }`, `{ const q = {}; [q.a, q["b"], ...q.c] = it(${n}); o.push(Object.entries(q)); }`]);
  }
  inner(d, c) {
    const kind = this.r.pick(["sync", "gen", "async", "agen"]);
    const body = this.block(d, { yields: kind.endsWith("gen"), awaits: kind.startsWith("a"), loop: false, labels: [] });
    switch (kind) {
      case "sync": return `o.push("r" + (() => {\n${body}\n})());`;
      case "gen": return this.r.chance(2) ? `for (const q of (function* () {\n${body}\n})()) o.push("q" + q);` : `{ const g = (function* () {\n${body}\n})(); for (const how of ["next", "${this.r.pick(["return", "throw", "next"])}", "next"]) { try { o.push(JSON.stringify(g[how](${this.n()}))); } catch (e) { o.push("e" + err(e)); } } }`;
      case "async": return c.awaits ? `o.push("r" + await (async () => {\n${body}\n})());` : `(async () => {\n${body}\n})().then((v) => o.push("v" + v), (e) => o.push("e" + err(e)));`;
      default: return c.awaits && this.r.chance(2) ? `for await (const q of (async function* () {\n${body}\n})()) o.push("q" + q);` : `{ const g = (async function* () {\n${body}\n})(); for (const how of ["next", "${this.r.pick(["return", "throw", "next"])}", "next"]) g[how](${this.r.pick([`${this.n()}`, `resolved(${this.n()})`, `thenable(${this.n()})`])}).then((v) => o.push(JSON.stringify(v)), (e) => o.push("e" + err(e))); }`;
    }
  }
}

// flow returns the body of an asynchronous function, with a rival that counts turns.
export function flow(r) {
  const m = new Maker(r);
  return `${prelude}(async () => { for (let i = 0; i < 12; i++) { await 0; o.push("." + i); } })();\n${m.block(4, { awaits: true, yields: false, loop: false, labels: [] }, 4)}`;
}

export function promises(r) {
  const p = () => r.pick(["1", "resolved(1)", "rejected(2)", "thenable(3)", "new Promise((f, g) => { o.push('x'); f(4); g(5); })", "new Promise(() => { throw 'in'; })", "Promise.resolve(resolved(6))", "(async () => { throw 7; })()",
    "{ get then() { throw 'getter'; } }", "{ then: 1 }", "{ then(f) { f(thenable(8)); f(9); throw 'late'; } }", "new Promise((f) => f(rejected(10)))", "class { static then(f) { f('class'); } }"]);
  const out = [prelude, "const seen = (n) => [(v) => { o.push(n + 'v' + show(v)); return v; }, (e) => { o.push(n + 'e' + show(e)); throw e; }];", "(async () => { for (let i = 0; i < 12; i++) { await 0; o.push('.' + i); } })();"];
  for (let i = 0; i < 4; i++) {
    const chain = r.some(0, 2, () => r.pick([".then()", `.then(() => ${p()})`, ".finally(() => { o.push('fin'); })", ".finally(() => { throw 'fin'; })", `.catch(() => ${p()})`, ".then(...seen('m'))", `.finally(() => ${p()})`])).join("");
    const first = r.pick([`Promise.resolve(${p()})`, `Promise.${r.pick(["all", "allSettled", "any", "race"])}([${r.some(0, 3, p).join()}])`, `Promise.${r.pick(["all", "any", "race", "allSettled"])}(${r.pick(["1", "it(1)", "'ab'", "own(1, {})", "null"])})`, `(async () => ${p()})()`, `(async () => await ${p()})()`,
      `new Promise((f) => queueMicrotask(() => f(${p()})))`, "class extends Promise {}.resolve(1)".replace("class extends Promise {}", "(class extends Promise { then(a, b) { o.push('sub'); return super.then(a, b); } })"), "Promise.withResolvers().promise.constructor.resolve(3)"]);
    out.push(`t(() => { ${first}${chain}.then(...seen(${i})).catch(() => {}); });`);
  }
  return out.join("\n");
}

const member = (r, i) => {
  const s = r.chance(3) ? "static " : "", name = r.pick(["a", "b", "#p", "#q", "['c' + 1]", "constructor2", "1", "'s t'"]), n = `${i}`;
  switch (r.int(10)) {
    case 0: return `${s}${name} = (o.push("init${n}"), ${r.pick([n, "this === C", "typeof this", "() => this.constructor.name"])});`;
    case 1: return `${s}get ${name}() { o.push("get${n}"); return ${n}; }`;
    case 2: return `${s}set ${name}(v) { o.push("set${n}" + v); }`;
    case 3: return `${s}${r.pick(["", "async ", "*", "async *"])}${name}(x = o.push("default${n}"), ...y) { return ${r.pick(["x", "new.target", "super.toString === undefined", "super.a", "this instanceof C", "y.length"])}; }`;
    case 4: return `static { o.push("block${n}"); ${r.pick(["this.z = 1;", "try { C.x; } catch (e) { o.push(e.constructor.name); }", "var v = this; o.push(v === this);"])} }`;
    case 5: return `[(o.push("key${n}"), "k${n}")] = (o.push("value${n}"), ${n});`;
    case 6: return `#x${n} = ${n}; has${n}(v) { return #x${n} in v; } read${n}(v) { return v.#x${n}; } write${n}(v) { return v.#x${n} ${r.pick(["=", "+=", "??=", "||="])} 5; }`;
    case 7: return `static #s${n}() { return this === C; } static call${n}() { return ${r.pick([`C.#s${n}()`, `this.#s${n}?.()`, `delete this.zz`])}; }`;
    case 8: return `constructor${r.chance(2) ? "2" : ""}(a) { ${r.pick(["super(a);", "super(); o.push(new.target === C);", "return {};", "o.push('c'); super();", "try { this.a; } catch (e) { o.push(e.constructor.name); } super();", ""])} }`;
    default: return `accessor${n} = [${n}]; ${s}async = 1; ${s}get = 2; static static = 3;`;
  }
};

export function classes(r) {
  const base = r.pick(["", " extends B", " extends B", " extends null", " extends Array", " extends Error", " extends (o.push('heritage'), B)", " extends Map", " extends Function"]);
  const out = ["class B { constructor(a) { o.push('B' + a); this.base = a; } a() { return 'Ba'; } static sb() { return this.name; } get g() { return 'Bg'; } }",
    `t(() => { class C${base} {\n${r.some(1, 5, (i) => member(r, i)).join("\n")}\n}\nmade = C; return C; });`];
  const uses = ["new C(1)", "new C()", "C(1)", "Object.getOwnPropertyNames(C)", "Object.getOwnPropertyNames(C.prototype)", "Object.keys(new C())", "C.sb?.()", "new (class extends C {})(2)", "Reflect.construct(C, [3], B)", "C.a", "new C().a", "(new C().a = 5)", "new C().a?.()", "C.b?.(1, 2)",
    "[0,1,2,3,4].map((i) => [new C()['has' + i]?.(new C()), new C()['has' + i]?.({})])", "[0,1,2,3,4].map((i) => new C()['read' + i]?.({}))", "[0,1,2,3,4].map((i) => new C()['write' + i]?.(new C()))", "[0,1,2,3,4].map((i) => C['call' + i]?.call({}))", "C.name", "C.length", "new C() instanceof B", "class D extends C { constructor() {} }, new D()", "C.prototype.constructor === C", "(C.prototype = 1)"];
  return ["let made;", ...out, ...r.many(4, () => `t(() => { const C = made; return ${r.pick(uses).replace(/^class D(.*), new D\(\)$/, "new (class$1)()")}; });`)].join("\n");
}

const noisy = (n) => `(o.push(${n}), ${n})`;

// order is about what is evaluated first.
export function order(r) {
  let n = 0;
  const e = () => noisy(n++), key = () => `[(o.push("k${n}"), "p${n++}")]`;
  const pattern = (d) => (d === 0 || r.chance(3) ? `v${n++}` : r.chance(2) ? `{ ${r.some(1, 3, () => `${key()}: ${pattern(d - 1)}${r.chance(2) ? ` = ${e()}` : ""}`).join(", ")}${r.chance(3) ? `, ...v${n++}` : ""} }`
    : `[${r.some(1, 3, () => (r.chance(6) ? "" : `${pattern(d - 1)}${r.chance(2) ? ` = ${e()}` : ""}`)).join(", ")}${r.chance(3) ? `, ...v${n++}` : ""}]`);
  const watched = "const w = (name, v) => new Proxy(v, { get(t, k) { o.push(name + String(k)); return Reflect.get(t, k); }, has(t, k) { o.push(name + '?' + String(k)); return k in t; }, set(t, k, x) { o.push(name + '=' + String(k)); t[k] = x; return true; } });";
  const source = () => r.pick([`w("s", { p0: 1, p1: [2, 3], p2: { p3: 4 } })`, `w("l", [1, [2], { p1: 3 }])`, "[[1, 2], { p2: 3 }]", "'ab'", "null", "undefined", "5", "new Set([1, [2]])"]);
  const out = [watched, "const box = { get a() { o.push('box'); return { f(...x) { o.push('call'); return x.length; }, n: 1, u: undefined }; } };"];
  for (let i = 0; i < 5; i++) {
    switch (r.int(9)) {
      case 0: case 1: out.push(`t(() => { const ${r.chance(2) ? `{ ${key()}: ${pattern(2)} = ${e()} }` : `[${pattern(2)}]`} = ${source()}; });`); break;
      case 2: out.push(`t(() => (function (${r.some(1, 3, () => `${pattern(1)}${r.chance(2) ? ` = ${e()}` : ""}`).join(", ")}) { "body"; o.push(arguments.length); })(${r.some(0, 3, source).join(", ")}));`); break;
      case 3: out.push(`t(() => { const q = w("q", { a: { b: 1 } }); ${r.pick(["q", "q.a", `q[${e()}]`])}[${e()}] ${r.pick(["=", "+=", "??=", "&&=", "||=", "**="])} ${e()}; });`); break;
      case 4: out.push(`t(() => box.a${r.pick(["", "?."])}${r.pick([".f", "['f']", "?.['n']", "?.u"]).replace(/^\?/, "?")}(${e()}, ...[${e()}], ${e()}));`.replace("?.?.", "?.").replace("?..", "?.").replace("?.[", "?.[")); break;
      case 5: out.push(`t(() => { let a, b, q = w("q", {}); [q[${e()}], q[${e()}] = ${e()}, ...q[${e()}]] = ${source()}; });`); break;
      case 6: out.push(`t(() => ((f) => f\`x\${${e()}}y\${${e()}}\\u0041\`)((s, ...x) => [s, s.raw, Object.isFrozen(s), x]));`); break;
      case 7: out.push(`t(() => ({ ${key()}: ${e()}, ...(${e()}, w("s", { z: 1 })), ${key()}: ${e()}, get ${key()}() {}, ${key()}() {} }));`); break;
      default: out.push(`t(() => { ({ ${key()}: box.x, ${key()}: box[${e()}] = ${e()}, ...box.rest } = ${source()}); });`);
    }
  }
  return out.join("\n");
}
