// What a bundler must not change: names of functions and classes, also where two files have the same ones or a class refers to itself,
// the texts of a tagged template, and what no parser may take. It runs in the engine and in Node, and must return the same.
import own, { Failure as Other, clash as otherClash } from "./bundled.lib.js";

export class Failure extends Error {
  static is = (e) => e instanceof Failure;
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}
class Late extends Failure {}
class Static {
  static name = "given";
  static made = 0;
  constructor() {
    Static.made++;
  }
}
function clash() {}
const arrow = () => {}, method = { inner() {}, get got() { return 1; } };
let assigned;
assigned = async function* () {};
const parts = (strings, ...rest) => [strings, strings.raw, rest];

export default async function bundled() {
  const [strings, raw] = parts`a${1}\u0041\n`;
  function inner() {}
  const within = (x = () => {}) => x;
  // Commas that an array needs, where the parser has other ways for holes, spreads and more than 32 elements.
  const many = "0,".repeat(40);
  const lists = ["1 2", ", 1 2", ", 1 ...[2]", "...[1] 2", "...[1] ...[2]", `${many} 1 2`, `${many} ...[1] 2`, ", , 1", "1, , ", `${many}, 1, `, "...[1], ,"].map((inner) => {
    try {
      return new Function(`return [${inner}]`)().length;
    } catch (e) {
      return e.name;
    }
  });
  return {
    lists,
    errors: [String(new Failure("a")), String(new Other("b")), String(new Late("c")), new Failure("d").constructor.name, Failure.is(new Late("e")), Failure.is(new Other("f"))],
    classes: [Failure.name, Other.name, Late.name, Static.name, new Static() instanceof Static && Static.made, class {}.name, (class Named {}).name],
    functions: [clash.name, otherClash.name, own.name, arrow.name, method.inner.name, Object.getOwnPropertyDescriptor(method, "got").get.name, assigned.name, inner.name, within.name, within().name, (() => {}).name],
    keys: [Object.getOwnPropertyNames(clash).sort(), Object.getOwnPropertyDescriptor(arrow, "name"), Object.getOwnPropertyDescriptor(Failure, "name")],
    template: [strings, raw, Object.isFrozen(strings), Object.isFrozen(raw), Object.getOwnPropertyDescriptor(strings, "length"), Object.getOwnPropertyDescriptor(strings, "raw")?.enumerable],
  };
}
