// Numbers, BigInts, strings, conversions and dates.
import { array, bigint, number, primitive, string, value } from "./values.js";

const lines = (r, n, one) => r.many(n, () => `t(() => ${one()});`).join("\n");

const inexact = "**"; // to the last bit
const unary = ["-", "+", "~", "!", "typeof ", "void "];
const arithmetic = ["+", "-", "*", "/", "%", "**", "&", "|", "^", "<<", ">>", ">>>"];
const bounded = arithmetic.filter((op) => op !== "**" && op !== "<<" && op !== ">>"); // whose results are not much larger than their operands
const sums = arithmetic.filter((op) => op !== inexact);
const comparison = ["<", ">", "<=", ">=", "==", "!=", "===", "!=="];

function expression(r, operand, operators, depth) {
  if (depth === 0 || r.chance(4)) return operand(r);
  if (r.chance(5)) return `(${r.pick(unary)}(${expression(r, operand, operators, depth - 1)}))`;
  return `(${expression(r, operand, operators, depth - 1)}) ${r.pick(operators)} (${expression(r, operand, operators, depth - 1)})`;
}

// What Math computes to the last bit is the implementation's, but for these.
const exact = ["abs", "ceil", "floor", "round", "trunc", "sign", "sqrt", "fround", "clz32", "tan", "asin", "acos", "atan", "atanh", "expm1", "log1p", "cbrt"];

export function numbers(r) {
  return lines(r, 6, () => {
    const n = `(${number(r)})`;
    switch (r.int(16)) {
      case 0: return `${n}.toString(${r.pick([2, 4, 8, 10, 16, 32, 1, 37])})`;
      case 12: return `(${n} % 2 ** 32 | 0).toString(${r.from(2, 36)})`; // fractions of other radixes may be approximated
      case 1: return `${n}.toFixed(${r.from(-1, 101)})`;
      case 2: return `${n}.toFixed(${r.int(8)})`;
      case 3: return `${n}.toPrecision(${r.pick([0, 1, 2, 3, 5, 10, 17, 21, 50, 100, 101, "undefined"])})`;
      case 4: return `${n}.toExponential(${r.pick(["", 0, 1, 2, 5, 16, 20, 100, 101])})`;
      case 5: return `Math.${r.pick(exact)}(${n})`;
      case 6: return `Math.${r.pick(["max", "min", "imul", "hypot"])}(${n}, ${number(r)})`;
      case 13: return `Math.${r.pick(["max", "min", "hypot"])}(${r.some(0, 10, () => number(r)).join(", ")})`;
      case 7: return `[parseInt(${string(r)}, ${r.pick(["", "undefined", 10, 16, 2, 36, 0, 37, 8, "'16'"]) || "undefined"}), parseFloat(${string(r)}), Number(${string(r)})]`;
      case 8: return `parseInt(String(Math.trunc(${n}) % 2 ** 26), ${r.from(2, 36)})`; // longer ones may be approximated
      case 9: return `[Number.isInteger(${n}), Number.isSafeInteger(${n}), Object.is(${n}, -0), ${n} | 0, ${n} >>> 0]`;
      default: return expression(r, number, sums, 3);
    }
  });
}

export function bigints(r) {
  return lines(r, 6, () => {
    switch (r.int(10)) {
      case 0: return `BigInt.as${r.pick(["Int", "Uint"])}N(${r.pick([0, 1, 8, 16, 31, 32, 33, 63, 64, 65, 128, 200])}, ${bigint(r)})`;
      case 1: return `(${bigint(r)}).toString(${r.pick([2, 3, 8, 10, 16, 32, 36])})`;
      case 2: return `BigInt(${r.pick([number, string, primitive])(r)})`;
      case 3: return `[Number(${bigint(r)}), parseInt(${bigint(r)}), ${bigint(r)} == ${number(r)}, ${bigint(r)} < ${number(r)}]`;
      case 4: return `(${bigint(r)}) ** ${r.int(9)}n`;
      case 5: return `(${bigint(r)}) ${r.pick(["<<", ">>"])} ${r.pick(["", "-"])}${r.int(150)}n`;
      case 6: return `[${bigint(r)} ${r.pick(comparison)} ${bigint(r)}, ${bigint(r)} ${r.pick(comparison)} ${string(r)}]`;
      case 7: return `(() => { let v = ${bigint(r)}; const w = ${r.pick(["v++", "v--", "++v", "--v", "-v", "~v"])}; return [v, w]; })()`;
      case 8: return `(${bigint(r)}) ${r.pick(["** -1n", "** 0n", "<< (2n ** 64n)", ">> (2n ** 64n)", ">>> 1n", "** 2", "<< 2", "** (2n ** 64n)", ">> -(2n ** 64n)"])}`;
      default: return expression(r, bigint, bounded, 3);
    }
  });
}

const noisy = (r, name) => `{ ${r.chance(2) ? `[Symbol.toPrimitive](h) { o.push(${JSON.stringify(name)} + h); return ${primitive(r)}; }, ` : ""}` +
  `valueOf() { o.push("${name}v"); return ${r.chance(4) ? "{}" : primitive(r)}; }, toString() { o.push("${name}s"); return ${r.chance(5) ? "{}" : string(r)}; } }`;

