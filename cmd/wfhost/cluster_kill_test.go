//go:build kill

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

var (
	clusterRounds = flag.Int("kill.cluster", 10, "how often TestKillCluster disturbs a cluster")
	clusterSeed   = flag.Uint64("kill.cluster.seed", 1, "by which TestKillCluster disturbs it")
)

// servers is a cluster of real servers on one database.
type servers struct {
	t        *testing.T
	exe      string
	database *pgtest.Server
	store    string // URL
	dir      string
	at       []string // addresses
	log      serverLog
	cmds     []*exec.Cmd
}

// serverLog is the log of servers: also that of the test.
type serverLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (x *serverLog) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.text.Write(b)
	return os.Stderr.Write(b)
}

func (x *serverLog) has(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Contains(x.text.String(), text)
}

func newServers(t *testing.T, n int) *servers {
	s := &servers{t: t, exe: binary(t), database: pgtest.New(t, pgtest.Durable...), dir: t.TempDir(), cmds: make([]*exec.Cmd, n)}
	s.database.Exec(t, "postgres", "create database wf")
	s.store = s.database.URL("wf")
	if err := os.WriteFile(filepath.Join(s.dir, "key"), []byte(strings.Repeat("k", 44)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.at = append(s.at, freeAddress(t))
		s.start(i)
	}
	t.Cleanup(func() {
		for i := range s.cmds {
			s.end(i, syscall.SIGKILL)
		}
	})
	return s
}

// start starts a server, and returns when it listens.
func (s *servers) start(i int) {
	s.t.Helper()
	cmd := exec.Command(s.exe, "serve", "--data", filepath.Join(s.dir, fmt.Sprint("data", i)), "--listen", s.at[i], "--drain", "2s", "--no-token",
		"--store", s.store, "--cluster-key", "file:"+filepath.Join(s.dir, "key"), "--host-name", fmt.Sprint("host-", i),
		"--log-level", "error")
	cmd.Env = append(os.Environ(), "TESTSCRIPT_COMMAND=")
	cmd.Stderr = &s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "wfhost serves") {
		s.t.Fatalf("the server does not start: %q %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s.cmds[i] = cmd
}

func (s *servers) end(i int, how syscall.Signal) {
	if s.cmds[i] != nil {
		_ = s.cmds[i].Process.Signal(how)
		_ = s.cmds[i].Wait() // it was told to end
		s.cmds[i] = nil
	}
}

// ask asks servers at random until one answers otherwise than that the caller should try again, and returns the status.
func (s *servers) ask(method, path string, body []byte, into any) int {
	for began := time.Now(); ; {
		status, answer := s.once(rand.IntN(len(s.at)), method, path, body)
		if status == 0 || status == http.StatusServiceUnavailable {
			if time.Since(began) > time.Minute {
				s.t.Errorf("%s %s: %d %s for a minute", method, path, status, answer)
				return status
			}
			<-time.After(20 * time.Millisecond)
			continue
		}
		if into != nil && status < 300 {
			if err := json.Unmarshal(answer, into); err != nil {
				s.t.Errorf("%s %s: %s: %v", method, path, answer, err)
			}
		}
		return status
	}
}

func (s *servers) once(i int, method, path string, body []byte) (int, []byte) {
	req, err := http.NewRequest(method, "http://"+s.at[i]+path, bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/wasm")
	}
	client := &http.Client{Timeout: 40 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}

// disturb does something to the cluster, as an accident or an operator would.
func (s *servers) disturb(r *rand.Rand) string {
	i, j := r.IntN(len(s.at)), r.IntN(len(s.at))
	switch r.IntN(6) {
	case 0, 1:
		s.end(i, syscall.SIGKILL)
		<-time.After(time.Duration(r.IntN(8000)) * time.Millisecond)
		s.start(i)
		return fmt.Sprintf("killed %d", i)
	case 2:
		p := s.cmds[i].Process
		_ = p.Signal(syscall.SIGSTOP)
		<-time.After(8 * time.Second)
		_ = p.Signal(syscall.SIGCONT)
		return fmt.Sprintf("stopped %d for 8 s", i)
	case 3:
		s.end(i, syscall.SIGKILL)
		s.end(j, syscall.SIGKILL)
		<-time.After(time.Duration(r.IntN(8000)) * time.Millisecond)
		s.start(i)
		if j != i {
			s.start(j)
		}
		return fmt.Sprintf("killed %d and %d", i, j)
	case 4:
		for k := range s.at {
			s.end(k, syscall.SIGTERM)
			s.start(k)
		}
		return "deployed"
	}
	s.database.Kill()
	if err := s.database.Start(); err != nil {
		s.t.Fatal(err)
	}
	return "killed the database"
}

// TestKillCluster kills, stops and deploys real servers of a cluster, and kills its database, while runs start, sleep, step, start
// children and get signals by way of any server. Every acknowledged run finishes, no step's result is missing or recorded twice, and no
// timer is early.
func TestKillCluster(t *testing.T) {
	s := newServers(t, 3)
	wasm := buildGuest(t, "testdata/killed")
	for _, workflow := range []string{"killed", "family"} {
		if code := s.ask("PUT", "/v1/workflows/"+workflow+"/versions", wasm, nil); code != http.StatusCreated && code != http.StatusOK {
			t.Fatal("upload", code)
		}
	}
	var mu sync.Mutex
	var killed, families []string
	var stop atomic.Bool
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id, input, workflow := fmt.Sprintf("r%d-%d", n, i), fmt.Sprint(200+37*i%3000), "killed"
				if i%4 == 0 {
					id, input, workflow = fmt.Sprintf("f%d-%d", n, i), fmt.Sprintf(`{"Sleep":%d}`, 50+61*i%1500), "family"
				}
				body, _ := json.Marshal(httpapi.StartRequest{ID: id, Input: json.RawMessage(input)})
				if code := s.ask("POST", "/v1/workflows/"+workflow+"/runs", body, nil); code != http.StatusCreated && code != http.StatusOK {
					t.Errorf("start of %s: %d", id, code)
					return
				}
				mu.Lock()
				if workflow == "family" {
					families = append(families, id)
				} else {
					killed = append(killed, id)
				}
				mu.Unlock()
				<-time.After(100 * time.Millisecond)
			}
		})
	}
	r := rand.New(rand.NewPCG(*clusterSeed, 1))
	for range *clusterRounds {
		t.Log(s.disturb(r))
		<-time.After(time.Duration(r.IntN(4000)) * time.Millisecond)
	}
	stop.Store(true)
	wg.Wait()
	for _, id := range killed {
		check(t, s.ask, id)
	}
	for _, id := range families {
		var sum int
		for s.ask("GET", "/v1/runs/"+id+"/result?wait=30s", nil, &sum) == http.StatusAccepted {
		}
		var run host.Run
		if s.ask("GET", "/v1/runs/"+id, nil, &run); run.Status != host.Completed || sum != 66 || run.Output != 2 || run.Iteration != 2 {
			t.Errorf("run %s is %s %s with sum %d, output %d, iteration %d", id, run.Status, run.Reason, sum, run.Output, run.Iteration)
		}
	}
	t.Logf("%d runs and %d families", len(killed), len(families))
}
