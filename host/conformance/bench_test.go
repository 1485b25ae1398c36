//go:build unix

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wfhost/wfhost/guest-sdk/toolchain"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/typescript"
)

// cpu returns the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// storiesOf compiles the stories of an SDK.
func storiesOf(b *testing.B, lang string) []byte {
	b.Helper()
	dir := filepath.Join("../../guest-sdk", lang, "stories")
	if lang == "go" {
		out := filepath.Join(b.TempDir(), "stories.wasm")
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if text, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		wasm, err := os.ReadFile(out)
		if err != nil {
			b.Fatal(err)
		}
		return wasm
	}
	if lang == "js" {
		wasm, _, err := typescript.Build(b.Context(), filepath.Join(dir, "stories.ts"))
		if err != nil {
			b.Fatal(err)
		}
		return wasm
	}
	wasm, err := toolchain.Compile(b.Context(), dir)
	if err != nil {
		b.Skip(err)
	}
	return wasm
}

// BenchmarkLanguages measures the CPU time of the process, on a store in memory, for: the upload of a module; the
// start of a run that sleeps; its wake and end, when all runs wake at once; a body; the replay of a journal. Run it
// with -benchtime 1x.
func BenchmarkLanguages(b *testing.B) {
	const runs = 300
	for _, lang := range []string{"go", "js", "rust", "cpp", "c", "assemblyscript"} {
		b.Run(lang, func(b *testing.B) {
			wasm := storiesOf(b, lang)
			for b.Loop() {
				ctx := context.Background()
				at := cpu(b)
				t, err := open(ctx, wasm, false, &memories{off: true}, "")
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64((cpu(b)-at).Microseconds())/1000, "upload-ms")
				measure := func(name string, n int, f func()) {
					at := cpu(b)
					f()
					b.ReportMetric(float64((cpu(b)-at).Microseconds())/float64(n), name)
				}
				must := func(err error) {
					b.Helper()
					if err != nil {
						b.Fatal(err)
					}
				}
				start := func(workflow, id, input string) {
					_, err := t.StartRaw(ctx, workflow, []byte(input), host.WithRunID(id))
					must(err)
				}
				start("child", "first", "1") // what is done once for a module
				must(t.advance(ctx, t.clock.Now().Add(time.Minute)))
				measure("start-µs", runs, func() {
					for i := range runs {
						start("child", fmt.Sprint("run-", i), "1")
					}
					_, _, err := t.settle(ctx)
					must(err)
				})
				measure("wake-µs", runs, func() { must(t.advance(ctx, t.clock.Now().Add(time.Minute))) })
				measure("body-µs", 300, func() {
					for i := range 30 { // ten bodies each, including the start, without a sleep
						start("long", fmt.Sprint("ten-", i), "9")
						_, err := t.finish(ctx, fmt.Sprint("ten-", i))
						must(err)
					}
				})
				for _, n := range []int{100, 1000} {
					id := fmt.Sprint("long-", n)
					start("long", id, fmt.Sprint(n))
					_, err := t.finish(ctx, id)
					must(err)
					measure(fmt.Sprintf("replay-%d-µs", n), 20, func() {
						for range 20 {
							must(t.Replay(ctx, id))
						}
					})
				}
				b.ReportMetric(float64(len(wasm))/1000, "kB")
				must(t.close())
			}
		})
	}
}