// light leaves out BigInts of more bits than the engine has, and sane a BigInt compared with an object whose text is that of another
// number, which V8 takes for one.
const light = (text) => (/\d{5}n/.test(text) ? text.replace(/ (?:<<|>>|\*\*) /g, " & ") : text);
const quoted = /"(?:[^"\\]|\\.)*"/g;
const sane = (text) => (/\dn\b/.test(text) ? light(text).replace(/\[[^\]]*\]/g, (list) => list.replace(/(\d)\.\d+/g, "$1")).replaceAll("Infinity", "NaN").replace(quoted, (s) => (/\d/.test(s) ? '"7"' : s)) : text);

export function conversions(r) {
  return lines(r, 5, () => {
    switch (r.int(8)) {
      case 0: return sane(`(${noisy(r, "a")}) ${r.pick([...sums, ...comparison])} (${r.chance(2) ? noisy(r, "b") : primitive(r)})`);
      case 1: return `\`\${${noisy(r, "t")}}\` + ${primitive(r)}`;
      case 2: return `[String(${value(r)}), typeof ${value(r)}, !${value(r)}]`;
      case 3: return `Number(${value(r)})`;
      case 4: return sane(`(${value(r)}) ${r.pick(comparison)} (${value(r)})`);
      case 5: return `({ [${noisy(r, "k")}]: 1 })`;
      case 6: return `${value(r)} + ${value(r)}`;
      default: return light(`Object(${primitive(r)}) ${r.pick(sums)} ${primitive(r)}`);
    }
  });
}

const at = (r) => r.pick(["0", "1", "-1", "2", "5", "-3", "100", "NaN", "Infinity", "-Infinity", "1.7", "undefined", "'1'", "-0"]);
const methods = {
  at: [at], charAt: [at], charCodeAt: [at], codePointAt: [at], concat: [primitive, string], endsWith: [string, at], includes: [string, at], indexOf: [string, at], lastIndexOf: [string, at],
  isWellFormed: [], toWellFormed: [], normalize: [(r) => r.pick(["", "'NFC'", "'NFD'", "'NFKC'", "'NFKD'", "'X'"])], padEnd: [at, string], padStart: [at, string],
  repeat: [(r) => r.pick(["0", "1", "3", "-1", "1.9", "Infinity"])], replace: [string, string], replaceAll: [string, string], slice: [at, at], split: [string, at], startsWith: [string, at],
  substring: [at, at], substr: [at, at], toLowerCase: [], toUpperCase: [], trim: [], trimEnd: [], trimStart: [], valueOf: [], anchor: [string], big: [],
};

export function strings(r) {
  return lines(r, 6, () => {
    if (r.chance(8)) return `String.raw\`a\\n\${${primitive(r)}}\\u0041\``;
    if (r.chance(10)) return `[...${string(r)}]`;
    if (r.chance(10)) return `[encodeURIComponent, decodeURIComponent, encodeURI, escape, unescape].map((f) => { try { return f(${string(r)}); } catch (e) { return e.name; } })`;
    if (r.chance(12)) return `String.from${r.pick(["CharCode", "CodePoint"])}(${r.some(1, 3, () => r.pick(["65", "0x1F600", "55357", "-1", "1.5", "65536", "0x110000"])).join()})`;
    if (r.chance(10)) return `[${string(r)} < ${string(r)}, ${string(r)} >= ${string(r)}]`;
    const name = r.pick(Object.keys(methods));
    const args = methods[name].map((arg) => arg(r));
    return `${string(r)}.${name}(${args.slice(0, r.chance(3) ? r.int(args.length + 1) : args.length).join(", ")})`;
  });
}

const part = (r) => r.pick(["0", "1", "-1", "11", "12", "13", "31", "32", "59", "60", "100", "1000", "-1000", "2024", "1969", "NaN", "1.9", "-1.9", "99", "1e9", "undefined", "null"]);
const two = (n) => String(n).padStart(2, "0");

