import { sleepUntil, step } from "@wfhost/workflow";

/** Publishes a post when its time has come. */
export default async function until(post: { title: string; at: string }) {
  await sleepUntil("publication", post.at);
  return await step("publish", async () => `${post.title} is out at ${new Date(post.at).toISOString()}`); // a real one calls the site
}
