// What a cancel does to a run that takes it. Waits are rejected. A step that has begun may have had its effect, so that its promise
// resolves by its outcome, and what the program calls next is refused in place of it: who has reserved can still say how to undo it.
// A timer has nobody who could be told, so that it fires at once, and what the program calls next is refused as after a step.
import { WorkflowError } from "./error.js";
import { failed, nothing, pending, refused, withdraw } from "./pending.js";
import { host, run } from "./state.js";

const code = "CANCELLED";
const message = "the run was asked to cancel";

// cancelling returns the error of a cancel.
export const cancelling = () => new WorkflowError({ code, message });

// asked is what a cancel does. An iteration that has not said yet how it takes one has got the policy from the iteration before.
export function asked() {
  run.cancelled ??= {};
  run.cancelled.promise ??= Promise.resolve();
  run.cancelled.resolve?.();
  if (run.policy && !run.throwing) return;
  const owed = {
    steps: new Set(), // the handles of those that ran, and of timers
    early: new Set(), // those of timers that fire before their time
    due: false, // whether the next call is refused
    short: false, // whether a timer is the reason
    told: false, // whether a part of the program has heard of the cancel
  };
  const timers = new Map([...run.timers.values()].map((t) => [t.promise, t]));
  for (const promise of host.opened().sort((a, b) => a.handle - b.handle)) {
    if (promise.kind === "update") continue;
    const is = withdraw(promise, cancelling()), timer = timers.get(promise);
    if (is === "running" || (timer && is === "resolved")) owed.steps.add(promise.handle);
    else if (is === "withdrawn" && !timer) owed.told = true;
    else if (is === "withdrawn") hurry(timer, owed);
  }
  if (owed.steps.size > 0) run.owed = owed;
}

// hurry has a timer that was withdrawn fire in a turn of its own.
function hurry(timer, owed) {
  const { handle } = timer.again(0);
  owed.steps.add(handle);
  owed.early.add(handle);
}

// ended reports whether a step or timer that ran at the cancel has ended since it was called last.
function ended(owed) {
  const n = owed.steps.size;
  for (const handle of owed.steps) {
    if (host.place(handle) !== undefined) continue;
    owed.steps.delete(handle);
    if (owed.early.delete(handle)) owed.short = true;
  }
  return owed.steps.size < n;
}

// tell says that a part of the program has heard of the cancel.
function tell(owed) {
  owed.due = owed.short = false;
  owed.told = true;
}

// cut reports whether the program has come to its end since a cancel had a timer fire early, of which it has not heard. It does now:
// what it brings is no result.
export function cut() {
  const { owed } = run;
  if (!owed) return false;
  if (ended(owed)) owed.due = true;
  const is = owed.due && owed.short;
  if (is) tell(owed);
  return is;
}

// owing reports whether the call that the program is about to make is refused since a step or timer has ended that ran at the cancel. So are
// those that it makes before it hears of that, and none after it: they clean up.
export function owing() {
  const { owed } = run;
  if (!owed) return false;
  if (ended(owed)) owed.due = true;
  if (owed.due) heard(owed);
  return owed.due;
}

async function heard(owed) {
  await undefined; // this goes on before what is about to wait for the call
  tell(owed);
}

// stopped returns the promise of a call that a cancel refuses.
export const stopped = (kind) => refused(kind, code, message);

// failing returns the error of a call that has failed. Of a step that ran at the cancel, it is the cancel's, and its own is the cause.
export function failing(kind, place, e) {
  const cause = failed(kind, place, e);
  const { owed } = run;
  if (!owed || !ended(owed)) return cause;
  tell(owed);
  const own = failed(kind, place, new WorkflowError({ code, message, name: e.step }));
  return Object.defineProperty(own, "cause", { __proto__: null, value: cause, writable: true, configurable: true });
}

// spare has the calls made that undo something, when all has ended that ran at the cancel, so that none is refused because of it. What
// follows from the last of that beside them has its own turn. It returns a function that ends this: the cancel is still to be told then.
export async function spare() {
  const { owed } = run;
  if (!owed) return () => {};
  await Promise.allSettled(host.opened().filter((p) => owed.steps.has(p.handle)));
  await pending(host.sleep(host.unique("undo"), 0), "sleep", undefined, nothing).catch(() => {});
  const due = ended(owed) || owed.due;
  owed.due = false;
  return () => {
    if (!due || owed.told) return;
    owed.due = true;
    run.owed = owed;
  };
}

// rested says that everything has happened that follows from an event. If the cancel was told to some part of the program, what
// follows from another step had its chance.
export function rested() {
  const { owed } = run;
  if (!owed) return;
  if (ended(owed)) owed.due = true;
  if (owed.told) tell(owed);
  if (owed.steps.size === 0 && !owed.due) run.owed = undefined;
}
