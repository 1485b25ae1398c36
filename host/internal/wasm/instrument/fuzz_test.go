package instrument

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// modest reports whether a test can run a module: its tables and locals must be few, since their number is not
// bounded by the module's size.
func modest(wasm []byte) bool {
	var s rewriter
	s.Module, s.End = wasm, len(wasm)
	s.split()
	if s.enter(secTable) {
		for range s.Count("tables") {
			s.Byte("a table")
			if low, _ := s.limits(); low > 1000 {
				return false
			}
		}
	}
	if s.enter(secImport) {
		s.types = make([]signature, 1000)
		s.surveyImports()
	}
	if s.imported[kindTable]+s.imported[kindMemory] > 0 {
		return false
	}
	if s.enter(secCode) {
		for n := s.Count("bodies"); n > 0; n-- {
			size, from := s.U32("a body"), s.At
			locals := uint32(0)
			for range s.Count("groups") {
				locals += min(s.U32("locals"), 1000)
				if locals >= 1000 {
					return false
				}
				s.Byte("a type")
			}
			s.At = from
			s.Skip(size, "a body")
		}
	}
	return s.Err == nil
}

// FuzzRewrite changes modules at random. An engine accepts either both the original and the rewritten module, or
// neither, and both do the same unless they use too much fuel. Modules that Rewrite refuses are not passed to the
// engine, which allocates whatever a module claims to have; the same holds for names.
func FuzzRewrite(f *testing.F) {
	for seed := range uint64(12) {
		wasm := randomModule(seed, seed%3 == 0)
		f.Add(wasm[:bytes.LastIndex(wasm, names)-2])
	}
	f.Add(tightest())
	f.Add(recyclable.bytes())
	for _, c := range broken() {
		f.Add(c.wasm)
	}
	config := wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(16)
	f.Fuzz(func(t *testing.T, wasm []byte) {
		fuel, err := Rewrite(wasm, Options{Fuel: true})
		plain, err2 := Rewrite(wasm, Options{})
		numbers, err3 := Rewrite(wasm, Options{Fuel: true, NaN: true})
		if (err == nil) != (err3 == nil) {
			t.Errorf("%v, with NaNs that are made canonical: %v", err, err3)
		}
		if err != nil || err2 != nil || !modest(wasm) || bytes.Contains(wasm, names) {
			return
		}
		rt := wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(api.CoreFeaturesV2))
		defer rt.Close(ctx)
		_, before := rt.CompileModule(ctx, wasm)
		if before != nil && strings.Contains(before.Error(), "custom") { // which is dropped
			return
		}
		for name, m := range map[string]*Module{"fuel": fuel, "plain": plain, "numbers": numbers} {
			if _, after := rt.CompileModule(ctx, m.Wasm); (after == nil) != (before == nil) {
				t.Errorf("%s: %v, before: %v\n%x\n%x", name, after, before, wasm, m.Wasm)
			}
		}
		if before == nil {
			alike(t, config, wasm)
		}
	})
}

var names = str(nameSection)

// alike calls all functions of a module that take and return only numbers, original and rewritten.
func alike(t *testing.T, config wazero.RuntimeConfig, wasm []byte) {
	all := variants(t, wasm)
	var want []string
	for _, name := range []string{"fuel", "exports", "original"} { // fuel comes first: it says what ends
		k := &tank{portion: 1 << 16, limit: 1 << 16}
		l, err := load(config, wasm, all[name], k)
		if err != nil {
			if len(want) > 0 {
				t.Fatalf("%s: %v", name, err)
			}
			return
		}
		defer l.close()
		got := []string{"started"}
		for export := range bytes.SplitSeq([]byte("f,g,e0,e1,e2,e3,e4,e5,run"), []byte(",")) {
			fn := l.ExportedFunction(string(export))
			if fn == nil || want != nil && len(got) >= len(want) {
				continue
			}
			args := make([]uint64, len(fn.Definition().ParamTypes()))
			got = append(got, l.outcome(string(export), args...), fmt.Sprintf("%x", bytes.TrimRight(l.memory(), "\x00")))
			if name == "fuel" && k.given >= k.limit {
				break // the others would not end
			}
		}
		if want == nil {
			if k.given >= k.limit { // calls that ran out of fuel are not compared
				got = got[:max(len(got)-2, 1)]
			}
			want = got
		}
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("%s: %q, want %q\n%x", name, got[i], want[i], wasm)
			}
		}
	}
}
