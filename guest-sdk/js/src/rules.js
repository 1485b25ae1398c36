// The rules of the host for what a workflow calls, for tests under Node: abi/limit.go, abi/name.go and abi/option.go. Each check throws a
// Refusal. typescript/testdata/rules.ts is made for both, and a test compares what they answer.
import { longest, milliseconds } from "./duration.js";
import { control, got, lasting, named, quoted } from "./hosttext.js";
import { hostDuration } from "./instant.js";

// The codes of abi/code.go.
export const codes = { INVALID_ARGUMENT: 1, DUPLICATE_NAME: 2, INVALID_DURATION: 3, INVALID_DATE: 4, NOT_HERE: 5, STEP_FAILED: 6, TIMEOUT: 7,
  TOO_LARGE: 9, UNKNOWN_HANDLER: 11, LIMIT: 13, CHILD_FAILED: 14, CONFLICT: 15 };

const maxName = 256, maxWorkflow = 128, maxRunId = 128, minToken = 8, maxOptions = 16 << 10, maxHookBody = 4096, maxInt32 = 2 ** 31 - 1;
const maxAttributes = 64, maxAttribute = 1024, maxMemo = 2 << 10;
export const maxPayload = 1 << 20;
const maxHandles = 10_000, maxChildDepth = 16, maxLiveChildren = 1000;
const maxPendingBytes = 8 << 20, maxPending = 10_000, nameShare = 2, maxPendingUpdates = 1000;
export const cancelGrace = 60_000; // milliseconds
const maxTimeout = 9_223_372_036_854; // milliseconds: what a time.Duration of Go holds

export const updatePrefix = "host/update/";

// Refusal says why the host refuses a call.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const wrong = (message, code = "INVALID_ARGUMENT") => {
  throw new Refusal(code, message);
};

const utf8 = new TextEncoder();
export const bytesOf = (text) => utf8.encode(text).length;

export function checkHandler(name, what = "handler name") {
  const n = bytesOf(name);
  if (n === 0 || n > maxName) wrong(`${what} must have 1 to ${maxName} bytes, got ${n}`);
  if (/\p{Cc}/u.test(name)) wrong(`${what} must not hold control characters, got ${control(name)}`);
  if (name.startsWith("wasi/")) wrong(`${what} must not begin with "wasi/", which is reserved, got ${quoted(name)}`);
}

export function checkName(what, name) {
  checkHandler(name, what);
  if (name.startsWith("host/")) wrong(`${what} must not begin with "host/", which is reserved, got ${quoted(name)}`);
}

export function checkReceived(name) {
  if (!name.startsWith(updatePrefix)) return checkName("signal name", name);
  const update = name.slice(updatePrefix.length), n = bytesOf(update), limit = maxName - updatePrefix.length;
  if (n > limit) wrong(`update name must have 1 to ${limit} bytes, got ${n}`);
  checkName("update name", update);
}

function checkAlphabet(what, text, limit, marks) {
  const n = bytesOf(text);
  if (n === 0 || n > limit) wrong(`${what} must have 1 to ${limit} bytes, got ${n}`);
  const odd = [...text].find((c) => !/^[A-Za-z0-9]$/.test(c) && !marks.includes(c));
  if (odd !== undefined) wrong(`${what} may hold the letters A-Z a-z, digits and ${marks}, got ${quoted(odd)} in ${quoted(text)}`);
}

export const checkRunId = (id) => checkAlphabet("run id", id, maxRunId, "._:~-");

export function checkToken(token) {
  if (bytesOf(token) < minToken) wrong(`token must have ${minToken} to ${maxRunId} bytes, got ${bytesOf(token)}`);
  checkAlphabet("token", token, maxRunId, "._:~-");
}

export function checkWorkflow(name) {
  checkAlphabet("workflow name", name, maxWorkflow, "._-");
  if (!/^[A-Za-z0-9]/.test(name)) wrong(`workflow name must begin with a letter or digit, got ${quoted(name)}`);
}

export function checkPayload(what, name, text) {
  const n = bytesOf(text);
  if (n > maxPayload) wrong(`${what} ${named(name)} has ${n} bytes, the limit is ${maxPayload}`, "TOO_LARGE");
}

// checkInput checks the input of a run that a test starts.
export function checkInput(text) {
  const n = bytesOf(text);
  if (n > maxPayload) wrong(`the input has ${n} bytes, the limit is ${maxPayload}`, "TOO_LARGE");
}

