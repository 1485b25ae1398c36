// The state of a run, and the host that it runs on. In the engine there is one run in the life of this module; tests have one
// after another.
import { parseError } from "./error.js";

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
    inBody: false, // whether a body or a step function is executed
    done: 0, // 1 completed, 2 failed
  };
}

// use has the calls of the host replaced, in the same run.
export function use(calls) {
  host = calls;
}

export const failure = () => parseError(host.last());
export const encode = (v) => (v === undefined ? "" : JSON.stringify(v) ?? "");
export const decode = (text) => (text === "" || text === undefined ? undefined : JSON.parse(text));
