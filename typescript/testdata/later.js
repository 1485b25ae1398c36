// A program that registers a workflow when most of it was loaded.
import { workflow } from "@wfhost/workflow";

workflow("first", async () => "first");
Promise.resolve().then(() => workflow("second", async () => "second"));
