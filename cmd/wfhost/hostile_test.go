//go:build hostile

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

var (
	hostileFor  = flag.Duration("hostile.for", 2*time.Minute, "how long the server is attacked")
	hostileSeed = flag.Uint64("hostile.seed", 1, "of what the attackers do")
	hostileMore = flag.Bool("hostile.more", false, "attack by hooks, updates, schedules, definitions, mutants, checks and imports, too")
	hostileRuns = flag.Int("hostile.runs", 1000, "how many honest runs there are")
	hostileNap  = flag.Duration("hostile.longest", 30*time.Second, "the longest of their sleeps")
	hostileDump = flag.String("hostile.dump", "", "a file for the stacks of the server, which is ended when an honest run stands still")
	hostileOnly = flag.String("hostile.only", "", "the attackers that attack, separated by commas; all without it, none for none")
)

// What has to hold meanwhile.
const (
	honestLate     = 100 * time.Millisecond
	hostileMemory  = 1 << 30
	honestPatience = 2 * time.Minute  // how long to wait for late runs after the attack
	honestStands   = 30 * time.Second // an honest run that is "running" this long without a new entry is stuck
	honestParts    = 12               // number of periods for which lateness is logged separately
)

// hour is a server that is attacked.
type hour struct {
	*testing.T
	address string
	cmd     *exec.Cmd
	ended   chan struct{} // the process has
	client  *http.Client
	token   string
	honest  []byte // the module of the honest workflow

	mu      sync.Mutex
	counts  map[string]int // by attacker and answer
	peak    int64          // most memory of the server, in bytes
	mapped  int64          // the same, with shared pages counted once per mapping
	started int
}

// TestHostileHour attacks a server with uploads, guests, requests and signals while 1,000 honest runs sleep and make
// steps, with about 65 wakes per second. The server survives with less than 1 GiB of memory, no honest run is lost,
// and at most one wake in a hundred is more than 100 ms late.
func TestHostileHour(t *testing.T) {
	h := newHour(t)
	until := time.Now().Add(*hostileFor)
	h.honest = buildGuest(t, "testdata/honest")
	h.must("PUT", "/v1/workflows/honest/versions", h.honest, http.StatusCreated)
	h.must("PUT", "/v1/workflows/hostile/versions", buildGuest(t, "testdata/hostile"), http.StatusCreated)
	for i := range *hostileRuns {
		body, _ := json.Marshal(httpapi.StartRequest{ID: fmt.Sprint("honest", i),
			Input: json.RawMessage(fmt.Sprintf(`{"untilUnixMs":%d,"longestMs":%d}`, until.UnixMilli(), hostileNap.Milliseconds()))})
		h.must("POST", "/v1/workflows/honest/runs", body, http.StatusCreated)
	}
	ctx, cancel := context.WithDeadline(t.Context(), until)
	defer cancel()
	var all sync.WaitGroup
	if *hostileMore {
		maps.Copy(attackers, callers)
	}
	for name, attack := range attackers {
		if *hostileOnly == "" || slices.Contains(strings.Split(*hostileOnly, ","), name) {
			all.Go(func() { h.attack(ctx, name, attack) })
		}
	}
	all.Go(func() { h.watch(ctx) })
	all.Wait()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range h.counts {
			if !yield(k) {
				return
			}
		}
	}) {
		t.Logf("%7d %s", h.counts[name], name)
	}
	h.attacked()
	h.judge()
	if peak := h.peak; peak > hostileMemory {
		t.Errorf("the server took %d MiB, the limit is %d", peak>>20, hostileMemory>>20)
	} else {
		t.Logf("the server took %d MiB at most", peak>>20)
	}
}

// attacked checks that the server accepted at least one request of each attacker that sends valid ones: an attack is
// ineffective if all of it is refused.
func (h *hour) attacked() {
	for _, name := range []string{"guest", "module", "bomb", "signals", "lists"} {
		if *hostileOnly != "" && !slices.Contains(strings.Split(*hostileOnly, ","), name) {
			continue
		}
		taken := 0
		for what, n := range h.counts {
			if fields := strings.Fields(what); fields[0] == name+":" && strings.HasPrefix(fields[len(fields)-1], "20") {
				taken += n
			}
		}
		if taken == 0 {
			h.Errorf("all that attacker %q sent was refused", name)
		}
	}
}

