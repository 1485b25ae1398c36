package typescript_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/typescript"
)

// write writes files by name into a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackages bundles packages from node_modules, as npm install leaves them.
func TestPackages(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"flow.ts": `import { esm } from "esm"; import part, { deep } from "esm/part"; import cjs from "cjs"; import { named } from "cjs";
			import { scoped } from "@me/scoped"; import events from "events";
			export default () => [esm, part, deep, cjs.whole, named, scoped, events, typeof process];`,
		"node_modules/esm/package.json": `{"name": "esm", "exports": {
			".": {"types": "./index.d.ts", "node": "./never.js", "import": "./index.mjs", "require": "./never.js"},
			"./part": {"default": "./lib/part.mjs"}}}`,
		"node_modules/esm/index.mjs":                       `export const esm = "esm";`,
		"node_modules/esm/lib/part.mjs":                    `import { esm } from "../index.mjs"; import inner from "inner"; export default "part of " + esm; export const deep = inner;`,
		"node_modules/esm/node_modules/inner/package.json": `{"name": "inner", "main": "./main"}`,
		"node_modules/esm/node_modules/inner/main.js":      `module.exports = "inner of esm";`,
		"node_modules/inner/package.json":                  `{"name": "inner", "main": "./never.js"}`,
		"node_modules/cjs/package.json":                    `{"name": "cjs", "main": "dist/cjs.js"}`,
		"node_modules/cjs/dist/cjs.js":                     `const data = require("./data.json"); exports.whole = data.whole; exports.named = typeof require("inner");`,
		"node_modules/cjs/dist/data.json":                  `{"whole": "cjs"}`,
		"node_modules/cjs/node_modules/inner/index.js":     `module.exports = () => 1;`,
		"node_modules/@me/scoped/package.json":             `{"name": "@me/scoped", "module": "m.js", "main": "never.js"}`,
		"node_modules/@me/scoped/m.js":                     `export const scoped = process.env.NODE_ENV;`,
		"node_modules/events/package.json":                 `{"name": "events", "main": "events.js"}`,
		"node_modules/events/events.js":                    `module.exports = "events of npm";`,
	})
	p := loadFrom(t, filepath.Join(dir, "flow.ts"))
	p.begin("flow", "r", nil)
	want := `["esm","part of esm","inner of esm","cjs","function","production","events of npm","undefined"]`
	if got := p.ends("r"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// TestPackagesRefused bundles unsupported packages: the error names them, and where they are imported.
func TestPackagesRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"node_modules/esm/package.json":   `{"name": "esm", "exports": {".": "./index.mjs"}}`,
		"node_modules/esm/index.mjs":      `export const esm = 1;`,
		"node_modules/files/package.json": `{"name": "files", "main": "index.js"}`,
		"node_modules/files/index.js":     `const fs = require("fs/promises"); module.exports = fs;`,
	})
	for text, want := range map[string][]string{
		`import x from "left-out"; export default x;`:         {`Could not resolve "left-out"`, "npm install left-out", "flow.ts:1:14"},
		`import x from "left-out/part"; export default x;`:    {`Could not resolve "left-out/part"`, "npm install left-out\n"},
		`import x from "@me/left/part.js"; export default x;`: {"npm install @me/left\n"},
		`import x from "./left"; export default x;`:           {`Could not resolve "./left"`, "flow.ts:1:14"},
		`import x from "esm/hidden"; export default x;`:       {`Could not resolve "esm/hidden"`, `"./hidden" is not exported by package "esm"`},
		`import x from "node:fs"; export default x;`:          {`"node:fs" is a module of Node`, "in a handler of the host", "flow.ts:1:14"},
		`import x from "files"; export default x;`:            {`"fs/promises" is a module of Node`, "node_modules/files/index.js:1:19"},
	} {
		write(t, dir, map[string]string{"flow.ts": text})
		_, _, err := typescript.Build(t.Context(), filepath.Join(dir, "flow.ts"))
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error()+"\n", part) {
				t.Errorf("%s: no %q in %v", text, part, err)
			}
		}
		if err != nil && strings.Contains(text, "hidden") && strings.Contains(err.Error(), "npm install") {
			t.Errorf("%s: what is installed is to be installed: %v", text, err)
		}
	}
}

// TestPopularPackages bundles packages that many workflows have.
func TestPopularPackages(t *testing.T) {
	_, tools := tool(t, "zod")
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	write(t, dir, map[string]string{"flow.ts": `import { addDays, format } from "date-fns"; import { de } from "date-fns/locale"; import { z } from "zod";
		import { workflow } from "@wfhost/workflow";
		const Order = z.object({ id: z.number().int(), day: z.iso.date(), mail: z.email().optional() });
		workflow("flow", { input: z.toJSONSchema(Order) }, async (input: unknown) => {
			const order = Order.parse(input);
			const bad = Order.safeParse({ id: 1.5, day: "soon" });
			return [format(addDays(new Date(order.day + "T00:00:00"), 30), "EEEE, d MMMM yyyy", { locale: de }), bad.error?.issues.map((i) => i.path[0])];
		});`})
	p := loadFrom(t, filepath.Join(dir, "flow.ts"))
	p.begin("flow", "r", map[string]any{"id": 1, "day": "2026-02-01"})
	if got, want := p.ends("r"), `["Dienstag, 3 März 2026",["id","day"]]`; got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if _, err := p.Start(p.ctx, "flow", map[string]any{"id": "1", "day": "2026-02-01"}); err == nil || !strings.Contains(err.Error(), "/id") {
		t.Errorf("an input that the schema of zod refuses: %v", err)
	}
}

// TestHeavy computes for a long time, and destructures large values.
func TestHeavy(t *testing.T) {
	p := load(t, "heavy.ts")
	for name, c := range map[string]struct {
		n    int
		want string
	}{"loop": {1_000_000, "256782"}, "parse": {30_000, "[30000,29999,15000]"}} {
		p.begin(name, name, c.n)
		if got := p.ends(name); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}
