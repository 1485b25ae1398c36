//go:build unix

package conformance_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// fuelShare is the fraction of a run's fuel that BenchmarkFuel uses: a twentieth takes half a second, enough for a
// measurement.
const fuelShare = 20

// computing compiles the programs that compute until their fuel is used up.
func computing(b *testing.B, lang string) (wasm []byte) {
	b.Helper()
	dir, err := filepath.Join("testdata/fuel", lang), error(nil)
	switch lang {
	case "go":
		return hosttest.Build(b, dir)
	case "ts":
		wasm, _, err = typescript.Build(b.Context(), filepath.Join(dir, "fuel.ts"))
	default:
		wasm, err = toolchain.Compile(b.Context(), dir)
	}
	if missing, ok := errors.AsType[*toolchain.MissingError](err); ok {
		b.Skipf("SKIPPED: %v; its fuel was not measured", missing)
	}
	if err != nil {
		b.Fatal(err)
	}
	return wasm
}

// processor returns the CPU time that the process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFuel measures the seconds of CPU time that the fuel of a run allows, with programs that compute endlessly.
// Run it with -benchtime 1x, or 5x for the mean of five.
func BenchmarkFuel(b *testing.B) {
	for _, lang := range []string{"c", "cpp", "rust", "assemblyscript", "go", "ts"} {
		wasm := []byte(nil)
		for what, name := range []string{"loop", "sort", "map", "text"} {
			b.Run(lang+"/"+name, func(b *testing.B) {
				if wasm == nil {
					wasm = computing(b, lang)
				}
				h := hosttest.New(b, hosttest.WithConfig(func(c *host.Config) { c.MaxFuel = abi.MaxFuel / fuelShare }))
				if _, err := h.Upload(b.Context(), "fuel", wasm); err != nil {
					b.Fatal(err)
				}
				took, n := time.Duration(0), 0
				for b.Loop() {
					id := "run-" + strconv.Itoa(n)
					n++
					began := processor(b)
					if _, err := h.StartRaw(b.Context(), "fuel", []byte(strconv.Itoa(what)), host.WithRunID(id)); err != nil {
						b.Fatal(err)
					}
					h.Finish(id)
					took += processor(b) - began
					if _, err := h.ResultRaw(context.Background(), id); err == nil || !strings.Contains(err.Error(), "computed") {
						b.Fatalf("the run has not computed until its fuel was gone: %v", err)
					}
				}
				b.ReportMetric(took.Seconds()*fuelShare/float64(n), "s")
			})
		}
	}
}
