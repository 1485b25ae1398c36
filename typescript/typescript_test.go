package typescript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// program is a host with the workflows of a program.
type program struct {
	*hosttest.Host
	t   *testing.T
	ctx context.Context
}

// load builds a program of testdata.
func load(t *testing.T, file string, opts ...host.UploadOption) *program {
	t.Helper()
	return loadFrom(t, filepath.Join("testdata", file), opts...)
}

func loadFrom(t *testing.T, path string, opts ...host.UploadOption) *program {
	t.Helper()
	wasm, name, err := typescript.Build(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return upload(t, name, wasm, opts...)
}

// upload returns a host with a module.
func upload(t *testing.T, name string, wasm []byte, opts ...host.UploadOption) *program {
	t.Helper()
	p := &program{hosttest.New(t), t, t.Context()}
	var err error
	_, err = p.UploadAll(p.ctx, name, wasm, opts...)
	if errors.Is(err, host.ErrInvalid) { // it names its workflows itself
		_, err = p.UploadAll(p.ctx, "", wasm, opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *program) begin(workflow, id string, input any) {
	p.t.Helper()
	if _, err := p.Start(p.ctx, workflow, input, host.WithRunID(id)); err != nil {
		p.t.Fatal(err)
	}
	p.Settle()
}

// ends returns the result or error of a run, after replaying the run.
func (p *program) ends(id string) string {
	p.t.Helper()
	p.Finish(id)
	b, err := p.ResultRaw(p.ctx, id)
	if err != nil {
		b = []byte(err.Error())
	}
	if err := p.Replay(p.ctx, id); err != nil {
		p.t.Error(err)
	}
	return string(b)
}

func (p *program) logs(id string) (all []string) {
	p.t.Helper()
	lines, err := p.Logs(p.ctx, id, 0, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return all
}

// TestPlatform compares the platform that programs find with Node's.
func TestPlatform(t *testing.T) {
	for _, name := range []string{"platform", "async", "exits", "bigints", "regexps", "bundled"} {
		t.Run(name, func(t *testing.T) { likeNode(t, name) })
	}
}

// likeNode checks that a file returns the same as in Node.
func likeNode(t *testing.T, name string) {
	p := load(t, name+".js")
	p.begin(name, "r", nil)
	got := p.ends("r")
	node := findNode(t, "the engine was not compared with it")
	out, err := exec.Command(node, "--input-type=module", "-e",
		"import p from './testdata/"+name+".js'; p().then((v) => console.log(JSON.stringify(v)))").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var a, b map[string]any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal(out, &b) != nil || len(a) < 5 {
		t.Fatalf("%s\n%s", got, out)
	}
	for key, want := range b {
		x, _ := json.Marshal(a[key])
		y, _ := json.Marshal(want)
		if string(x) != string(y) {
			t.Errorf("%s: engine %s\nnode %s", key, x, y)
		}
	}
}

// TestLanguage covers where the engine differs from Node.
func TestLanguage(t *testing.T) {
	p := load(t, "language.ts")
	p.begin("language", "r", nil)
	other := ` knows no language but en-US, and no options: got `
	want := `{"overflow":"InternalError: stack overflow","range":true,"intl":"Intl.DateTimeFormat is not there: WAYS","locale":[` +
		`"Date.prototype.toLocaleString` + other + `{\"timeZone\":\"America/New_York\"}; WAYS",` +
		`"Number.prototype.toLocaleString` + other + `\"de-DE\"; WAYS",` +
		`"Date.prototype.toLocaleDateString` + other + `\"de-DE\"; WAYS",` +
		`"String.prototype.localeCompare is not there, since it would not know in which order a language sorts: compare by < and >, ` +
		`as (a, b) => (a < b ? -1 : a > b ? 1 : 0) does, or sort in a handler of the host",` +
		`"Number.prototype.toLocaleString` + other + `\"de\"; WAYS",` +
		`"String.prototype.toLocaleUpperCase does not know the rules of tr-TR: convert in a handler of the host",` +
		`"toLocaleString: the year -1199 is before the first; toISOString writes it"],` +
		`"weak":"undefined undefined","fetch":"a workflow makes requests in ` +
		`steps, whose results are recorded: step(\"name\", () => fetch(url))","random":true,"uuid":true,"native":true,"clock":0,"eval":3}`
	want = strings.ReplaceAll(want, "WAYS", "format in a handler of the host, or by a package that has its own data, such as date-fns")
	if got := p.ends("r"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

func (p *program) outputs(id string) (all []string) {
	p.t.Helper()
	for o, err := range p.Output(p.ctx, id, "", 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, string(o.Data))
	}
	return all
}

func TestQueriesAndUpdates(t *testing.T) {
	p := load(t, "cart.ts")
	p.begin("cart", "r", nil)
	for n, want := range []string{"2", "4"} {
		u, err := p.Update(p.ctx, "r", "add", 2, host.UntilAccepted())
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			p.Crash()
		}
		p.Advance(time.Second)
		u, err = p.UpdateResult(p.ctx, "r", "add", u.ID, true)
		if err != nil || string(u.Result) != want {
			t.Errorf("update %s, %v", u.Result, err)
		}
	}
	query := func(name string) string {
		b, err := p.Query(p.ctx, "r", name, nil)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	if got := query("count"); got != "4" {
		t.Errorf("query %s", got)
	}
	if _, err := p.Update(p.ctx, "r", "add", -1); err == nil || !strings.Contains(err.Error(), "more than nothing") {
		t.Errorf("an update that is refused: %v", err)
	}
	if got := query("nothing"); !strings.Contains(got, "nothing") {
		t.Errorf("a query that nobody answers: %s", got)
	}
	if err := p.Signal(p.ctx, "r", "checkout", nil); err != nil {
		t.Fatal(err)
	}
	if got := p.ends("r"); got != "4" {
		t.Errorf("result %s", got)
	}
	if got := query("count"); got != "4" {
		t.Errorf("a query after the end: %s", got)
	}
}

// TestTrouble runs programs with mistakes: each failure says why, and where.
func TestTrouble(t *testing.T) {
	p := load(t, "trouble.ts")
	for name, want := range map[string]string{
		"deadlock": "deadlock: the workflow waits for a promise that nothing can resolve",
		"stuck":    "the body waits for a promise that nothing can resolve",
		"inside":   "this call belongs to the workflow",
		"again":    "trouble 3",
		"options":  "attemps",
		"cycle":    "a value cannot be written as JSON: it refers to itself",
		"big":      "BigInt",
		"duration": `such as "5s" or "1h30m", got "soon"`,
		"signal":   "what the signal has brought is not JSON",
	} {
		p.begin(name, name, nil)
		if name == "signal" {
			if err := p.SignalRaw(p.ctx, name, "go", []byte("{")); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.ends(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	p.begin("warned", "warned", nil)
	if got := p.ends("warned"); got != `"fine"` {
		t.Error(got)
	}
	logs := strings.Join(p.logs("warned"), "\n")
	for _, want := range []string{"a promise was rejected, and nobody handles that: Error: lost", "at <anonymous> (trouble.ts:",
		"use race({…}) of @wfhost/workflow", `{"a":1} 5 x`} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log lacks %q:\n%s", want, logs)
		}
	}
}

// TestShown checks how values and errors are shown to people.
func TestShown(t *testing.T) {
	p := load(t, "trouble.ts")
	for name, want := range map[string][]string{
		"shown": {"AggregateError: one; two"},
		"deep":  {"stack overflow: calls are nested too deeply, the stack of 2 MiB has room for some thousands"},
		"large": {"out of memory: an instance has at most 64 MiB"},
	} {
		p.begin(name, name, nil)
		if got := p.ends(name); !strings.Contains(got, want[0]) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	var failed *host.RunError
	_, err := p.ResultRaw(p.ctx, "deep")
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(failed.Failure); !strings.Contains(string(b), "times more") || strings.Count(string(b), "trouble.ts:") > 8 {
		t.Errorf("the stack of a recursion: %s", b)
	}
	logs := strings.Join(p.logs("shown"), "\n")
	if strings.Contains(logs, "while it is loaded") {
		t.Errorf("docs/learn/typescript.md says that this is shown nowhere:\n%s", logs)
	}
	for _, want := range []string{`failed {"error":Error: why` + "\n    at ", "[Error: in list\n    at ",
		`{"m":Map {"a" => 1},"self":[circular]} [class Cart] Cart {"items":Map {"tea" => 2}}`} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log lacks %q:\n%s", want, logs)
		}
	}
}

// TestNumbers passes invalid durations, instants and numbers: each refusal names the value and the limit.
func TestNumbers(t *testing.T) {
	p := load(t, "trouble.ts")
	p.begin("numbers", "r", nil)
	var got []string
	if err := json.Unmarshal([]byte(p.ends("r")), &got); err != nil {
		t.Fatal(err)
	}
	const milliseconds = "a duration must be a number of milliseconds from 0 to 253402300799999, got "
	const until = `INVALID_DATE: sleepUntil: an instant is a Date, a text such as "2030-01-31T09:00:00Z", or a number of Unix ` +
		`milliseconds up to 253402300799999, got `
	for i, want := range []string{"INVALID_DURATION: sleep: " + milliseconds + "NaN", "INVALID_DURATION: sleep: " + milliseconds + "Infinity",
		"INVALID_DURATION: sleep: " + milliseconds + "100000000000000000000", until + `"tomorrow"; sleep is for durations`,
		until + "an invalid Date; sleep is for durations", until + "NaN; sleep is for durations",
		until + "100000000000000000000; sleep is for durations", until + "+275760-09-13T00:00:00.000Z; sleep is for durations",
		until + `"5s"; sleep is for durations`, "RangeError: " + milliseconds + "Infinity",
		"INVALID_ARGUMENT: options: timeout: " + milliseconds + "NaN", "INVALID_ARGUMENT: options: delay: " + milliseconds + "Infinity",
		"INVALID_ARGUMENT: options: attempts must be a finite number, got Infinity; 0 is no limit",
		"INVALID_ARGUMENT: options: factor must be a finite number, got NaN",
		"INVALID_ARGUMENT: options: maxElapsed: " + milliseconds + "100000000000000000000",
		"INVALID_ARGUMENT: options: timeout: " + milliseconds + "NaN", "RangeError: " + milliseconds + "NaN",
		"RangeError: retryAfter: the Date is invalid", "INVALID_DURATION: a duration must not be negative, got -1 ms"} {
		if i >= len(got) || got[i] != want {
			t.Errorf("%d: %q, not %q", i, got[min(i, len(got)-1)], want)
		}
	}
}

// TestPromises uses the promises of calls in unusual ways.
func TestPromises(t *testing.T) {
	p := load(t, "promises.js")
	for name, want := range map[string]string{
		"like":     `["handle,kind","function",true,true,"resolved",2]`,
		"bytes":    `["\ufffd",{"\ufffd":1},null]`,
		"many":     "3000",
		"rubbish":  `[["RangeError","RangeError","RangeError","RangeError","RangeError"],"resolved"]`,
		"setter":   `"CANCELLED"`,
		"replaced": "1",
	} {
		p.begin(name, name, 3000)
		switch name {
		case "bytes":
			for _, payload := range []string{"\"\xff\"", "{\"\xfe\":1}", "null"} {
				if err := p.SignalRaw(p.ctx, name, "go", []byte(payload)); err != nil {
					t.Fatal(err)
				}
			}
		case "setter":
			if _, err := p.Cancel(p.ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.ends(name); strings.ReplaceAll(got, "\ufffd", `\ufffd`) != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}

// TestLater starts a workflow that a program registers late.
func TestLater(t *testing.T) {
	p := load(t, "later.js")
	for _, name := range []string{"first", "second"} {
		p.begin(name, name, nil)
		if got := p.ends(name); got != `"`+name+`"` {
			t.Errorf("the workflow %s has returned %s", name, got)
		}
	}
}

// TestSteps covers step functions, time in bodies, and parallel bodies.
func TestSteps(t *testing.T) {
	p := load(t, "steps.ts")
	p.begin("steps", "r", nil)
	want := `{"double":42,"all":[1,2,3],"waited":true,"version":2,"child":[1,"r.kid"],"bytes":"[1] 3","retry":[2,3600000]}`
	if got := p.ends("r"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// TestInput covers inputs that are not JSON.
func TestInput(t *testing.T) {
	p := load(t, "steps.ts")
	for name, want := range map[string]string{"raw": `"{ 1"`, "kid": `the input is not JSON: `} {
		if _, err := p.StartRaw(p.ctx, name, []byte("{"), host.WithRunID(name)); err != nil {
			t.Fatal(err)
		}
		if got := p.ends(name); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}

// TestManyCalls makes a long journal, and replays it.
func TestManyCalls(t *testing.T) {
	p := load(t, "steps.ts")
	p.begin("many", "r", 300)
	p.Crash()
	if got := p.ends("r"); got != "44850" {
		t.Error(got)
	}
}

// refusal returns the error of uploading a program that cannot be loaded.
func refusal(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	const body = "const at = [Math.random(), Date.now(), new Date(), crypto.randomUUID()];" +
		"const id = () => crypto.getRandomValues(new Uint8Array(4)).join();"
	for name, text := range map[string]string{"refused.ts": text,
		"node_modules/random/index.mjs": body + "export { at, id };", "node_modules/random-cjs/index.js": body + "module.exports = { at, id };",
		"node_modules/random/package.json":     `{"name":"random","module":"index.mjs"}`,
		"node_modules/random-cjs/package.json": `{"name":"random-cjs","main":"index.js"}`} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wasm, name, err := typescript.Build(t.Context(), filepath.Join(dir, "refused.ts"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = hosttest.New(t).UploadAll(t.Context(), name, wasm)
	return fmt.Sprint(err)
}

// TestSchemaOfLibrary uploads a workflow whose schema is not JSON Schema.
func TestSchemaOfLibrary(t *testing.T) {
	got := refusal(t, `import { workflow } from "@wfhost/workflow";
		workflow("zz", { input: { _zod: {}, safeParse() {} } as any }, () => 1);`)
	if !strings.Contains(got, "input is a schema of a library, and must be a JSON Schema: of zod that is z.toJSONSchema(schema)") {
		t.Error(got)
	}
}

// TestDrawnAtLoad refuses programs that draw random values while they are loaded, where these would be equal in all
// runs. Packages may do so, except for secrets that the program requests.
func TestDrawnAtLoad(t *testing.T) {
	const tail = "export default () => 1;"
	for text, want := range map[string]string{
		"export const r = Math.random();":                         "Math.random()",
		"export const r = [1, 2].map(Math.random);":               "Math.random()",
		"export const d = Date.now();":                            "Date.now()",
		"const d = new Date(); export { d };":                     "new Date()",
		"export const d = Date();":                                "Date()",
		"export const p = performance.now();":                     "performance.now()",
		"export const u = crypto.randomUUID();":                   "crypto.randomUUID()",
		`import { id } from "random"; export const i = id();`:     "crypto.getRandomValues()",
		`import { id } from "random-cjs"; export const i = id();`: "crypto.getRandomValues()",
	} {
		if got := refusal(t, text+tail); !strings.Contains(got, want+" is called while the module is loaded, which is done once for all runs") ||
			!strings.Contains(got, "refused.ts:1:") {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{
		`import * as random from "random"; export const r = random;`, `import * as random from "random-cjs"; export const r = random;`,
		"class Day extends Date {} export const d = [new Day(0) instanceof Date, new Date(2026, 1), Date.UTC(2026, 1), Date.parse('x')];",
	} {
		if got := refusal(t, text+tail); got != "<nil>" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestTooLarge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.js")
	text := "export default () => " + `"` + strings.Repeat("x", 5<<20) + `";`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := typescript.Build(t.Context(), file); err == nil || !strings.Contains(err.Error(), "the limit is 41942") {
		t.Error(err)
	}
}

// tool returns Node and the folder of tools, if they are installed (make js-tools).
func tool(t *testing.T, name string) (node, dir string) {
	t.Helper()
	node = findNode(t, name+" did not check the SDK")
	dir, err := filepath.Abs("../bin/js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", name)); err != nil {
		t.Skipf("SKIPPED: %s is not installed: make js-tools", name)
	}
	return node, dir
}

// lintTest is the test file of the ESLint rules, which needs tools.
const lintTest = "eslint.test.js"

// TestLintRules runs the tests of the ESLint rules.
func TestLintRules(t *testing.T) {
	node, dir := tool(t, "typescript-eslint")
	cmd := exec.Command(node, "--test", "test/"+lintTest)
	cmd.Dir, cmd.Env = "../guest-sdk/js", append(os.Environ(), "WFHOST_JS_TOOLS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTypes checks all TypeScript workflows of the repository against the SDK's types with tsc.
func TestTypes(t *testing.T) {
	node, dir := tool(t, "typescript")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	check := func(files ...string) (string, error) {
		config, err := json.Marshal(map[string]any{"include": files, "compilerOptions": map[string]any{"target": "ES2023", "module": "ESNext",
			"moduleResolution": "bundler", "lib": []string{"ES2023", "DOM"}, "strict": true, "noEmit": true, "types": []string{},
			"paths": map[string][]string{"@wfhost/workflow": {root + "/guest-sdk/js/index.d.ts"},
				"@wfhost/workflow/testing": {root + "/guest-sdk/js/testing.d.ts"}}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "tsconfig.json")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(node, filepath.Join(dir, "node_modules/typescript/bin/tsc"), "-p", file).CombinedOutput()
		return string(out), err
	}
	if out, err := check(root+"/examples/typescript/*.ts", root+"/guest-sdk/js/stories/*.ts", root+"/host/testdata/randomts/*.ts",
		root+"/guest-sdk/js/*.d.ts"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.ts")
	if err := os.WriteFile(wrong, []byte(`import { sleep } from "@wfhost/workflow"; sleep({ days: 1 });`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check(wrong); err == nil || !strings.Contains(out, "wrong.ts") {
		t.Errorf("tsc has found nothing: %v %s", err, out)
	}
}

// nodeTime limits the tests of a file, which take a second: a step that waits forever would block them.
const nodeTime = 2 * time.Minute

// TestSDKUnderNode runs the tests of the SDK, except those of TestLintRules.
func TestSDKUnderNode(t *testing.T) {
	const dir = "../guest-sdk/js/test"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	node := findNode(t, "the SDK's own tests did not run")
	for _, f := range files {
		if f.Name() == lintTest || f.IsDir() {
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "--test", f.Name())
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
