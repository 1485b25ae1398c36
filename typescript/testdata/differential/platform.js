// What a platform has beside the language: URLs, headers, requests, signals, events, copies, and encodings.
const quoted = JSON.stringify;

const words = ["a", "b", "Ab", "x y", "%41", "%zz", "é", "%C3%A9", "ü/ö", "+", "&", "=", "?", "#", "a=b", "..", ".", "%2e", "", "0", "@", ":", "[", "|", "\"", "<", "`", "{", "\\", "\t", "🚀", "'", "~", "*", "^"];
const hosts = ["a.example", "EXAMPLE.com", "127.0.0.1", "127.1", "0x7f.1", "1.2.3", "256.1.1.1", "[::1]", "[1:2:3::8]", "[::ffff:1.2.3.4]", "[1:0:0:2:0:0:0:3]", "a_b", "a-.b", "a b", "%61.com", "", "a.b.", "1e3", "09.1", "a<b", "[::1", "[1::2::3]", "[::1.2.3.4]", "[1:2:3:4:5:6:7::]", "[0:0:0:0:0:0:0:0]", "[::G]", "0x.1", "1.2.3.4.5", "4294967295", "4294967296", "0377.1",
  "bücher.example", "faß.example", "xn--bcher-kva.example", "日本.example", "Ａ.example", "xn--", "xn--a", "☃.example", "a。b", "مثال.example", "\u05d0\u05d1", "ΑΣ.example", "a\u00adb", "\u200ba", "e\u0301",
  "क्\u200dष", "a\u200db", "ﬁ.example", "①.example", "XN--BCHER-KVA.example", "xn--bcher-kvb", "a\ufffd", "xn--80ak6aa92e.com", "ᾳ", "\u0130", "１２７.1", "xn--fa-hia.example"];
const schemes = ["http:", "https:", "HTTP:", "ftp:", "ws:", "wss:", "file:", "mailto:", "data:", "x-y:", "1a:", "javascript:", "blob:"];
const parts = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

const word = (r) => r.pick(words);
const path = (r) => r.some(0, 4, () => `/${word(r)}`).join("");
const query = (r) => (r.chance(2) ? `?${r.some(0, 4, () => `${word(r)}${r.chance(3) ? "" : `=${word(r)}`}`).join(r.pick(["&", "&", "&&", ";"]))}` : "");
const hash = (r) => (r.chance(3) ? `#${word(r)}${word(r)}` : "");
const port = (r) => (r.chance(3) ? `:${r.pick(["", "80", "443", "8080", "1", "65535", "65536", "080", "x", "8 0"])}` : "");
const user = (r) => (r.chance(4) ? `${word(r)}${r.chance(2) ? `:${word(r)}` : ""}@` : "");