// checkAttribute checks an attribute of a run that has others.
export function checkAttribute(key, value, others = {}) {
  checkName("attribute name", key);
  const n = bytesOf(value);
  if (n > maxAttribute) wrong(`attribute ${named(key)} has ${n} bytes, the limit is ${maxAttribute}`, "TOO_LARGE");
  if (/\p{Cc}/u.test(value)) wrong(`attribute ${named(key)} must be UTF-8 without control characters, got ${quoted(value)}`);
  const all = Object.keys(others).length;
  if (!Object.hasOwn(others, key) && all >= maxAttributes) wrong(`the run has ${all} attributes, the limit is ${maxAttributes}`, "LIMIT");
}

export function checkVersion(id, newest) {
  checkName("marker", id);
  if (!(newest >= 0 && newest <= maxInt32)) wrong(`version of marker ${named(id)} must be 0 to ${maxInt32}, got ${newest}`);
}

// checkUnique checks the name of a sleep, step or child.
export function checkUnique(name, used) {
  if (!used.has(name)) return;
  wrong(`the name ${named(name)} is used twice in this run; make it unique, for example with an index: ${named(`${name}-2`)}`, "DUPLICATE_NAME");
}

// checkPending checks a signal, of which others, {name, text, answer}, wait that nobody has taken.
export function checkPending(name, text, others) {
  const of = others.filter((s) => s.name === name), sum = (list) => list.reduce((n, s) => n + bytesOf(s.text), bytesOf(text));
  for (const [have, limit, what] of [[sum(of), maxPendingBytes / nameShare, "bytes of its name"], [sum(others), maxPendingBytes, "bytes"],
    [of.length + 1, maxPending / nameShare, "of its name"], [others.length + 1, maxPending, "in all"]]) {
    if (have > limit) wrong(`with the signal ${named(name)} there would be ${have} ${what} that nobody has taken, the limit is ${limit}`, "LIMIT");
  }
}

export function checkUpdates(n) {
  if (n >= maxPendingUpdates) wrong(`the run has ${n} updates that it has not answered, the limit is ${maxPendingUpdates}`, "LIMIT");
}

export function checkHandles(n) {
  if (n >= maxHandles) wrong(`the run waits for ${n} handles, the limit is ${maxHandles}`, "LIMIT");
}

// checkChildren checks a further child of a run that stands depth runs below the first one, and has so many that live.
export function checkChildren(depth, live) {
  if (depth >= maxChildDepth) wrong(`this run stands ${depth} runs below the first one, the limit is ${maxChildDepth}`, "LIMIT");
  const limit = Math.max(maxLiveChildren >> depth, 1), text = `the run has ${live} children that have not ended`;
  if (live >= limit) wrong(`${text}, the limit for one that stands ${depth} runs below the first one is ${limit}`, "LIMIT");
}

