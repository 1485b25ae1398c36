// What depends on a language: there is no Intl, which would be larger than the engine. Without arguments, numbers and dates are those
// of en-US in UTC, as in Node; what asks for something else throws, also in tests under Node, where Intl is there.

const ways = "format in a handler of the host, or by a package that has its own data, such as date-fns";

function refuse(method, got) {
  throw new RangeError(`${method} knows no language but en-US, and no options: got ${got}; ${ways}`);
}

// plain throws unless what is asked for is en-US, in UTC where it is about time.
function plain(method, locales, options, zoned) {
  const list = Array.isArray(locales) ? locales : locales === undefined ? [] : [locales];
  if (list.length > 0 && list[0] !== "en-US" && list[0] !== "en") refuse(method, JSON.stringify(locales) ?? String(locales));
  for (const [key, v] of Object.entries(options ?? {})) {
    if (v !== undefined && !(zoned && key === "timeZone" && v === "UTC")) refuse(method, JSON.stringify({ [key]: v }) ?? key);
  }
}

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

// decimal returns a number with at most three digits behind the point, of its shortest form, half of one away from 0.
function decimal(n) {
  if (Number.isNaN(n)) return "NaN";
  const sign = n < 0 || Object.is(n, -0) ? "-" : "";
  if (!Number.isFinite(n)) return `${sign}∞`;
  const [coefficient, exponent] = Math.abs(n).toExponential().split("e");
  const digits = coefficient.replace(".", "");
  const keep = Number(exponent) + 4; // digits up to the thousandths
  let thousandths = 0n;
  if (digits.length <= keep) thousandths = BigInt(digits + "0".repeat(keep - digits.length));
  else if (keep >= 0) thousandths = BigInt(digits.slice(0, keep) || 0) + (digits[keep] >= "5" ? 1n : 0n);
  const text = String(thousandths).padStart(4, "0");
  const fraction = text.slice(-3).replace(/0+$/, "");
  return `${sign}${grouped(text.slice(0, -3))}${fraction && "."}${fraction}`;
}

const two = (n) => String(n).padStart(2, "0");
const clock = (d) => `${d.getUTCHours() % 12 || 12}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())} ${d.getUTCHours() < 12 ? "AM" : "PM"}`;
function day(d) {
  const year = d.getUTCFullYear();
  if (year < 1) throw new RangeError(`toLocaleString: the year ${year} is before the first; toISOString writes it`);
  return `${d.getUTCMonth() + 1}/${d.getUTCDate()}/${year}`;
}

// ofDate makes a method of dates.
const ofDate = (name, parts) => ({ [name](locales, options) {
  plain(`Date.prototype.${name}`, locales, options, true);
  return Number.isNaN(Date.prototype.getTime.call(this)) ? "Invalid Date" : parts.map((part) => part(this)).join(", ");
} })[name];

// ofString makes a method of strings, which depend on a language in a few of them alone.
const special = /^(az|el|hy|lt|tr)\b/i;
const ofString = (name, same) => ({ [name](locales) {
  for (const locale of Array.isArray(locales) ? locales : [locales]) {
    if (special.test(String(locale))) throw new RangeError(`String.prototype.${name} does not know the rules of ${locale}: convert in a handler of the host`);
  }
  return same.call(this);
} })[name];

const ofList = { toLocaleString(locales, options) {
  return Array.prototype.map.call(this, (v) => (v === undefined || v === null ? "" : v.toLocaleString(locales, options))).join(",");
} }.toLocaleString;
const ofTyped = { toLocaleString(locales, options) {
  return ofList.call([...this], locales, options);
} }.toLocaleString;

const Intl = new Proxy({}, {
  get(_, key) {
    if (typeof key === "symbol") return undefined;
    throw new Error(`Intl.${key} is not there: ${ways}`);
  },
});

// methods are what takes the place of what a platform has.
const methods = [
  [Number.prototype, "toLocaleString", { toLocaleString(locales, options) {
    plain("Number.prototype.toLocaleString", locales, options);
    return decimal(Number.prototype.valueOf.call(this));
  } }.toLocaleString],
  [BigInt.prototype, "toLocaleString", { toLocaleString(locales, options) {
    plain("BigInt.prototype.toLocaleString", locales, options);
    return String(this).replace(/\d+/, grouped);
  } }.toLocaleString],
  [Date.prototype, "toLocaleString", ofDate("toLocaleString", [day, clock])],
  [Date.prototype, "toLocaleDateString", ofDate("toLocaleDateString", [day])],
  [Date.prototype, "toLocaleTimeString", ofDate("toLocaleTimeString", [clock])],
  [Array.prototype, "toLocaleString", ofList],
  [Object.getPrototypeOf(Uint8Array.prototype), "toLocaleString", ofTyped],
  [String.prototype, "toLocaleUpperCase", ofString("toLocaleUpperCase", String.prototype.toUpperCase)],
  [String.prototype, "toLocaleLowerCase", ofString("toLocaleLowerCase", String.prototype.toLowerCase)],
  [String.prototype, "localeCompare", { localeCompare() {
    throw new Error("String.prototype.localeCompare is not there, since it would not know in which order a language sorts: compare by < and >, " +
      "as (a, b) => (a < b ? -1 : a > b ? 1 : 0) does, or sort in a handler of the host");
  } }.localeCompare],
  [globalThis, "Intl", Intl],
];

// install puts them in place, and returns a function that takes them away again.
export function install() {
  const kept = methods.map(([o, key]) => [o, key, Object.getOwnPropertyDescriptor(o, key)]);
  for (const [o, key, value] of methods) Object.defineProperty(o, key, { value, writable: true, enumerable: false, configurable: true });
  return () => {
    for (const [o, key, was] of kept) Object.defineProperty(o, key, was);
  };
}
