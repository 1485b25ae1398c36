const message = (fn: () => unknown) => {
  try {
    return fn();
  } catch (e) {
    return e instanceof Error ? (e.name === "InternalError" ? String(e) : e.message) : String(e);
  }
};
const deep = (n: number): number => 1 + deep(n + 1);
declare const WeakRef: unknown, FinalizationRegistry: unknown;

export default async function language() {
  const start = Date.now();
  const refused = await fetch("https://example.com").catch((e) => e.message);
  const list = Array.from({ length: 100 }, Math.random);
  return {
    overflow: message(() => deep(0)),
    range: (() => {
      try {
        return deep(0);
      } catch (e) {
        return e instanceof RangeError;
      }
    })(),
    intl: message(() => new Intl.DateTimeFormat("de")),
    locale: [
      message(() => new Date(0).toLocaleString("en-US", { timeZone: "America/New_York" })),
      message(() => (1234567.5).toLocaleString("de-DE", { style: "currency", currency: "EUR" })),
      message(() => new Date(0).toLocaleDateString("de-DE", { weekday: "long" })),
      message(() => ["ä", "z", "a"].sort((a, b) => a.localeCompare(b))),
      message(() => [1.5].toLocaleString("de")),
      message(() => "i".toLocaleUpperCase("tr-TR")),
      message(() => new Date(-1e14).toLocaleString()),
    ],
    weak: `${typeof WeakRef} ${typeof FinalizationRegistry}`,
    fetch: refused,
    random: new Set(list).size === 100 && list.every((x) => x >= 0 && x < 1),
    uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()),
    native: !("prototype" in Math.random) && Date === new Date(0).constructor && new Date().getTime() === start,
    clock: Date.now() - start,
    eval: new Function("a", "return a + 1")(2),
  };
}
