// Regular expressions with all flags.
const atoms = ["a", "b", "A", "0", "_", ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "^", "$", "[ab]", "[^ab]", "[\\W]", "[^\\W_]", "[\\W\\d]", "[a-c0-9]", "[\\w-]", "[^\\s]", "\\u0061", "\\x41", "\\t", "\\0", "é", "😀",
  "[😀-😂]", "\\u{1F600}", "\\p{L}", "\\P{L}", "\\p{Lu}", "\\p{Script=Greek}", "\\p{ASCII}", "ß", "ſ", "K", "İ", "Σ", "\\cA", "\\-", "\\/", "[]", "[^]", "[\\b]", "\\k<n>", "\\1", "\\2", "\\ud83d", "]", "}", "{", "a{,2}"];
const sets = ["[\\p{L}--[a-z]]", "[\\w&&[^\\d]]", "[[a-z]--[aeiou]]", "[\\q{abc|b|}a]", "[^\\d[a-c]]", "[\\p{Lu}&&\\p{ASCII}]", "[a-z&&b]", "[(]", "[a--b]", "\\p{RGI_Emoji}", "\\p{Emoji_Keycap_Sequence}"];
const quantifiers = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}", "{2,3}?", "{0}"];

function term(r, depth, state, unicode) {
  const quantified = (t) => (r.chance(3) ? t + r.pick(quantifiers) : t);
  if (depth === 0 || r.chance(2)) return quantified(unicode && r.chance(4) ? r.pick(sets) : r.chance(2) ? r.pick(["a", "b", "ab", "."]) : r.pick(atoms));
  const inner = pattern(r, depth - 1, state, unicode);
  switch (r.int(8)) {
    case 0: return quantified(`(?:${inner})`);
    case 1: return state.named++ < 2 && r.chance(2) ? quantified(`(?<${r.pick(["n", "m", "n$", "π"])}${state.named}>${inner})`) : quantified(`(?<n>${inner})`);
    case 2: return `(?=${inner})`;
    case 3: return `(?!${inner})`;
    case 4: return `(?<=${inner})`;
    case 5: return `(?<!${inner})`;
    default: return quantified(`(${inner})`);
  }
}

function pattern(r, depth, state, unicode) {
  const one = () => r.some(1, 3, () => term(r, depth, state, unicode)).join("");
  return r.chance(4) ? `${one()}|${one()}` : one();
}

// captures returns a pattern of groups in groups, of few letters, so that most of them match in some rounds of a quantifier and not in
// others.
function captures(r, depth) {
  const quantified = (t) => (r.chance(2) ? t + r.pick(quantifiers) : t);
  const one = () => {
    if (depth === 0 || r.chance(3)) return quantified(r.pick(["a", "b", "c", "."]));
    switch (r.int(9)) {
      case 0: return r.pick(["\\1", "\\2", "\\3"]);
      case 1: return `(?=${captures(r, depth - 1)})`;
      case 2: return `(?!${captures(r, depth - 1)})`;
      case 3: return `(?<=${captures(r, depth - 1)})`;
      case 4: return quantified(`(?:${captures(r, depth - 1)})`);
      default: return quantified(`(${captures(r, depth - 1)})`);
    }
  };
  return r.some(1, 3, () => r.some(1, 2, one).join("")).join("|");
}

const astral = ["😀", "\ud83d"];

const subject = (r, without = []) => JSON.stringify(r.some(0, 10, () => r.pick(["a", "b", "ab", "A", "B", "0", "9", " ", "\n", "_", "é", "😀", "\ud83d", "ß", "ſ", "K", "K", "k", "Σ", "ς", "σ", "-", "aab", "c", "İ", "i"].filter((c) => !without.includes(c)))).join(""));

export function regexps(r) {
  const mode = r.pick(["", "u"]); // the engine has no flag v
  const flags = ["g", "i", "m", "s", "y", "d"].filter(() => r.chance(3)).join("") + mode;
  const dense = r.chance(3), source = dense ? captures(r, 2) : pattern(r, 2, { named: 0 }, mode === "v");
  // Within a surrogate pair, V8 finds places where what must not be there is not.
  const s = dense ? JSON.stringify(r.some(0, 6, () => r.pick(["a", "b", "c"])).join("")) : subject(r, mode === "u" && /\\B|\(\?<?!/.test(source) ? astral : []);
  const uses = [
    `t(() => re.exec(${s}));`, `t(() => [re.test(${s}), re.lastIndex]);`, `t(() => ${s}.match(re));`, `t(() => ${s}.replace(re, "<$&|$1|$\`|$'|$<n>|$$|$10|$0>"));`,
    `t(() => ${s}.replace(re, (...a) => "(" + a.map((x) => (typeof x === "object" && x ? Object.keys(x) : String(x))).join() + ")"));`, `t(() => ${s}.split(re));`, `t(() => ${s}.split(re, 3));`,
    `t(() => [...${s}.matchAll(re)]);`, `t(() => ${s}.search(re));`, `t(() => { re.lastIndex = ${r.int(5)}; const m = re.exec(${s}); return [m, m && m.index, m && m.indices, m && m.groups, re.lastIndex]; });`,
    `t(() => ${s}.replaceAll(re, "x"));`,
  ];
  return [`const re = new RegExp(${JSON.stringify(source)}, ${JSON.stringify(flags)});`, "t(() => [re.source, re.flags, String(re)]);", ...r.many(4, () => r.pick(uses))].join("\n");
}
