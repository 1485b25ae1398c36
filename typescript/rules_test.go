package typescript_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// underNode runs a file of testdata under Node, together with other files and with the SDK as a package, and returns
// its output.
func underNode(t *testing.T, main string, files ...string) []byte {
	t.Helper()
	node := nodeOfTypeScript(t, "the environment of tests was not compared with a host")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs("../guest-sdk/js")
	if err != nil {
		t.Fatal(err)
	}
	scope := filepath.Join(dir, "node_modules", "@wfhost")
	if err := os.MkdirAll(scope, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sdk, filepath.Join(scope, "workflow")); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, main) {
		from := f
		if !filepath.IsAbs(f) {
			from = filepath.Join("testdata", f)
		}
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Base(main))
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return out
}

// sameButFor removes the allowed differences: the engine passes at most 257 bytes of a name, run ids differ, and the
// environment says how to register a missing workflow.
var sameButFor = strings.NewReplacer("got 258\"", "got 257\"", "got 259\"", "got 257\"", "got 260\"", "got 257\"",
	`run \"rules-5\"`, `run \"rules\"`, " in this test: register it, or stand in for it by env.child", "")

// fromNow matches an instant in a run: runs begin at different times.
var fromNow = regexp.MustCompile(`from \d{13}\b`)

// TestRulesUnderNode runs the cases of rules.ts on a host and in the test environment under Node: names, options,
// limits, values that are not JSON, retries, and calls that bodies must not make. Codes, kinds, attempts and times
// are equal.
func TestRulesUnderNode(t *testing.T) {
	var env struct {
		Rules []map[string]json.RawMessage
		Ends  map[string]string
	}
	if err := json.Unmarshal(underNode(t, "rules.main.ts", "rules.ts"), &env); err != nil {
		t.Fatal(err)
	}
	p := load(t, "rules.ts")
	cases := 0
	for n, under := range env.Rules {
		id := fmt.Sprintf("rules-%d", n)
		p.begin("rules", id, n)
		var real map[string]json.RawMessage
		if err := json.Unmarshal([]byte(p.ends(id)), &real); err != nil {
			t.Fatal(err)
		}
		cases += len(real)
		for _, name := range slices.Sorted(maps.Keys(real)) {
			same := func(b []byte) string { return fromNow.ReplaceAllString(sameButFor.Replace(string(b)), "from now") }
			if same(real[name]) != same(under[name]) {
				t.Errorf("%s:\nhost %s\nNode %s", name, real[name], under[name])
			}
		}
	}
	if cases < 500 {
		t.Errorf("%d cases were compared", cases)
	}
	for i, what := range slices.Sorted(maps.Keys(env.Ends)) {
		id := "ending-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		p.begin("ending", id, what)
		if got := p.end(id); got != env.Ends[what] {
			t.Errorf("%s:\nhost %.200s\nNode %.200s", what, got, env.Ends[what])
		}
	}
}

// end returns the result of a run, or the code and type of its error.
func (p *program) end(id string) string {
	p.t.Helper()
	p.Finish(id)
	b, err := p.ResultRaw(p.ctx, id)
	if err == nil {
		return string(b)
	}
	r, err := p.Get(p.ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	if r.Failure.Code != 0 {
		return "failed: " + r.Failure.Code.String() + " "
	}
	return "failed:  " + r.Failure.Type
}
