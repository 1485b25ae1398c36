import { hook, race, sleep, step } from "@wfhost/workflow";

/** Sends a link, and waits for whoever opens it, but not for ever. */
export default async function confirm(email: string) {
  const link = await hook("confirmed", { status: 200, contentType: "text/plain", body: "Thank you.\n" });
  await step("mail", async () => console.log(`mail to ${email}: ${link.path}`)); // a real one sends mail
  const first = await race({ confirmed: link.next<{ name: string }>(), late: sleep("link expires", "2d") });
  return first.key === "confirmed" ? `welcome, ${first.value.name}` : "nobody came";
}
