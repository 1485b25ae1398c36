package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// maintained is a server that is killed during backups, restores and sweeps.
type maintained struct {
	t                               *testing.T
	exe, address                    string
	data, place, restore            string
	stop                            func(kill bool)
	post                            func(method, path string, body []byte, into any) int
	started                         []string // runs that are never swept and whose start was acknowledged
	backups, cut, refused, prepared int      // how often there was what
}

// wfhost runs a command as a separate process.
func (m *maintained) wfhost(args ...string) (code int, out string) {
	m.t.Helper()
	return m.killed("", 0, args...)
}

// killed runs a command. If path is not empty, it kills the command when the path has existed for the given time.
func (m *maintained) killed(path string, after time.Duration, args ...string) (code int, out string) {
	m.t.Helper()
	cmd := exec.Command(m.exe, append([]string{"--server", "http://" + m.address}, args...)...)
	cmd.Env = append(os.Environ(), "TESTSCRIPT_COMMAND=")
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	if path != "" {
		appears(path)
		<-time.After(after)
		_ = cmd.Process.Kill() // it may have ended
	}
	_ = cmd.Wait() // its exit code is looked at
	return cmd.ProcessState.ExitCode(), b.String()
}

// appears waits a few seconds at most until a path exists.
func appears(path string) {
	for range 10_000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		<-time.After(300 * time.Microsecond)
	}
}

// sound fails the test if verifying a folder finds a problem.
func (m *maintained) sound(what, dir string, flags ...string) {
	m.t.Helper()
	if code, out := m.wfhost(append([]string{"verify", dir}, flags...)...); code != exitOK || !strings.Contains(out, "0 problems") {
		m.t.Fatalf("%s: verify says, with exit code %d:\n%s", what, code, out)
	}
}

// again kills the server, verifies its data, and starts the server again.
func (m *maintained) again(what string) {
	m.t.Helper()
	m.stop(true)
	m.sound(what, m.data, "--no-replay")
	m.stop = startServer(m.t, m.exe, m.data, m.address)
}

// during starts runs while f runs: of a workflow whose runs are kept and of one whose runs are swept.
func (m *maintained) during(what string, round int, f func()) {
	m.t.Helper()
	var over atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; !over.Load(); i++ {
			id := fmt.Sprintf("%s-%d-%d", what, round, i)
			body, _ := json.Marshal(httpapi.StartRequest{ID: id, Input: json.RawMessage("50")})
			if m.post("POST", "/v1/workflows/killed/runs", body, nil) == http.StatusCreated {
				m.started = append(m.started, id)
			}
			body, _ = json.Marshal(httpapi.StartRequest{ID: "swept-" + id, Input: json.RawMessage("1")})
			m.post("POST", "/v1/workflows/s01/runs", body, nil)
			<-time.After(2 * time.Millisecond) // each run is verified many times
		}
	})
	f()
	over.Store(true)
	load.Wait()
}

