// A mail campaign, an approval by link, and an order, in AssemblyScript: the same as examples/drip, approval and orders.
import * as wf from "../../../guest-sdk/assemblyscript/assembly/index";
import * as json from "../../../guest-sdk/assemblyscript/assembly/json";
export { workflow_run, workflow_step, workflow_describe } from "../../../guest-sdk/assemblyscript/assembly/index";

const DAY: i64 = 24 * 3600 * 1000;

/** A step that sends a mail. A real one hands the idempotency key to its mail service. */
function mail(name: string, text: string): wf.Outcome {
  return wf.body(name, text, (text) => {
    wf.log(text);
    return wf.ok(json.quote(wf.stepInfo().idempotencyKey));
  }).wait();
}

/** Sends four mails over six days; the result is their number. */
wf.workflow("drip", (input) => {
  const email = json.text(json.field(input, "email"));
  const mails = ["welcome", "tips", "success stories", "offer"], days: i64[] = [3, 2, 1, 0];
  let sent = 0;
  for (; sent < mails.length; sent++) {
    const o = mail("mail " + mails[sent], mails[sent] + " to " + email);
    if (!o.ok) return o;
    if (days[sent] == 0) continue;
    const slept = wf.sleepMs("after " + mails[sent], days[sent] * DAY).wait();
    if (!slept.ok) return slept;
  }
  return wf.ok(sent.toString());
});

/** Sends a link, reminds after three days, and gives up after seven. */
wf.workflow("approval", (input) => {
  const token = wf.hook("decision", "", '{"status":200,"content_type":"text/plain","body":"Thank you.\\n"}').wait();
  if (!token.ok) return token;
  const number = json.text(json.field(input, "Number"));
  const asked = mail("ask", "please approve " + number + " by /v1/hooks/" + token.raw);
  if (!asked.ok) return asked;
  for (let days: i64 = 3; days <= 4; days++) {
    const decision = wf.signal("decision", days * DAY).wait();
    if (decision.ok) {
      const by = json.text(json.field(decision.raw, "By"));
      if (json.field(decision.raw, "Approved") == "true") return wf.ok(json.quote("approved by " + by));
      return wf.failure("refused by " + by);
    }
    if (decision.code != wf.Code.TIMEOUT) return decision;
    const reminded = mail("remind after " + days.toString(), "still waiting for " + number);
    if (!reminded.ok) return reminded;
  }
  return wf.failure("nobody decided within seven days");
}).signals = ["decision"];

class Post {
  constructor(public url: string, public body: string) {}
}

/** A step that sends JSON with its idempotency key; its result is the id in the answer, as JSON. */
function post(name: string, url: string, body: string): wf.Outcome {
  return wf.body(name, new Post(url, body), (p) => {
    const answer = wf.fetch("POST", p.url, ["Content-Type", "application/json", "Authorization", "Bearer {{secret:SHOP}}",
      "Idempotency-Key", wf.stepInfo().idempotencyKey], p.body).checked();
    return answer.ok ? wf.ok(json.field(answer.raw, "ID")) : answer;
  }, '{"attempts":6,"timeout":"10s"}').wait();
}

/** Charges, then ships; if no courier takes it, the charge is given back. */
wf.workflow("orders", (input) => {
  const service = json.text(json.field(input, "Service"));
  const charge = post("charge", service + "/charges", '{"cents":' + json.field(input, "Cents") + "}");
  if (!charge.ok) return charge;
  const parcel = post("ship", service + "/parcels", '{"item":' + json.field(input, "Item") + "}");
  if (parcel.ok) return wf.ok('{"Charge":' + charge.raw + ',"Parcel":' + parcel.raw + "}");
  const refund = post("refund", service + "/refunds", '{"charge":' + charge.raw + "}");
  if (!refund.ok) wf.log("the refund has failed: " + refund.raw, 3);
  return parcel;
});