// The form of ECMA-262, in and out of range, and forms that all engines read, in range.
function dateText(r) {
  const y = r.pick(["2024", "1970", "1969", "9999", "+012024", "-000001", "2023"]), m = two(r.from(0, 13)), d = two(r.from(0, 32));
  const h = two(r.from(0, 25)), mi = two(r.pick([0, 5, 30, 59, 60])), s = two(r.pick([0, 5, 59, 60]));
  const day = r.pick(["Mon", "Thu", "Sun"]), month = r.pick(["Jan", "Feb", "Mar", "Dec"]), n = r.from(1, 28), year = r.pick([1970, 1999, 2024]), clock = `${two(r.int(24))}:${two(r.int(60))}:${two(r.int(60))}`;
  return r.pick([`${y}`, `${y}-${two(r.from(1, 12))}`, `${y}-${m}-${d}`, `${y}-${m}-${d}T${h}:${mi}`, `${y}-${m}-${d}T${h}:${mi}Z`, `${y}-${m}-${d}T${h}:${mi}:${s}Z`, `${y}-${m}-${d}T${h}:${mi}:${s}.${r.int(1000)}Z`,
    `${y}-${m}-${d}T${h}:${mi}:${s}.123456789Z`, `${y}-${m}-${d}T${h}:${mi}:${s}+05:30`, `${y}-${m}-${d}T24:00:00Z`, `${y}-${m}-${d}T${h}:${mi}:${s}`, `${day}, ${two(n)} ${month} ${year} ${clock} GMT`,
    `${day} ${month} ${two(n)} ${year} ${clock} GMT+0100`, `${day} ${month} ${two(n)} ${year} ${clock} GMT+0000 (Coordinated Universal Time)`, `${month} ${n}, ${year}`, `${n} ${month} ${year}`, `${year}-${two(r.from(1, 12))}-${two(n)} ${clock}`,
    `${month} ${n}, ${year} ${clock}`, `${year}/${r.from(1, 12)}/${n}`, `${r.from(1, 12)}/${n}/${year}`, `${day} ${month} ${two(n)} ${year}`, "", "x"]);
}

const fields = ["FullYear", "Month", "Date", "Hours", "Minutes", "Seconds", "Milliseconds"];

export function dates(r) {
  return lines(r, 5, () => {
    const moment = () => (r.chance(3) ? `new Date(${JSON.stringify(dateText(r))})` : `new Date(${r.pick([r.from(-2e9, 2e9) + "000", "0", "8.64e15", "8.64e15 + 1", "-8.64e15", "-1", "1.9", "NaN", "-62198755200000"])})`);
    switch (r.int(8)) {
      case 0: case 1: return `new Date(${JSON.stringify(dateText(r))}).getTime()`;
      case 2: return `Date.UTC(${r.some(1, 7, () => part(r)).join()})`;
      case 3: return `new Date(${r.some(2, 7, () => part(r)).join()})`;
      case 4: return `(() => { const d = new Date(${r.from(-2e9, 2e9)}000); const x = d.set${r.pick(["", "UTC"])}${r.pick(fields)}(${r.some(0, 3, () => part(r)).join()}); return [x, d.getTime()]; })()`;
      case 5: return `${moment()}.${r.pick(["toISOString", "toJSON", "toUTCString", "toString", "toDateString", "toTimeString", "getYear"])}()`;
      case 6: return `(() => { const d = ${moment()}; return [${[...fields, "Day"].map((f) => `d.getUTC${f}()`).join()}, d.getTimezoneOffset(), d.getDay()]; })()`;
      default: return `[${moment()} - ${moment()}, ${moment()} + 1, Number(${moment()}), ${moment()} < ${moment()}, Date.parse(new Date(${r.int(4e9)}000))]`;
    }
  });
}

const spaces = ["", "2", "'--'", "'\\t'", "20", "-1", "'12345678901'", "null"];
const reviver = "(k, v) => (o.push(k), typeof v === 'number' ? -v : k === 'a' ? undefined : v)";

function jsonText(r) {
  const text = (d) => {
    switch (r.int(d > 0 ? 9 : 6)) {
      case 0: return r.pick(["0", "-0", "1e5", "1E-5", "0.5", "-1", "12345678901234567890", "1e400", "01", "+1", ".5", "1.", "NaN", "0x10"]);
      case 1: return r.pick(['"a"', '"\\u0041"', '"\\ud83d"', '"\\n"', '"\n"', '"\\x"', '"é"', '"\\/"', "'a'", '"\u2028"', '"', '"\t"']);
      case 2: return r.pick(["true", "false", "null", "undefined", "tru", "nullx"]);
      case 3: case 4: case 5: return String(r.int(100));
      case 6: case 7: return `{${r.some(0, 3, () => `${r.pick(['"a"', '"b"', '"__proto__"', '"1"', '""', "a"])}:${text(d - 1)}`).join(r.chance(9) ? ",," : ",")}${r.chance(12) ? "," : ""}}`;
      default: return `[${r.some(0, 4, () => text(d - 1)).join()}${r.chance(12) ? "," : ""}]`;
    }
  };
  return r.pick(["", " ", "\n", "", "\u00a0", "\ufeff", ""]) + text(3) + r.pick(["", "", " ", "x", "\t"]);
}

export function json(r) {
  return lines(r, 4, () => {
    switch (r.int(6)) {
      case 0: return `JSON.stringify(${value(r, 2)}, ${r.pick(["null", "null", "(k, v) => (o.push(k), v)", "['a', 'b', 1, 'a']", "(k, v) => (Array.isArray(v) ? v.length : v)"])}, ${r.pick(spaces) || "undefined"})`;
      case 1: return `JSON.stringify({ a: { toJSON(k) { o.push("j" + k); return ${value(r)}; } }, b: ${array(r)}, u: undefined, f() {}, s: Symbol() })`;
      case 2: return `JSON.stringify(${string(r)})`;
      case 3: return `JSON.parse(${JSON.stringify(jsonText(r))}, ${reviver})`;
      default: return `JSON.parse(${JSON.stringify(jsonText(r))})`;
    }
  });
}
