// Types of @wfhost/workflow.

/** A number of milliseconds, or a text such as "500ms", "5s", "1h30m", "7d". */
export type Duration = number | string;

/** A promise of something that the host does: a sleep, a step, a wait, a child. */
export interface Pending<T> extends Promise<T> {
  /** Withdraws it: the promise is rejected with the code CANCELLED. A step that has begun goes on, and resolves by its outcome. */
  cancel(reason?: unknown): "withdrawn" | "running" | "resolved";
}

export interface Abortable {
  /** Withdraws the call when it is aborted. */
  signal?: AbortSignal;
}

export interface StepOptions extends Abortable {
  /** How often it is tried, the first time included; 0 is no limit. Default: 3. */
  attempts?: number;
  /** Before the second attempt. Default: 1 s. */
  delay?: Duration;
  /** How delays grow. Default: "exponential". */
  backoff?: "fixed" | "linear" | "exponential";
  /** Of an exponential backoff. Default: 2. */
  factor?: number;
  /** The longest delay. Default: 5 min. */
  maxDelay?: Duration;
  /** No attempt begins later than this after the call. Default: no bound. */
  maxElapsed?: Duration;
  /** The share of a delay that chance may take away, from 0 to 1. Default: 0. */
  jitter?: number;
  /** Of one attempt. Default: 10 min. */
  timeout?: Duration;
  /** An attempt whose outcome nobody knows is not repeated. Default: false. */
  atMostOnce?: boolean;
  /** The name of the step or child that this one undoes; "*" if it has none. What a saga undoes says it by itself. */
  undoes?: string;
}

/** JSON Schema, draft 2020-12. */
export type Schema = Record<string, unknown>;

export interface WorkflowOptions {
  /** Schema of the input. Starts that do not fit are refused. */
  input?: Schema;
  /** Schema of the result. */
  output?: Schema;
  /** Hands the input over as it was sent, as a Uint8Array: it need not be JSON. */
  raw?: boolean;
  /** Names of the queries that it answers. */
  queries?: string[];
  /** Names of the signals that it takes, or their schemas; true for any payload. */
  signals?: string[] | Record<string, Schema | true>;
  /** Names of the updates that it takes, or their schemas; true for any input. */
  updates?: string[] | Record<string, Schema | true>;
}

/** Registers a workflow. A file may also export one function as its default, which then has the name of the file or package. */
export function workflow<I, O>(name: string, fn: (input: I) => O | Promise<O>): (input: I) => O | Promise<O>;
export function workflow<I, O>(name: string, options: WorkflowOptions, fn: (input: I) => O | Promise<O>): (input: I) => O | Promise<O>;

/** Registers a function that performs steps in an instance of its own: call("name", input). */
export function stepFunction<I, O>(name: string, fn: (input: I) => O | Promise<O>): (input: I) => O | Promise<O>;

/** Sleeps: sleep("5s"), sleep("cool down", "1d"). The name is what operators see. Further uses of a name are numbered: "poll#2". */
export function sleep(duration: Duration, options?: Abortable): Pending<void>;
export function sleep(name: string, duration: Duration, options?: Abortable): Pending<void>;

/** Sleeps until an instant: a Date, Unix milliseconds, or a text in RFC 3339. One in the past is over at once. */
export function sleepUntil(when: Date | number | string, options?: Abortable): Pending<void>;
export function sleepUntil(name: string, when: Date | number | string, options?: Abortable): Pending<void>;

/**
 * Runs a function and records its result, which must be JSON. It runs on a copy of the workflow: it may read everything, and what it
 * changes is lost. It may fetch. If the host dies before the result is recorded, it runs again.
 */
export function step<T>(name: string, fn: () => T | Promise<T>, options?: StepOptions): Pending<T>;

/** Has a handler of the host ("host/charge") or a step function of this module perform a step. The name is the handler's unless given. */
export function call<T = unknown>(handler: string, input?: unknown, options?: StepOptions & { name?: string }): Pending<T>;

/** Waits for the next signal of a name, first in first out. With a timeout, undefined if none comes. */
export function signal<T = unknown>(name: string, options?: Abortable): Pending<T>;
export function signal<T = unknown>(name: string, options: Abortable & { timeout: Duration }): Pending<T | undefined>;

export interface HookOptions {
  /** A token of one's own, 8 to 128 characters; default: one that cannot be guessed. */
  token?: string;
  /** What whoever delivers is answered: a status from 200 to 299, and a body. */
  status?: number;
  contentType?: string;
  body?: string;
}

export interface Hook {
  token: string;
  /** Where the outside delivers: POST with the payload. */
  path: string;
  /** Waits for the next delivery. */
  next<T = unknown>(options?: Abortable): Pending<T>;
  next<T = unknown>(options: Abortable & { timeout: Duration }): Pending<T | undefined>;
}

/** Opens a token to which the outside can deliver without credentials. */
export function hook(name: string, options?: HookOptions): Promise<Hook>;

export interface ChildOptions extends Abortable {
  /** Of the call; default: the workflow's name. */
  name?: string;
  /** Of the child's run. */
  id?: string;
  /** Of its workflow: a number or "latest"; default: the one that came with this module. */
  version?: number | "latest";
  /** What happens to it when this run ends. Default: "cancel". */
  onEnd?: "cancel" | "terminate" | "abandon";
  /** Of the whole child run. */
  timeout?: Duration;
  attributes?: Record<string, string>;
  memo?: unknown;
  /** As of a step. */
  undoes?: string;
}

