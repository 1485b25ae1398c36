import { throwOnCancel } from "./calls.js";
import { cancelling, cut, spare } from "./cancel.js";

/**
 * saga(async (undo) => { …; undo(() => refund()); … }) calls what was given to undo, the last first, if the function fails or the
 * run is cancelled; then it throws the function's error.
 */
export async function saga(fn) {
  throwOnCancel();
  const undo = [];
  try {
    const value = await fn((f) => {
      if (typeof f !== "function") throw new TypeError("undo takes a function, which is called if the saga fails");
      undo.push(f);
    });
    if (cut()) throw cancelling();
    return value;
  } catch (e) {
    const failed = [], spared = await spare();
    for (const f of undo.reverse()) {
      try {
        await f();
      } catch (u) {
        failed.push(u);
      }
    }
    spared();
    if (failed.length > 0) throw new AggregateError([e, ...failed], `${e?.message ?? e}; and what was done could not be undone: ${
      failed.map((u) => u?.message ?? u).join("; ")}`);
    throw e;
  }
}
