import { hook, step, workflow } from "@wfhost/workflow";

interface Invoice { number: string; approver: string; cents: number }
interface Decision { approved: boolean; by: string }

const input = {
  type: "object",
  properties: { number: { type: "string", minLength: 1 }, approver: { type: "string" }, cents: { type: "integer", minimum: 0 } },
  required: ["number"],
};
const decision = {
  type: "object",
  properties: { approved: { type: "boolean" }, by: { type: "string" } },
  required: ["approved", "by"],
};

/** Sends a link, reminds after three days, and gives up after seven. */
workflow("approval", { input, signals: { decision } }, async (invoice: Invoice) => {
  const link = await hook("decision", { status: 200, contentType: "text/plain", body: "Thank you.\n" });
  const mail = (name: string, text: string) =>
    step(name, async () => console.log(`${text}: ${link.path} (to ${invoice.approver})`)); // a real one sends mail
  await mail("ask", `please approve ${invoice.number}`);
  for (const timeout of ["3d", "4d"]) {
    const d = await link.next<Decision>({ timeout });
    if (d?.approved) return `approved by ${d.by}`;
    if (d) throw new Error(`refused by ${d.by}`);
    await mail("remind", `still waiting for ${invoice.number}`);
  }
  throw new Error("nobody decided within seven days");
});
