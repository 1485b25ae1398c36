// Promises of handles.
import { WorkflowError, cameFrom } from "./error.js";
import { decode, failure, host, run } from "./state.js";

// pending returns the promise of a handle, or a rejected one of a refusal. read makes its value of the result's text.
export function pending(handle, { read = decode, kind = "call", signal } = {}) {
  const place = host.caller();
  if (handle < 0) return refused(cameFrom(failure(), kind, host.where(place)));
  let settle;
  const promise = new Promise((resolve, reject) => {
    const failed = (e) => reject(e instanceof WorkflowError ? cameFrom(e, kind, host.where(place)) : e);
    settle = { reject: failed, kind, resolve: (text) => resolve(read(text)) };
  });
  run.open.set(handle, settle);
  promise.handle = handle;
  promise.kind = kind;
  promise.cancel = (reason) => {
    promise.catch(() => {}); // who withdraws it need not wait for it
    return withdraw(handle, reason);
  };
  if (signal) abortable(signal, promise);
  return promise;
}

export function refused(error) {
  const promise = Promise.reject(error);
  promise.cancel = () => {
    promise.catch(() => {});
    return "resolved";
  };
  return promise;
}

// withdraw takes a handle back, whose promise is then rejected. What has begun resolves by its outcome.
export function withdraw(handle, reason) {
  const settle = run.open.get(handle);
  if (!settle) return "resolved";
  const code = host.cancel(handle);
  if (code < 0) throw failure();
  if (code === 2) return "running";
  if (code === 0) {
    run.open.delete(handle);
    run.bodies.delete(handle);
    settle.reject(reason ?? new WorkflowError({ code: "CANCELLED", message: "it was withdrawn" }));
    return "withdrawn";
  }
  return "resolved";
}

function abortable(signal, promise) {
  const stop = () => withdraw(promise.handle, signal.reason);
  if (signal.aborted) {
    stop();
    return;
  }
  signal.addEventListener("abort", stop, { once: true });
  const done = () => signal.removeEventListener("abort", stop);
  promise.then(done, done);
}
