// Promises of handles. The host makes and settles them: the engine in typescript/engine/c/open.h, since a replay does little else,
// and tests in opened.js.
import { WorkflowError, cameFrom } from "./error.js";
import { failure, host } from "./state.js";

// What becomes of the text of a result.
export const json = 0;
export const nothing = 1;
export const text = 2;

// made gives a promise the properties that those of the engine have.
export function made(promise, handle, kind) {
  return Object.defineProperty(Object.assign(promise, { handle, kind }), "cancel", { __proto__: null, value: cancel, writable: true, configurable: true });
}

// cancel is a method of the promises.
export function cancel(reason) {
  this.catch(() => {}); // who withdraws it need not wait for it
  return this.handle > 0 ? withdraw(this, reason) : "resolved";
}

// pending returns the promise of a handle, or a rejected one of a refusal. A body is that of a step.
export function pending(handle, kind, signal, read = json, body = undefined) {
  if (handle < 0) return made(Promise.reject(failed(kind, host.caller(), failure())), handle, kind);
  const promise = host.open(handle, kind, read, body);
  if (signal) abortable(signal, promise);
  return promise;
}

// refused returns the promise of a call that is wrong, so that the host is not asked.
export function refused(kind, code, message) {
  return made(Promise.reject(failed(kind, host.caller(), new WorkflowError({ code, message }))), -1, kind);
}

// failed adds to the error of a call where the program made it.
export function failed(kind, place, e) {
  return e instanceof WorkflowError ? cameFrom(e, kind, host.where(place)) : e;
}

// notJSON is the error of a result that is not JSON.
export function notJSON(kind, e) {
  return new Error(`what the ${kind} has brought is not JSON: ${e?.message ?? "out of memory"}`);
}

// withdraw takes a handle back, whose promise is then rejected. What has begun resolves by its outcome.
export function withdraw({ handle, kind }, reason) {
  const place = host.place(handle);
  if (place === undefined) return "resolved";
  const code = host.cancel(handle);
  if (code < 0) throw failure();
  if (code === 2) return "running";
  if (code !== 0) return "resolved";
  host.refuse(handle, failed(kind, place, reason ?? new WorkflowError({ code: "CANCELLED", message: "it was withdrawn" })));
  return "withdrawn";
}

function abortable(signal, promise) {
  const stop = () => withdraw(promise, signal.reason);
  if (signal.aborted) {
    stop();
    return;
  }
  signal.addEventListener("abort", stop, { once: true });
  const done = () => signal.removeEventListener("abort", stop);
  promise.then(done, done);
}
