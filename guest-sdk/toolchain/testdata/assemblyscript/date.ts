// A workflow that asks the language for the time, which needs an import that no host has.
import * as wf from "./wfhost";
export { workflow_run, workflow_step, workflow_describe } from "./wfhost";

wf.workflow("clock", () => wf.ok(Date.now().toString()));
