// show writes a value so that what differs looks different: -0, holes, the order of properties, kinds of errors. Messages and stacks of
// errors that engines throw are their own.
const native = [TypeError, RangeError, SyntaxError, ReferenceError, URIError, EvalError];

const builtins = new Map(["Object", "Function", "Array", "Map", "Set", "Promise", "RegExp", "Date", "Error", "String", "Number"].map((name) => [globalThis[name].prototype, `${name}.prototype`]));

export function show(v, depth = 0, above = []) {
  switch (typeof v) {
    case "string": return JSON.stringify(v);
    case "number": return Object.is(v, -0) ? "-0" : String(v);
    case "bigint": return `${v}n`;
    case "symbol": return String(v);
    case "function": return `[${Object.getOwnPropertyDescriptor(v, "prototype")?.writable === false ? "class" : "function"} ${String(v.name)}/${v.length}]`;
    case "object": break;
    default: return String(v);
  }
  if (v === null) return "null";
  if (builtins.has(v)) return builtins.get(v);
  if (above.includes(v)) return "[circular]";
  if (depth > 6) return "[deep]";
  const inner = (x) => show(x, depth + 1, [...above, v]);
  if (native.includes(v.constructor)) return `[${v.constructor.name}]`;
  if (v instanceof Error) return `[${v.name}: ${v instanceof AggregateError ? "" : v.message}${Object.hasOwn(v, "cause") ? ` because ${inner(v.cause)}` : ""}${v.errors ? ` of ${inner(v.errors)}` : ""}]`;
  if (v instanceof Date) return `Date(${v.getTime()})`;
  if (v instanceof RegExp) return `${v}@${v.lastIndex}`;
  if (v instanceof Promise) return "Promise";
  if (v instanceof Map) return `Map{${[...v].map(([k, x]) => `${inner(k)}=>${inner(x)}`).join()}}`;
  if (v instanceof Set) return `Set{${[...v].map(inner).join()}}`;
  if (v instanceof ArrayBuffer) return `ArrayBuffer(${[...new Uint8Array(v)].join()})`;
  if (ArrayBuffer.isView(v) && !(v instanceof DataView)) return `${v.constructor.name}(${[...v].map(inner).join()})`;
  const keys = Reflect.ownKeys(v).filter((k) => k !== "stack");
  if (Array.isArray(v)) {
    const out = [];
    for (let i = 0; i < Math.min(v.length, 200); i++) out.push(Object.hasOwn(v, i) ? inner(v[i]) : "");
    const more = keys.filter((k) => k !== "length" && !(typeof k === "string" && String(k >>> 0) === k && k >>> 0 !== 4294967295));
    return `[${out.join()}${v.length > 200 ? `…${v.length}` : ""}${more.map((k) => `;${String(k)}:${inner(v[k])}`).join("")}]`;
  }
  if (v instanceof Number || v instanceof String || v instanceof Boolean) return `Object(${inner(v.valueOf())})`;
  const name = typeof v.constructor === "function" && v.constructor !== Object ? v.constructor.name : "";
  return `${name}{${keys.map((k) => {
    const d = Reflect.getOwnPropertyDescriptor(v, k);
    if (!d) return `${String(k)}?`;
    const flags = `${d.writable === false ? "r" : ""}${d.enumerable ? "" : "h"}${d.configurable ? "" : "f"}`;
    return `${String(k)}${flags && `/${flags}`}:${"value" in d ? inner(d.value) : `<${d.get ? "get" : ""}${d.set ? "set" : ""}>`}`;
  }).join()}}`;
}

const longest = 600; // characters of a result

export function short(text) {
  if (text.length <= longest) return text;
  let h = 0;
  for (let i = 0; i < text.length; i++) h = (Math.imul(h, 31) + text.charCodeAt(i)) | 0;
  return `${text.slice(0, longest)}…${text.length}/${h}`;
}
