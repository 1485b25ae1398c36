package typescript_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/typescript"
)

// TestStoriesUnderNode runs the stories in the test environment under Node, and compares results and calls with a
// host's.
func TestStoriesUnderNode(t *testing.T) {
	stories, err := conformance.Stories()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	files := []string{"../../guest-sdk/js/stories/stories.ts", "../../guest-sdk/js/stories/rules.ts", "callsof.ts"}
	for _, s := range stories {
		names = append(names, s.Name)
		files = append(files, "../../host/conformance/stories/"+s.Name+".json")
	}
	b, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "names.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var told map[string]struct {
		Status string
		Result json.RawMessage
		Faults []string
		Calls  []conformance.Call
	}
	if err := json.Unmarshal(underNode(t, "stories.main.ts", append(files, list)...), &told); err != nil {
		t.Fatal(err)
	}
	for _, s := range stories {
		got, ok := told[s.Name]
		if !ok {
			if s.Name != "bytes" && s.Name != "names" {
				t.Errorf("%s was not told", s.Name)
			}
			continue
		}
		for _, fault := range got.Faults {
			t.Errorf("%s: %s", s.Name, fault)
		}
		r := differs[s.Name]
		if r == nil {
			r = strings.NewReplacer()
		}
		var want bytes.Buffer
		if out := s.Output(); len(out) > 0 {
			want.WriteString(r.Replace(string(out)))
		}
		if got.Status != s.Status || want.Len() > 0 && !bytes.Equal(got.Result, want.Bytes()) {
			t.Errorf("%s: %s %s, want %s %s", s.Name, got.Status, got.Result, s.Status, &want)
		}
		host, err := conformance.Calls(s.Journal)
		if err != nil {
			t.Fatal(err)
		}
		if calls, want := conformance.Lines(got.Calls), r.Replace(conformance.Lines(host)); calls != want {
			t.Errorf("%s: under Node the calls are\n%s\nand on a host\n%s", s.Name, calls, want)
		}
	}
}

var (
	programs = flag.Int("programs", 30, "how many random programs are run under Node")
	seed     = flag.Uint64("seed", 1, "the seed of the first one")
)

// TestProgramsUnderNode runs random programs on a host and in the test environment under Node: status, result and
// calls are equal. It also runs the rules in both.
func TestProgramsUnderNode(t *testing.T) {
	rules, err := conformance.Rules()
	if err != nil {
		t.Fatal(err)
	}
	var inputs []json.RawMessage
	var stories []conformance.Story
	type named struct {
		Name string `json:"name"`
		conformance.Story
	}
	var list []named
	for i := range rules {
		inputs = append(inputs, rules[i].Input())
	}
	for n := range *programs {
		s := conformance.Program(*seed + uint64(n))
		stories = append(stories, s)
		list = append(list, named{s.Name, s})
	}
	b, err := json.Marshal(map[string]any{"rules": inputs, "programs": list})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "programs.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var env struct {
		Rules    [][]string
		Programs []conformance.Told
	}
	out := underNode(t, "programs.main.ts", "../../guest-sdk/js/stories/rules.ts", "callsof.ts", file)
	if err := json.Unmarshal(out, &env); err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		for _, fault := range rules[i].Broken(env.Rules[i]) {
			t.Error(fault)
		}
	}
	wasm, _, err := typescript.Build(t.Context(), "../guest-sdk/js/stories/stories.ts")
	if err != nil {
		t.Fatal(err)
	}
	told, err := conformance.Tell(t.Context(), wasm, host.UserCacheDir(), stories)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range stories {
		if d := told[i].Difference(&env.Programs[i]); d != "" {
			t.Fatalf("%s with %s and %+v: %s", s.Name, s.Input, s.Do, d)
		}
	}
}

// differs replaces parts of a host's results with the environment's: it does not know the grants of a version, and
// the story allows the change that the body makes.
var differs = map[string]*strings.Replacer{
	"refusals": strings.NewReplacer("DENIED", "UNKNOWN_HANDLER",
		`refusals@1 is not allowed to call \"host/vault\": upload it with that step allowed`,
		`no handler \"host/vault\" is registered in this test: env.handle(\"host/vault\", fn)`),
	"bodies": strings.NewReplacer(`"NOT_HERE",0]`, `"NOT_HERE",1]`),
}
