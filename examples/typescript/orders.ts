import { FatalError, RetryableError, info, saga, step } from "@wfhost/workflow";

interface Order { service: string; item: string; cents: number }

const retry = { attempts: 6, delay: "1s", timeout: "10s" };

/** Charges a card and books a courier, each once; if no courier takes the parcel, the charge is given back. */
export default async function orders({ service, item, cents }: Order) {
  return await saga(async (undo) => {
    const charge = await step("charge", () => post(`${service}/charges`, { cents }), retry);
    undo(() => step("refund", () => post(`${service}/refunds`, { charge }), retry));
    const parcel = await step("ship", () => post(`${service}/parcels`, { item }), retry);
    return { charge, parcel };
  });
}

/** Sends JSON with the step's idempotency key, and returns the id in the answer. */
async function post(url: string, body: unknown): Promise<string> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      authorization: "Bearer {{secret:SHOP}}", // the host puts it in
      "content-type": "application/json",
      "idempotency-key": info().step!.idempotencyKey,
    },
    body: JSON.stringify(body),
  });
  if (response.ok) return (await response.json()).ID;
  const message = `${url}: ${response.status} ${await response.text()}`;
  if (response.status < 500 && response.status !== 429) throw new FatalError(message);
  const after = response.headers.get("retry-after") ?? "";
  throw new RetryableError(message, /^\d{1,7}$/.test(after) ? { retryAfter: `${after}s` } : {}); // a date is left to the back-off
}
