// The story workflows of docs/reference/conformance.md in AssemblyScript.
import * as wf from "../../assembly/index";
import * as json from "../../assembly/json";
export { workflow_run, workflow_step, workflow_describe } from "../../assembly/index";

function orCode(o: wf.Outcome): string { return o.ok ? o.raw : json.quote(o.name); }
function code(o: wf.Outcome): string { return json.quote(o.name); }
function list(values: string[]): wf.Outcome { return wf.ok("[" + values.join(",") + "]"); }

wf.workflow("sleeps", () => {
  const began = wf.now(), took: string[] = [];
  wf.sleepMs("duration", 4000).wait();
  took.push((wf.now() - began).toString());
  wf.sleepMs("nothing", 0).wait();
  took.push((wf.now() - began).toString());
  wf.sleepUntil("instant", began + 10000).wait();
  took.push((wf.now() - began).toString());
  wf.sleep("text", "1h30m").wait();
  took.push((wf.now() - began).toString());
  wf.sleepUntil("past", began).wait();
  took.push((wf.now() - began).toString());
  return list(took);
});

wf.workflow("steps", (input) => {
  const greeting = wf.step("greet", "greet", input).wait();
  const both = wf.all([wf.step("a", "double", "21"), wf.step("b", "double", "4")]);
  return list([orCode(greeting), orCode(both[0]), orCode(both[1])]);
});

let changed = 0; // by a body, which the workflow must not see

wf.workflow("bodies", (input) => {
  const one = wf.body("one", json.text(input), (name) => {
    changed++;
    return wf.ok(json.quote("body of " + name));
  }).wait();
  const both = wf.all([wf.body("a", "a", (v) => wf.ok(json.quote(v))), wf.body("b", "b", (v) => wf.ok(json.quote(v)))]);
  const inside = wf.body("inside", 1000, (ms) => wf.ok(code(wf.sleepMs("nap", ms).outcome))).wait();
  return list([orCode(one), orCode(both[0]), orCode(both[1]), orCode(inside), changed.toString()]);
});

function attempted(): wf.Outcome { return wf.ok(json.quote("ok after " + wf.stepInfo().attempt.toString())); }

wf.workflow("retries", () => {
  const flaky = wf.step("flaky", "flaky", "null", '{"attempts":3,"delay":"100ms"}').wait();
  const body = wf.body("body", "not yet", (why) => wf.stepInfo().attempt == 1 ? wf.failure(why) : attempted(), '{"attempts":2}').wait();
  const later = wf.body("later", "busy", (why) => wf.stepInfo().attempt == 1 ? wf.failure(why, true, 5000) : attempted()).wait();
  return list([orCode(flaky), orCode(body), orCode(later)]);
});

function failed(o: wf.Outcome): string {
  return '{"code":' + code(o) + ',"kind":' + json.quote(o.kind) + ',"attempts":' + o.attempts.toString() + ',"message":' +
    json.quote(o.message) + "}";
}

wf.workflow("failures", () => {
  const never = wf.step("never", "never", "null", '{"attempts":2,"delay":"10ms"}').wait();
  const fatal = wf.body("fatal", "out of stock", (why) => wf.failure(why, false)).wait();
  return list([failed(never), failed(fatal)]);
});

wf.workflow("refusals", () => {
  const codes: string[] = [];
  codes.push(code(wf.sleepMs("negative", -1).wait()));
  codes.push(code(wf.sleep("bare", "5").wait()));
  codes.push(code(wf.sleep("date", "2026-13-01").wait()));
  codes.push(code(wf.step("nobody", "nobody", "null").wait()));
  codes.push(code(wf.step("denied", "host/vault", "null").wait()));
  codes.push(code(wf.sleepMs("", 0).wait()));
  return list(codes);
});

wf.workflow("names", () => {
  const codes: string[] = [];
  codes.push(code(wf.sleepMs("x", 0).wait()));
  codes.push(code(wf.sleepMs("x", 0).wait()));
  return list(codes);
});

wf.workflow("failing", () => {
  wf.sleepMs("nap", 1000).wait();
  return wf.failure("nothing in stock");
});

wf.workflow("signals", () => {
  const first = wf.signal("go", 3000).wait();
  const second = wf.signal("go").wait();
  const none = wf.signal("none", 100).wait();
  return list([orCode(first), orCode(second), orCode(none)]);
}).signals = ["go", "none"];

wf.workflow("race", () => {
  const stop = wf.signal("stop"), limit = wf.sleepMs("limit", 5000);
  const seen = wf.race([stop, limit]) == 0 ? ['"stop"', orCode(stop.outcome)] : ['"limit"'];
  wf.sleepMs("after", 1000).wait();
  seen.push(orCode(wf.signal("stop", 10000).wait()));
  return list(seen);
}).signals = ["stop"];

wf.workflow("parallel", () => {
  const names = ["c", "a", "b"], woke: string[] = [];
  const calls = [wf.sleepMs("c", 3000), wf.sleepMs("a", 1000), wf.sleepMs("b", 2000)];
  while (calls.length > 0) {
    const i = wf.first(calls);
    woke.push(json.quote(names[i]));
    names.splice(i, 1);
    calls.splice(i, 1);
  }
  return list(woke);
});

