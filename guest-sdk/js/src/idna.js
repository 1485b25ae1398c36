// The names of hosts that are not ASCII, as UTS 46 says for URLs: nontransitional, without the rules for registrars. What it maps to
// what is computed by the engine's own tables of Unicode, where libraries carry a table of 100 KB.
const ignored = /[\u00ad\u034f\u180b-\u180d\u180f\u200b\u2060\u2064\ufe00-\ufe0f\ufeff\u{1bca0}-\u{1bca3}\u{e0100}-\u{e01ef}]/u;
const dots = /[\u3002\uff0e\uff61]/;
const refused = /[\p{Cn}\p{Co}\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\u115f\u1160\u1806\u17b4\u17b5\u3164\uffa0\ufffc\ufffd\u2ff0-\u2fff\u31ef\u2427-\u2429]/u;
const joiners = /[\u200c\u200d]/;
const cherokee = /[\u13a0-\u13fd\uab70-\uabbf]/;

// lower returns a character as it stands for all of its cases.
function lower(c) {
  if (c === "\u00df") return c;
  if (cherokee.test(c)) return c.toUpperCase();
  if (c >= "\u1c80" && c <= "\u1c88") c = c.toUpperCase(); // old forms of Cyrillic letters
  return c === "\u03c2" ? "\u03c3" : c.toLowerCase();
}

// mapped returns what stands for a character, or undefined if names must not have it.
function mapped(c) {
  if (c < "\x80") return c.toLowerCase();
  if (dots.test(c)) return ".";
  if (ignored.test(c)) return "";
  if (c === "\u03c2" || joiners.test(c)) return c;
  let s = [...c.normalize("NFKC")].map(lower).join("");
  const apart = s.normalize("NFD");
  if (apart.includes("\u0345")) s = apart.replaceAll("\u0345", "\u03b9");
  s = s.normalize("NFKC");
  return refused.test(c) || refused.test(s) || s.includes(".") || s === "\u3002" ? undefined : s;
}

// Signs that end the vowel of a consonant: a joiner may follow them.
const viramas = new Set([..."\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u0e3a\u0eba\u0f84\u1039\u103a\u1714\u1715\u1734\u17d2\u1a60\u1b44\u1baa\u1bab",
  ..."\u1bf2\u1bf3\u2d7f\ua806\ua82c\ua8c4\ua953\ua9c0\uaaf6\uabed\u{10a3f}\u{11046}\u{11070}\u{1107f}\u{110b9}\u{11133}\u{11134}\u{111c0}\u{11235}\u{112ea}\u{1134d}\u{11442}\u{114c2}",
  ..."\u{115bf}\u{1163f}\u{116b6}\u{1172b}\u{11839}\u{1193d}\u{1193e}\u{119e0}\u{11a34}\u{11a47}\u{11a99}\u{11c3f}\u{11d44}\u{11d45}\u{11d97}\u{11f41}\u{11f42}"]);
// Letters of Arabic: those that join at both sides, and those that join the one before them only.
const rights = "\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0673\u0675-\u0677\u0688-\u0699\u06c0\u06c3-\u06cb\u06cd\u06cf\u06d2\u06d3\u06d5\u06ee\u06ef\u0759-\u075b\u076b\u076c\u0771\u0773\u0774\u0778\u0779";
const joined = new RegExp(`(?![${rights}\\u0621\\u0674])[\\u0620-\\u064a\\u066e-\\u06d5\\u06fa-\\u06ff\\u0750-\\u077f]\\p{Mn}*\\u200c\\p{Mn}*(?![\\u0621\\u0674])[\\u0620-\\u064a\\u066e-\\u06d5\\u06ee-\\u06ff\\u0750-\\u077f]`, "gu");

function joinsRightly(label) {
  const chars = [...label.replace(joined, "x")];
  return chars.every((c, i) => !joiners.test(c) || viramas.has(chars[i - 1]));
}

// Directions of writing. Scripts that are written from the right are not read from a table of Unicode: the engine has none.
const right = "\\p{Script=Hebrew}\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Thaana}\\p{Script=Nko}\\p{Script=Samaritan}\\p{Script=Mandaic}\\p{Script=Adlam}\\p{Script=Hanifi_Rohingya}\\p{Script=Mende_Kikakui}" +
  "\\p{Script=Yezidi}\\p{Script=Sogdian}\\p{Script=Old_Sogdian}\\p{Script=Chorasmian}\\p{Script=Elymaic}\\p{Script=Old_Uyghur}\\p{Script=Garay}\\u{10800}-\\u{10cff}";
const others = "\\p{P}\\p{S}\\p{Mn}\\p{Me}0-9\\u06f0-\\u06f9\\u0660-\\u0669\\u06dd\\u066b\\u066c"; // marks, signs and numbers
const fromRight = new RegExp(`(?![${others}])[${right}]`, "u");
const arabicNumber = /[\u0660-\u0669\u06dd\u066b\u066c]/;
const number = /[0-9\u06f0-\u06f9\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089]/;
const neutral = new RegExp(`(?![\\p{Nd}\\p{No}])[${others}]`, "u");
const mark = /[\p{Mn}\p{Me}]/u;

