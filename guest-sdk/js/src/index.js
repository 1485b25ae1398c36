export { workflow, stepFunction } from "./registry.js";
export { WorkflowError, FatalError, RetryableError } from "./error.js";
export { milliseconds } from "./duration.js";
export {
  attribute, call, cancelled, child, continueAsNew, emit, hook, info, inputBytes, query, race, send, signal, sleep, sleepUntil, step,
  throwOnCancel, update, updatesDone, version,
} from "./calls.js";
export { saga } from "./saga.js";