// TestKilledMaintenance kills a server under load, or the commands beside it, with kill -9: in the middle of backups,
// restores, sweeps, and the preparation of the next log file. Each time the data verifies without a problem and the
// server starts. A backup is complete or absent, a restored folder is complete or refused, and no acknowledged run is
// lost.
func TestKilledMaintenance(t *testing.T) {
	m := &maintained{t: t, exe: binary(t), address: freeAddress(t), data: t.TempDir(), place: filepath.Join(t.TempDir(), "place"),
		restore: t.TempDir()}
	m.stop = startServer(t, m.exe, m.data, m.address)
	defer func() { m.stop(false) }()
	m.post = poster(t, m.address)
	for _, name := range []string{"killed", "s01"} {
		dir := map[string]string{"killed": "testdata/killed", "s01": "../../host/testdata/s01"}[name]
		if code := m.post("PUT", "/v1/workflows/"+name+"/versions", buildGuest(t, dir), nil); code != http.StatusCreated {
			t.Fatal("upload", code)
		}
	}
	if code, out := m.wfhost("retention", "set", "s01", "--keep", "2"); code != exitOK {
		t.Fatal(out)
	}
	for round := range killRoundsOf(t) {
		wait := time.Duration(20+37*round%150) * time.Millisecond
		m.during("command", round, func() { m.killBackup(wait, false) })
		m.during("server", round, func() { m.killBackup(wait, true) })
		m.during("sweep", round, func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				m.wfhost("retention", "sweep")
			}()
			<-time.After(wait)
			m.again("a sweep was killed")
			<-done
		})
		m.during("log", round, m.killPreparing)
		m.killRestore(round)
	}
	for _, id := range m.started {
		var result int
		for m.post("GET", "/v1/runs/"+id+"/result?wait=30s", nil, &result) == http.StatusAccepted {
		}
		var run host.Run
		if m.post("GET", "/v1/runs/"+id, nil, &run); run.Status != host.Completed || result != 3 {
			t.Fatalf("run %s is %s %s with result %d", id, run.Status, run.Reason, result)
		}
	}
	m.stop(false)
	m.sound("at the end", m.data)
	list, err := filepath.Glob(filepath.Join(m.place, "*", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range list {
		m.backups++
		m.sound("a backup beside one that was killed", filepath.Dir(manifest), "--no-replay")
	}
	t.Logf("%d acknowledged runs; %d backups are whole, and %d were cut; %d restores were cut; %d logs were being prepared",
		len(m.started), m.backups, m.cut, m.refused, m.prepared)
}

// killRoundsOf returns the number of kills per operation: WFHOST_KILL_ROUNDS, or 1.
func killRoundsOf(t *testing.T) int {
	if text := os.Getenv("WFHOST_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 1
}

// killBackup kills the command or the server during a backup.
func (m *maintained) killBackup(wait time.Duration, server bool) {
	partial := filepath.Join(m.place, "partial")
	if !server {
		m.killed(partial, wait, "backup", m.place, "--rate", "4000000")
	} else {
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.wfhost("backup", m.place, "--rate", "4000000")
		}()
		appears(partial)
		<-time.After(wait)
		m.again("the server was killed in a backup")
		<-done
	}
	if _, err := os.Stat(partial); err == nil {
		m.cut++
		if code, out := m.wfhost("restore", partial, "--data", filepath.Join(m.restore, "never")); code == exitOK {
			m.t.Fatalf("a backup that was cut is restored: %s", out)
		}
	}
	if code, out := m.wfhost("backup", m.place, "--rate", "0"); code != exitOK { // beside what was cut
		m.t.Fatalf("a backup after one that was killed: %s", out)
	}
	m.sound("the newest backup of a place in which one was killed", m.place, "--no-replay")
}

// killRestore kills a restore. What it leaves is either complete or refused.
func (m *maintained) killRestore(round int) {
	to := filepath.Join(m.restore, fmt.Sprint(round))
	m.killed(filepath.Join(to, "restore.partial"), time.Duration(round%5)*3*time.Millisecond, "restore", m.place, "--data", to)
	if _, err := os.Stat(filepath.Join(to, "store")); err == nil {
		m.sound("a restore that was killed at its end", to, "--no-replay")
		return
	}
	if list, err := os.ReadDir(to); err != nil || len(list) == 0 {
		return // it had not begun
	}
	m.refused++
	code, out := m.wfhost("verify", to)
	served, said := m.wfhost("serve", "--data", to, "--listen", "127.0.0.1:0")
	if code == exitOK || served == exitOK || !strings.Contains(said, "restore") {
		m.t.Fatalf("half a restore is not refused: %s%s", out, said)
	}
}

// killPreparing kills the server while it prepares its next log file.
func (m *maintained) killPreparing() {
	path, seen := filepath.Join(m.data, "store", "prepared"), false
	m.stop(true)
	m.stop = startServer(m.t, m.exe, m.data, m.address)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !seen && ctx.Err() == nil {
		info, err := os.Stat(path)
		seen = err == nil && info.Size() < 16<<20
		<-time.After(100 * time.Microsecond)
	}
	m.again("the server was killed while it prepared a log")
	if seen {
		m.prepared++
	}
}

// poster returns a function that makes a request. The function returns 0 while the server is down.
func poster(t *testing.T, address string) func(method, path string, body []byte, into any) int {
	return func(method, path string, body []byte, into any) int {
		req, err := http.NewRequest(method, "http://"+address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		authorize(t, req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // the server is down
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		if into != nil && res.StatusCode < 300 {
			if err := json.Unmarshal(b, into); err != nil {
				t.Fatal(err)
			}
		}
		return res.StatusCode
	}
}