func newHour(t *testing.T) *hour {
	h := &hour{T: t, address: freeAddress(t), ended: make(chan struct{}), counts: map[string]int{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	h.cmd = exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listen", h.address, "--drain", "2s")
	h.cmd.Env = append(os.Environ(), "TESTSCRIPT_COMMAND=")
	var said bytes.Buffer
	h.cmd.Stderr = &tail{to: &said}
	if *hostileDump != "" {
		f, err := os.Create(*hostileDump)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }() // the process has its own
		h.cmd.Stderr, h.cmd.Env = f, append(h.cmd.Env, "GOTRACEBACK=all")
	}
	out, err := h.cmd.StdoutPipe()
	if err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "wfhost serves") {
		t.Fatalf("the server does not start: %q %v", line, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = h.cmd.Wait() // the state tells
		close(h.ended)
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Signal(os.Interrupt)
		<-h.ended
		var own syscall.Rusage
		if s := h.cmd.ProcessState; syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil {
			t.Logf("CPU time of the server and its compilers %v, of the attackers %v", (s.UserTime() + s.SystemTime()).Round(time.Second),
				time.Duration(own.Utime.Nano()+own.Stime.Nano()).Round(time.Second))
		}
		if t.Failed() {
			t.Logf("the last words of the server:\n%s", said.Bytes())
		}
	})
	h.token, err = (&globals{Server: "http://" + h.address}).tokenOf()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tail keeps the last words.
type tail struct {
	mu sync.Mutex
	to *bytes.Buffer
}

const tailBytes = 64 << 10

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to.Write(b)
	if w.to.Len() > 2*tailBytes {
		kept := bytes.Clone(w.to.Bytes()[w.to.Len()-tailBytes:])
		w.to.Reset()
		w.to.Write(kept)
	}
	return len(b), nil
}

// call makes a request and returns its status, 0 if there is no answer.
func (h *hour) call(ctx context.Context, method, path string, body []byte, into any) int {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+h.address+path, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	kind := "application/json"
	if method == http.MethodPut || strings.HasSuffix(path, "/check") {
		kind = "application/wasm"
	} else if strings.HasSuffix(path, ":import") {
		kind = "application/x-tar"
	}
	req.Header.Set("Content-Type", kind)
	res, err := h.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && into != nil && res.StatusCode < 300 && res.StatusCode != http.StatusAccepted { // which has the run
		if err := json.Unmarshal(b, into); err != nil {
			h.Errorf("%s %s: %v", method, path, err)
		}
	}
	return res.StatusCode
}

func (h *hour) must(method, path string, body []byte, want int) {
	h.Helper()
	if got := h.call(h.Context(), method, path, body, nil); got != want {
		h.Fatalf("%s %s: %d, want %d", method, path, got, want)
	}
}

// attack repeats the requests of an attacker until the end.
func (h *hour) attack(ctx context.Context, name string, a attacker) {
	random := rand.New(rand.NewPCG(*hostileSeed, uint64(len(name))<<32|uint64(name[0])<<8|uint64(name[len(name)-1])))
	every := time.NewTicker(a.every)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.ended:
			return
		case <-every.C:
		}
		what := a.do(ctx, h, random)
		h.mu.Lock()
		h.counts[name+": "+what]++
		h.mu.Unlock()
	}
}

// watch checks once per second that the server lives, and its memory.
func (h *hour) watch(ctx context.Context) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-h.ended:
			h.Errorf("the server has died: %v", h.cmd.ProcessState)
			return
		case <-every.C:
		}
		if n%memoryEvery > 0 {
			continue
		}
		h.stands(ctx)
		used, mapped := memoryOf(h.cmd.Process.Pid)
		h.peak, h.mapped = max(h.peak, used), max(h.mapped, mapped)
		if n%(6*memoryEvery) == 0 {
			h.Logf("%v: %d MiB, %d MiB at most; mapped %d MiB at most", time.Duration(n)*time.Second, used>>20, h.peak>>20, h.mapped>>20)
		}
	}
}

// stands kills the server with a stack dump, if enabled, when an honest run makes no progress.
func (h *hour) stands(ctx context.Context) {
	var runs []host.Run
	if *hostileDump == "" || h.call(ctx, "GET", "/v1/runs?workflow=honest&status=running&limit=1000", nil, httpapi.ItemsOf(&runs)) != http.StatusOK {
		return
	}
	for _, r := range runs {
		if time.Since(r.Updated) > honestStands {
			b, _ := json.Marshal(r)
			h.Errorf("it stands still: %s", b)
			_ = h.cmd.Process.Signal(syscall.SIGQUIT)
		}
	}
}

