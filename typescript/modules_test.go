package typescript_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/typescript"
)

// programsOfBundle is the number of module programs in one bundle.
const programsOfBundle = 60

// moduled is a program of two files.
type moduled struct {
	Area  string            `json:"area"`
	Files map[string]string `json:"files"`
}

// TestModulesDifferential compares TypeScript programs of several modules, bundled for the engine and loaded by Node
// itself.
func TestModulesDifferential(t *testing.T) {
	n := startNode(t)
	total, found := compareModules(t, n, *differentialSeed)
	t.Logf("%d programs of modules: %d differ", total, found)
}

// compareModules compares the programs of a seed, shows those that differ, and returns their number.
func compareModules(t *testing.T, n *node, seed int) (total, found int) {
	var list []moduled
	n.ask(t, input{Modules: true, Seed: seed, Count: programsOfBundle}, &list)
	dir := t.TempDir()
	writeModules(t, dir, list)
	want, ok := nodeModules(t, dir)
	if !ok {
		return 0, 0
	}
	wasm, _, err := typescript.Build(t.Context(), filepath.Join(dir, "engine.ts"))
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	p := upload(t, "engine", wasm)
	defer p.Stop()
	p.begin("engine", "r", nil)
	var got []string
	if err := json.Unmarshal([]byte(p.ends("r")), &got); err != nil || len(got) != len(want) {
		t.Fatalf("seed %d: %v: %.2000s", seed, err, p.ends("r"))
	}
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		found++
		if found <= maxShown {
			t.Errorf("%s of seed %d:\n%s\n--\n%s\nengine: %s\nnode:   %s", list[i].Area, seed, list[i].Files[fmt.Sprintf("p%d.ts", i)], list[i].Files[fmt.Sprintf("p%db.ts", i)], got[i], want[i])
		}
	}
	return len(list), found
}

// writeModules writes the files of programs, and a file that runs them all.
func writeModules(t *testing.T, dir string, list []moduled) {
	var imports, names []string
	files := map[string]string{"package.json": `{"type":"module"}`}
	for i, p := range list {
		for name, text := range p.Files {
			files[name] = text
		}
		imports, names = append(imports, fmt.Sprintf("import p%d from \"./p%d.ts\";", i, i)), append(names, fmt.Sprintf("p%d", i))
	}
	files["engine.ts"] = strings.Join(imports, "\n") + "\nimport { run } from \"./index.js\";\nexport default async function engine(): Promise<string[]> {\n" +
		"  const out: string[] = [];\n  for (const p of [" + strings.Join(names, ", ") + "]) out.push(await run(p));\n  return out;\n}\n"
	files["main.mjs"] = "import engine from \"./engine.ts\";\nprocess.on(\"unhandledRejection\", () => {});\nconsole.log(JSON.stringify(await engine()));\n"
	own, err := filepath.Glob(filepath.Join(differentialDir, "*.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(b)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// nodeModules returns the results of the programs in a folder under Node, if it can load TypeScript.
func nodeModules(t *testing.T, dir string) (want []string, ok bool) {
	node := findNode(t, "bundles were not compared with what it loads")
	if !runsTypeScript(node) {
		t.Log("SKIPPED: node does not load TypeScript, so bundles were not compared with what it loads")
		return nil, false
	}
	cmd := exec.Command(node, "--no-warnings", filepath.Join(dir, "main.mjs"))
	cmd.Env = append(cmd.Environ(), "TZ=UTC")
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &want)
	}
	if err != nil {
		why := ""
		if e, ok := err.(*exec.ExitError); ok {
			why = string(e.Stderr)
		}
		t.Fatalf("node: %v\n%s", err, why)
	}
	return want, true
}