const strange = /^\s*(?:mailto|data|x-y|javascript|blob):/; // schemes that are not special
// dotless leaves out what Node 22 reads otherwise than the standard says: "x://h/.." has the path "/".
const dotless = (text) => text.replace(/(?:\.|%2e){1,2}(\s*(?:[?#]|$))/gi, "a$1");
const url = (r) => { const text = anyURL(r); return strange.test(text) ? dotless(text) : text; };

function anyURL(r) {
  switch (r.int(8)) {
    case 0: return word(r) + path(r) + query(r) + hash(r);
    case 1: return path(r) + query(r) + hash(r);
    case 2: return `//${user(r)}${r.pick(hosts)}${port(r)}${path(r)}`;
    case 3: return r.pick(schemes) + word(r) + query(r) + hash(r);
    case 4: return `${r.pick(["", " ", "\n"])}${r.pick(schemes)}${r.pick(["/", "//", "///", "\\\\", ""])}${r.pick(hosts)}${path(r)}${r.pick(["", " "])}`;
    default: return `${r.pick(schemes)}//${user(r)}${r.pick(hosts)}${port(r)}${path(r)}${query(r)}${hash(r)}`;
  }
}

const withoutPath = /^\s*(?:mailto|data|x-y|javascript|blob):(?![/])/; // what only a fragment is relative to: Node 22 takes others that have one

const ascii = (text) => text.replace(/[^\0-\x7f]/g, "e"); // canParse of Node 22 fails for others when it was optimized

export function urls(r) {
  const other = r.chance(2) ? "http://u:p@h.example:81/a/b/../c?q=1#f" : url(r).replace(/\?(?=[\t\n\r]*(?:#|\s*$))/g, ""); // Node 22 does not take over an empty query
  const base = r.chance(2) ? `, ${quoted(other)}` : "", input = () => {
    const text = base && withoutPath.test(other) ? url(r).replace(/(?<=.)#.*/s, "") : url(r);
    return base && strange.test(other) ? dotless(text) : text;
  };
  const all = `[${parts.map((p) => `u.${p}`).join(", ")}]`;
  const uses = [
    () => {
      const p = r.pick(parts.filter((p) => p !== "origin" && p !== "port")), text = dotless(r.chance(4) ? r.pick(hosts) : word(r) + word(r)).replace(/^[:#?/]/, "");
      return `t(() => { u.${p} = ${quoted(p.startsWith("host") ? text || "a" : text)}; return ${all}; });`;
    },
    () => `t(() => { u.searchParams.${r.pick(["append", "set"])}(${quoted(word(r))}, ${quoted(word(r))}); return u.href; });`,
    () => `t(() => { u.searchParams.delete(${quoted(word(r))}); return [u.href, u.search]; });`,
    () => "t(() => [JSON.stringify(u), String(u), u.toString() === u.href, [...u.searchParams]]);",
    () => `t(() => { u.port = ${r.pick(["8080", '"443"', '""', '"99999"', '"12ab"', "-1", "null"])}; return u.host; });`,
    () => `t(() => { u.href = ${quoted(url(r))}; return ${all}; });`,
  ];
  return [`t(() => URL.canParse(${quoted(ascii(input()))}${ascii(base)}));`, `const u = new URL(${quoted(input())}${base});`, `t(() => ${all});`, ...r.many(4, () => r.pick(uses)())].join("\n");
}

export function params(r) {
  const pair = () => `[${quoted(word(r))}, ${quoted(word(r))}]`;
  const text = () => { const q = query(r) || word(r); return q.includes("%zz") ? ascii(q) : q; }; // Node 22 spoils others beside what is not encoded well
  const init = r.pick([() => quoted(text()), () => `[${r.some(0, 4, pair).join()}]`, () => `{ ${r.some(0, 3, () => `${quoted(word(r))}: ${quoted(word(r))}`).join()} }`,
    () => `new Map([${r.some(0, 3, pair).join()}])`, () => "", () => "null", () => "undefined", () => '[["a"]]', () => "5", () => 'new URLSearchParams("a=1&a=2")', () => "[1]"])();
  const k = () => quoted(word(r));
  const uses = [
    () => `t(() => p.append(${k()}, ${r.pick([k(), "1", "null", "undefined"])}));`, () => `t(() => p.set(${k()}, ${k()}));`, () => `t(() => [p.get(${k()}), p.getAll(${k()}), p.has(${k()})]);`,
    () => `t(() => p.delete(${k()}));`, () => `t(() => p.delete("a", ${k()}));`, () => `t(() => p.has("a", ${k()}));`, () => "t(() => p.sort());", () => "t(() => [p.size, [...p.keys()], [...p.values()]]);",
    () => "t(() => { const out = []; p.forEach((v, k, all) => out.push(k, v, all === p)); return out; });", () => "t(() => [...p.entries()]);", () => "t(() => Object.prototype.toString.call(p));",
    () => "t(() => { for (const [k] of p) { if (p.size > 5) break; p.append(k + \"x\", \"1\"); } return String(p); });",
  ];
  return [`const p = new URLSearchParams(${init});`, ...r.many(5, () => `${r.pick(uses)()}\nt(() => String(p));`)].join("\n");
}

const names = ["a", "A", "x-b", "X-B", "content-type", "Set-Cookie", "set-cookie", "a b", "", "é", "a:b", "accept", "Z"];
const valuesOf = ["1", " 2 ", "a, b", "", "\ta\r\n", "a\nb", "é", "€", "text/plain", "null"];

export function headers(r) {
  const n = () => quoted(r.pick(names)), v = () => r.pick([quoted(r.pick(valuesOf)), quoted(r.pick(valuesOf)), "1", "null", "undefined", "[1,2]"]);
  const init = r.pick([() => "", () => `{ ${r.some(0, 3, () => `${n()}: ${v()}`).join()} }`, () => `[${r.some(0, 3, () => `[${n()}, ${v()}]`).join()}]`, () => "new Headers({ a: 1, b: 2 })",
    () => '[["a"]]', () => "null", () => "5", () => 'new Map([["a", "b"]])', () => '[["a", "b", "c"]]', () => "\"text\"", () => "undefined"])();
  const uses = [
    () => `t(() => h.append(${n()}, ${v()}));`, () => `t(() => h.set(${n()}, ${v()}));`, () => `t(() => h.get(${n()}));`, () => `t(() => h.has(${n()}));`, () => `t(() => h.delete(${n()}));`,
    () => "t(() => [...h]);", () => "t(() => [...h.keys()]);", () => "t(() => [...h.values()]);", () => "t(() => h.getSetCookie());", () => "t(() => { const out = []; h.forEach((v, k, all) => out.push(v, k, all === h)); return out; });",
    () => "t(() => Object.prototype.toString.call(h));", () => "t(() => h.append(\"a\"));",
  ];
  return [`const h = new Headers(${init});`, ...r.many(6, () => r.pick(uses)()), "t(() => [...h.entries()]);"].join("\n");
}

const body = (r) => r.pick(['"text"', '""', "null", "undefined", "new Uint8Array([104, 105])", "new Uint8Array([195, 40]).buffer", 'new URLSearchParams("a=1&b= ")', "5", "{}", '"ü€"', "new Uint8Array([1, 2, 3, 4]).subarray(1, 3)", '"[1, 2]"', "new DataView(new ArrayBuffer(2))"]);
const reads = ["text", "json", "arrayBuffer", "bytes"];
const read = (r, name) => `await ${name}.${r.pick(reads)}().then((v) => t(() => v), (e) => t(() => { throw e; }));`;

export function requests(r) {
  const method = () => r.pick(["GET", "get", "POST", "post", "PUT", "patch", "Patch", "DELETE", "HEAD", "head", "OPTIONS", "TRACE", "connect", "track", "a b", "", "X"]);
  const options = () => `{ ${[r.chance(2) ? `method: ${quoted(method())}` : "", r.chance(2) ? `body: ${body(r)}` : "", r.chance(2) ? `headers: { ${quoted(r.pick(names))}: ${quoted(r.pick(valuesOf))} }` : "",
    r.chance(4) ? `redirect: ${quoted(r.pick(["follow", "manual", "error", "x", ""]))}` : "", r.chance(6) ? "signal: AbortSignal.abort(3)" : ""].filter(Boolean).join(", ")} }`;
  const shape = (n) => `t(() => [${n}.method, ${n}.url, [...${n}.headers], ${n}.redirect, ${n}.bodyUsed, ${n}.body === null, ${n}.signal.aborted]);`;
  const lines = [`const a = new Request(${r.pick([quoted("http://h.example/a?b#c"), `new URL("http://h.example/x")`, quoted("/rel"), quoted("http://u:p@h.example/")])}${r.chance(5) ? "" : `, ${options()}`});`, shape("a")];
  if (r.chance(2)) lines.push("const c = a.clone();", shape("c"), read(r, "c"), shape("c"));
  if (r.chance(2)) lines.push(`const b = new Request(a, ${options()});`, shape("b"), shape("a"));
  lines.push(read(r, "a"), shape("a"), read(r, "a"));
  return lines.join("\n");
}

export function responses(r) {
  const status = () => r.pick(["200", "201", "204", "205", "304", "404", "500", "599", "600", "199", "100", '"202"', "null", "undefined", "200.5", "NaN"]);
  const options = () => `{ ${[r.chance(2) ? `status: ${status()}` : "", r.chance(3) ? `statusText: ${quoted(r.pick(["OK", "", "a\nb", "é", "€"]))}` : "", r.chance(2) ? `headers: { ${quoted(r.pick(names))}: ${quoted(r.pick(valuesOf))} }` : ""].filter(Boolean).join(", ")} }`;
  const make = r.pick([() => `new Response(${body(r)}, ${options()})`, () => `new Response(${body(r)})`, () => `Response.json(${r.pick(["{ a: 1 }", "[1]", "undefined", "10n", "\"t\"", "null"])}, ${options()})`, () => "Response.error()",
    () => `Response.redirect(${quoted(r.pick(["http://h.example/a b", "/rel", "http://a/#x"]))}${r.chance(2) ? "" : `, ${r.pick(["301", "302", "303", "307", "308", "200", "304"])}`})`])();
  const shape = (n) => `t(() => [${n}.status, ${n}.ok, ${n}.statusText, [...${n}.headers], ${n}.type, ${n}.url, ${n}.redirected, ${n}.bodyUsed, ${n}.body === null]);`;
  const lines = [`const a = ${make};`, shape("a")];
  if (r.chance(2)) lines.push("const c = a.clone();", shape("c"), read(r, "c"));
  lines.push(read(r, "a"), shape("a"), r.chance(2) ? read(r, "a") : "t(() => a.clone().status);");
  return lines.join("\n");
}

export function signals(r) {
  const lines = ["const c = [new AbortController(), new AbortController()], s = c.map((x) => x.signal);"];
  const known = ["s[0]", "s[1]"];
  const reason = () => r.pick(["", "1", "undefined", "null", 'new Error("why")', '"text"']);
  const signal = () => r.pick(known);
  const steps = [
    () => { known.push(`v${known.length}`); return `const ${known.at(-1)} = AbortSignal.any([${r.some(0, 3, signal).filter((x) => x !== known.at(-1)).join()}]);`; },
    () => { known.push(`v${known.length}`); return `const ${known.at(-1)} = AbortSignal.abort(${reason()});`; },
    () => `${signal()}.addEventListener("abort", (e) => o.push([${r.int(9)}, e.type, e.target === s[0], e.bubbles, e.cancelable, e.isTrusted])${r.pick(["", ", { once: true }", ", true"])});`,
    () => `${signal()}.onabort = ${r.pick(["null", `(e) => o.push("on${r.int(9)}")`, "5"])};`,
    () => { const n = r.int(9); return `{ const f = () => o.push("f${n}"); ${signal()}.addEventListener("abort", f); ${r.chance(2) ? `${signal()}.removeEventListener("abort", f);` : ""} }`; },
    () => `c[${r.int(2)}].abort(${reason()});`, () => `t(() => ${signal()}.throwIfAborted());`,
    () => `${signal()}.addEventListener("abort", { handleEvent(e) { o.push(["object", e.type]); } });`,
    () => `{ const x = new AbortController(); ${signal()}.addEventListener("abort", () => o.push("never"), { signal: x.signal }); x.abort(); }`,
    () => `t(() => ${signal()}.dispatchEvent(new Event("abort")));`,
  ];
  for (let i = r.from(4, 10); i > 0; i--) {
    lines.push(r.pick(steps)());
    if (r.chance(3)) lines.push(`t(() => [${known.map((k) => `${k}.aborted`).join()}]);`);
  }
  lines.push(`t(() => [${known.map((k) => `[${k}.aborted, ${k}.reason?.name ?? ${k}.reason, ${k}.reason instanceof DOMException]`).join()}]);`, "t(() => Object.prototype.toString.call(s[0]));");
  const text = lines.join("\n"); // Node 22 fails where a handler is set again after a listener was withdrawn
  return text.includes("{ signal: x.signal }") ? text.replaceAll(".onabort = null", ".onabort = 5") : text;
}

export function events(r) {
  const lines = ["const e = new EventTarget();", "class Mine extends EventTarget { constructor() { super(); this.n = 1; } }", "const m = new Mine();"];
  const target = () => r.pick(["e", "m"]), type = () => quoted(r.pick(["a", "b", "A", ""]));
  const fn = () => r.pick(["f", "g", "(x) => o.push([\"arrow\", x.type, x.target === e])", "{ handleEvent(x) { o.push([\"object\", this !== globalThis, x.type]); } }", "null"]);
  lines.push("const f = function (x) { o.push([\"f\", x.type, this === x.target, x.defaultPrevented]); x.preventDefault(); }, g = (x) => { o.push(\"g\"); x.stopImmediatePropagation(); };");
  const event = () => r.pick([`new Event(${type()})`, `new Event(${type()}, { cancelable: true })`, `new Event(${type()}, { bubbles: true, composed: true })`, `new CustomEvent(${type()}, { detail: 4 })`]);
  const steps = [
    () => `t(() => ${target()}.addEventListener(${type()}, ${fn()}${r.pick(["", ", { once: true }", ", true", ", { capture: true }", ", { passive: true }"])}));`, () => `t(() => ${target()}.removeEventListener(${type()}, ${r.pick(["f", "g"])}${r.pick(["", ", { capture: true }"])}));`,
    () => `t(() => ${target()}.dispatchEvent(${event()}));`, () => `t(() => { const x = ${event()}; const r = ${target()}.dispatchEvent(x); return [r, x.type, x.target === e, x.currentTarget, x.eventPhase, x.defaultPrevented, x.cancelable, x.bubbles, x.composed, x.returnValue, typeof x.timeStamp]; });`,
    () => `t(() => ${target()}.dispatchEvent(${r.pick(["{}", "null", "\"a\""])}));`,
    () => "t(() => new Event());", () => "t(() => { const x = new CustomEvent(\"c\", { detail: [1] }); return [x.detail, x instanceof Event]; });",
  ];
  for (let i = r.from(5, 12); i > 0; i--) lines.push(r.pick(steps)());
  return lines.join("\n");
}

const plain = (r, depth) => {
  if (depth === 0 || r.chance(3)) return r.pick(["1", "-0", "NaN", "\"s\"", "true", "null", "undefined", "10n", "new Date(5)", "new Date(NaN)", "/a(b)/gi", "Object(1)", "Object(\"s\")", "Object(2n)", "Object(false)", "new Uint8Array([1,2])", "new ArrayBuffer(3)", "new Float64Array([1.5])", "new DataView(new ArrayBuffer(4), 1, 2)", "new Error(\"e\", { cause: 1 })", "new TypeError(\"t\")", "new RangeError(\"\")", "new AggregateError([1], \"m\")", "() => 1", "Symbol(\"s\")", "new (class A { x = 1; #y = 2; get z() { return 3; } })", "new (class E2 extends Error { extra = 1 })(\"m\")", "Promise.resolve(1)", "new WeakMap()", "Object.create(null)", "globalThis.Math", "new Proxy({ a: 1 }, {})", "(function () { return arguments; })(1, 2)", "Object.create({ inherited: 1 }, { own: { value: 1, enumerable: true }, hidden: { value: 2 } })", "new Headers()", "new URL(\"http://a/\")", "new Map().keys()", "function* () {}", "new DOMException(\"m\", \"n\")", "new String(\"x\")", "{ get a() { return 4; } }", "Object.freeze([1, , 3])", "Object.assign([1], { extra: 2 })", "Object.assign(/x/, { lastIndex: 3 })"]);
  const inner = () => plain(r, depth - 1);
  return r.pick([() => `[${r.some(0, 3, inner).join()}]`, () => `{ ${r.some(0, 3, (i) => `${r.pick(["a", "b", "c", "__proto__x", "1"])}${i}: ${inner()}`).join()} }`, () => `new Map([[${inner()}, ${inner()}]])`, () => `new Set([${inner()}, ${inner()}])`, () => `[shared, shared, ${inner()}]`, () => `[, ${inner()}]`, () => `(() => { const x = { a: ${inner()} }; x.self = x; return x; })()`])();
};

export function clones(r) {
  const options = r.pick(["", "", ", {}", ", undefined", ", null", ", { transfer: [] }"]);
  return ["const shared = { n: 1 }, view = new Uint8Array(8);", `const v = ${plain(r, 2)};`, "const tell = (e) => [e.name, e instanceof DOMException, e.code];",
    `t(() => { try { return structuredClone(v${options}); } catch (e) { return tell(e); } });`,
    `t(() => { try { const c = structuredClone([v, v, view]); return [c[0] === c[1] || typeof c[0], c[0] === v && typeof v === "object" && v !== null, c[2].length, view.byteLength]; } catch (e) { return tell(e); } });`].join("\n");
}

export function encodings(r) {
  const bytes = () => `new Uint8Array([${r.some(0, 8, () => r.pick([65, 97, 0, 127, 128, 191, 192, 194, 195, 169, 224, 226, 130, 172, 237, 160, 240, 159, 154, 128, 245, 255, 239, 187, 191])).join()}])`;
  const text = () => quoted(r.some(0, 6, () => r.pick(["a", "é", "€", "🚀", "\ud83d", "\ude80", "\0", "\ufeff", "A", "=", " ", "+", "/", "Zg", "YQ"])).join(""));
  const labels = ["utf-8", "UTF8", "nope", "unicode-1-1-utf-8", " utf-8 "];
  const uses = [
    () => `t(() => new TextEncoder().encode(${text()}));`, () => `t(() => { const d = new Uint8Array(${r.int(6)}); return [new TextEncoder().encodeInto(${text()}, d), d]; });`, () => `t(() => new TextDecoder(${r.chance(2) ? "" : `"utf-8", { ignoreBOM: ${r.chance(2)}, fatal: ${r.chance(2)} }`}).decode(${bytes()}));`,
    () => `t(() => { const d = new TextDecoder(); return [d.decode(${bytes()}, { stream: true }), d.decode(${bytes()}, { stream: true }), d.decode()]; });`, () => `t(() => { const d = new TextDecoder(${quoted(r.pick(labels))}); return [d.encoding, d.fatal, d.ignoreBOM]; });`,
    () => `t(() => btoa(${text()}));`, () => `t(() => coded(() => atob(${text()})));`, () => `t(() => coded(() => atob(${r.pick(['"YQ=="', '"YQ="', '"YQ"', '" Y Q = = "', '"YQ==="', '"Y"', '"YWI="', '"YWJj"', "null", "\"/+==\"", "12"])})));`, () => `t(() => btoa(${r.pick(["null", "undefined", "5", "\"\\xff\""])}));`,
    () => `t(() => encodeURIComponent(${text()}));`, () => "t(() => new TextEncoder().encode());", () => `t(() => new TextDecoder().decode(${r.pick(["undefined", "new ArrayBuffer(2)", "new DataView(new Uint8Array([65,66]).buffer)", "5", "null", "\"a\""])}));`,
  ];
  return ["const coded = (f) => { try { return f(); } catch (e) { return [e.name, e.code]; } };", ...r.many(6, () => r.pick(uses)())].join("\n");
}

export function timing(r) {
  const n = () => r.int(4);
  const lines = [];
  for (let i = 0; i < 8; i++) {
    lines.push(r.pick([
      `queueMicrotask(() => o.push("micro${i}"));`, `Promise.resolve().then(() => o.push("then${i}"));`, `(async () => { await null; o.push("async${i}"); })();`,
      `queueMicrotask(() => { o.push("m${i}"); queueMicrotask(() => o.push("inner${i}")); });`, `t(() => queueMicrotask(${r.pick(["null", "5", "undefined", "() => {}"])}));`,
      `t(() => crypto.randomUUID().replace(/[0-9a-f]/g, "x").length);`, `t(() => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()));`,
      `t(() => { const a = new ${r.pick(["Uint8Array", "Int16Array", "Uint32Array", "BigUint64Array", "Float32Array", "Uint8ClampedArray", "DataView"])}(${r.pick(["4", "0", "new ArrayBuffer(8)"])}); return [crypto.getRandomValues(a) === a, a.length]; });`,
      "t(() => crypto.getRandomValues(new Uint8Array(65537)));", "t(() => crypto.getRandomValues([1]));", "t(() => [typeof performance.now(), typeof performance.timeOrigin, performance.now() <= performance.now()]);",
      `t(() => new DOMException(${r.pick(["", "\"m\"", "\"m\", \"AbortError\"", "\"m\", \"DataCloneError\"", "undefined, \"x\"", "1, 2"])}));`, "t(() => { const d = new DOMException(\"m\", \"AbortError\"); return [d.name, d.message, d.code, d instanceof Error, Object.prototype.toString.call(d), String(d)]; });",
    ]));
  }
  return [...lines, `for (let i = 0; i < ${n()}; i++) await null;`].join("\n");
}

export const platform = { urls, params, headers, requests, responses, signals, events, clones, encodings, timing };
