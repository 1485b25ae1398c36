// JSON as the platform has it: a program may replace that of globalThis.
export const JSON = { parse: globalThis.JSON.parse, stringify: globalThis.JSON.stringify };
