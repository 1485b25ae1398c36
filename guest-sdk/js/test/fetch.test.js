import assert from "node:assert/strict";
import { test } from "node:test";
import { AbortController, AbortSignal } from "../src/abort.js";
import { fetch } from "../src/fetch.js";
import { begin, run } from "../src/state.js";
import { setTimeout } from "../src/timers.js";

test("a signal that is due while a request is prepared limits it", async () => {
  const clock = [0, 4, 5]; // of setTimeout, before and behind the look at the signal
  let asked;
  begin({ now: () => clock.shift() ?? 5, encode: () => new ArrayBuffer(0), fetch: (head) => {
    asked = JSON.parse(head);
    return [JSON.stringify({ status: 204 }), new ArrayBuffer(0)];
  } });
  run.inBody = true;
  assert.equal((await fetch("http://h/", { signal: AbortSignal.timeout(5) })).status, 204);
  assert.equal(asked.timeout_ms, 1);
});

test("a timer that sets itself again does not keep a request from being made", async () => {
  let now = 0, polls = 0;
  const poll = () => void (++polls < 1000 && setTimeout(poll, 0));
  begin({ now: () => ++now, encode: () => new ArrayBuffer(0), fetch: () => [JSON.stringify({ status: 204 }), new ArrayBuffer(0)] });
  run.inBody = true;
  setTimeout(poll, 0);
  assert.equal((await fetch("http://h/", { signal: new AbortController().signal })).status, 204);
  assert.ok(polls < 5, `${polls}`);
});
