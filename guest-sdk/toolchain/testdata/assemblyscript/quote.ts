// A workflow that quotes a long text.
import * as wf from "./wfhost";
import * as json from "./wfhost/json";
export { workflow_run, workflow_step, workflow_describe } from "./wfhost";

// Quotes the text of the input, repeated 65,536 times, and reads it again.
wf.workflow("quote", (input) => {
  const word = json.text(input), all = word.repeat(1 << 16), quoted = json.quote(all);
  return wf.ok(json.quote(word + " " + quoted.length.toString() + " " + (json.text(quoted) == all).toString()));
});
