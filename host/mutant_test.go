package host_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
	"github.com/wfhost/wfhost/host/internal/wasm/validate"
	"github.com/wfhost/wfhost/store/memstore"
)

var (
	mutantsN    = flag.Int("mutants.n", 0, "how many mutated modules TestMutants takes through the host; 0: a few")
	mutantsSeed = flag.Uint64("mutants.seed", 1, "the seed of the first of them; each has the next one")
)

// What a mutated module may take.
const (
	mutantScan    = time.Second     // for inspection: valid modules of 4 MB take 50 ms here, and the machine may be busy
	mutantTime    = 2 * time.Minute // in total: the compiler has 30 s, the guest some seconds, three times each
	mutantRun     = 3 * time.Second // until the host settles or the run is abandoned: it may continue as new forever
	mutantMemory  = 1 << 30         // of the host's process
	mutantProcess = 250             // modules for each process
)

// mutantsVariable makes a process run mutants through a host. Its value is a folder of modules, the first seed and a
// count.
const mutantsVariable = "WFHOST_TEST_MUTANTS"

// source is a module to mutate, with the positions of its sections.
type source struct {
	name     string
	wasm     []byte
	sections [][2]int
}

// sections returns the positions of a module's sections, as far as they can be parsed.
func sections(b []byte) (at [][2]int) {
	for i := 8; i < len(b); {
		i++
		size, shift := 0, 0
		for i < len(b) {
			c := b[i]
			i++
			size |= int(c&0x7f) << shift
			shift += 7
			if c < 0x80 || shift > 28 {
				break
			}
		}
		at = append(at, [2]int{i, min(i+size, len(b))})
		i += size
	}
	return at
}

// telling are bytes that are meaningful in many places: opcodes, types, prefixes, extreme numbers.
var telling = []byte{0, 1, 2, 3, 4, 0x0b, 0x0c, 0x0e, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x24, 0x3f, 0x40, 0x41, 0x6f, 0x70, 0x7b, 0x7f, 0x80, 0xfc, 0xfd, 0xff}

// mutate changes a module in one or a few places. Two thirds of the changes go to a randomly chosen section, so that
// small sections get their share.
func (s *source) mutate(r *rand.Rand) []byte {
	b := slices.Clone(s.wasm)
	pos := func() int {
		if in := s.sections[r.IntN(len(s.sections))]; r.IntN(3) > 0 && in[1] > in[0] && in[0] < len(b) {
			return min(in[0]+r.IntN(in[1]-in[0]), len(b)-1)
		}
		return r.IntN(len(b))
	}
	changes := 1
	if r.IntN(3) == 0 {
		changes += r.IntN(4)
	}
	for ; changes > 0 && len(b) > 16; changes-- {
		p, q := pos(), pos()
		switch r.IntN(10) {
		case 0:
			b[p] ^= 1 << r.IntN(8)
		case 1:
			b[p] = byte(r.Uint32())
		case 2:
			b[p] = telling[r.IntN(len(telling))]
		case 3: // a number becomes the largest
			copy(b[p:], []byte{0xff, 0xff, 0xff, 0xff, 0x0f})
		case 4: // a span is copied
			n := min(1+r.IntN(64), len(b)-p, len(b)-q)
			copy(b[p:p+n], b[q:q+n])
		case 5:
			b[p], b[q] = b[q], b[p]
		case 6: // the section's count or first byte
			if in := s.sections[r.IntN(len(s.sections))]; in[0] < len(b) {
				b[in[0]] = byte(r.Uint32())
			}
		case 7:
			b[p]++
		case 8: // a byte more, or less
			if r.IntN(2) == 0 {
				b = slices.Insert(b, p, telling[r.IntN(len(telling))])
			} else {
				b = slices.Delete(b, p, p+1)
			}
		case 9:
			if r.IntN(8) == 0 {
				b = b[:max(8, p)]
			} else {
				b[p]--
			}
		}
	}
	return b
}

// mutants takes modules through a host.
type mutants struct {
	h     *host.Host
	plain wazero.Runtime
	// sampled selects modules that the interpreter calls invalid for an upload, too.
	sampled func() bool
}

// openMutants opens a host with small budgets and a compiler in a separate process.
func openMutants(dir string) (*mutants, func() error, error) {
	h, err := host.Open(ctx, host.Config{Store: memstore.New().Open(), Dir: dir, Compiler: host.SelfCompiler(), MaxFuel: 20_000_000,
		MaxSegmentCPU: 2 * time.Second, Drain: -1, ModuleBytes: -1, Logger: slog.New(slog.DiscardHandler),
		CompileLimits: host.CompileLimits{CPU: 15 * time.Second, Wall: 30 * time.Second, Memory: 512 << 20}})
	if err != nil {
		return nil, nil, err
	}
	own, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	m := &mutants{h: h, sampled: func() bool { return true }, plain: wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1024).WithCoreFeatures(api.CoreFeaturesV2))}
	return m, func() error {
		stop()
		return errors.Join(<-done, h.Close(), m.plain.Close(ctx))
	}, nil
}

