import assert from "node:assert/strict";
import { test } from "node:test";
import { workflow } from "../src/index.js";

const zod = { _zod: {}, _def: {}, safeParse() {}, "~standard": { vendor: "zod", version: 1, validate() {} } };
const ark = Object.assign(() => {}, { "~standard": { vendor: "arktype" } });
const fn = () => 1;

test("schemas of libraries are refused", () => {
  for (const [options, want] of [
    [{ input: zod }, /^workflow "zz": input is a schema of a library \(zod\), and must be a JSON Schema: of zod that is z\.toJSONSchema\(schema\)/],
    [{ output: ark }, /output is a schema of a library \(arktype\)/], [{ signals: { go: { _def: {} } } }, /signals\.go is a schema of a library,/],
    [{ updates: { ok: true, add: { safeParse() {} } } }, /updates\.add/], [{ input: { "~standard": {} } }, /input/],
  ]) assert.throws(() => workflow("zz", options, fn), { name: "TypeError", message: want });
});

test("JSON Schemas are taken", () => {
  const schema = { $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", properties: { safeParse: {}, _def: {} } };
  workflow("ok", { input: schema, output: schema, signals: { go: schema, any: true }, updates: ["add"], queries: ["q"], raw: false }, fn);
  const made = Object.defineProperty({ ...schema }, "~standard", { value: { vendor: "zod", version: 1 } }); // of z.toJSONSchema since zod 4.2
  workflow("made", { input: made, signals: { go: made } }, fn);
});