// Fields of options: each takes a value and says what it must be, or undefined if that is right.
const number = (low, high, must, whole = false) => (v) => (typeof v === "number" && v >= low && v <= high && (!whole || Number.isInteger(v)) ? undefined : must);
const word = (...words) => (v) => (words.includes(v) ? undefined : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`);
const text = (must) => (v) => (typeof v === "string" ? undefined : must);
const duration = (low, high, none = false) => (v) => {
  if (none && v === "") return undefined;
  if (typeof v !== "string") return 'duration text such as "30s"';
  let ms;
  try {
    ms = hostDuration(v);
  } catch (e) {
    throw new RangeError(`is an ${e.message}`);
  }
  if (ms < low || ms > high) throw new RangeError(`must be between ${lasting(low)} and ${lasting(high)}, got ${quoted(v)}`);
};

const ofSteps = {
  attempts: number(0, maxInt32, `a whole number from 0 (no limit) to ${maxInt32}`, true), delay: duration(0, longest),
  backoff: word("fixed", "linear", "exponential"), factor: number(1, maxInt32, `a number from 1 to ${maxInt32}`), max_delay: duration(0, longest),
  max_elapsed: duration(0, longest, true), jitter: number(0, 1, "a number from 0 to 1"), timeout: duration(1, maxTimeout),
  at_most_once: (v) => (typeof v === "boolean" ? undefined : "true or false"), undoes,
};
const version = number(0, 2 ** 32 - 1, '"latest", or a whole number from 0 (the latest) to 4294967295', true);
const ofChildren = {
  id: (v) => (typeof v === "string" ? checkRunId(v) : "a run id"), version: (v) => (v === "latest" ? undefined : version(v)),
  on_end: word("cancel", "terminate", "abandon"), timeout: duration(0, longest, true), attributes, memo, undoes,
};
const ofHooks = { status: number(200, 299, "a status of HTTP from 200 to 299", true), content_type: text("a content type"), body: text("text") };
const ofContinue = { version: word("pinned", "latest") };

function attributes(v) {
  if (typeof v !== "object" || v === null || Array.isArray(v)) return "an object of strings";
  for (const [key, value] of Object.entries(v)) {
    try {
      checkName("attribute name", key);
    } catch (e) {
      throw new TypeError(`is refused: attribute ${quoted(key)} is refused: ${e.message}`);
    }
    if (typeof value !== "string") throw new TypeError(`is refused: attribute ${quoted(key)} must be a string, got ${got(value)}`);
  }
}

function undoes(v) {
  if (typeof v !== "string") return "the name of a step or child";
  if (v !== "") checkName("step that is undone", v);
}

function memo(v) {
  if (v === null) return "JSON that says something";
  const n = bytesOf(JSON.stringify(v));
  if (n > maxMemo) throw new RangeError(`is refused: the memo has ${n} bytes as JSON without white space, the limit is ${maxMemo}`);
}

function checkOptions(what, options, fields) {
  if (options === "") return {};
  if (bytesOf(options) > maxOptions) wrong(`${what}s have ${bytesOf(options)} bytes, the limit is ${maxOptions}`);
  const o = JSON.parse(options);
  if (typeof o !== "object" || o === null || Array.isArray(o)) wrong(`${what}s must be a JSON object, got ${quoted(options)}`);
  for (const [field, v] of Object.entries(o)) {
    if (!Object.hasOwn(fields, field)) wrong(`${what} ${quoted(field)} is not known`);
    let must;
    try {
      must = fields[field](v);
    } catch (e) {
      wrong(`${what} ${quoted(field)} ${e instanceof Refusal ? `is refused: ${e.message}` : e.message}`);
    }
    if (must) wrong(`${what} ${quoted(field)} must be ${must}, got ${got(v)}`);
  }
  return o;
}

const stepDefaults = { attempts: 3, delay: "1s", backoff: "exponential", factor: 2, max_elapsed: "", jitter: 0, timeout: "10m", at_most_once: false };
const defaultMaxDelay = 5 * 60_000;

// stepOptions returns the options of a step, with the defaults and with durations in milliseconds. max_elapsed is 0 if there is none.
export function stepOptions(options) {
  const o = { ...stepDefaults, ...checkOptions("step option", options, ofSteps) };
  const delay = milliseconds(o.delay);
  return { ...o, delay, max_delay: o.max_delay === undefined ? Math.max(defaultMaxDelay, delay) : milliseconds(o.max_delay),
    max_elapsed: o.max_elapsed === "" ? 0 : milliseconds(o.max_elapsed) || Number(/[1-9]/.test(o.max_elapsed)), timeout: milliseconds(o.timeout) };
}

// retryDelay returns how long a step waits after so many failures.
export function retryDelay(o, failures) {
  const by = { fixed: 1, linear: failures, exponential: o.factor ** (failures - 1) }[o.backoff];
  return o.delay === 0 ? 0 : Math.round(Math.min(o.delay * by, o.max_delay));
}

export function childOptions(name, options) {
  const o = checkOptions("child option", options, ofChildren);
  const all = Object.entries(o.attributes ?? {});
  for (const [key, value] of all) checkAttribute(key, value);
  if (all.length > maxAttributes) wrong(`child ${named(name)} has ${all.length} attributes, the limit is ${maxAttributes}`, "LIMIT");
  return o;
}

export function hookOptions(options) {
  const o = checkOptions("hook option", options, ofHooks);
  const n = bytesOf(o.body ?? "");
  if (n > maxHookBody) wrong(`the body of a hook's answer has ${n} bytes, the limit is ${maxHookBody}`, "TOO_LARGE");
  return o;
}

export const continueOptions = (options) => checkOptions("continue option", options, ofContinue);
