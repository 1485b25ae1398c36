// What a host answers to the calls of a workflow, for tests under Node.
import { info } from "./calls.js";
import { answering, timed } from "./nodetimers.js";
import { longest, milliseconds } from "./duration.js";
import { whereOf } from "./attempts.js";
import { report } from "./error.js";
import { sleepEnd } from "./instant.js";
import { numbering } from "./opened.js";
import { named } from "./hosttext.js";
import { steps as stepFunctions, workflows } from "./registry.js";
import {
  Refusal, checkAttribute, checkChildren, checkHandler, checkName, checkPayload, checkReceived, checkRunId, checkToken, checkVersion,
  checkWorkflow, childOptions, codes, continueOptions, hookOptions, stepOptions, updatePrefix,
} from "./rules.js";
import { decode, failure } from "./state.js";
import { followed } from "./stuck.js";
import { Run } from "./testrun.js";

const real = { Date };

// What a call is in a journal: of its arguments.
const recorded = {
  sleep: (name) => ({ kind: "sleep", name }), sleepUntil: (name) => ({ kind: "sleep", name }), sleepText: (name) => ({ kind: "sleep", name }),
  step: (name, target, input) => ({ kind: "step", name, target, input }), stepBegin: (name) => ({ kind: "body", name }),
  signal: (name) => ({ kind: "signal_wait", name }), send: (name, target, signal, input) => ({ kind: "signal_send", name, target, input }),
  child: (name, target, input) => ({ kind: "child", name, target, input }), hook: (name, target) => ({ kind: "hook", name, target: target || undefined }),
  emit: (name, input) => ({ kind: "emit", name, input }), attribute: (name, input) => ({ kind: "set_attribute", name, input }),
  policy: () => ({ kind: "cancel_policy", name: "" }), version: (name) => ({ kind: "version", name }),
  continueAsNew: (input) => ({ kind: "continue_as_new", name: "", input }),
  updateReply: (handle, failed, input) => ({ kind: "update_reply", name: handle, input }),
};

const notHere = "this call belongs to the workflow, a step's body or a query cannot make it";

// callsOf returns the calls of an iteration of a run.
export function callsOf(run) {
  const { trial } = run, now = () => trial.now;
  const caller = () => {
    const at = {};
    Error.captureStackTrace(at);
    return run.places.push(at.stack) - 1;
  };
  // What does not refuse, and is no entry of a journal.
  const free = {
    ...run.opened.calls(caller),
    caller,
    where: (n) => whereOf(run.places[n]),
    input: () => run.input,
    bytes: () => new TextEncoder().encode(run.input).buffer,
    last: () => run.last,
    now: () => (run.inBody ? real.Date.now() : now()),
    info: () => JSON.stringify({ run_id: run.id, workflow: run.name, version: 1, module: "", started_at: run.activated, iteration: run.iteration,
      run_attempt: 1, position: run.handles.size, suggest_continue: false, ...ofRun(run), step: run.inBody }),
    log: (level, text) => void (run.ends() || console.log(text)), // what follows from the end is not there on a host
  };
  const others = { unique: numbering(), childId: (handle) => run.handles.get(handle).id, cancel: (handle) => run.withdraw(handle) };
  const all = { ...others, ...waiting(run, now), ...starting(run, now), ...immediate(run) };
  return { ...free, ...Object.fromEntries(Object.entries(all).map(([name, fn]) => [name, refusing(run, name, fn)])) };
}

// ofRun returns what info says of a run, and not in step functions.
function ofRun({ attributes, memo, inBody }) {
  if (stepFunctions.has(inBody?.handler)) return {};
  return { attributes: Object.keys(attributes).length > 0 ? attributes : undefined, memo };
}

// refusing records a call, refuses what a host refuses, and in bodies what belongs to the workflow.
function refusing(run, name, fn) {
  return (...args) => {
    if (run.inBody || answering()) {
      const code = run.refuse("NOT_HERE", notHere);
      if (name === "continueAsNew" && run.inBody) run.inBody.cut = { message: `continue_as_new was refused: ${run.last}` }; // a host's ends the body
      return code;
    }
    if (run.ends()) return run.refuse("NOT_HERE", "the iteration has ended");
    if (!recorded[name]) return fn(...args);
    if (name === "version" && run.versions.has(args[0])) return run.versions.get(args[0]); // it is asked again
    const { input, ...what } = recorded[name](...args);
    const call = run.note({ ...what, input: name === "attribute" ? input : valueOf(input) });
    try {
      const n = fn(call, ...args);
      if (call.ended !== undefined) call.code ??= "OK";
      return n;
    } catch (e) {
      if (!(e instanceof Refusal)) throw e;
      Object.assign(call, { refused: true, code: e.code, message: e.message, input: undefined });
      const code = run.refuse(e.code, e.message);
      if (name === "continueAsNew") run.end({ e: failure() }); // a host's does not return
      return code;
    }
  };
}

