// A workflow that asks the language for random numbers, before and after a wait.
import * as wf from "./wfhost";
export { workflow_run, workflow_step, workflow_describe } from "./wfhost";

wf.workflow("chance", () => {
  const first = Math.random();
  const recorded = wf.body("first", first, (n) => wf.ok(n.toString())).wait(); // what the run had before the wait
  wf.sleep("hour", "1h").wait();
  const second = Math.random();
  const sound = recorded.raw == first.toString() && first != second && first >= 0 && first < 1;
  return wf.ok("[" + sound.toString() + "," + first.toString() + "]");
});