// try takes a module through inspection, rewrite, compilation, start-up and a run. It returns what happened to the
// module, and a fault of the host, nil if there is none.
func (m *mutants) try(name string, wasm []byte) (verdict string, err error) {
	began := time.Now()
	_, refused := validate.Scan(wasm)
	if took := time.Since(began); took > mutantScan {
		return "", fmt.Errorf("inspecting it takes %v", took)
	}
	if refused != nil {
		return "refused by inspection", nil
	}
	rewritten, refused := instrument.Rewrite(wasm, instrument.Options{Fuel: true, NaN: true, TableElements: 1 << 20})
	_, before := m.plain.CompileModule(ctx, withoutNames(wasm))
	var after error
	if refused == nil {
		_, after = m.plain.CompileModule(ctx, rewritten.Wasm)
	} else {
		after = refused
	}
	if (before == nil) != (after == nil) && !(before != nil && strings.Contains(before.Error(), "custom")) { // names are dropped
		return "", fmt.Errorf("its validity differs: %v, rewritten: %v", before, after)
	}
	if after != nil && !m.sampled() {
		return "invalid", nil
	}
	return m.run(name, wasm, after != nil)
}

// withoutNames removes the names from a module, as the rewrite does: wazero allocates as much for a name as its
// length claims, up to 4 GiB.
func withoutNames(wasm []byte) []byte {
	b := slices.Clone(wasm[:8])
	for _, at := range sections(wasm) {
		start := at[0] - 2
		for wasm[start]&0x80 != 0 { // the bytes of a size except the last
			start--
		}
		if wasm[start] != 0 || !bytes.HasPrefix(wasm[at[0]:at[1]], []byte("\x04name")) {
			b = append(b, wasm[start:at[1]]...)
		}
	}
	return b
}

func (m *mutants) run(name string, wasm []byte, invalid bool) (string, error) {
	versions, err := m.h.UploadAll(ctx, name, wasm, host.OnlyWorkflows(name), host.AllowStep("*"))
	if err != nil {
		if !errors.Is(err, host.ErrRejected) && !errors.Is(err, host.ErrInvalid) {
			return "", fmt.Errorf("its upload: %w", err)
		}
		if text := internal(err.Error()); text != "" {
			return "", fmt.Errorf("its upload says %q: %w", text, err)
		}
		if invalid {
			return "invalid, refused", nil
		}
		return "refused at its upload", nil
	}
	if invalid {
		return "", errors.New("it is invalid, and was uploaded")
	}
	defer func() {
		for _, v := range versions {
			_ = m.h.Workflows().DeleteVersion(ctx, v.Workflow, v.Number) // one that is in use stays
		}
	}()
	r, err := m.h.Start(ctx, versions[0].Workflow, nil)
	if err != nil {
		return "", fmt.Errorf("its start: %w", err)
	}
	own, cancel := context.WithTimeout(ctx, mutantRun)
	defer cancel()
	_, _, _ = m.h.WaitIdle(own) // the status shows whether it settled
	r, err = m.h.Get(ctx, r.ID)
	if err != nil {
		return "", err
	}
	verdict := r.Status.String()
	switch r.Status {
	case host.Stuck:
		err = fmt.Errorf("its run is stuck: %s", r.Reason)
	case host.Failed:
		_, failure := m.h.ResultRaw(ctx, r.ID)
		if text := internal(fmt.Sprint(failure)); text != "" {
			err = fmt.Errorf("its run says %q: %w", text, failure)
		}
	}
	if !r.Status.Terminal() {
		gone, cancel := context.WithTimeout(ctx, mutantRun)
		defer cancel()
		if err := m.h.Terminate(gone, r.ID); err != nil && !errors.Is(err, host.ErrTerminal) { // it may have ended meanwhile
			return "", fmt.Errorf("its run, which is %s, cannot be terminated: %w", r.Status, err)
		}
	}
	return "run: " + verdict, errors.Join(err, m.h.Delete(ctx, r.ID))
}

