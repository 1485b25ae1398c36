// The workflow of the rules, and of random programs: host/conformance/rules.json says what the calls are.
import {
  attribute, call, child, continueAsNew, emit, FatalError, hook, info, query, race, send, signal, sleep, sleepUntil, step, stepFunction,
  throwOnCancel, update, version, workflow,
} from "@wfhost/workflow";

type Text = string | { repeat: string; times: number };
interface Call {
  call: string; name?: Text; handler?: Text; to?: Text; ms?: number; newest?: number; options?: Record<string, unknown>; times?: number;
  payload?: unknown; bytes?: number; bad?: string; fails?: string; until?: number; calls?: Call[]; branches?: Call[][];
}
interface Case { in?: string; calls: Call[]; repeats?: boolean; messages?: boolean }

const text = (t: Text | undefined) => (typeof t === "object" ? t.repeat.repeat(t.times) : t ?? "");
const numbered = (t: Text | undefined, n: number) => text(t).replaceAll("#", String(n));

// What this SDK names otherwise, or refuses itself.
const spelled: Record<string, string> = { max_delay: "maxDelay", max_elapsed: "maxElapsed", at_most_once: "atMostOnce", on_end: "onEnd", content_type: "contentType" };
const optionsOf = (c: Call): any => Object.fromEntries(Object.entries(c.options ?? {}).map(([name, v]) => [spelled[name] ?? name, v]));

function payloadOf(c: Call): any {
  if (c.bytes) return "x".repeat(c.bytes - 2);
  switch (c.bad) {
    case undefined: return c.payload;
    case "nan": return NaN;
    case "infinity inside": return { a: [1, -Infinity] };
    case "function": return () => 1;
    case "cycle": {
      const list: unknown[] = [];
      list.push(list);
      return list;
    }
  }
  return 10n; // a BigInt is no JSON either
}

function bodyOf(c: Call) {
  const { attempt, attempts } = info().step!;
  if (attempt < (c.until ?? 0)) throw new Error(`attempt ${attempt} of ${attempts}`);
  if (c.fails === "fatal") throw new FatalError("no");
  if (c.fails) throw new Error("no");
  return payloadOf(c);
}

// made makes a call, and returns what it has brought, or its promise. A call that this SDK does not have is undefined.
function made(c: Call, messages: boolean): any {
  const name = text(c.name), handler = text(c.handler), to = text(c.to);
  switch (c.call) {
    case "sleep": return sleep(name, c.ms ?? 0);
    case "sleep_until": return sleepUntil(name, c.ms ?? 0);
    case "sleep_text": return sleep(name, to);
    case "body": return step(name, () => bodyOf(c), optionsOf(c));
    case "step": return call(handler, payloadOf(c), { ...optionsOf(c), name });
    case "child": return child(handler, payloadOf(c), { ...optionsOf(c), name });
    case "signal": return signal(name, { timeout: c.ms ?? 0 });
    case "send": return send(to === "self" ? info().runId : to, name, payloadOf(c));
    case "hook": return hook(name, { ...optionsOf(c), ...(to ? { token: to } : {}) });
    case "emit": return emit(name, payloadOf(c));
    case "attribute": return attribute(name, to);
    case "version": return version(name, c.newest ?? 0);
    case "cancel_policy": return c.newest === 1 ? throwOnCancel() : undefined;
    case "continue_as_new": return continueAsNew(payloadOf(c), c.options as any);
    case "together": return Promise.all(c.branches!.map((branch) => all(branch, messages)));
    case "within": return all(c.calls!, messages);
    case "race": return race(Object.fromEntries(c.calls!.map((inner, n) => [n, made(inner, messages)])));
  }
}

const silent = ["sleep", "sleep_until", "sleep_text", "send", "hook", "attribute", "cancel_policy"]; // their outcome is OK alone

// lacks reports whether the SDK does not have a call: it writes NaN as null where that is no result, does not hand over options of hooks
// that it does not know, has no panic, and continueAsNew does not return where it is refused.
function lacks(c: Call, where?: string): boolean {
  return c.call === "cancel_policy" && c.newest !== 1 || c.options?.color !== undefined || c.fails === "panic" ||
    c.call === "continue_as_new" && where !== undefined || c.call !== "body" && (c.bad === "nan" || c.bad === "infinity inside");
}

async function outcome(c: Call, messages: boolean, where?: string): Promise<string> {
  if (lacks(c, where)) return "";
  try {
    const v = await made(c, messages);
    if (c.call === "signal") return v === undefined ? "TIMEOUT" : messages ? `OK ${JSON.stringify(v)}` : "OK";
    if (silent.includes(c.call)) return "OK";
    const json = JSON.stringify(v) ?? "null";
    return !messages && json.length > 40 ? `OK ${json.length} bytes` : `OK ${json}`;
  } catch (e: any) {
    if (c.call === "version") return "OK 0"; // as others say it
    const told = e.code ? [e.code, e.kind, e.attempts].filter((part) => part !== undefined).join(" ") : "ERROR";
    return messages ? `${told}: ${String(e.message).replaceAll(/\(run [^)]*\)/g, "(run …)")}` : told;
  }
}

async function all(calls: Call[], messages = false, where?: string): Promise<string[]> {
  const outcomes: string[] = [];
  for (const c of calls) {
    let last = "";
    for (let n = 0; n < (c.times ?? 1); n++) {
      const one = c.times ? { ...c, name: numbered(c.name, n), to: numbered(c.to, n) } : c;
      last = await outcome(one, messages, where);
    }
    outcomes.push(last);
  }
  return outcomes;
}

export const rules = workflow("rules", async (c: Case): Promise<string[] | undefined> => {
  const nothing = c.calls.map(() => ""); // names that are used again are numbered here
  switch (c.in) {
    case "body": return step("body", () => all(c.calls, false, c.in));
    case "beside": return step("body", () => new Promise((resolve) => setTimeout(() => resolve(all(c.calls, false, c.in)), 1)));
    case "function": return call("rules", c.calls, { name: "function" });
    case "query":
      query("rules", () => all(c.calls, false, c.in));
      await sleep("asked", 60_000);
      return undefined;
    case "validator":
      update("rules", () => undefined, { validate: async () => {
        throw new Error(JSON.stringify(await all(c.calls, false, c.in)));
      } });
      await sleep("asked", 60_000);
      return undefined;
  }
  const last = c.calls.at(-1);
  if (c.repeats) return nothing;
  if (last?.call === "continue_as_new" && !last.bad) {
    await all(c.calls.slice(0, -1), c.messages);
    return made(last, false);
  }
  return all(c.calls, c.messages);
});

workflow("rules-child", (v: unknown) => v);
stepFunction("rules", (calls: Call[]) => all(calls, false, "function"));
stepFunction("rules-echo", (v: unknown) => v);
stepFunction("rules-late", (until: number) => {
  const { attempt, attempts } = info().step!;
  if (attempt < until) throw new Error(`attempt ${attempt} of ${attempts}`);
  return attempt;
});
