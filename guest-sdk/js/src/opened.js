// The handles that are open, for tests: in the engine, typescript/engine/c/open.h has them.
import { asProgram } from "./nodeprocess.js";
import { made, notJSON, nothing, text as asText } from "./pending.js";
import { decode } from "./state.js";

// reject rejects the promise of a call, if there is one. It is the program's, whoever has it rejected.
function reject(call, reason) {
  if (call) asProgram(call.reject, reason);
}

export class Opened {
  #all = new Map(); // by handle

  // calls returns the calls of the host that are about promises. place returns the place of the caller.
  calls(place) {
    return {
      open: (handle, kind, read, body) => {
        const call = { kind, read, body, place: place() };
        call.promise = made(new Promise((resolve, reject) => Object.assign(call, { resolve, reject })), handle, kind);
        this.#all.set(handle, call);
        return call.promise;
      },
      opened: () => [...this.#all.values()].map((call) => call.promise),
      place: (handle) => this.#all.get(handle)?.place,
      refuse: (handle, reason) => reject(this.#take(handle), reason),
    };
  }

  #take(handle) {
    const call = this.#all.get(handle);
    this.#all.delete(handle);
    return call;
  }

  // body returns the body of a step.
  body(handle) {
    return this.#all.get(handle).body;
  }

  // resolve settles the promise of a handle by its result.
  resolve(handle, text) {
    const call = this.#take(handle);
    if (!call) return;
    if (call.read === nothing) return call.resolve();
    if (call.read === asText) return call.resolve(text);
    try {
      call.resolve(decode(text));
    } catch (e) {
      reject(call, notJSON(call.kind, e));
    }
  }

  // fail rejects the promise of a handle. failure makes the error of its kind and place.
  fail(handle, failure) {
    const call = this.#take(handle);
    if (call) reject(call, failure(call.kind, call.place));
  }
}

// numbering returns what numbers the further uses of a name: poll, poll#2, poll#3.
export function numbering() {
  const used = new Map(); // how often
  return (name) => {
    const n = (used.get(name) ?? 0) + 1;
    used.set(name, n);
    return n === 1 ? name : `${name}#${n}`;
  };
}
