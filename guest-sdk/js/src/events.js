// DOMException, Event, CustomEvent and EventTarget.

const legacy = { IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7, NotFoundError: 8,
  NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12, InvalidModificationError: 13, NamespaceError: 14,
  InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22,
  TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25 };

// needed throws where a call has fewer arguments than it must have.
export const needed = (n, args, what) => {
  if (args.length < n) throw new TypeError(`${what}: it needs ${n} argument${n > 1 ? "s" : ""}, and got ${args.length}`);
};

// tag gives a class its name, which a bundler changes, and that of its instances for Object.prototype.toString.
export function tag(kind, name) {
  Object.defineProperty(kind, "name", { value: name, configurable: true });
  Object.defineProperty(kind.prototype, Symbol.toStringTag, { value: name, configurable: true });
}

export class DOMException extends Error {
  #name;
  constructor(message = "", name = "Error") {
    const options = typeof name === "object" && name !== null ? name : {};
    super(String(message), "cause" in options ? { cause: options.cause } : undefined);
    this.#name = typeof name === "object" && name !== null ? String(options.name ?? "Error") : String(name);
  }
  get name() {
    return this.#name;
  }
  get code() {
    return Object.hasOwn(legacy, this.#name) ? legacy[this.#name] : 0;
  }
}
tag(DOMException, "DOMException");

let passively; // has an event know that a passive listener is called, or no more
let dispatching; // has a target call its listeners with an event
export let trusted; // makes an event one of the platform's

export class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #prevented = false;
  #passive = false; // whether the listener that is called must not prevent what is done by default
  #stopped = false;
  #trusted = false;
  #target = null;
  #at = null; // the target while it is dispatched
  #ended = false; // whether no other listener is called
  static {
    trusted = (event) => {
      event.#trusted = true;
      return event;
    };
    passively = (event, passive) => {
      event.#passive = passive;
    };
    dispatching = (event, target, call) => {
      if (event.#at) throw new DOMException("the event is dispatched already", "InvalidStateError");
      event.#target = event.#at = target;
      try {
        call(() => event.#ended);
      } finally {
        event.#at = null;
        event.#stopped = event.#ended = false;
      }
      return !event.#prevented;
    };
  }
  constructor(type, init) {
    if (arguments.length === 0) throw new TypeError("an event needs a type");
    const { bubbles = false, cancelable = false, composed = false } = init ?? {};
    this.#type = String(type);
    this.#bubbles = Boolean(bubbles);
    this.#cancelable = Boolean(cancelable);
    this.#composed = Boolean(composed);
  }
  get type() {
    return this.#type;
  }
  get target() {
    return this.#target;
  }
  get srcElement() {
    return this.#target;
  }
  get currentTarget() {
    return this.#at;
  }
  get eventPhase() {
    return this.#at ? 2 : 0;
  }
  get bubbles() {
    return this.#bubbles;
  }
  get cancelable() {
    return this.#cancelable;
  }
  get composed() {
    return this.#composed;
  }
  get defaultPrevented() {
    return this.#prevented;
  }
  get returnValue() {
    return !this.#prevented;
  }
  get cancelBubble() {
    return this.#stopped;
  }
  set cancelBubble(v) {
    if (v) this.#stopped = true;
  }
  get isTrusted() {
    return this.#trusted;
  }
  get timeStamp() {
    return 0;
  }
  composedPath() {
    return this.#at ? [this.#at] : [];
  }
  preventDefault() {
    if (this.#cancelable && !this.#passive) this.#prevented = true;
  }
  stopPropagation() {
    this.#stopped = true;
  }
  stopImmediatePropagation() {
    this.#stopped = this.#ended = true;
  }
}
tag(Event, "Event");
for (const [name, value] of Object.entries({ NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 })) {
  Object.defineProperty(Event, name, { value, enumerable: true });
}

export class CustomEvent extends Event {
  #detail;
  constructor(type, init) {
    super(...arguments);
    this.#detail = init?.detail ?? null;
  }
  get detail() {
    return this.#detail;
  }
}
tag(CustomEvent, "CustomEvent");

export class EventTarget {
  #listeners = []; // {type, fn, capture, once, passive, gone}
  addEventListener(type, fn, options) {
    if (arguments.length < 2) throw new TypeError("addEventListener(type, listener): a listener is missing");
    if (fn === null || fn === undefined) return;
    if (typeof fn !== "function" && typeof fn !== "object") throw new TypeError("a listener is a function, or an object with handleEvent");
    const { capture = false, once = false, passive = false, signal } = typeof options === "object" && options !== null ? options : { capture: options };
    const l = { type: String(type), fn, capture: Boolean(capture), once: Boolean(once), passive: Boolean(passive), gone: false };
    if (signal?.aborted || this.#find(l)) return;
    this.#listeners.push(l);
    signal?.addEventListener("abort", () => this.#remove(l), { once: true });
  }
  removeEventListener(type, fn, options) {
    if (arguments.length < 2) throw new TypeError("removeEventListener(type, listener): a listener is missing");
    const capture = Boolean(typeof options === "object" && options !== null ? options.capture : options);
    const l = this.#find({ type: String(type), fn, capture });
    if (l) this.#remove(l);
  }
  #find({ type, fn, capture }) {
    return this.#listeners.find((l) => l.type === type && l.fn === fn && l.capture === capture);
  }
  #remove(l) {
    l.gone = true;
    this.#listeners = this.#listeners.filter((other) => other !== l);
  }
  dispatchEvent(event) {
    if (!(event instanceof Event)) throw new TypeError("dispatchEvent takes an Event");
    return dispatching(event, this, (ended) => {
      for (const l of this.#listeners.filter(({ type }) => type === event.type)) {
        if (l.gone || ended()) continue;
        if (l.once) this.#remove(l);
        passively(event, l.passive);
        try {
          if (typeof l.fn === "function") l.fn.call(this, event);
          else l.fn.handleEvent(event);
        } catch (e) {
          globalThis.console.error("a listener has thrown:", e); // the others are called, and so is who has dispatched the event
        } finally {
          passively(event, false);
        }
      }
    });
  }
}
tag(EventTarget, "EventTarget");
