// A workflow that is cancelled while a step is performed.
import * as wf from "./wfhost";
import * as json from "./wfhost/json";
export { workflow_run, workflow_step, workflow_describe } from "./wfhost";

wf.workflow("told", () => {
  wf.cooperativeCancel();
  const before = wf.cancelled();
  const work = wf.step("work", "host/work", "null"), nap = wf.sleep("nap", "1h");
  const done = work.wait(), slept = nap.wait(), undone = wf.step("undo", "host/undo", "null").wait();
  wf.emit("seen", json.quote(before.toString() + " " + done.text + " " + slept.name + " " + undone.text + " " + wf.cancelled().toString()));
  return wf.failure("cancelled");
});