/** Starts a run of a workflow, and resolves with its result. */
export function child<T = unknown>(workflow: string, input?: unknown, options?: ChildOptions): Pending<T> & { readonly id: string };

/** Sends a signal to another run, and resolves when that has it for good. */
export function send(runId: string, signal: string, payload?: unknown, options?: { name?: string }): Pending<void>;

type Entrant = Promise<unknown> | ((signal: AbortSignal) => Promise<unknown>);
type Outcome<E> = E extends (signal: AbortSignal) => Promise<infer T> ? T : Awaited<E>;

/**
 * Resolves with the key and the value of the first of several, and withdraws the others, so that a wait that has lost takes no signal.
 * An entry may be a function: it gets a signal that is aborted when it has lost, to hand to its calls. What is no call itself, as what
 * then() or an async function returns, cannot be withdrawn otherwise.
 */
export function race<M extends Record<string, Entrant>>(entries: M): Promise<{ [K in keyof M]: { key: K; value: Outcome<M[K]> } }[keyof M]>;

/** Appends to the run's output, exactly once, and returns the index. */
export function emit(topic: string, value: unknown): number;

/** Sets a searchable attribute of the run. */
export function attribute(key: string, value: string | number | boolean | Date): void;

/** A marker for code that lives with older journals: newest for runs that come here first, 0 for those that have passed before it was there. */
export function version(id: string, newest: number): number;

/** Answers queries of a name from here on. It may read everything; what it changes is lost. */
export function query<I = unknown, O = unknown>(name: string, fn: (input: I) => O | Promise<O>): void;

/**
 * Answers updates of a name from here on: requests whose senders wait. validate decides, by throwing, whether one is accepted; fn is a
 * part of the workflow.
 */
export function update<I = unknown, O = unknown>(name: string, fn: (input: I) => O | Promise<O>,
  options?: { validate?: (input: I) => void | Promise<void> }): void;

/** Resolves when all updates that were taken are answered. */
export function updatesDone(): Promise<void>;

/** Resolves when the run is asked to cancel. From the first call on, a cancel does not end the run: it ends itself, by returning or throwing. */
export function cancelled(): Promise<void>;

/**
 * From here on, a cancel rejects what the run waits for with the code CANCELLED, so that catch and finally can clean up. A step that has
 * begun resolves by its outcome, and what is called next is rejected in its place, once. If it fails, the code is CANCELLED, and its own
 * error is the cause. Timers of setTimeout and setInterval fire at once, and what is called next is rejected as after a step.
 */
export function throwOnCancel(): void;

/**
 * Calls what was given to undo, the last first, if the function fails or the run is cancelled, and then throws the function's error. A
 * cancel is told as by throwOnCancel; what undoes something is called when all steps have ended that ran then, and is not refused.
 * A cancel that comes while things are being undone already is told to what undoes them.
 */
export function saga<T>(fn: (undo: (compensate: () => unknown) => void) => Promise<T>): Promise<T>;

/** Ends this iteration and begins the next with an empty journal and the same run id. It does not return. */
export function continueAsNew(input?: unknown, options?: { version?: "pinned" | "latest" }): never;

export interface StepInfo {
  name: string;
  handler?: string;
  /** From 1. */
  attempt: number;
  /** Of the options; 0 is no limit. */
  attempts: number;
  /** The same at each attempt: hand it to whatever the step changes. */
  idempotencyKey: string;
  deadline?: Date;
  lastError?: { code: string; message: string };
}

export interface RunInfo {
  runId: string;
  workflow: string;
  version: number;
  /** SHA-256 of the module. */
  module: string;
  startedAt: Date;
  iteration: number;
  runAttempt: number;
  position: number;
  /** True when the journal is long: it is time to continueAsNew. */
  suggestContinue: boolean;
  schedule?: string;
  nominal?: number;
  attributes?: Record<string, string>;
  memo?: unknown;
  /** In steps. */
  step?: StepInfo;
}

/** What the run knows of itself; in steps also of the attempt. */
export function info(): RunInfo;

/** The input as it was sent. */
export function inputBytes(): Uint8Array;

/** The number of milliseconds of a duration. */
export function milliseconds(duration: Duration): number;

/** A refusal of the host, or the failure of a step, child or wait. */
export class WorkflowError extends Error {
  /** Such as "STEP_FAILED", "TIMEOUT", "CANCELLED", "CHILD_FAILED", "CONFLICT", "DENIED". */
  code: string;
  /** The name of the step or child. */
  step?: string;
  /** Of a failed step: error, timeout, trap, memory, stack, unknown. */
  kind?: string;
  /** The name of the error in the code that failed. */
  type?: string;
  attempts?: number;
  retryable?: boolean;
  details?: unknown;
}

/** Thrown in a step: it is not tried again. */
export class FatalError extends Error {
  constructor(message: string, options?: { cause?: unknown });
  readonly retryable: false;
}

/** Thrown in a step: it is tried again after this delay, in place of the step's own. */
export class RetryableError extends Error {
  constructor(message: string, options?: { retryAfter?: Duration | Date; cause?: unknown });
  retryAfter?: Duration | Date;
}
