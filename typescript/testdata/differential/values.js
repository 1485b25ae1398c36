// Literals of the kinds of values, as source text.
const q = JSON.stringify;

export const numbers = ["0", "-0", "1", "-1", "2", "3", "7", "10", "0.1", "0.2", "0.5", "1.5", "2.5", "-2.5", "0.000001", "1e-7", "1e21", "123456789", "-1e21", "1e300", "5e-324",
  "1.7976931348623157e308", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9007199254740991", "9007199254740992", "-9007199254740993",
  "NaN", "Infinity", "-Infinity", "0.1 + 0.2", "1 / 3", "100 / 3", "1.005", "1.45", "8.345", "0.615", "10.235", "1e23", "123.456", "99999.5", "0xff", "0b101", "0o17", "1_000"];

export function number(r) {
  switch (r.int(6)) {
    case 0: return String(r.from(-100, 100));
    case 1: return `${r.from(-9999, 9999)}.${r.int(100000)}`;
    case 2: return `${r.from(1, 9)}.${r.int(1e9)}e${r.from(-320, 308)}`;
    case 3: return `${r.next() * 4294967296 + r.next()}`;
    default: return r.pick(numbers);
  }
}

export function bigint(r) {
  const text = () => r.some(1, 5, () => String(r.next())).join("").replace(/^0+(?=.)/, "");
  switch (r.int(6)) {
    case 0: return `${r.from(0, 20)}n`;
    case 1: return `-${r.from(1, 300)}n`;
    case 2: return `${text()}n`;
    case 3: return `-${text()}n`;
    case 4: return `(2n ** ${r.from(0, 140)}n${r.pick(["", " - 1n", " + 1n"])})`;
    default: return `-(2n ** ${r.pick([7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 96, 127, 128])}n${r.pick(["", " - 1n", " + 1n"])})`;
  }
}

const texts = ["", "a", "abc", "ABC", "hello world", " \t\n trim \u00a0\ufeff", "aXbXc", "xyzzy", "1,2,3", "ß", "İstanbul", "ǆ", "ΑΣ", "Σ", "ﬀ", "e\u0301", "é", "한글", "\u1100\u1161", "😀", "a😀b",
  "\ud83d", "\ude00x", "👨‍👩‍👧", "0", "-0", "12px", " 42 ", "0x1F", "1e3", ".5", "5.", "1_000", "Infinity", "-Infinity", "NaN", "null", "true", "$& $1 $$", "\0", "\u2028", "a\u0000b", "__proto__", "constructor",
  "ﬃ", "K", "ſ", "Å", "ⅷ", "ᾳ", "İ", "i", "I", "ı", "\ud800\udc00"];

export const string = (r) => (r.chance(5) ? q(r.some(0, 6, () => r.pick(["a", "b", "A", "0", " ", "é", "😀", "\ud83d", "ß", "\n"])).join("")) : q(r.pick(texts)));

export function primitive(r) {
  return r.pick([number, number, string, string, bigint, () => r.pick(["true", "false", "null", "undefined", "Symbol.iterator", "Symbol('s')"])])(r);
}

export function array(r, depth = 1) {
  if (r.chance(12)) return "[,]";
  return `[${r.some(0, 6, () => (r.chance(9) ? "" : depth > 0 && r.chance(5) ? array(r, depth - 1) : r.chance(3) ? string(r) : r.chance(3) ? primitive(r) : String(r.from(-5, 12)))).join(", ")}]`;
}

export const key = (r) => r.pick(["a", "b", "c", "x", "length", "0", "1", "2", "10", "name", "constructor", "toString", "-1", "1.5", "01"]);

export function object(r, depth = 1) {
  const one = () => {
    const k = q(key(r));
    switch (r.int(8)) {
      case 0: return `get [${k}]() { return ${primitive(r)}; }`;
      case 1: return `[${k}](a, b = 1) { return a; }`;
      case 2: return `[Symbol.${r.pick(["iterator", "toStringTag", "hasInstance"])}]: ${string(r)}`;
      case 3: return depth > 0 ? `[${k}]: ${value(r, depth - 1)}` : `[${k}]: 1`;
      case 4: return `...${r.pick([array(r, 0), string(r), "null", "{ z: 1, 3: 4 }"])}`;
      default: return `[${k}]: ${primitive(r)}`;
    }
  };
  return `{ ${r.some(0, 5, one).join(", ")} }`;
}

export function value(r, depth = 1) {
  switch (r.int(12)) {
    case 0: case 1: return array(r, depth);
    case 2: case 3: return `(${object(r, depth)})`;
    case 4: return `new Date(${r.from(-1e9, 2e9)}000)`;
    case 5: return `new Map([[${primitive(r)}, ${primitive(r)}], [${primitive(r)}, 1]])`;
    case 6: return `new Set(${array(r, 0)})`;
    case 7: return `Object(${primitive(r).replace(/^(null|undefined)$/, "1")})`;
    case 8: return `/a(?<n>b)?/${r.pick(["", "g", "y", "i"])}`;
    default: return primitive(r);
  }
}