wf.workflow("cancels", (input) => {
  const how = json.text(input);
  if (how != "final") wf.cooperativeCancel();
  const slept = wf.sleep("long", "1h").wait();
  if (slept.ok) return wf.ok('"slept"');
  wf.step("clean up", "greet", '"cleaner"').wait();
  return how == "ignore" ? wf.ok(json.quote(slept.name + ", but done")) : wf.failure("cancelled");
});

wf.workflow("parent", () => {
  const first = wf.child("first", "child", "20").wait();
  const second = wf.child("second", "child", "40", '{"id":"parent-second"}');
  const id = wf.childID(second);
  const n = second.wait();
  const third = wf.child("third", "child", "-1").wait();
  return list([orCode(first), json.quote(id), orCode(n), code(third), json.quote(third.kind)]);
});

wf.workflow("child", (input) => {
  const n = json.number(input);
  if (n < 0) return wf.failure("negative");
  wf.sleepMs("nap", 1000).wait();
  return wf.ok((n + 1).toString());
});

wf.workflow("counter", (input) => {
  const n = json.number(input) + wf.signal("add").wait().number;
  if (n < 10) wf.continueAsNew(n.toString());
  return wf.ok(n.toString());
}).signals = ["add"];

let at = "start";

wf.workflow("queries", () => {
  wf.onQuery("status", (input) => json.text(input) == "refuse" ? wf.failure("refused") : wf.ok('{"at":' + json.quote(at) + "}"));
  at = "nap";
  wf.sleepMs("nap", 10000).wait();
  at = "end";
  return wf.ok('"done"');
}).queries = ["status"];

wf.workflow("updates", () => {
  const adds = new wf.Updates("add", (input) => json.number(input) > 0 ? wf.ok("") : wf.failure("only more can be added"));
  let total: i64 = 0;
  while (total < 10) {
    const update = adds.next();
    if (update == null) return wf.failure("cancelled");
    total += json.number(update.input);
    update.reply(wf.ok(total.toString()));
  }
  return wf.ok(total.toString());
}).updates = ["add"];

wf.workflow("output", () => {
  const first = wf.emit("progress", '"started"');
  wf.setAttribute("customer", "ada");
  const version = wf.version("change", 2);
  wf.sleepMs("nap", 1000).wait();
  const second = wf.emit("progress", '{"percent":100}');
  return list([first.toString(), version.toString(), second.toString()]);
});

wf.workflow("markers", (input) => {
  const newest = json.number(input), got: string[] = [];
  for (let i = 0; i < 3; i++) got.push(wf.version("tax", newest).toString());
  wf.sleepMs("tax", 1000).wait();
  got.push(wf.version("tax", newest + 1).toString());
  got.push(wf.version("nap", 1).toString());
  wf.sleepMs("nap", 1000).wait();
  got.push(wf.version("nap", 5).toString());
  wf.emit("tax", "[" + got.join(",") + "]");
  if (newest < 3) wf.continueAsNew((newest + 1).toString());
  return list(got);
});

wf.workflow("hooks", () => {
  const token = wf.hook("paid", "token-of-the-story", '{"status":200,"content_type":"text/plain","body":"thanks"}').wait();
  const taken = wf.hook("paid", "token-of-the-story").wait();
  const by = wf.signal("paid").wait();
  return list([json.quote(token.raw), code(taken), orCode(by)]);
}).signals = ["paid"];

wf.workflow("sender", () => {
  const nobody = wf.send("nobody-is-there", "go", '"hello"').wait();
  const listener = wf.child("listener", "listener", "null", '{"id":"sender-listener"}');
  wf.sleepMs("nap", 1000).wait();
  const sent = wf.send("sender-listener", "go", '"hello"').wait();
  return list([code(nobody), code(sent), orCode(listener.wait())]);
});

wf.workflow("listener", () => wf.signal("go").wait()).signals = ["go"];

wf.workflow("long", (input) => {
  const n = json.number(input);
  let sum: i64 = 0;
  for (let i: i64 = 0; i < n; i++) {
    sum = wf.body("body " + i.toString(), sum + i, (v) => wf.ok(v.toString())).wait().number;
    if (i % 10 == 9) wf.sleep("sleep " + i.toString(), "1m").wait();
  }
  return wf.ok(sum.toString());
});

wf.workflow("bytes", () => wf.body("twice", wf.inputBytes(), (b) => {
  const out = new Uint8Array(2 * b.byteLength), half = Uint8Array.wrap(b);
  out.set(half);
  out.set(half, b.byteLength);
  return wf.okBytes(out.buffer);
}).wait());

wf.workflow("chance", () => {
  const before = wf.random(8);
  wf.sleepMs("nap", 1000).wait();
  const after = wf.random(8);
  let differ = false;
  for (let i = 0; i < 8; i++) differ = differ || before[i] != after[i];
  return list([differ.toString(), (wf.runID() == "chance").toString()]);
});

wf.stepFunction("greet", (input) => wf.ok(json.quote("hello " + json.text(input))));
wf.stepFunction("double", (input) => wf.ok((2 * json.number(input)).toString()));
wf.stepFunction("flaky", () => {
  const n = wf.stepInfo().attempt;
  return n < 3 ? wf.failure("attempt " + n.toString()) : attempted();
});
wf.stepFunction("never", () => wf.failure("attempt " + wf.stepInfo().attempt.toString()));
