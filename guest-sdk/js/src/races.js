// Warnings of races that leave the waits that lost: a wait for a signal then takes the next one. Plain races leave all of them, and the
// SDK's what is no call itself.
import { host, run } from "./state.js";

const waits = new WeakMap(); // of promises of waits for signals that nothing but the program withdraws: their names, and the turns they began in
const watched = new WeakSet(); // those of them that taken is told of
const entries = new WeakMap(); // what is known of promises that have raced
const { then } = Promise.prototype; // run.races has the rest: it is the run's

// Kinds of races: what they are called, and what to do instead.
const instead = "use race({…}) of @wfhost/workflow";
const kinds = {
  race: ["Promise.race", instead], any: ["Promise.any", instead],
  own: ["race({…})", "make the entry a function, and hand the AbortSignal that it gets to the wait: signal(name, { signal })"],
};

// waiting remembers the name of a wait for a signal, and the turn in which it begins.
export function waiting(promise, name) {
  run.races.fresh++;
  waits.set(promise, { name, turn: run.races.turn });
  return promise;
}

// turned says that everything has happened that follows from an event, and the next turn begins.
export function turned() {
  run.races.turn++;
  run.races.taken = undefined;
}

function warn(kind, text) {
  if (!run.races.warned) host.log(2, `${text}: ${kinds[kind][1]}`);
  run.races.warned = true;
}

// watchTaken has taken tell of the waits that are open.
function watchTaken() {
  const { races } = run;
  if (races.fresh === 0) return;
  races.fresh = 0;
  for (const p of host.opened()) {
    if (!waits.has(p) || watched.has(p)) continue;
    watched.add(p);
    then.call(p, () => {
      races.taken = p;
    }, () => {});
  }
}

// late is called when a promise resolves that has lost a race. If that is because of a signal for which another wait was open already,
// which is then a later one, the program has got it where it does not look any more. Who has got it may have begun one since then.
function late(kind) {
  const { taken, turn } = run.races, name = taken && waits.get(taken)?.name;
  const later = (p) => waits.get(p)?.name === name && waits.get(p).turn < turn;
  if (name !== undefined && host.opened().some(later)) {
    warn(kind, `a wait that has lost a ${kinds[kind][0]} has taken the signal ${JSON.stringify(name)}, and a later wait for it is open`);
  }
}

// entryOf begins to know of a promise: the races that it is in, the kind of one that it has lost, and how it has ended. A
// promise that is in one race after the other is followed once, and keeps nothing of those that are over.
function entryOf(p) {
  const entry = { races: [], lost: undefined, ended: undefined };
  entries.set(p, entry);
  then.call(p, () => {
    if (entry.lost && p.handle === undefined && !run.races.warned) late(entry.lost);
    leave(entry, "resolved");
  }, () => leave(entry, "rejected"));
  return entry;
}

// remove takes something out of a list, if it is there. The order of the list does not matter.
function remove(list, one) {
  const at = list.lastIndexOf(one);
  if (at < 0) return;
  const last = list.pop();
  if (at < list.length) list[at] = last;
}

// leave ends the races that are over since a promise of theirs has ended.
function leave(entry, ended) {
  entry.ended = ended;
  for (let race; (race = entry.races.pop());) {
    if (ended === "resolved" || race.kind === "race") over(race);
  }
}

function over(race) {
  for (const entry of race.all) {
    entry.lost = race.kind;
    remove(entry.races, race);
  }
  watchTaken();
}

// follow has the entries of a race know when it is over. It is plain loops, since each replay does it again.
function follow(kind, list) {
  const race = { kind, all: [] };
  let ended = false;
  for (const p of list) {
    if (!(p instanceof Promise)) continue;
    const entry = entries.get(p) ?? entryOf(p);
    entry.lost = undefined;
    race.all.push(entry);
    if (entry.ended === "resolved" || (entry.ended && kind === "race")) ended = true;
    else if (!entry.ended) entry.races.push(race);
  }
  if (ended) over(race);
}

// entered has a promise known to be in a race of the SDK: the program looks at it again.
export function entered(p) {
  const entry = entries.get(p);
  if (entry) entry.lost = undefined;
}

// left has the losers of a race of the SDK known that it cannot withdraw.
export function left(losers) {
  const list = run.races.warned || run.inBody ? [] : losers.filter((p) => p instanceof Promise);
  for (const p of list) (entries.get(p) ?? entryOf(p)).lost = "own";
  if (list.length > 0) watchTaken();
}

// plain makes Promise.race or Promise.any tell of waits that have lost.
export function plain(kind) {
  const settle = Promise[kind];
  return { [kind](promises) {
    let list;
    try {
      list = [...promises];
    } catch (e) {
      return (this ?? Promise).reject(e);
    }
    const first = settle.call(this ?? Promise, list);
    if (run.races.warned || run.inBody || list.length < 2) return first;
    if (list.some((p) => waits.has(p))) {
      warn(kind, `Promise.${kind} does not withdraw a wait for a signal that has lost, so that it takes the next one`);
    } else follow(kind, list); // and not first, whose rejection may be nobody's
    return first;
  } }[kind];
}
