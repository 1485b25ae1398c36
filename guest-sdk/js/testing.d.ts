// Types of @wfhost/workflow/testing.
import type { Duration, StepInfo } from "@wfhost/workflow";

/**
 * An environment for unit tests under Node. Workflows run in memory, and their sleeps take no time: Date is the run's clock while run
 * goes on. Timers in steps, and in the functions that a test gives, really wait. One run at a time in a process.
 */
export class Env {
  constructor(options?: { now?: Date | string | number; runId?: string; memo?: unknown });
  /** The run's clock. */
  readonly now: Date;
  readonly runId: string;
  /** Names of the steps, in the order of their calls. */
  readonly steps: string[];
  readonly outputs: { topic: string; value: any }[];
  readonly sent: { runId: string; signal: string; payload: any }[];
  readonly attributes: Record<string, string>;
  /** Stands in for a handler of the host, or performs a step function. */
  handle<I = any>(name: string, fn: (input: I, step: StepInfo) => unknown): this;
  /** Stands in for another workflow. */
  child<I = any>(name: string, fn: (input: I) => unknown): this;
  /** Calls a function when so much time has passed since now. */
  at(after: Duration, fn: () => unknown): this;
  signal(name: string, payload?: unknown): void;
  query<T = any>(name: string, input?: unknown): Promise<T>;
  update<T = any>(name: string, input?: unknown): Promise<T>;
  /** Asks the run to cancel. */
  cancel(): void;
  /** Runs a workflow function to its end, and returns its result as the host would: through JSON. */
  run<I, O>(fn: (input: I) => O | Promise<O>, input?: I): Promise<Awaited<O>>;
}