function valueOf(text) {
  try {
    return decode(text);
  } catch {
    return text;
  }
}

// Sleeps, signals and hooks.
function waiting(run, now) {
  const sleep = (call, name, at) => {
    run.named(name);
    const handle = run.open("sleep", call);
    if (at <= now()) run.resolve(handle, "");
    else run.plan(at, () => run.resolve(handle, ""), handle);
    return handle;
  };
  const checkEnd = (ms) => {
    if (now() + ms <= longest) return;
    throw new Refusal("INVALID_DURATION", `a duration of ${ms} ms from ${now()} leads beyond the end of year 9999 (${longest})`);
  };
  return {
    sleep: (call, name, ms) => {
      checkName("sleep name", name);
      if (ms < 0) throw new Refusal("INVALID_DURATION", `a duration must not be negative, got ${ms} ms`);
      checkEnd(ms);
      return sleep(call, name, now() + ms);
    },
    sleepUntil: (call, name, at) => {
      checkName("sleep name", name);
      return sleep(call, name, at);
    },
    sleepText: (call, name, text) => {
      checkName("sleep name", name);
      const { at, code, message } = sleepEnd(text, now());
      if (code) throw new Refusal(code, message);
      return sleep(call, name, at);
    },
    signal: (call, name, ms) => {
      checkReceived(name);
      checkEnd(ms);
      run.room();
      const handle = run.open("signal", call, { name });
      run.wait(handle, name, ms < 0 ? undefined : now() + ms);
      return handle;
    },
    send: (call, name, runId, signal, payload) => {
      checkName("name", name);
      checkRunId(runId);
      checkName("signal name", signal);
      checkPayload("payload of signal", signal, payload);
      run.room();
      run.sent.push({ runId, signal, payload: decode(payload) });
      const handle = run.open("send", call), to = run.trial.runs.get(runId);
      const wrong = run.trial.absent.has(runId) ? `there is no run ${named(runId)}` : to?.over && `run ${named(runId)} takes no signals: it has ended`;
      const refuse = (code, message) => run.resolve(handle, JSON.stringify({ code, message }), codes[code]);
      if (wrong) refuse("CONFLICT", wrong);
      else {
        try {
          to?.deliver({ name: signal, text: payload });
          run.resolve(handle, "");
        } catch (e) {
          if (!(e instanceof Refusal)) throw e;
          refuse(e.code, e.message);
        }
      }
      return handle;
    },
    hook: (call, name, token, text) => {
      checkName("hook name", name);
      hookOptions(text);
      if (token !== "") checkToken(token);
      run.room();
      const handle = run.open("hook", call, { name }), holder = token && run.trial.tokens.get(token)?.run;
      token ||= `token-${handle}.${run.id}`;
      if (holder) {
        const message = `token ${named(token)} is held by run ${named(holder.id)}`;
        run.resolve(handle, JSON.stringify({ code: "CONFLICT", message, details: { holder: holder.id } }), codes.CONFLICT);
        return handle;
      }
      run.trial.tokens.set(token, { run, name });
      run.resolve(handle, token);
      return handle;
    },
  };
}

// Steps and children.
function starting(run, now) {
  const step = (call, name, handler, text, perform) => {
    const options = stepOptions(text);
    const fn = run.trial.handlers.get(handler) ?? stepFunctions.get(handler);
    if (handler !== undefined && !fn) throw new Refusal("UNKNOWN_HANDLER", missing(handler));
    run.named(name);
    run.steps.push(name);
    const handle = run.open("step", call, { name, handler, options, since: now() });
    const h = run.handles.get(handle);
    if (stepFunctions.get(handler) === fn && fn) h.body = fn;
    h.perform = perform ? () => perform(fn, h) : () => timed(run.trial.clock, h, followed(h, h.body));
    return handle;
  };
  return {
    step: (call, name, handler, input, text) => {
      checkName("step name", name);
      checkHandler(handler);
      checkPayload("input of step", name, input);
      return step(call, name, handler, text, (fn, h) => run.outside(() => timed(run.trial.clock, h.body && h, h.body ? followed(h, fn) : fn, decode(input), info().step)));
    },
    stepBegin: (call, name, text) => {
      checkName("step name", name);
      return step(call, name, undefined, text);
    },
    child: (call, name, workflow, input, text) => {
      checkName("child name", name);
      checkWorkflow(workflow);
      checkPayload("input of child", name, input);
      return child(run, call, { name, workflow, input, ...childOptions(name, text) });
    },
  };
}

