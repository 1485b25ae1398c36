// What a program registers when it is loaded.

export const workflows = new Map();
export let sole; // the only workflow, undefined if there are several
export const steps = new Map();

const fields = ["input", "output", "queries", "raw", "signals", "updates"];

export function workflow(name, options, fn) {
  if (typeof options === "function") [options, fn] = [{}, options];
  if (typeof name !== "string" || typeof fn !== "function") {
    throw new TypeError("workflow(name, [options,] fn): name must be a string and fn a function");
  }
  for (const key of Object.keys(options)) {
    if (!fields.includes(key)) throw new TypeError(`workflow ${JSON.stringify(name)}: there is no option ${key}, but ${fields.join(", ")}`);
  }
  checkSchemas(name, options);
  if (workflows.has(name)) throw new Error(`workflow ${JSON.stringify(name)} is registered twice`);
  const w = { fn, options };
  workflows.set(name, w);
  sole = workflows.size === 1 ? w : undefined;
  return fn;
}

// checkSchemas refuses schemas of libraries, such as zod's: as JSON Schema they would check nothing.
function checkSchemas(name, options) {
  for (const [key, v] of Object.entries(options)) {
    const several = (key === "signals" || key === "updates") && typeof v === "object" && v !== null && !Array.isArray(v);
    for (const [at, schema] of several ? Object.entries(v).map(([n, x]) => [`${key}.${n}`, x]) : [[key, v]]) {
      if (!ofLibrary(schema)) continue;
      throw new TypeError(`workflow ${JSON.stringify(name)}: ${at} is a schema of a library${vendor(schema)}, and must be a JSON Schema: of zod ` +
        `that is z.toJSONSchema(schema), other libraries have a function for it as well`);
    }
  }
}

const marks = ["_zod", "_def", "safeParse"];

function ofLibrary(v) {
  if (typeof v !== "object" || v === null) return typeof v === "function";
  return marks.some((mark) => mark in v) || ("~standard" in v && !hidden(v, "~standard"));
}

// hidden tells whether an object has a property that is not enumerable: zod hides where a JSON Schema that it has made came from.
function hidden(o, key) {
  return Object.getOwnPropertyDescriptor(o, key)?.enumerable === false;
}

function vendor(schema) {
  const name = schema["~standard"]?.vendor;
  return typeof name === "string" ? ` (${name})` : "";
}

export function stepFunction(name, fn) {
  if (typeof name !== "string" || typeof fn !== "function") {
    throw new TypeError("stepFunction(name, fn): name must be a string and fn a function");
  }
  if (steps.has(name)) throw new Error(`step function ${JSON.stringify(name)} is registered twice`);
  steps.set(name, fn);
  return fn;
}

// description is what the module says of itself (abi/ABI.md, section 7).
export function description() {
  const list = [...workflows].map(([name, { options }]) => {
    const { names: signals, schemas: signal_schemas } = named(options.signals);
    const { names: updates, schemas: update_schemas } = named(options.updates);
    return { name, input_schema: options.input, output_schema: options.output, queries: options.queries, signals, signal_schemas, updates,
      update_schemas };
  });
  return { workflows: list, steps: [...steps.keys()], bodies: "event", sdk: "js/0.1" };
}

// named takes a list of names, or an object of names and JSON Schemas, of which true is any.
function named(v) {
  if (v === undefined) return {};
  if (Array.isArray(v)) return { names: v };
  const schemas = Object.fromEntries(Object.entries(v).filter(([, schema]) => typeof schema === "object" && schema !== null));
  return { names: Object.keys(v), schemas };
}
