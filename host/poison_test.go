package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// Trials in the processes of these tests start 0.1, 0.6 and 1.1 s after the host was opened, and last 0.4 s.
var shortTimes = quarantine.Times{Delay: 100 * time.Millisecond, Trial: 400 * time.Millisecond}

// poisonVariable makes a process a host of these tests. Its value says what ends the process ("step", "guest" or
// "none"), and the folder.
const poisonVariable = "WFHOST_TEST_POISON"

// poisonHost is the main function of such a process. It prints the list of runs periodically, and exits without
// closing its host.
func poisonHost() {
	value := os.Getenv(poisonVariable)
	if value == "" {
		return
	}
	by, dir, _ := strings.Cut(value, ":")
	host.SetSuspectTimes(shortTimes)
	cfg := host.Config{Dir: dir}
	if member := os.Getenv(poisonMember); member != "" {
		name, url, _ := strings.Cut(member, " ")
		cfg.Store, cfg.Cluster = sharedStore(url), &host.Cluster{Name: name, Lease: time.Second}
	}
	cfg.Events.GuestWaits = func(w host.WaitInfo) {
		if by == "guest" && w.RunID == "poison" {
			os.Exit(7)
		}
	}
	h, err := host.Open(ctx, cfg)
	if err != nil {
		panic(err)
	}
	host.HandleStep(h, "work", func(ctx context.Context, _ any) (any, error) {
		switch run := host.StepInfo(ctx).RunID; {
		case by == "step" && run == "poison":
			os.Exit(7)
		case strings.HasPrefix(run, "slow"):
			<-ctx.Done()
		}
		return nil, nil
	})
	go func() { _ = h.Run(ctx) }()
	for {
		page, err := h.RunPage(ctx, host.Query{Limit: host.MaxPage})
		if err != nil {
			panic(err)
		}
		b, err := json.Marshal(page.Runs)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(b))
		<-time.After(20 * time.Millisecond)
	}
}

// poisoned makes a folder with runs of "one", which sleeps for a moment and performs a step, and of "many", which
// does so 200 times.
func poisoned(t *testing.T, runs map[string]string) (dir string) {
	dir = t.TempDir()
	poisonIn(t, host.Config{Dir: dir}, runs)
	return dir
}

func poisonIn(t *testing.T, cfg host.Config, runs map[string]string) {
	h, err := host.Open(ctx, cfg)
	do(t, err)
	for workflow, n := range map[string]int64{"one": 1, "many": 200} {
		m := wasmgen.New(1).While().Get(0).I64(n).NotLess().Break().Text("nap").I64(5).Call(abi.FnSleep).Drop().
			Text("s").Text("host/work").Text("null").Text("").I32(16).I32(64).Call(abi.FnStepDo).Drop().Count(0, 1).EndWhile()
		_, err = h.Upload(ctx, workflow, m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("*"))
		do(t, err)
	}
	for id, workflow := range runs {
		_, err := h.Start(ctx, workflow, nil, host.WithRunID(id))
		do(t, err)
	}
	do(t, h.Close())
}

// lives starts a host process over a folder. It returns the runs as last printed when the process ends by itself, or
// when until returns true for them; then it kills the process and returns true.
func lives(t *testing.T, by, dir string, until func(map[string]host.Run) bool) (runs map[string]host.Run, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), poisonVariable+"="+by+":"+dir)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	do(t, err)
	do(t, cmd.Start())
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var list []host.Run
		do(t, json.Unmarshal(lines.Bytes(), &list))
		runs = map[string]host.Run{}
		for _, r := range list {
			runs[r.ID] = r
		}
		if until(runs) {
			killed = true
			break
		}
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); !killed && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7) {
		t.Fatal(err, said.String())
	}
	return runs, killed
}

// A run that crashes the host each time, by its step or while its guest computes, becomes stuck after five crashes. A
// step that runs beside it all the time does not, and all other runs end. A retry resumes the stuck run.
func TestPoison(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, by := range []string{"step", "guest"} {
		t.Run(by, func(t *testing.T) {
			dir := poisoned(t, map[string]string{"poison": "one", "slow": "one", "good-0": "one", "good-1": "many", "good-2": "one"})
			deaths := 0
			for ; ; deaths++ {
				if deaths > 10 {
					t.Fatal("the host was brought down 10 times")
				}
				runs, killed := lives(t, by, dir, func(runs map[string]host.Run) bool {
					return runs["poison"].Status == host.Stuck && runs["good-1"].Status == host.Completed
				})
				if killed {
					break
				}
				if got := runs["poison"].Status; got.Terminal() || got == host.Stuck {
					t.Fatal("poison is", got)
				}
			}
			if deaths < 5 || deaths > 6 { // a crash does not count if the run made progress before it
				t.Errorf("the host was brought down %d times", deaths)
			}
			afterPoison(t, dir)
		})
	}
}

func afterPoison(t *testing.T, dir string) {
	h, err := host.Open(ctx, host.Config{Dir: dir, Drain: -1})
	do(t, err)
	own, stop := context.WithCancel(ctx)
	host.HandleStep(h, "work", func(context.Context, any) (any, error) { return nil, nil })
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	r, err := h.Get(ctx, "poison")
	if do(t, err); r.Status != host.Stuck || !strings.HasPrefix(r.Reason, "brought the host down 5 times: the process ended 5 times in a row while this run computed, 3 of them") {
		t.Errorf("poison is %s: %s", r.Status, r.Reason)
	}
	do(t, h.Retry(ctx, "poison", 0))
	for _, id := range []string{"poison", "slow", "good-0", "good-1", "good-2"} {
		r, err := h.Wait(ctx, id)
		if do(t, err); r.Status != host.Completed {
			t.Errorf("%s is %s: %s", id, r.Status, r.Reason)
		}
	}
	stop()
	do(t, <-done)
	do(t, h.Close())
}

// A host that an operator kills again and again quarantines no run, whether or not the runs make progress in between.
func TestKillsArePardoned(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	runs := map[string]string{}
	for i := range 20 {
		runs[fmt.Sprint("good-", i)] = "many"
		runs[fmt.Sprint("slow-", i)] = "one"
	}
	dir, r := poisoned(t, runs), rand.New(rand.NewPCG(3, 4))
	kills := 12
	if testing.Short() {
		kills = 4
	}
	for range kills {
		said := 3 + r.IntN(30) // each takes 20 ms
		seen, _ := lives(t, "none", dir, func(map[string]host.Run) bool { said--; return said == 0 })
		for id, run := range seen {
			if run.Status == host.Stuck {
				t.Fatalf("%s is %s: %s", id, run.Status, run.Reason)
			}
		}
	}
	h, err := host.Open(ctx, host.Config{Dir: dir, Drain: -1})
	do(t, err)
	host.HandleStep(h, "work", func(context.Context, any) (any, error) { return nil, nil })
	own, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	for id := range runs {
		r, err := h.Wait(ctx, id)
		if do(t, err); r.Status != host.Completed {
			t.Errorf("%s is %s: %s", id, r.Status, r.Reason)
		}
	}
	stop()
	do(t, <-done)
	do(t, h.Close())
}
