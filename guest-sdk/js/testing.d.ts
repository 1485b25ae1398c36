// Types of @wfhost/workflow/testing.
import type { Duration, StepInfo } from "@wfhost/workflow";

/** A call that a workflow has made, and what came of it. The journal of a run on a host has the same calls in the same order. */
export interface Call {
  /** What a journal calls it. step is made by call, body by step. */
  readonly kind: "sleep" | "step" | "body" | "signal_wait" | "signal_send" | "hook" | "child" | "emit" | "set_attribute" | "version" |
    "cancel_policy" | "continue_as_new" | "update_reply";
  /** Of the step, sleep, child, hook or signal; the topic of an output, the key of an attribute, the id of a marker. */
  readonly name: string;
  /** The handler of a step, the workflow of a child, the run to which a signal is sent, the token of a hook that was chosen. */
  readonly target?: string;
  /** What the call hands over: the input of a step or child, the payload of a signal or output, the value of an attribute. */
  readonly input?: any;
  /** The iteration of the run, from 0. */
  readonly iteration: number;
  /** When the call was made, and when its outcome was there: milliseconds since the run has started. */
  readonly at: number;
  readonly ended?: number;
  /** How many attempts a step has made. */
  readonly attempts?: number;
  /** OK, WITHDRAWN, or the code of the error, such as STEP_FAILED; undefined while the call waits. */
  readonly code?: string;
  readonly message?: string;
  /** The call was not accepted: it has an error of its own, and began nothing. */
  readonly refused?: true;
  /** What the call has brought: the result of a step or child, the payload of a signal, a token, the index of an output. */
  readonly result?: any;
  /** The id of the run that a child is, for childRun. */
  readonly runId?: string;
}

/** What a test sees of a run, and does to it. */
export interface RunView {
  readonly runId: string;
  /** Names of the steps, in the order of their calls. */
  readonly steps: string[];
  /** What the workflow has called, in order, in all its iterations. */
  readonly calls: Call[];
  readonly outputs: { topic: string; value: any }[];
  readonly sent: { runId: string; signal: string; payload: any }[];
  readonly attributes: Record<string, string>;
  /** Throws if the run has ended. So do update, and deliver of Env. */
  signal(name: string, payload?: unknown): void;
  query<T = any>(name: string, input?: unknown): Promise<T>;
  update<T = any>(name: string, input?: unknown): Promise<T>;
  /** Cancels the run: a workflow that takes cancels is asked, any other ends where it is. */
  cancel(): void;
}

/**
 * An environment for unit tests under Node. Workflows run in memory, and their sleeps take no time: Date and performance.now are
 * the run's clock while run goes on. Timers in steps, and in the functions that a test gives, really wait. One run at a time in a process.
 */
export class Env implements RunView {
  /** lost names variables that bodies and runs may change, such as what a test counts in: LostChange and KeptChange do not report them. */
  constructor(options?: { now?: Date | string | number; runId?: string; memo?: unknown; lost?: string[] });
  /** The run's clock. */
  readonly now: Date;
  readonly runId: string;
  /** Names of the steps, in the order of their calls. */
  readonly steps: string[];
  readonly calls: Call[];
  readonly outputs: { topic: string; value: any }[];
  readonly sent: { runId: string; signal: string; payload: any }[];
  readonly attributes: Record<string, string>;
  /** Stands in for a handler of the host, or performs a step function. */
  handle<I = any>(name: string, fn: (input: I, step: StepInfo) => unknown): this;
  /** Stands in for another workflow. Without it, a child is the workflow that is registered. */
  child<I = any>(name: string, fn: (input: I) => unknown): this;
  /** Calls a function when so much time has passed since now, and after what is due for the runs at that instant. */
  at(after: Duration, fn: () => unknown): this;
  /** There is no run of this id: a signal to it is CONFLICT. Other runs that the test does not have count as there. */
  absent(runId: string): this;
  /** Delivers to the hook of a token. */
  deliver(token: string, payload?: unknown): void;
  /** A registered workflow that the run has started as a child, or a child of that, by its id. */
  childRun(runId: string): RunView | undefined;
  signal(name: string, payload?: unknown): void;
  query<T = any>(name: string, input?: unknown): Promise<T>;
  update<T = any>(name: string, input?: unknown): Promise<T>;
  /** Asks the run to cancel. */
  cancel(): void;
  /**
   * Runs a workflow function to its end, and returns its result as the host would: through JSON. info().workflow is the name that it
   * is registered under, or "test".
   */
  run<I, O>(fn: (input: I) => O | Promise<O>, input?: I): Promise<Awaited<O>>;
}

/** The body of a step has changed what is outside of it. On a host it works on a copy of the workflow, and the change is lost. */
export class LostChange extends Error {
  readonly code: "LOST_CHANGE";
  readonly step: string;
  /** What was changed, such as total, order.lines[0] or this.total. */
  readonly variable: string;
}

/** A run would begin with what an earlier one has changed in a module. On a host it begins with what loading has left there. */
export class KeptChange extends Error {
  readonly code: "KEPT_CHANGE";
  readonly variable: string;
}
