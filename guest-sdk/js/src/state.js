// The state of a run, and the host that it runs on. In the engine there is one run in the life of this module; tests have one
// after another.
import { parseError } from "./error.js";
import { JSON } from "./json.js";

export let host; // the calls of abi/ABI.md: the engine's, or those of a test's environment
export let run;

export function begin(calls) {
  host = calls;
  run = {
    queries: new Map(),
    updates: new Map(),
    updating: 0, // updates that were taken and not answered
    rest: [], // who waits for updating to be 0
    timers: new Map(), // of setTimeout, by id: the promise of its sleep, and what begins another
    timerIds: 0,
    policy: false, // whether this iteration has asked to be told of a cancel
    throwing: false, // whether a cancel rejects what is waited for
    cancelled: undefined, // the promise of cancelled()
    owed: undefined, // of a cancel that came while steps or timers ran, see cancel.js
    races: { // see races.js
      turn: 0, // a number of what follows from one event
      fresh: 0, // waits since those that it watches were brought up to date
      taken: undefined, // the wait to which the signal went that the run is going on with
      warned: false,
    },
    saga: { depth: 0, open: [], newest: "*", undoing: undefined }, // see saga.js, and begun in calls.js
    inBody: false, // whether a body or a step function is executed
    done: 0, // 1 completed, 2 failed
  };
}

// use has the calls of the host replaced, in the same run or in another one.
export function use(calls, of = run) {
  host = calls;
  run = of;
}

export const failure = () => parseError(host.last());

// encode returns a value as JSON. What JSON cannot hold is an error, with which no attempt is repeated.
export function encode(v) {
  if (v === undefined) return "";
  let text;
  try {
    text = JSON.stringify(v);
    if (text === undefined && typeof v !== "object") throw new TypeError(`it is a ${typeof v}`);
  } catch (e) {
    const why = /circular/i.test(e?.message) ? "it refers to itself" : e?.message ?? e;
    throw Object.assign(new TypeError(`a value cannot be written as JSON: ${why}`), { retryable: false });
  }
  return text ?? "";
}

// encodeResult returns what an attempt has brought as JSON. A number that JSON would change to null is an error. Inputs and results of
// runs have null, as they always had, since a replay writes them again.
export function encodeResult(v) {
  const text = encode(v);
  if (text.includes("null")) JSON.stringify(v, finite);
  return text;
}

function finite(key, v) {
  if (typeof v !== "number" || Number.isFinite(v)) return v;
  throw Object.assign(new TypeError(`a value cannot be written as JSON: ${key === "" ? "it" : JSON.stringify(key)} is ${v}`), { retryable: false });
}

export const decode = (text) => (text === "" || text === undefined ? undefined : JSON.parse(text));
