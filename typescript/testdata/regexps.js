// Regular expressions with the flags u and i, where characters are pairs or fold to others, and traps of proxies that answer what is
// no list. It runs in the engine and in Node, and must return the same.
const found = (re, text, lastIndex) => {
  re.lastIndex = lastIndex;
  const m = re.exec(text);
  return [m && m.index, m && [...m], re.lastIndex];
};

const pairs = ["😀", "i😀😀", "😀a", "\ud83d\ud83d\ude00", "\ude00\ud83d", "a"];
const within = [/./gu, /./yu, /^/gmu, /(?<=(.))/gu, /(?:)/gu, /(?:)/yu, /[^]$/gu, /\ude00/gu, /😀/yu, /(?=(.))/gdu, /./g, /\ude00/y];

const letters = ["a", "A", "ſ", "s", "S", "K", "k", "K", "İ", "ı", "ß", "ẞ", "σ", "ς", "Σ", "ǅ", "😀", "𐐀", "𐐨", "_", "é", "-", "\u0378", "\u{10FFFF}", "\uE000", "\uD800"];
const properties = [/\p{Lu}/iu, /\P{Lu}/iu, /[\p{Lu}]/iu, /[^\p{Lu}]/iu, /[^\P{Lu}]/iu, /\p{Ll}/iu, /\p{Lt}/iu, /\p{ASCII}/iu, /\p{Script=Greek}/iu,
  /(?<=\p{Lu})$/iu, /\p{Lu}/u, /\P{Lu}/u,
  /\p{Script=Unknown}/u, /\P{Script=Zzzz}/u, /\p{Script_Extensions=Unknown}/u, /[^\p{scx=Zzzz}]/u];
const words = [/\w/iu, /\W/iu, /[\w]/iu, /[\W]/iu, /[^\w]/iu, /[^\W]/iu, /\w/i, /\W/i, /[\W]/i, /[^\W]/i, /\b/iu, /\B/iu, /\b/i, /^\b.\b$/iu, /\s|\S/iu];

// Each round of a quantifier begins without what its groups have captured in the one before.
const rounds = [/(?:(a)|b)*/, /(?:(a)|(b))+/, /(?:(a)|b){2}/, /(?:(a)|b){1,}/, /(?:(a)|b){1,3}/, /(?:(a)|b){3,5}?/, /(?:(a)|b)*?$/, /(?:(?=(a))a|b)*/, /(?:(a)|b)?/, /((a)|b)*/,
  /(?<=(?:(a)|b)*)$/, /(?<=(?:b|(a))+)$/, /(z)((a+)?(b+)?(c))*/, /(?:(a)|\1b)*/, /((?<x>a)|(?<y>b))*/d, /(?:(?:(a)|b)+|(c))*/];
const rounded = ["", "a", "b", "ab", "ba", "aab", "abb", "abab", "zaacbbbcac", "abca", "cab"];

const answer = (fn) => {
  try {
    return fn();
  } catch (e) {
    return e.constructor.name;
  }
};
const answers = [undefined, null, true, 1, "ab", Symbol.iterator, 1n, [], ["a"], {}, { length: 1, 0: "a" }, [1], [null], ["a", "a"], () => {}];

export default async function regexps() {
  return {
    rounds: rounds.map((re) => rounded.map((text) => { const m = re.exec(text); return m && [[...m], m.index, m.indices, m.groups && { ...m.groups }]; })),
    within: within.map((re) => pairs.map((text) => Array.from({ length: text.length + 2 }, (_, i) => found(re, text, i)))),
    replaced: pairs.map((text) => [text.replace(/(?:)/gu, "-"), text.split(/(?:)/u), text.replace(/./gu, "<$&>"), [...text.matchAll(/(?:)/gu)].map((m) => m.index)]),
    properties: properties.map((re) => letters.map((c) => re.test(c))),
    words: words.map((re) => letters.map((c) => re.test(c))),
    ownKeys: answers.map((list) => {
      const p = new Proxy({}, { ownKeys: () => list });
      return [answer(() => Reflect.ownKeys(p).length), answer(() => Object.keys(p)), answer(() => JSON.stringify(p)), answer(() => ({ ...p }) && 1), answer(() => Object.assign({}, p) && 1)];
    }),
  };
}
