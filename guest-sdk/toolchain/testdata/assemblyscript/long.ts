// A workflow that fails, and answers updates, by more than a host takes.
import * as wf from "./wfhost";
import * as json from "./wfhost/json";
export { workflow_run, workflow_step, workflow_describe } from "./wfhost";

function huge(): wf.Outcome { return wf.failure("x" + "é".repeat(1 << 20), false, -1, "Huge"); }

wf.workflow("long", () => {
  const e = wf.body("body", 0, () => huge(), '{"attempts":2}').wait(), type = json.text(json.field(e.raw, "type"));
  const bytes = String.UTF8.byteLength(e.message);
  wf.emit("seen", json.quote(e.name + " " + e.attempts.toString() + " " + type + " " + bytes.toString()));
  const words = new wf.Updates("word", () => wf.ok(""));
  for (let u = words.next(); u != null; u = words.next()) {
    const word = json.text(u.input);
    if (word == "fail") u.reply(huge());
    else if (word == "answer") u.reply(wf.ok(json.quote("x".repeat(2 << 20))));
    else {
      u.reply(wf.ok('"fine"'));
      break;
    }
  }
  return huge();
}).updates = ["word"];
