import { throwOnCancel } from "./calls.js";
import { cancelling, cut, spare } from "./cancel.js";
import { run } from "./state.js";

/**
 * saga(async (undo) => { …; undo(() => refund()); … }) calls what was given to undo, the last first, if the function fails or the
 * run is cancelled; then it throws the function's error. Steps and children that are made meanwhile say what they undo: the call
 * that was made last when undo was called.
 */
export async function saga(fn) {
  throwOnCancel();
  const undo = [];
  if (run.saga.depth++ === 0) run.saga.newest = "*";
  try {
    const value = await fn((f) => {
      if (typeof f !== "function") throw new TypeError("undo takes a function, which is called if the saga fails");
      undo.push({ f, of: run.saga.newest });
    });
    if (cut()) throw cancelling();
    return value;
  } catch (e) {
    const failed = [], spared = await spare();
    for (const { f, of } of undo.reverse()) {
      const before = run.saga.undoing;
      run.saga.undoing = of;
      try {
        await f();
      } catch (u) {
        failed.push(u);
      } finally {
        run.saga.undoing = before;
      }
    }
    spared();
    if (failed.length > 0) throw new AggregateError([e, ...failed], `${e?.message ?? e}; and what was done could not be undone: ${
      failed.map((u) => u?.message ?? u).join("; ")}`);
    throw e;
  } finally {
    run.saga.depth--;
  }
}