// memoryEvery is the interval in seconds at which memory is measured: the kernel visits all pages each time.
const memoryEvery = 5

// memoryOf returns the used and the mapped memory of a process in bytes, 0 if unknown. The instances of a module
// share pages of its image: these are used once, but mapped by each instance.
func memoryOf(pid int) (used, mapped int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "Pss":
			used = kib << 10
		case "Rss":
			mapped = kib << 10
		}
	}
	return used, mapped
}

// honestWake is a wake of an honest run.
type honestWake struct {
	at   time.Time // when what came after it was recorded
	late time.Duration
}

// judge waits for the honest runs and reads from their journals how late they were.
func (h *hour) judge() {
	patience, cancel := context.WithTimeout(h.Context(), *hostileNap+honestPatience)
	defer cancel()
	var all []honestWake
	unended := map[host.Status]int{}
	for i := range *hostileRuns {
		id := fmt.Sprint("honest", i)
		var steps int
		for code := http.StatusAccepted; code == http.StatusAccepted; {
			code = h.call(patience, "GET", "/v1/runs/"+id+"/result?wait=30s", nil, &steps)
		}
		some, wakes := h.lateness(h.Context(), id) // also of a run that has not ended, which is late by an unknown time
		all = append(all, some...)
		var run host.Run
		if code := h.call(h.Context(), "GET", "/v1/runs/"+id, nil, &run); code != http.StatusOK {
			h.Errorf("run %s: %d", id, code)
		} else if run.Status != host.Completed {
			unended[run.Status]++
		} else if wakes != steps {
			h.Errorf("run %s has %d steps and %d wakes", id, steps, wakes)
		}
	}
	for status, n := range unended {
		h.Errorf("%d of %d honest runs are %q %v after the attack", n, *hostileRuns, status, *hostileNap+honestPatience)
	}
	if len(all) < *hostileRuns {
		h.Errorf("%d wakes of %d honest runs were measured: there should be one of each at least", len(all), *hostileRuns)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b honestWake) int { return a.at.Compare(b.at) })
	for part := range honestParts { // the first period is worse: the server compiles each module for the first time
		if some := all[part*len(all)/honestParts : (part+1)*len(all)/honestParts]; len(some) > 0 {
			h.Logf("from %v on: %s", some[0].at.Format(time.TimeOnly), said(some))
		}
	}
	h.Logf("in all: %s", said(all))
	if p99 := latest(all, 0.99); p99 > honestLate {
		h.Errorf("late p99 %v, the limit is %v", p99, honestLate)
	}
}

// latest returns a percentile of lateness: the given share of wakes is at most this late.
func latest(wakes []honestWake, share float64) time.Duration {
	late := make([]time.Duration, len(wakes))
	for i, w := range wakes {
		late[i] = w.late
	}
	slices.Sort(late)
	return late[int(float64(len(late)-1)*share)]
}

// said says how late wakes are.
func said(wakes []honestWake) string {
	return fmt.Sprintf("%d honest wakes, late p50 %v, p90 %v, p99 %v, at most %v", len(wakes), latest(wakes, 0.5), latest(wakes, 0.9),
		latest(wakes, 0.99), latest(wakes, 1))
}

// lateness returns, for each sleep of a run, how long after its deadline the next entry was recorded.
func (h *hour) lateness(ctx context.Context, id string) (late []honestWake, wakes int) {
	var due time.Time
	slept := false
	for from := uint64(0); ; {
		var entries []httpapi.Entry
		if code := h.call(ctx, "GET", fmt.Sprintf("/v1/runs/%s/journal?from=%d", id, from), nil, httpapi.ItemsOf(&entries)); code != http.StatusOK {
			h.Errorf("journal of %s from %d: %d", id, from, code)
			return late, wakes
		}
		for _, e := range entries {
			from = e.Seq + 1
			switch {
			case e.Kind == "sleep":
				due = *e.Due
			case e.Kind == "timer":
				slept = true
				wakes++
				if e.Time.Before(due) {
					h.Errorf("run %s: the timer fired at %v, before %v", id, e.Time, due)
				}
			case e.Kind == "step_result" && slept:
				slept = false
				late = append(late, honestWake{e.Time, e.Time.Sub(due)})
			}
		}
		if len(entries) == 0 {
			return late, wakes
		}
	}
}
