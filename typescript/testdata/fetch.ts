import { race, step, workflow } from "@wfhost/workflow";

const once = { attempts: 1, timeout: "20s" };

// what returns what a function brings, or its error.
const what = (name: string, fn: () => Promise<unknown>) => step(name, async () => {
  try {
    return await fn();
  } catch (e: any) {
    return e instanceof Error ? `${e.name}: ${e.message}` : `thrown: ${e}`;
  }
}, once);

const ask = async (url: string, init: RequestInit) => (await fetch(url, init)).status;

workflow("aborts", async (slow: string) => ({
  timeout: await what("timeout", () => ask(slow, { signal: AbortSignal.timeout(20) })),
  any: await what("any", () => ask(slow, { signal: AbortSignal.any([new AbortController().signal, AbortSignal.timeout(20)]) })),
  timer: await what("timer", () => {
    const c = new AbortController();
    setTimeout(() => c.abort("too slow"), 20);
    return ask(slow, { signal: c.signal });
  }),
  job: await what("job", () => {
    const c = new AbortController();
    new Promise((resolve) => setTimeout(resolve, 20)).then(() => c.abort("later"));
    return ask(slow, { signal: c.signal });
  }),
  other: await what("other", () => {
    setTimeout(() => {}, 20);
    return ask(slow, { signal: new AbortController().signal });
  }),
  request: await what("request", async () => (await fetch(new Request(slow, { signal: AbortSignal.timeout(20) }))).status),
  passed: await what("passed", () => {
    const signal = AbortSignal.timeout(2);
    for (const since = Date.now(); Date.now() < since + 5;);
    return ask(slow, { signal });
  }),
  before: await what("before", () => ask(slow, { signal: AbortSignal.abort("before") })),
  outside: (await race({ lost: (signal) => what("outside", () => ask(slow, { signal })) })).value,
  none: await what("none", async () => AbortSignal.timeout(NaN).aborted),
}));

workflow("denied", async (url: string) => await step("get", async () => (await fetch(url)).status, once));
workflow("answers", async (fast: string) => await step("get", async () => {
  const timer = setTimeout(() => {}, 60_000);
  const response = await fetch(fast, { signal: AbortSignal.timeout(30_000), headers: [["x-a", "1"], ["x-a", "2"]] });
  clearTimeout(timer);
  setTimeout(() => {}, 0);
  for (const since = Date.now(); Date.now() < since + 2;); // that timer is due when the next request begins
  await (await fetch(fast, { signal: new AbortController().signal })).text();
  let stream = "";
  try {
    response.body!.getReader();
  } catch (e: any) {
    stream = e.message;
  }
  return [response.headers.getSetCookie(), response.headers.get("set-cookie"), [...response.headers.keys()].filter((k) => k === "set-cookie").length,
    await response.text(), stream];
}, once));

// redirects tells of each path of a service that redirects what fetch makes of it.
workflow("redirects", async (base: string) => await step("get", async () => {
  const tell = async (path: string, init?: RequestInit) => {
    try {
      const r = await fetch(base + path, init);
      return [r.status, r.type, r.redirected, r.url.replace(base, ""), r.headers.get("location"), await r.text()].join(" ");
    } catch (e: any) {
      return `${e.name}: ${e.message}`.replaceAll(base, "");
    }
  };
  const out: string[] = [];
  for (const redirect of ["follow", "manual", "error"] as const) {
    for (const path of ["/a#b", "/away", "/away/2#c", "/gone"]) out.push(await tell(path, { redirect }));
  }
  out.push(await tell("/a", { redirect: "never" as any }), await tell("/a", { method: "TRACE" }), await tell("/a", { method: "connect" }));
  out.push(await tell("/away", { method: "POST", body: "x" }), await tell("/keep", { method: "POST", body: "x" }), await tell("/a", { method: "patch" }));
  const copy = (await fetch(new Request(base + "/away", { redirect: "manual" }))).clone();
  out.push(`${copy.status} ${copy.redirected} ${copy.type}`);
  return out;
}, once));
