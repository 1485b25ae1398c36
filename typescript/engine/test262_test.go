package engine

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

var (
	test262Dir  = flag.String("test262", "", "the folder of tc39/test262 whose tests are run; empty: none")
	test262Only = flag.String("test262.only", "", "run only tests whose paths match this regular expression")
	test262Nth  = flag.Int("test262.every", 1, "run one test of so many")
)

//go:embed testdata/test262.js
var test262Driver string

// test262Known lists the tests that are known to fail: per line a prefix of their paths, and the reason after #.
//
//go:embed testdata/test262.txt
var test262Known string

// test262Skipped lists the features whose tests are skipped: Node 22 lacks them, too, or the README lists them as
// missing.
var test262Skipped = []string{
	"Array.fromAsync", "Atomics", "SharedArrayBuffer", "ShadowRealm", "Temporal", "WeakRef", "FinalizationRegistry", "FinalizationRegistry.prototype.cleanupSome",
	"regexp-v-flag", "regexp-modifiers", "regexp-duplicate-named-groups", "RegExp.escape", "legacy-regexp", "iterator-helpers", "iterator-sequencing", "joint-iteration", "set-methods",
	"resizable-arraybuffer", "arraybuffer-transfer", "immutable-arraybuffer", "Float16Array", "decorators", "explicit-resource-management", "import-attributes", "json-modules",
	"import-defer", "import-text", "import-bytes", "source-phase-imports", "source-phase-imports-module-source", "dynamic-import", "top-level-await", "import.meta", "promise-try",
	"json-parse-with-source", "uint8array-base64", "Math.sumPrecise", "Error.isError", "upsert", "tail-call-optimization", "cross-realm", "host-gc-required", "IsHTMLDDA", "Intl.Locale",
	"Atomics.pause", "iterator-chunking", "iterator-includes", "Iterator.prototype.join", "symbols-as-weakmap-keys", "await-dictionary", "nonextensible-applies-to-private", "canonical-tz", "stable-typedarray-sort-x", "caller", "error-stack-accessor",
}

var test262Folders = []string{"built-ins", "language"}

// test262Left lists folders whose tests are not run: each tries thousands of characters, which takes minutes in an
// interpreter, and they need a newer Unicode than the engine's 16.
var test262Left = []string{"built-ins/RegExp/property-escapes/generated", "built-ins/RegExp/CharacterClassEscapes", "built-ins/RegExp/character-class-escape-non-whitespace"}

// front is the front matter of a test.
type front struct {
	flags, includes, features []string
	negative                  string // the name of the error
}

var (
	frontBlock = regexp.MustCompile(`(?s)/\*---(.*?)---\*/`)
	frontType  = regexp.MustCompile(`(?m)^\s+type:\s*(\w+)`)
)

func readFront(text string) front {
	var f front
	m := frontBlock.FindStringSubmatch(text)
	if m == nil {
		return f
	}
	f.flags, f.includes, f.features = frontList(m[1], "flags"), frontList(m[1], "includes"), frontList(m[1], "features")
	if strings.Contains(m[1], "negative:") {
		f.negative = frontType.FindStringSubmatch(m[1])[1]
	}
	return f
}

// frontList reads a list in brackets, or a list of lines that begin with a dash.
func frontList(text, key string) []string {
	_, rest, ok := strings.Cut("\n"+text, "\n"+key+":")
	if !ok {
		return nil
	}
	rest = strings.TrimLeft(rest, " ")
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return strings.FieldsFunc(inner, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	}
	var list []string
	for _, line := range strings.Split(rest, "\n")[1:] {
		item, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			break
		}
		list = append(list, item)
	}
	return list
}

// suite runs tests, each in an instance of its own.
type suite struct {
	dir      string
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	mu       sync.Mutex
	harness  map[string]string
}

type inputKey struct{}

// exchange is the input of an instance and its output.
type exchange struct{ input, said string }

func newSuite(t *testing.T, dir string) *suite {
	wasm, err := Make(t.Context(), Script{Text: []byte(test262Driver)})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{dir: dir, harness: map[string]string{}}
	s.runtime = wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(2048))
	t.Cleanup(func() { _ = s.runtime.Close(context.Background()) })
	s.compiled, err = s.runtime.CompileModule(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]wazero.HostModuleBuilder{}
	for _, f := range s.compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if hosts[module] == nil {
			hosts[module] = s.runtime.NewHostModuleBuilder(module)
		}
		hosts[module].NewFunctionBuilder().WithGoModuleFunction(test262Call(name, len(f.ResultTypes()) > 0), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range hosts {
		if _, err := b.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// test262Call returns a host function. The driver uses two of them: it reads its input, and logs the outcome of a
// test.
func test262Call(name string, answers bool) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		x, _ := ctx.Value(inputKey{}).(*exchange)
		result := uint64(0)
		switch name {
		case "input":
			if n := uint32(len(x.input)); uint32(stack[1]) >= n {
				m.Memory().WriteString(uint32(stack[0]), x.input)
			}
			result = uint64(len(x.input))
		case "log":
			b, _ := m.Memory().Read(uint32(stack[1]), uint32(stack[2]))
			x.said = string(b)
		case "clock_time_get":
			m.Memory().WriteUint64Le(uint32(stack[2]), uint64(time.Now().UnixNano()))
		case "fd_write":
			total := uint32(0)
			for i := range uint32(stack[2]) {
				n, _ := m.Memory().ReadUint32Le(uint32(stack[1]) + 8*i + 4)
				total += n
			}
			b := binary.LittleEndian.AppendUint32(nil, total)
			m.Memory().Write(uint32(stack[3]), b)
		}
		if answers {
			stack[0] = result
		}
	}
}

