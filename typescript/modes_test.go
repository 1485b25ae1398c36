package typescript_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// modes is a module that checks whether it and its packages are strict code.
const modes = `
import sloppy from "sloppy";
import strict from "strict";
import { esm } from "esm";

const name = (fn) => { try { return fn(); } catch (e) { return e.constructor.name; } };

export default async function modes() {
  return {
    thisTop: typeof this, thisType: (function () { return typeof this; })(), arrow: (() => typeof this)(),
    args: (function (a) { arguments[0] = 9; return a; })(1),
    frozen: name(() => { Object.freeze({ total: 100 }).total = 5; }),
    undeclared: name(() => { undeclaredTotal = 7; }),
    getter: name(() => { ({ get x() { return 1; } }).x = 2; }),
    deleted: name(() => delete Object.freeze({ a: 1 }).a),
    primitive: name(() => { "abc".length = 1; }),
    symbol: name(() => { Symbol.iterator.x = 1; }),
    extended: name(() => { Object.preventExtensions({}).z = 1; }),
    constant: name(() => { Object.defineProperty({}, "c", { value: 1 }).c = 2; }),
    array: name(() => { Object.freeze([1]).push(2); }),
    global: name(() => { undefined = 1; }),
    callee: name(() => (function () { return arguments.callee; })()),
    caller: name(() => (function f() { return f.caller; })()),
    evaluated: name(() => eval("evaluatedTotal = 1")), evalVar: name(() => { eval("var inEval = 1"); return typeof inEval; }),
    indirect: name(() => (0, eval)("typeof this")), made: name(() => new Function("return typeof this")()),
    block: (() => { { function inBlock() {} } return typeof inBlock; })(),
    require: typeof require, exports: typeof exports, module: typeof module,
    sloppy, strict, esm,
  };
}
`

// TestModes compares with Node which code is strict: modules are; CommonJS files only if they declare it.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"modes.mjs":                         modes,
		"run.mjs":                           `import p from "./modes.mjs"; p().then((v) => console.log(JSON.stringify(v)))`,
		"node_modules/sloppy/package.json":  `{"name": "sloppy", "main": "index.js"}`,
		"node_modules/sloppy/other.js":      `"use strict"; module.exports = (function () { return typeof this; })();`,
		"node_modules/strict/package.json":  `{"name": "strict", "main": "index.cjs"}`,
		"node_modules/strict/index.cjs":     `"use strict"; exports.thisType = (function () { return typeof this; })(); exports.require = typeof require;`,
		"node_modules/esm/package.json":     `{"name": "esm", "type": "module", "exports": "./index.js"}`,
		"node_modules/esm/index.js":         `export const esm = [typeof require, (function () { return typeof this; })(), typeof this, typeof __require, "typeof __require"];`,
		"node_modules/sloppy/lib/empty.cjs": ``,
		"node_modules/sloppy/index.js": `
implied = 5;
function alias(a) { arguments[0] = 9; return a; }
exports.alias = alias(1);
exports.implied = implied;
exports.thisType = (function () { return typeof this; })();
exports.top = this === exports;
exports.require = typeof require;
const o = Object.freeze({ a: 1 }); o.a = 2; exports.frozen = o.a;
exports.octal = 010;
with ({ w: 3 }) exports.w = w;
exports.inner = (function () { "use strict"; return typeof this; })();
exports.inClass = new (class { m() { return (function () { return typeof this; })(); } })().m();
exports.evaluated = eval("evaluatedHere = 4; evaluatedHere");
if (true) { function inBlock() {} }
exports.block = typeof inBlock;
exports.other = require("./other");
exports.dynamic = (() => { try { return require(["no", "such"].join("-")); } catch (e) { return e instanceof Error; } })();
`,
	})
	p := loadFrom(t, filepath.Join(dir, "modes.mjs"))
	p.begin("modes", "r", nil)
	got := p.ends("r")
	for _, part := range []string{`"frozen":"TypeError"`, `"undeclared":"ReferenceError"`, `"require":"undefined"`, `"sloppy":{"alias":9,`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	cmd := exec.Command(findNode(t, "modules were not compared with it"), "run.mjs")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var engine, node map[string]any
	if json.Unmarshal([]byte(got), &engine) != nil || json.Unmarshal(out, &node) != nil {
		t.Fatalf("%s\n%s", got, out)
	}
	for key, want := range node {
		if !reflect.DeepEqual(engine[key], want) {
			t.Errorf("%s: engine %v, node %v", key, engine[key], want)
		}
	}
}

// TestHostilePrograms replaces globals that the SDK needs, and throws values that cannot be inspected.
func TestHostilePrograms(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"hostile.ts": `
import { step, workflow } from "@wfhost/workflow";

workflow("json", async () => {
  JSON.stringify = () => "{ no JSON";
  JSON.parse = () => { throw new Error("no parser"); };
  return { a: [1, await step("s", () => ({ b: 2 }))], c: { ..."text" } };
});

const trap = () => { throw new Error("in a trap"); };
const unreadable = () => new Proxy({}, { getPrototypeOf: trap, get: trap, has: trap, ownKeys: trap, getOwnPropertyDescriptor: trap });
workflow("proxy", async () => { throw unreadable(); });
workflow("prototype", async () => { throw new Proxy(new Error("inner"), { getPrototypeOf: trap }); });
workflow("revoked", async () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy; });
workflow("thrower", async () => { throw { get message() { throw unreadable(); }, get type() { throw unreadable(); } }; });
workflow("inStep", async () => { try { await step("s", () => { throw unreadable(); }, { attempts: 1 }); } catch (e) { return (e as Error).message; } });
workflow("rejected", async () => { Promise.reject(unreadable()); await null; return "done"; });
`})
	p := loadFrom(t, filepath.Join(dir, "hostile.ts"))
	const unread = "what was thrown cannot be read: its own code throws when one looks at it, as traps of a Proxy do"
	for name, want := range map[string]string{
		"json":  `{"a":[1,{"b":2}],"c":{"0":"t","1":"e","2":"x","3":"t"}}`,
		"proxy": "run proxy failed: " + unread, "prototype": "run prototype failed: " + unread, "revoked": "run revoked failed: " + unread,
		"thrower": "run thrower failed: " + unread, "rejected": `"done"`,
		"inStep": `"` + unread + `"`,
	} {
		p.begin(name, name, nil)
		if got := p.ends(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
