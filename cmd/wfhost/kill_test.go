//go:build kill

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

var killRounds = flag.Int("kill.rounds", 50, "how often TestKill kills a server, times two")

// killRuns is how many runs each round of TestKill starts.
const killRuns = 50

// TestKill runs several rounds in which it kills a real server with kill -9 while 50 runs sleep and make steps, and
// starts it again: once in the middle of the starts and once in the middle of the sleeps. Every acknowledged run
// finishes, each step's result is recorded exactly once, and no timer fires before its deadline.
func TestKill(t *testing.T) {
	exe := binary(t)
	address := freeAddress(t)
	data := t.TempDir()
	stop := startServer(t, exe, data, address)
	post := poster(t, address)
	wasm := buildGuest(t, "testdata/killed")
	if code := post("PUT", "/v1/workflows/killed/versions", wasm, nil); code != http.StatusCreated {
		t.Fatal("upload", code)
	}
	for round := range *killRounds {
		for i := range killRuns {
			body, _ := json.Marshal(httpapi.StartRequest{ID: fmt.Sprintf("r%d-%d", round, i), Input: json.RawMessage(fmt.Sprint(200 + 37*i%700))})
			for post("POST", "/v1/workflows/killed/runs", body, nil) == 0 {
				t.Fatal("the server went away by itself")
			}
			if i == (round*7)%killRuns { // somewhere in the middle of it
				stop(true)
				stop = startServer(t, exe, data, address)
			}
		}
		<-time.After(time.Duration(round*13%300) * time.Millisecond)
		stop(true)
		stop = startServer(t, exe, data, address)
	}
	defer func() { stop(false) }()
	for round := range *killRounds {
		for i := range killRuns {
			check(t, post, fmt.Sprintf("r%d-%d", round, i))
		}
	}
}

// TestKillFamilies kills a real server while runs start children that send them signals, and continue as new.
func TestKillFamilies(t *testing.T) {
	exe := binary(t)
	address, data := freeAddress(t), t.TempDir()
	stop := startServer(t, exe, data, address)
	post := poster(t, address)
	if code := post("PUT", "/v1/workflows/family/versions", buildGuest(t, "testdata/killed"), nil); code != http.StatusCreated {
		t.Fatal("upload", code)
	}
	const rounds, families = 30, 10
	for round := range rounds {
		for i := range families {
			body, _ := json.Marshal(httpapi.StartRequest{ID: fmt.Sprintf("f%d-%d", round, i),
				Input: json.RawMessage(fmt.Sprintf(`{"Sleep":%d}`, 50+61*i%400))})
			if code := post("POST", "/v1/workflows/family/runs", body, nil); code != http.StatusCreated {
				t.Fatal("start", code)
			}
		}
		<-time.After(time.Duration(round*29%500) * time.Millisecond)
		stop(true)
		stop = startServer(t, exe, data, address)
	}
	defer func() { stop(false) }()
	for round := range rounds {
		for i := range families {
			id := fmt.Sprintf("f%d-%d", round, i)
			var sum int
			for post("GET", "/v1/runs/"+id+"/result?wait=30s", nil, &sum) == http.StatusAccepted {
			}
			var run host.Run
			if post("GET", "/v1/runs/"+id, nil, &run); run.Status != host.Completed || sum != 66 || run.Output != 2 || run.Iteration != 2 {
				t.Fatalf("run %s is %s %s with sum %d, output %d, iteration %d", id, run.Status, run.Reason, sum, run.Output, run.Iteration)
			}
		}
	}
	var page httpapi.List[host.Run]
	if post("GET", "/v1/runs?workflow=kid&limit=1000", nil, &page); len(page.Items) != min(1000, rounds*families*4) {
		t.Fatalf("%d children, want %d", len(page.Items), rounds*families*4)
	}
	for _, r := range page.Items {
		if r.Status != host.Completed {
			t.Errorf("child %s is %s", r.ID, r.Status)
		}
	}
}

// check waits for a run and checks its journal.
func check(t *testing.T, post func(method, path string, body []byte, into any) int, id string) {
	t.Helper()
	var result int
	for post("GET", "/v1/runs/"+id+"/result?wait=30s", nil, &result) == http.StatusAccepted {
	}
	var run host.Run
	if post("GET", "/v1/runs/"+id, nil, &run); run.Status != host.Completed || result != 3 {
		t.Fatalf("run %s is %s %s with result %d", id, run.Status, run.Reason, result)
	}
	var entries []httpapi.Entry
	post("GET", "/v1/runs/"+id+"/journal", nil, httpapi.ItemsOf(&entries))
	results, timers := map[int64]int{}, 0
	var due time.Time
	for _, e := range entries {
		switch e.Kind {
		case "step_result":
			results[e.Handle]++
		case "sleep":
			due = *e.Due
		case "timer":
			timers++
			if e.Time.Before(due) {
				t.Errorf("run %s: the timer fired at %v, before %v", id, e.Time, due)
			}
		}
	}
	if len(results) != 3 || timers != 2 {
		t.Errorf("run %s: %d steps with a result, %d timers", id, len(results), timers)
	}
	for h, n := range results {
		if n != 1 {
			t.Errorf("run %s: step %d has %d results", id, h, n)
		}
	}
}