const test262Timeout = 30 * time.Second

// run returns why a test fails, and "" if it passes.
func (s *suite) run(text string, f front, strict bool) string {
	sources := []string{}
	if !slices.Contains(f.flags, "raw") {
		for _, name := range append([]string{"assert.js", "sta.js", "doneprintHandle.js"}, f.includes...) {
			sources = append(sources, s.include(name))
		}
	}
	if strict {
		text = "\"use strict\";\n" + text
	}
	in, err := json.Marshal(map[string]any{"sources": sources, "test": text, "negative": f.negative, "async": slices.Contains(f.flags, "async")})
	if err != nil {
		return err.Error()
	}
	x := &exchange{input: string(in)}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), inputKey{}, x), test262Timeout)
	defer cancel()
	m, err := s.runtime.InstantiateModule(ctx, s.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if m != nil {
		_ = m.Close(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "takes too long"
	case x.said == "passed":
		return ""
	case x.said != "":
		return x.said
	case err != nil:
		return fmt.Sprintf("trapped: %.100v", err)
	}
	return "said nothing"
}

func (s *suite) include(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.harness[name] == "" {
		b, _ := os.ReadFile(filepath.Join(s.dir, "harness", name)) // a test without it fails
		s.harness[name] = string(b)
	}
	return s.harness[name]
}

// skips reports whether a test needs a feature that the engine lacks, or that the driver cannot provide.
func (f front) skips(text string) bool {
	return slices.Contains(f.flags, "module") || slices.Contains(f.flags, "CanBlockIsFalse") || slices.Contains(f.includes, "detachArrayBuffer.js") ||
		strings.Contains(text, "$262.createRealm") || strings.Contains(text, "$262.agent") || strings.Contains(text, "$262.detachArrayBuffer") ||
		slices.ContainsFunc(f.features, func(name string) bool { return slices.Contains(test262Skipped, name) })
}

// TestTest262 runs the tests of tc39/test262, which is not part of this repository, and compares the failures with
// the known ones.
func TestTest262(t *testing.T) {
	if *test262Dir == "" {
		t.Skip("SKIPPED: -test262 names no folder of tc39/test262; make test262 DIR=… runs its tests")
	}
	only := regexp.MustCompile(*test262Only)
	s := newSuite(t, *test262Dir)
	paths := make(chan string)
	var wait sync.WaitGroup
	var mu sync.Mutex
	passed, skipped, failed := 0, 0, 0
	known := knownFailures()
	for range 2 {
		wait.Go(func() {
			for path := range paths {
				why, ran := s.test(path)
				mu.Lock()
				switch {
				case !ran:
					skipped++
				case why == "":
					passed++
				default:
					failed++
					check262(t, known, *test262Dir, path, why)
				}
				mu.Unlock()
			}
		})
	}
	n := 0
	for _, folder := range test262Folders {
		err := filepath.WalkDir(filepath.Join(*test262Dir, "test", folder), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".js") && !strings.Contains(path, "_FIXTURE") && only.MatchString(path) {
				n++
				if n%*test262Nth == 0 {
					paths <- path
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(paths)
	wait.Wait()
	for prefix, seen := range known {
		if !seen && *test262Only == "" && *test262Nth == 1 {
			t.Errorf("testdata/test262.txt: nothing that begins with %s fails", prefix)
		}
	}
	t.Logf("%d tests pass, %d fail, %d were not run", passed, failed, skipped)
}

// test runs a test in strict and in sloppy mode, and returns why it fails.
func (s *suite) test(path string) (why string, ran bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error(), true
	}
	text := string(b)
	f := readFront(text)
	if f.skips(text) || slices.ContainsFunc(test262Left, func(folder string) bool { return strings.Contains(filepath.ToSlash(path), "/"+folder) }) {
		return "", false
	}
	if !slices.Contains(f.flags, "onlyStrict") {
		if why := s.run(text, f, false); why != "" {
			return why, true
		}
	}
	if slices.Contains(f.flags, "noStrict") || slices.Contains(f.flags, "raw") {
		return "", true
	}
	return s.run(text, f, true), true
}

// knownFailures returns the prefixes in testdata/test262.txt, and whether a test of each has failed.
func knownFailures() map[string]bool {
	known := map[string]bool{}
	for line := range strings.Lines(test262Known) {
		if prefix, _, _ := strings.Cut(line, "#"); strings.TrimSpace(prefix) != "" {
			known[strings.TrimSpace(prefix)] = false
		}
	}
	return known
}

// check262 reports a test that fails but is not known to fail.
func check262(t *testing.T, known map[string]bool, dir, path, why string) {
	rel, _ := filepath.Rel(filepath.Join(dir, "test"), path)
	rel = filepath.ToSlash(rel)
	expected := false
	for prefix := range known {
		if strings.HasPrefix(rel, prefix) {
			known[prefix], expected = true, true
		}
	}
	if !expected {
		t.Errorf("%s: %s", rel, why)
	}
}