// directed reports whether a label of a name in which something is written from the right can be read in one way only (RFC 5893).
function directed(label) {
  const chars = [...label];
  while (chars.length > 0 && mark.test(chars.at(-1))) chars.pop();
  const kinds = chars.map((c) => (fromRight.test(c) ? "R" : arabicNumber.test(c) ? "A" : number.test(c) ? "E" : neutral.test(c) || mark.test(c) ? "O" : "L"));
  const text = kinds.join("");
  return /^R[RAEO]*[RAE]$|^R$/.test(text) ? !(text.includes("A") && text.includes("E")) : /^L[LEO]*[LE]$|^L$/.test(text);
}

const base = 36, highest = 26, skew = 38, damp = 700;

function adapt(delta, points, first) {
  let d = first ? Math.floor(delta / damp) : delta >> 1, k = 0;
  for (d += Math.floor(d / points); d > (35 * highest) >> 1; k += base) d = Math.floor(d / 35);
  return k + Math.floor((36 * d) / (d + skew));
}
const threshold = (k, bias) => Math.min(Math.max(k - bias, 1), highest);
const digit = (n) => String.fromCharCode(n < 26 ? n + 97 : n + 22);

// punycode encodes a label (RFC 3492).
function punycode(label) {
  const points = [...label].map((c) => c.codePointAt(0)), plain = points.filter((n) => n < 128);
  let out = String.fromCharCode(...plain), n = 128, delta = 0, bias = 72, done = plain.length;
  if (done > 0) out += "-";
  while (done < points.length) {
    const next = Math.min(...points.filter((p) => p >= n));
    delta += (next - n) * (done + 1);
    n = next;
    for (const p of points) {
      if (p < n) delta++;
      if (p !== n) continue;
      let q = delta;
      for (let k = base; ; k += base) {
        const t = threshold(k, bias);
        if (q < t) break;
        out += digit(t + ((q - t) % (base - t)));
        q = Math.floor((q - t) / (base - t));
      }
      out += digit(q);
      bias = adapt(delta, ++done, done === plain.length + 1);
      delta = 0;
    }
    delta++;
    n++;
  }
  return out;
}

// unpunycode decodes a label, or returns undefined.
function unpunycode(text) {
  const at = text.lastIndexOf("-");
  const out = at > 0 ? [...text.slice(0, at)] : [];
  let n = 128, i = 0, bias = 72;
  for (let p = at > 0 ? at + 1 : at === 0 ? 1 : 0; p < text.length;) {
    const old = i;
    for (let w = 1, k = base; ; k += base) {
      const c = text.charCodeAt(p++), d = c >= 48 && c <= 57 ? c - 22 : c >= 97 && c <= 122 ? c - 97 : base;
      if (d >= base || !(c > 0)) return undefined;
      i += d * w;
      const t = threshold(k, bias);
      if (i > 0x7fffffff) return undefined;
      if (d < t) break;
      w *= base - t;
    }
    bias = adapt(i - old, out.length + 1, old === 0);
    n += Math.floor(i / (out.length + 1));
    i %= out.length + 1;
    if (n > 0x10ffff || (n >= 0xd800 && n <= 0xdfff) || n < 128) return undefined;
    out.splice(i++, 0, String.fromCodePoint(n));
  }
  return out.join("");
}

function valid(label) {
  return label === label.normalize("NFC") && !/^\p{M}/u.test(label) && [...label].every((c) => c !== "." && mapped(c) === c) && joinsRightly(label);
}

// toASCII returns the name of a host as the protocols of the internet have it, or undefined if it is none.
export function toASCII(domain) {
  const small = domain.toLowerCase();
  if (!/[^\0-\x7f]/.test(domain) && !small.split(".").some((l) => l.startsWith("xn--"))) return small;
  const chars = [...domain].map(mapped);
  if (chars.includes(undefined)) return undefined;
  const labels = chars.join("").normalize("NFC").split(".");
  const read = labels.map((l) => (l.startsWith("xn--") ? /[^\0-\x7f]/.test(l) ? undefined : unpunycode(l.slice(4)) : l));
  for (const [i, l] of read.entries()) {
    if (l === undefined || (labels[i] !== l && (l === "" || !/[^\0-\x7f]/.test(l)))) return undefined;
    if (/[^\0-\x7f]/.test(l) && !valid(l)) return undefined;
  }
  if (read.some((l) => fromRight.test(l) || arabicNumber.test(l)) && !read.every((l) => l === "" || directed(l))) return undefined;
  return read.map((l) => (/[^\0-\x7f]/.test(l) ? `xn--${punycode(l)}` : l)).join(".");
}
