package typescript_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/typescript"
)

var (
	differentialFor  = flag.Duration("differential.for", 0, "how long TestDifferential compares programs; 0: a fixed part")
	differentialSeed = flag.Int("differential.seed", 1, "the first seed of TestDifferential")
)

const (
	differentialDir = "testdata/differential"
	fixedPrograms   = 320 // the fixed part: 20 for each area
	programsOfRun   = 160 // programs that one run evaluates
	runsOfHost      = 100 // runs per host, whose store is in memory
	seedsOfBundle   = 10  // one in so many seeds also has programs of modules
)

// generated is a program of a seed.
type generated struct {
	Area   string `json:"area"`
	Seed   int    `json:"seed"`
	Source string `json:"source"`
}

// input is what testdata/differential/index.js takes.
type input struct {
	Sources []string `json:"sources,omitempty"`
	Seed    int      `json:"seed,omitempty"`
	Count   int      `json:"count,omitempty"`
	List    bool     `json:"list,omitempty"`
	// Platform selects the areas of the platform instead of the language.
	Platform bool `json:"platform,omitempty"`
	// Modules asks for programs of two modules.
	Modules bool `json:"modules,omitempty"`
}

// node is a Node process that evaluates programs.
type node struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startNode(t *testing.T) *node {
	cmd := exec.Command(findNodeFrom(t, 22, "the differential", "the engine was not compared with it"), filepath.Join(differentialDir, "node.mjs"))
	cmd.Env = append(cmd.Environ(), "TZ=UTC")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v\n%s", err, &stderr)
		}
	})
	return &node{in, bufio.NewReader(out)}
}

func (n *node) ask(t *testing.T, in input, out any) {
	t.Helper()
	text, err := json.Marshal(in)
	if err == nil {
		_, err = n.in.Write(append(text, '\n'))
	}
	var line []byte
	if err == nil {
		line, err = n.out.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, out)
	}
	if err != nil {
		t.Fatalf("node: %v", err)
	}
}

// areas returns the number of programs in each area of a seed.
func (n *node) areas(t *testing.T, in input) map[string]int {
	in.List = true
	var list []generated
	n.ask(t, in, &list)
	k := map[string]int{}
	for _, p := range list {
		k[p.Area]++
	}
	return k
}

// guests evaluates programs in the engine, on hosts.
type guests struct {
	t    *testing.T
	wasm []byte
	host *program
	runs int
}

func (g *guests) ask(in input) (out []string) {
	g.t.Helper()
	if g.host == nil || g.runs%runsOfHost == 0 {
		if g.host != nil {
			g.host.Stop()
		}
		g.host = upload(g.t, "engine", g.wasm)
	}
	g.runs++
	id := fmt.Sprintf("r%d", g.runs)
	g.host.begin("engine", id, in)
	text := g.host.ends(id)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		g.t.Fatalf("%v: %.2000s", in, text)
	}
	return out
}

// TestDifferential compares programs in the engine and in Node. Programs are generated from seeds, and reduced to the
// lines that differ. With -differential.for, it also compares platform and module programs.
func TestDifferential(t *testing.T) { differential(t, false) }

// TestPlatformDifferential compares URLs, headers, requests, signals, events, copies and encodings in the same way.
func TestPlatformDifferential(t *testing.T) { differential(t, true) }

func differential(t *testing.T, platform bool) {
	wasm, _, err := typescript.Build(t.Context(), filepath.Join(differentialDir, "engine.ts"))
	if err != nil {
		t.Fatal(err)
	}
	n, g := startNode(t), &guests{t: t, wasm: wasm}
	count, end := fixedPrograms, time.Now().Add(*differentialFor)
	if *differentialFor > 0 {
		count = programsOfRun
	}
	total, found := map[string]int{}, map[string]int{}
	for seed := *differentialSeed; ; seed++ {
		for _, platform := range slices.Compact([]bool{platform, platform || *differentialFor > 0}) {
			in := input{Seed: seed, Count: count, Platform: platform}
			for area, k := range compare(t, n, g, in, found) {
				found[area] += k
			}
			for area, k := range n.areas(t, in) {
				total[area] += k
			}
		}
		if *differentialFor > 0 && (seed-*differentialSeed)%seedsOfBundle == 0 {
			k, differ := compareModules(t, n, seed)
			total["modules"] += k
			found["modules"] += differ
		}
		if *differentialFor == 0 || time.Now().After(end) {
			t.Logf("programs of the seeds %d to %d: %v; of these differ: %v", *differentialSeed, seed, total, found)
			return
		}
	}
}

// maxShown limits the programs of an area that are reduced and shown.
const maxShown = 10

// compare evaluates the programs of a seed, shows those that differ, and returns their number per area.
func compare(t *testing.T, n *node, g *guests, in input, shown map[string]int) map[string]int {
	var want []string
	n.ask(t, in, &want)
	got := g.ask(in)
	if len(got) != len(want) {
		t.Fatalf("seed %d: %d and %d results", in.Seed, len(got), len(want))
	}
	found := map[string]int{}
	var list []generated
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		if list == nil {
			in.List = true
			n.ask(t, in, &list)
		}
		area := list[i].Area
		found[area]++
		if shown[area]+found[area] > maxShown {
			continue
		}
		source, a, b := reduce(t, n, g, list[i].Source, got[i], want[i])
		t.Errorf("%s, seed %d of %d:\n%s\nengine: %s\nnode:   %s", area, list[i].Seed, in.Seed, source, a, b)
	}
	return found
}

// reduce removes lines as long as engine and Node still differ, and returns the rest with both results.
func reduce(t *testing.T, n *node, g *guests, source, got, want string) (reduced, engine, node string) {
	lines := strings.Split(source, "\n")
	for size := max(1, len(lines)/2); size >= 1; {
		var sources []string
		for at := 0; at < len(lines); at += size {
			rest := append(append([]string(nil), lines[:at]...), lines[min(at+size, len(lines)):]...)
			sources = append(sources, strings.Join(rest, "\n"))
		}
		var b []string
		n.ask(t, input{Sources: sources}, &b)
		a := g.ask(input{Sources: sources})
		i := 0
		for i < len(a) && (a[i] == b[i] || strayed(a[i], got) || strayed(b[i], want)) {
			i++
		}
		if i == len(a) {
			size /= 2
			continue
		}
		lines, got, want = strings.Split(sources[i], "\n"), a[i], b[i]
	}
	return strings.Join(lines, "\n"), got, want
}

// strayed reports whether a reduced program fails because of a removed line.
func strayed(result, was string) bool {
	for _, sign := range []string{"refused", "ReferenceError"} {
		if strings.Contains(result, sign) && !strings.Contains(was, sign) {
			return true
		}
	}
	return false
}
