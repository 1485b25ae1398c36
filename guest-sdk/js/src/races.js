// Warnings of plain races, which leave the waits that lost: a wait for a signal then takes the next one.
import { host, run } from "./state.js";

const waits = new WeakMap(); // of promises of waits for signals that nothing but the program withdraws: their names
const watched = new WeakSet(); // those of them that taken is told of
let taken; // the wait to which the signal went that the run is going on with
let warned = false;
const { then } = Promise.prototype;

// waiting remembers the name of a wait for a signal.
export function waiting(promise, name) {
  waits.set(promise, name);
  return promise;
}

// turned says that everything has happened that follows from an event.
export function turned() {
  taken = undefined;
}

function warn(text) {
  if (!warned) host.log(2, `${text}: use race({…}) of @wfhost/workflow`);
  warned = true;
}

// watchTaken has taken tell of the waits that are open.
function watchTaken() {
  for (const p of host.opened()) {
    if (!waits.has(p) || watched.has(p)) continue;
    watched.add(p);
    then.call(p, () => {
      taken = p;
    }, () => {});
  }
}

// late is called when a promise resolves that has lost a race. If that is because of a signal for which another wait is open, which
// is then a later one, the program has got it where it does not look any more.
function late(kind) {
  const name = taken && waits.get(taken);
  if (name !== undefined && host.opened().some((p) => waits.get(p) === name)) {
    warn(`a wait that has lost a ${kind} has taken the signal ${JSON.stringify(name)}, and a later wait for it is open`);
  }
}

// plain makes Promise.race or Promise.any tell of waits that have lost.
export function plain(kind) {
  const settle = Promise[kind];
  return function (promises) {
    const list = [...promises];
    const first = settle.call(this ?? Promise, list);
    if (warned || run.inBody || list.length < 2) return first;
    if (list.some((p) => waits.has(p))) {
      warn(`Promise.${kind} does not withdraw a wait for a signal that has lost, so that it takes the next one`);
      return first;
    }
    let over = false;
    const end = () => {
      if (!over) watchTaken();
      over = true;
    };
    for (const p of list) { // and not first, whose rejection may be nobody's
      if (!(p instanceof Promise)) continue;
      then.call(p, () => {
        if (over && p.handle === undefined && !warned) late(`Promise.${kind}`);
        end();
      }, kind === "race" ? end : () => {});
    }
    return first;
  };
}
