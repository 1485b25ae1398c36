// What programs expect of a platform. It runs in the engine and in Node, and must return the same.
const thrown = (fn) => {
  try {
    return fn();
  } catch (e) {
    return `${e instanceof TypeError ? "TypeError" : e.name}`;
  }
};

const urls = [
  ["https://user:p%20w@Example.COM:443/a/./b/../c?x=1&y=ü#frag ment"], ["http://h:80/"], ["http://h:8080"], ["HTTP://H/%7Efoo"], ["../x", "http://h/a/b/c"],
  ["?q", "http://h/a?b#c"], ["#z", "http://h/a?b#c"], ["//other/p", "https://h/a"], ["/abs", "http://h/a/b"], ["", "http://h/a?b#c"], ["mailto:ada@example.com"],
  ["data:text/plain,hello world"], ["http://192.168.257"], ["http://0/"], ["http://[::1]:8080/x"], ["file:x", "http://h"], ["file:///a/../b"], ["http://h\\a\\b"], ["nonsense"], ["http://"],
  ["http://h:99999/"], ["http://a b/"], ["http://h/a b\"<>`{}|"], ["http://h/?a'b"], ["http://h/é€😀"], ["ws://h:80/x"], ["custom://Host/p/../q?x#y"], ["http://h/..%2f/%2e%2e/z"],
  ["x/y/", "http://h/a/b/"], ["http:foo", "http://h/a/b"], ["http://h/a/b/."], ["  http://h/  "], ["http://u@h"], ["http://u:@h"],
];

export default async function platform() {
  const params = new URLSearchParams("a=1&b=2&a=%20x+y&c&=d");
  params.append("e f", "ü&=");
  params.delete("b");
  params.set("a", "one");
  const u = new URL("https://h/p?x=1");
  u.searchParams.append("y", "a b");
  u.hash = "top";
  u.port = "8443";
  u.pathname = "/q r/../s";
  const bytes = new TextEncoder().encode("héllo €😀\ud800");
  const decoder = new TextDecoder();
  const controller = new AbortController();
  const events = [];
  controller.signal.addEventListener("abort", (e) => events.push(e.type), { once: true });
  controller.abort();
  controller.abort();
  const h = new Headers({ "X-B": " 2 ", a: "1" });
  h.append("x-b", "3");
  const cyclic = { d: new Date(5), m: new Map([[1, new Set([2])]]), r: /x/gi, a: [1, , 3] };
  cyclic.self = cyclic;
  const copy = structuredClone(cyclic);
  return {
    urls: urls.map(([input, base]) => thrown(() => {
      const u = new URL(input, base);
      return [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash];
    })),
    params: [params.toString(), params.getAll("a"), params.has("c", ""), params.size, [...params.keys()]],
    url: [u.href, JSON.stringify({ u }), URL.canParse("x"), URL.canParse("x:y")],
    bytes: [...bytes],
    text: [decoder.decode(bytes), new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])),
      new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])).length,
      new TextDecoder().decode(new Uint8Array([0x61, 0xc0, 0x80, 0xe2, 0x82, 0x41, 0xf0, 0x9f, 0x98, 0xed, 0xa0, 0x80, 0xff])),
      thrown(() => new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff])))],
    stream: [[0xe2], [0x82], [0xac, 0xf0, 0x9f], [0x98, 0x80, 0xc3]].map((c) => decoder.decode(new Uint8Array(c), { stream: true })).concat(decoder.decode()),
    base64: [btoa("a"), btoa("ab"), btoa("abc\xff"), atob("YWI="), atob("YW Jj"), btoa("")],
    abort: [events, controller.signal.aborted, controller.signal.reason.name, thrown(() => controller.signal.throwIfAborted()),
      AbortSignal.any([AbortSignal.abort("why")]).reason],
    headers: [[...h], h.get("X-b"), h.get("none"), thrown(() => h.set("a b", "c"))],
    response: [await new Response("ü").text(), new Response("x", { status: 404 }).ok, await Response.json({ a: 1 }).json(), Response.json(1).headers.get("content-type")],
    wrapped: [await new Response(new Response("x", { status: 201 }).body, new Response(null, { status: 202 })).text(), new Response(null).body,
      (() => {
        const h = new Headers([["Set-Cookie", "a=1"], ["set-cookie", "b=2"], ["a", "1"], ["A", "2"]]);
        return [[...h], h.getSetCookie(), h.get("set-cookie"), new Headers(h).getSetCookie(), new Headers().getSetCookie(), [...h.keys()], [...h.values()]];
      })()],
    request: [new Request("http://h/a", { method: "post", body: "x" }).method, new Request("http://h/a", { method: "POST", body: new URLSearchParams({ a: "b c" }) }).headers.get("content-type"),
      await new Request("http://h/a", { method: "POST", body: new URLSearchParams({ a: "b c" }) }).text(), thrown(() => new Request("http://h", { body: "x" }))],
    clone: [copy.self === copy, copy.d.getTime(), copy.m.get(1).has(2), String(copy.r), copy.a.length, thrown(() => structuredClone(() => 1)),
      structuredClone({ a: [new Uint8Array([1, 2])] }, { transfer: [] }).a[0].length, structuredClone([5], undefined)[0]],
    language: [[3, 1, 2].toSorted(), [1, 2, 3].findLast((x) => x < 3), "a-b-a".replaceAll("a", "c"), [1, 2].at(-1),
      new Error("x", { cause: "y" }).cause, /(?<y>\d{4})/.exec("in 2026").groups.y, 2n ** 70n + "", await Promise.any([Promise.reject(1), 2]), new Intl_free().x],
    date: [new Date("2026-01-05T10:00:00+01:00").toISOString(), new Date(2026, 0, 5).getTimezoneOffset() === new Date().getTimezoneOffset(), Date.UTC(2024, 1, 29), new Date("nonsense").getTime()],
    locale: [
      [0, -0, 999.9995, 1234567.5, 0.0005, 1.0005, 1e21, 1e-9, 5e-324, NaN, -Infinity, -1234.5678, 2n ** 70n].map((n) => n.toLocaleString("en-US")),
      [0, 43_200_000, 1.7e12, -1e13, 2.5e14, NaN].map((t) => new Date(t)).map((d) =>
        [d.toLocaleString("en-US", { timeZone: "UTC" }), d.toLocaleDateString("en", { timeZone: "UTC" }), d.toLocaleTimeString(["en-US"], { timeZone: "UTC" })]),
      [1234.5, null, "x"].toLocaleString("en-US"), new Uint16Array([1234, 5]).toLocaleString("en-US"), "ß".toLocaleUpperCase("de"), "İ".toLocaleLowerCase(),
    ],
    micro: await new Promise((resolve) => queueMicrotask(() => resolve("task"))),
  };
}

class Intl_free {
  #x = 7;
  static { Intl_free.made = true; }
  get x() {
    return #x in this && Intl_free.made && this.#x;
  }
}
