// Programs of two modules in TypeScript, which the bundler puts together: they import and export in each form, in circles, too, and
// the body of one is a program of another area.
import { Random } from "./random.js";

const values = ["1", '"text"', "[1, 2]", "{ a: 1 }", "null", "undefined", "10n", "() => 5", "new Map([[1, 2]])", "Symbol.iterator", "class Inner { static x = 1; }", "function () {}", "async () => 1", "/x/g"];

// exported returns what the library exports: a statement, the names that it binds, and how they are used.
const exported = [
  (r, n) => ({ text: `export let count${n}: number = ${r.int(9)};\nexport function bump${n}(by: number = ${r.int(4)}): number { count${n} += by; return count${n}; }`, names: [`count${n}`, `bump${n}`], uses: [`bump${n}()`, `count${n}`, `bump${n}(undefined)`, `bump${n}.name`, `[count${n}, bump${n}(2), count${n}]`] }),
  (r, n) => ({ text: `export const value${n} = ${r.pick(values)}${r.pick(["", " as unknown", " as const satisfies unknown"]).replace(" as const satisfies unknown", "")};`, names: [`value${n}`], uses: [`value${n}`, `typeof value${n}`, `(value${n} as any)?.name`] }),
  (r, n) => ({ text: `export class Box${n}<T = unknown> {\n  static made = 0;\n  #v: T;\n  public readonly extra${r.pick([": number = 1", "?: string", ": unknown"])};\n  declare shadow: string;\n  constructor(v: T) { this.#v = v; Box${n}.made++; }\n  get v(): T { return this.#v; }\n  static is(x: object): x is Box${n} { return #v in x; }\n  protected twice?(): void;\n}`, names: [`Box${n}`], uses: [`new Box${n}<number>(4).v`, `Box${n}.made`, `new Box${n}("x")`, `Box${n}.is({})`, `Object.keys(new Box${n}(1))`, `"shadow" in new Box${n}(1)`, `Box${n}.name`] }),
  (r, n) => ({ text: `let secret${n} = ${r.int(9)};\nfunction read${n}() { return secret${n}++; }\nexport { secret${n} as shown${n}, read${n} as "a name ${n}" };`, names: [`shown${n}`, `"a name ${n}" as read${n}`], uses: [`read${n}()`, `shown${n}`, `read${n}.name`] }),
  (r, n) => ({ text: `export function over${n}(x: number): number;\nexport function over${n}(x: string): string;\nexport function over${n}(this: unknown, x: any, ...rest: unknown[]) { return [x, rest.length, this === undefined]; }`, names: [`over${n}`], uses: [`over${n}(1)`, `over${n}("a")`, `over${n}.length`, `over${n}.call(1 as any, 2)`] }),
  (r, n) => ({ text: `export const { a: first${n} = ${r.pick(values)}, ...others${n} }: Record<string, unknown> = { b: ${r.int(9)}${r.chance(2) ? ", a: 7" : ""} };`, names: [`first${n}`, `others${n}`], uses: [`first${n}`, `others${n}`] }),
  (r, n) => ({ text: `export function* many${n}<T>(...all: T[]): Generator<T> { try { yield* all; } finally { said.push("end${n}"); } }\nexport async function later${n}(): Promise<number> { await null; return ${n}; }`, names: [`many${n}`, `later${n}`], uses: [`[...many${n}(1, 2)]`, `(() => { for (const x of many${n}(1, 2)) return x; })()`, `later${n}() instanceof Promise`] }),
];

const defaults = (r) => r.pick(["export default function () { return 5; }", "export default function named(x?: number) { return x; }", "export default class { static y = 2; }", "export default class Named {}", "export default (x: number) => x;", "export default [1, 2];",
  "const whole = { deep: 1 };\nexport { whole as default };", "export default async function* () {}", "export default (class {});", "export default function hoisted() { return typeof hoisted; }"]);

const types = ["interface Shape { kind: string; area?(): number }", "type Pair<A, B = A> = readonly [A, B];", "declare const nowhere: string;", "type Deep<T> = T extends (infer U)[] ? Deep<U> : T;", "abstract class Base<T> { abstract get x(): T; y = 1; }\nclass Child extends Base<number> { override get x() { return 2; } }\nt(() => [new Child().x, new Child()]);",
  "let definite!: number;\nt(() => definite);", "function guard(x: unknown): asserts x is string { if (typeof x !== \"string\") throw new TypeError(); }\nt(() => guard(1));", "const tuple = [1, \"a\"] as const;\nt(() => tuple);", "t(() => (<T,>(x: T): T => x)(3));", "t(() => ({ a: 1 } satisfies Record<string, number>).a!);",
  "const fn = (async <T extends object>(x: T, y?: keyof T) => x[y!]);\nt(() => fn.length);"];

// alone finds half of a surrogate pair: the bundler computes ["\\ud83d"] + "" itself, and writes U+FFFD.
const alone = /\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])/i;

// modules leaves out what a circle reads too early: bundled, a constant is undefined before it is set.
// It returns the texts of a program's files, whose names begin with p and its number.
export function modules(seed, i, areas, parses) {
  const r = new Random(seed), parts = Array.from({ length: r.from(1, 4) }, (_, n) => r.pick(exported)(r, n));
  const circle = r.chance(2), names = parts.flatMap((p) => p.names);
  const library = [`export const said: unknown[] = [];`, circle ? `import { early, late } from "./p${i}.ts";` : "", ...parts.map((p) => p.text), defaults(r),
    circle ? `said.push(typeof early, early()); said.push(() => late);` : "", `export type Only = { x: number };`,
    r.chance(3) ? `export * as self from "./p${i}b.ts";` : "", `said.push("library");`].filter(Boolean).join("\n");
  const space = ["Object.keys(all)", "typeof all.default", "\"said\" in all", "Object.prototype.hasOwnProperty.call(all, \"none\")", "(all as any).none", "((x: any) => { x.said = 1; })(all)", "((x: any) => { delete x.said; })(all)", "Object.getOwnPropertyDescriptor(all, \"said\")?.enumerable", "{ const { said, ...rest } = all; return Object.keys(rest).length; }", "Reflect.set(all, \"said\", 1)"];
  const lines = [...r.many(5, () => `t(() => ${r.pick(parts.flatMap((p) => p.uses))});`), ...r.many(2, () => { const u = r.pick(space); return `t(() => ${u.startsWith("{ const") ? u : `(${u})`});`; }), "t(() => standard);", "t(() => said);", ...r.many(2, () => `{ ${r.pick(types)} }`), r.chance(2) ? `t(() => again === said);` : ""];
  let area, body;
  do {
    area = r.pick(Object.keys(areas));
    body = areas[area](r);
  } while (!parses(body) || alone.test(body));
  const main = [`import standard, { said, type Only, ${names.join(", ")} } from "./p${i}b.ts";`, `import * as all from "./p${i}b.ts";`, `import type { Only as Renamed } from "./p${i}b.ts";`, `import { said as again } from "./p${i}b.ts";`,
    `export function early() { return "early"; }`, `export const late = "late";`, `export { said as passed } from "./p${i}b.ts";`,
    `type Tell = (f: () => unknown) => void;`, `export default async function (o: unknown[], t: Tell, show: (v: unknown) => string, err: (e: unknown) => unknown, at?: Only | Renamed): Promise<unknown> {`, ...lines,
    `await (async () => {\n${body}\n})().then((v) => t(() => v), (e) => t(() => { throw e; }));`, `return said.length;`, `}`].join("\n");
  return { area, files: { [`p${i}.ts`]: main, [`p${i}b.ts`]: library } };
}
