// What a cancel does to a run that takes it. Waits are rejected. A step that has begun may have had its effect, so that its promise
// resolves by its outcome, and what the program calls next is refused in place of it: who has reserved can still say how to undo it.
import { WorkflowError } from "./error.js";
import { failed, refused, withdraw } from "./pending.js";
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
  const owed = { steps: new Set(), due: false, told: false };
  const timers = new Set(run.timers.values()); // nobody hears of those
  for (const promise of host.opened().sort((a, b) => a.handle - b.handle)) {
    if (promise.kind === "update") continue;
    const is = withdraw(promise, cancelling());
    if (is === "running") owed.steps.add(promise.handle);
    else if (is === "withdrawn" && !timers.has(promise)) owed.told = true;
  }
  if (owed.steps.size > 0) run.owed = owed;
}

// ended reports whether a step that ran at the cancel has ended since it was called last.
function ended(owed) {
  const n = owed.steps.size;
  for (const handle of owed.steps) if (host.place(handle) === undefined) owed.steps.delete(handle);
  return owed.steps.size < n;
}

// owing reports whether the call that the program is about to make is refused since a step has ended that ran at the cancel. So are
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
  owed.due = false;
  owed.told = true;
}

// stopped returns the promise of a call that a cancel refuses.
export const stopped = (kind) => refused(kind, code, message);

// failing returns the error of a call that has failed. Of a step that ran at the cancel, it is the cancel's, and its own is the cause.
export function failing(kind, place, e) {
  const cause = failed(kind, place, e);
  const { owed } = run;
  if (!owed || !ended(owed)) return cause;
  owed.due = false;
  owed.told = true;
  const own = failed(kind, place, new WorkflowError({ code, message, name: e.step }));
  return Object.defineProperty(own, "cause", { __proto__: null, value: cause, writable: true, configurable: true });
}

// spare has the calls made that undo something. It returns a function that ends this: the cancel is still to be told then.
export function spare() {
  const { owed } = run;
  if (!owed) return () => {};
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
  if (owed.told) owed.due = false;
  if (owed.steps.size === 0 && !owed.due) run.owed = undefined;
}