const missing = (handler) => (handler.startsWith("host/")
  ? `no handler ${named(handler)} is registered in this test: env.handle(${named(handler)}, fn)`
  : `the module has no step function ${named(handler)}`);

// child starts a child: the function that stands in for a workflow, or the workflow that is registered.
function child(run, call, o) {
  const { trial } = run, fn = trial.children.get(o.workflow), w = workflows.get(o.workflow);
  checkChildren(run.depth, [...run.handles.values()].filter(({ kind, told }) => kind === "child" && !told).length);
  run.named(o.name);
  const options = stepOptions('{"attempts":1}');
  const handle = run.open("child", call, { name: o.name, since: trial.now, options, onEnd: o.on_end });
  const h = run.handles.get(handle);
  h.id = o.id ?? `${run.id}.${run.calls.length}`;
  call.runId = h.id;
  const failed = (status, details, code = "CHILD_FAILED") => {
    const { message, type } = details ?? {};
    const text = `child ${named(o.name)} (run ${h.id}) ${status}${message ? `: ${message}` : ""}`;
    const e = { code, name: o.name, kind: status, type: type || undefined, message: text, details };
    run.resolve(handle, JSON.stringify(e), codes[code]);
  };
  if (trial.ids.has(h.id)) {
    const details = { code: "CONFLICT", message: `run ${named(h.id)}: run exists` };
    const message = `child ${named(o.name)} was not started: ${details.message}`;
    run.resolve(handle, JSON.stringify({ code: "CONFLICT", name: o.name, message, details }), codes.CONFLICT);
    return handle;
  }
  if (!fn && !w) {
    failed("failed", { message: `workflow ${named(o.workflow)}: not found in this test: register it, or stand in for it by env.child` });
    return handle;
  }
  trial.ids.add(h.id);
  if (fn) {
    h.perform = () => timed(trial.clock, false, fn, decode(o.input));
    return handle;
  }
  const { memo, input, workflow: name } = o;
  h.child = new Run(trial, { id: h.id, name, fn: w.fn, raw: w.options.raw, input, attributes: { ...o.attributes }, memo, depth: run.depth + 1,
    done: (ended) => {
      if (h.told || run.over || run.handles.get(handle) !== h) return;
      if (!ended.failed) return run.resolve(handle, ended.result);
      const { e, status, report: told = JSON.parse(report(e)) } = ended.failed;
      return failed(status, told ?? undefined);
    } });
  trial.runs.set(h.id, h.child);
  if (o.timeout && milliseconds(o.timeout) > 0) h.child.plan(trial.now + Math.ceil(milliseconds(o.timeout)), () => h.child.deadline());
  return handle;
}

// Calls that have their outcome at once.
function immediate(run) {
  return {
    emit: (call, topic, text) => {
      checkName("topic", topic);
      checkPayload("output of topic", topic, text);
      return (call.result = run.outputs.push({ topic, value: decode(text) }) - 1);
    },
    attribute: (call, key, value) => {
      checkAttribute(key, value, run.attributes);
      run.attributes[key] = value;
      return 0;
    },
    policy: (call) => {
      run.cooperative = true;
      call.result = 1;
      return 0;
    },
    version: (call, id, number) => {
      const newest = Math.trunc(number) || 0; // as the engine hands it to a host
      checkVersion(id, newest);
      run.versions.set(id, newest);
      return (call.result = newest);
    },
    continueAsNew: (call, input, text) => {
      checkPayload("input of", "continue_as_new", input);
      continueOptions(text);
      run.continued = { input };
    },
    updateReply: (call, handle, failed, text) => {
      call.name = run.handles.get(handle).name;
      checkPayload("answer to update", call.name.slice(updatePrefix.length), text);
      if (failed) Object.assign(call, { code: "FAILED", message: JSON.parse(text).message });
      run.answer(handle, failed, text);
      return 0;
    },
  };
}
