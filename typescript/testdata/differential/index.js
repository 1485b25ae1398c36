// Programs that a seed determines, and what becomes of them. Engine and Node run this file alike.
import { arrays, maps, objects, proxies, typed } from "./collections.js";
import { classes, flow, order, promises } from "./control.js";
import { platform } from "./platform.js";
import { Random } from "./random.js";
import { regexps } from "./regexps.js";
import { bigints, conversions, dates, json, numbers, strings } from "./scalars.js";
import { short, show } from "./show.js";

export const areas = { numbers, bigints, conversions, strings, dates, json, regexps, arrays, typed, maps, objects, proxies, flow, promises, classes, order };

// program returns the source of a program of an area: the body of an asynchronous function.
export function program(area, seed) {
  return (areas[area] ?? platform[area])(new Random(seed));
}

const Async = (async () => {}).constructor;

// compile returns a program as a function, or throws a SyntaxError.
export const compile = (source) => new Async("o", "t", "show", "err", `"use strict";\n${source}`);

const err = (e) => (e instanceof Error ? e.name : e); // messages are the engine's own

// run returns what a program has returned or thrown, and all that it has told on its way.
export async function run(fn) {
  const o = [];
  const t = (f) => {
    let v;
    try {
      v = show(f());
    } catch (e) {
      v = `threw ${show(e)}`;
    }
    o.push(v);
  };
  let end;
  try {
    end = `returned ${show(await fn(o, t, show, err))}`;
  } catch (e) {
    end = `threw ${show(e)}`;
  }
  for (let i = 0; i < 40; i++) await null; // what nobody awaits
  return short(`${o.map((x) => (typeof x === "string" ? x : show(x))).join(" ")} ${end}`);
}

// all runs programs one after the other, those of sources or of all areas by their seeds.
export async function all({ sources, seed, count, platform }) {
  const out = [];
  const list = sources ?? listed(seed, count, platform).map(([area, n]) => program(area, n));
  for (const source of list) {
    try {
      out.push(await run(compile(source)));
    } catch (e) {
      out.push(`refused ${show(e)}`);
    }
  }
  return out;
}

// listed returns areas and seeds of so many programs.
export function listed(seed, count, ofPlatform) {
  const names = Object.keys(ofPlatform ? platform : areas);
  return Array.from({ length: count }, (_, i) => [names[i % names.length], seed * 100003 + i]);
}