// internal returns the part of an error that reveals an internal failure.
func internal(text string) string {
	for _, s := range []string{"recovered by wazero", "runtime error", "BUG", "goroutine ", "nil pointer", "index out of range", "died: "} {
		if strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

// mutantOf returns the mutant with a seed. Large modules are rare, since compiling them takes seconds.
func mutantOf(sources []source, seed uint64) (*source, []byte, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &sources[r.IntN(len(sources))]
	for len(s.wasm) > 200_000 && r.IntN(100) > 0 {
		s = &sources[r.IntN(len(sources))]
	}
	return s, s.mutate(r), r
}

// mutantsHost is the main function of a process that runs mutants through a host. It prints a line for each.
func mutantsHost() {
	var dir, from, n string
	if parts := strings.Split(os.Getenv(mutantsVariable), "\n"); len(parts) == 3 {
		dir, from, n = parts[0], parts[1], parts[2]
	} else {
		return
	}
	first, err := strconv.ParseUint(from, 10, 64)
	count, err2 := strconv.ParseUint(n, 10, 64)
	sources, err3 := readSources(dir)
	scratch, err4 := os.MkdirTemp("", "mutants-")
	m, end, err5 := openMutants(scratch)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		panic(err)
	}
	for seed := first; seed < first+count; seed++ {
		s, wasm, r := mutantOf(sources, seed)
		m.sampled = func() bool { return r.IntN(16) == 0 }
		fmt.Printf("begin %d %s\n", seed, s.name)
		verdict, err := m.try("m"+strconv.FormatUint(seed, 10), wasm)
		if err != nil {
			fmt.Printf("wrong %q\n", err.Error())
			continue
		}
		fmt.Printf("memory %d\n", peakBytes("self"))
		fmt.Printf("end %s\n", verdict)
	}
	err = errors.Join(end(), os.RemoveAll(scratch))
	fmt.Printf("memory %d\n", peakBytes("self"))
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// peakBytes returns the peak memory of a process, 0 if the system does not report it.
func peakBytes(pid string) int64 {
	b, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

func readSources(dir string) (sources []source, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		sources = append(sources, source{strings.TrimSuffix(filepath.Base(f), ".wasm"), b, sections(b)})
	}
	return sources, err
}

// TestMutants takes mutated modules through the whole path in separate processes. No process dies, hangs or exceeds
// its memory, there is no internal error, and an engine that accepts a module also accepts the rewritten one.
func TestMutants(t *testing.T) {
	n := *mutantsN
	if n == 0 {
		n = 100
	}
	if testing.Short() && *mutantsN == 0 {
		t.Skip("slow")
	}
	dir := t.TempDir()
	real := realModules(t)
	t.Log(len(real), "modules are mutated")
	for name, wasm := range real {
		do(t, os.WriteFile(filepath.Join(dir, name+".wasm"), wasm, 0o600))
	}
	verdicts, began := map[string]int{}, time.Now()
	var peak int64
	for at, end := *mutantsSeed, *mutantsSeed+uint64(n); at < end && !t.Failed(); at += mutantProcess {
		peak = max(peak, mutantsProcess(t, dir, at, min(end-at, mutantProcess), verdicts))
		if at%10_000 < mutantProcess {
			t.Logf("%d, after %v: %v", at, time.Since(began).Round(time.Second), verdicts)
		}
	}
	t.Logf("%d mutants from seed %d, in %v; the host's process had %d MiB at most", n, *mutantsSeed, time.Since(began).Round(time.Second), peak>>20)
	for _, v := range slices.Sorted(keysOf(verdicts)) {
		t.Logf("%7d %s", verdicts[v], v)
	}
}

// mutantsProcess has a process run mutants through a host, and returns its peak memory.
func mutantsProcess(t *testing.T, dir string, from, n uint64, verdicts map[string]int) (peak int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d", mutantsVariable, dir, from, n))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	do(t, cmd.Start())
	current := ""
	late := time.AfterFunc(mutantTime, func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "begin":
			late.Reset(mutantTime)
			current = rest
		case "end":
			verdicts[rest]++
		case "wrong":
			t.Errorf("mutant %s: %s", current, rest)
		case "memory":
			had := peak
			peak, _ = strconv.ParseInt(rest, 10, 64)
			if peak > mutantMemory && had <= mutantMemory {
				t.Errorf("mutant %s: the process had %d bytes, before it %d", current, peak, had)
			}
		}
	}
	ended := !late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process died, or was killed after %v (%v), by mutant %s: %v\n%.4000s", mutantTime, ended, current, err, said.String())
	}
	return peak
}

// FuzzModule is TestMutants for Go's own fuzzing.
func FuzzModule(f *testing.F) {
	for _, wasm := range handmadeModules() {
		f.Add(wasm)
	}
	m, end, err := openMutants(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { do2(f, end()) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		if _, err := m.try("m", wasm); err != nil {
			t.Fatal(err)
		}
	})
}

func do2(f *testing.F, err error) {
	if err != nil {
		f.Error(err)
	}
}
