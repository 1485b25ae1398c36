package doctor

import (
	"context"
	"fmt"
	"go/version"
	"os/exec"
	"strings"
	"time"
)

// leastGo is the version of Go that the SDK needs.
const leastGo = "go1.26"

// compilerTime bounds how long the compilers may take to print their versions.
const compilerTime = 10 * time.Second

// compilers checks the compilers of workflows. A server needs none of them.
func compilers(ctx context.Context) []Check {
	ctx, cancel := context.WithTimeout(ctx, compilerTime)
	defer cancel()
	answer := func(name string, args ...string) (string, bool) {
		out, err := exec.CommandContext(ctx, name, args...).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	found, there := answer("go", "env", "GOVERSION")
	targets, clang := answer("clang", "--print-targets")
	_, linker := exec.LookPath("wasm-ld")
	return []Check{judgeGo(found, there), judgeClang(clang, strings.Contains(targets, "wasm32"), linker == nil)}
}

func judgeGo(found string, there bool) Check {
	c := Check{Name: "go", Status: OK, Found: found, Values: map[string]any{"version": found}}
	switch {
	case !there:
		return Check{Name: "go", Status: Skip,
			Found: "it is not installed; wfhost build and run of folders with Go need it, a server does not"}
	case version.IsValid(found) && version.Compare(found, leastGo) < 0:
		c.Status, c.Advice = Warn, "install "+leastGo+" or later, to build workflows here (https://go.dev/dl)"
	}
	return c
}

func judgeClang(clang, target, linker bool) Check {
	switch {
	case !clang && !linker:
		return Check{Name: "clang", Status: Skip, Found: "it is not installed; only workflows in C need it, a server does not"}
	case clang && target && linker:
		return Check{Name: "clang", Status: OK, Found: "clang and wasm-ld build workflows in C"}
	}
	var missing []string
	for _, m := range []struct {
		what string
		ok   bool
	}{{"clang", clang}, {"its target wasm32", target || !clang}, {"wasm-ld", linker}} {
		if !m.ok {
			missing = append(missing, m.what)
		}
	}
	return Check{Name: "clang", Status: Warn, Found: fmt.Sprintf("%s missing", strings.Join(missing, " and ")),
		Advice: "install clang and lld, to build workflows in C here (docs/learn/c.md)"}
}
