// The hosts of URLs: names, addresses, and texts of schemes that are not special.
import { toASCII } from "./idna.js";
import { decode, inOpaque } from "./percent.js";

const forbidden = /[\0\t\n\r #/:<>?@[\\\]^|]/;
const forbiddenInNames = /[\0-\x20#%/:<>?@[\\\]^|\x7f]/;

// parseHost returns a host as it is written, or throws why it is none.
export function parseHost(text, special) {
  if (text.startsWith("[")) {
    if (!text.endsWith("]")) throw "its address has no ]";
    return `[${writeIPv6(parseIPv6(text.slice(1, -1)))}]`;
  }
  if (!special) {
    if (forbidden.test(text)) throw "its host is not well formed";
    return inOpaque(text);
  }
  const name = toASCII(decode(text));
  if (name === undefined || name === "" || forbiddenInNames.test(name)) throw "its host is not well formed";
  return endsInNumber(name) ? parseIPv4(name) : name;
}

function endsInNumber(name) {
  const parts = name.split(".");
  if (parts.at(-1) === "" && parts.length > 1) parts.pop();
  return /^[0-9]+$|^0x[0-9a-f]*$/.test(parts.at(-1));
}

function parseIPv4(name) {
  const parts = name.replace(/\.$/, "").split(".");
  const numbers = parts.map((p) => (/^0x[0-9a-f]*$/.test(p) ? Number(`${p}0`) / 16 : /^0[0-7]+$/.test(p) ? parseInt(p, 8) : /^(0|[1-9][0-9]*)$/.test(p) ? Number(p) : NaN));
  const last = numbers.pop();
  if (numbers.length > 3 || !numbers.every((n) => n <= 255) || !(last < 256 ** (4 - numbers.length))) throw "its address is not well formed";
  const n = numbers.reduce((sum, p, i) => sum + p * 256 ** (3 - i), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(n / 2 ** shift) % 256).join(".");
}

const malformed = "its address is not well formed";

// parseIPv6 returns the eight pieces of an address.
function parseIPv6(text) {
  const [head, rest, more] = text.split("::");
  if (more !== undefined) throw malformed;
  const left = pieces(head, rest === undefined);
  if (rest === undefined) {
    if (left.length !== 8) throw malformed;
    return left;
  }
  const right = pieces(rest, true);
  if (left.length + right.length > 7) throw malformed;
  return [...left, ...Array(8 - left.length - right.length).fill(0), ...right];
}

// pieces reads what colons divide. The end of an address may be one of version 4.
function pieces(text, end) {
  if (text === "") return [];
  const list = text.split(":");
  return list.flatMap((p, i) => {
    if (/^[0-9a-f]{1,4}$/i.test(p)) return parseInt(p, 16);
    const v4 = end && i === list.length - 1 ? /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(p) : null;
    const n = v4?.slice(1).map(Number);
    if (!n || !n.every((b, k) => b <= 255 && String(b) === v4[k + 1])) throw malformed;
    return [n[0] * 256 + n[1], n[2] * 256 + n[3]];
  });
}

function writeIPv6(list) {
  let at = -1, most = 1; // the longest zeros
  for (let i = 0; i < 8; i++) {
    let n = 0;
    while (i + n < 8 && list[i + n] === 0) n++;
    if (n > most) [at, most] = [i, n];
  }
  const text = (part) => part.map((n) => n.toString(16)).join(":");
  return at < 0 ? text(list) : `${text(list.slice(0, at))}::${text(list.slice(at + most))}`;
}
