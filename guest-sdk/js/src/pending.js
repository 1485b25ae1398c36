// Promises of handles.
import { WorkflowError, cameFrom } from "./error.js";
import { decode, failure, host, run } from "./state.js";

// The functions of the promise that is being made: one executor for all of them.
let resolver, rejecter;
const grab = (resolve, reject) => {
  resolver = resolve;
  rejecter = reject;
};

// Call is what is known of a handle until it is resolved.
class Call {
  constructor(kind, read) {
    this.kind = kind;
    this.read = read;
    this.place = host.caller();
    this.fulfil = resolver;
    this.refuse = rejecter;
  }
  resolve(text) {
    this.fulfil(this.read(text));
  }
  reject(e) {
    this.refuse(e instanceof WorkflowError ? cameFrom(e, this.kind, host.where(this.place)) : e);
  }
}

function cancel(reason) {
  this.catch(() => {}); // who withdraws it need not wait for it
  return this.handle > 0 ? withdraw(this.handle, reason) : "resolved";
}

// pending returns the promise of a handle, or a rejected one of a refusal. read makes its value of the result's text.
export function pending(handle, kind, signal, read = decode) {
  const promise = new Promise(grab);
  const call = new Call(kind, read);
  promise.handle = handle;
  promise.kind = kind;
  promise.cancel = cancel;
  if (handle < 0) {
    call.reject(failure());
    return promise;
  }
  run.open.set(handle, call);
  if (signal) abortable(signal, promise);
  return promise;
}

// withdraw takes a handle back, whose promise is then rejected. What has begun resolves by its outcome.
export function withdraw(handle, reason) {
  const call = run.open.get(handle);
  if (!call) return "resolved";
  const code = host.cancel(handle);
  if (code < 0) throw failure();
  if (code === 2) return "running";
  if (code === 0) {
    run.open.delete(handle);
    run.bodies.delete(handle);
    call.reject(reason ?? new WorkflowError({ code: "CANCELLED", message: "it was withdrawn" }));
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
