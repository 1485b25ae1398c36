//go:build unix

package worker_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
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
	"github.com/wfhost/wfhost/worker"
)

var (
	attempts = flag.Int("killed.n", 200, "attempts of TestKilled")
	seed     = flag.Uint64("killed.seed", 1, "seed of TestKilled")
	serverOf = flag.String("killed.server", "", "what TestKilled starts its workers with")
	ledgerOf = flag.String("killed.ledger", "", "likewise")
)

// TestAsWorker is the main function of the workers of TestKilled.
func TestAsWorker(t *testing.T) {
	if *serverOf == "" {
		t.Skip("TestKilled starts it")
	}
	ledger, err := os.OpenFile(*ledgerOf, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(*serverOf, local)
	w.Lease = host.MinLease
	w.Logger = slog.New(slog.DiscardHandler)
	worker.Handle(w, "charge", func(ctx context.Context, _ charge) (string, error) {
		a := worker.Info(ctx)
		_, err := fmt.Fprintln(ledger, a.Run) // one write, at the end
		wait(ctx, 20*time.Millisecond)
		return fmt.Sprint(a.Run, " by ", os.Getpid()), err
	})
	t.Error(w.Run(t.Context()))
}

func wait(ctx context.Context, d time.Duration) {
	late, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-late.Done()
}

// troupe is a group of worker processes that are killed and stopped.
type troupe struct {
	t      *testing.T
	url    string
	ledger string
	list   []*exec.Cmd
}

func (p *troupe) start(i int) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestAsWorker$", "-killed.server="+p.url, "-killed.ledger="+p.ledger)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.list[i] = cmd
}

func (p *troupe) kill(i int) {
	_ = p.list[i].Process.Kill() // if it has already ended, Wait reports it
	_ = p.list[i].Wait()         // it was killed
}

// trouble kills and stops workers until ctx is done, and returns how often.
func (p *troupe) trouble(ctx context.Context, disturbed *atomic.Bool, r *rand.Rand) (kills, stops int) {
	for {
		disturbed.Store(kills > 0 && stops > 0)
		wait(ctx, time.Duration(50+r.IntN(250))*time.Millisecond)
		if ctx.Err() != nil {
			return kills, stops
		}
		i := r.IntN(len(p.list))
		if r.IntN(2) == 0 {
			p.kill(i)
			p.start(i)
			kills++
			continue
		}
		stops++
		_ = p.list[i].Process.Signal(syscall.SIGSTOP) // if it has already ended, the next kill starts another one
		wait(ctx, time.Duration(r.IntN(2000))*time.Millisecond)
		_ = p.list[i].Process.Signal(syscall.SIGCONT)
	}
}

// mostAttempts bounds the attempts before workers are killed and stopped: a fast machine makes many before that.
const mostAttempts = 100_000

// TestKilled kills and stops three worker processes at random. Every step has exactly one recorded result, and no
// step is stuck.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	h, err := host.Open(t.Context(), host.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.HandleRemote("charge"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- h.Run(ctx) }()
	s := httptest.NewServer(httpapi.New(h, httpapi.Access{Local: local}))
	p := &troupe{t: t, url: s.URL, ledger: filepath.Join(dir, "ledger"), list: make([]*exec.Cmd, 3)}
	for i := range p.list {
		p.start(i)
	}
	if _, err := h.Upload(ctx, "pay", calls(`{"attempts":0}`), host.AllowStep("charge")); err != nil {
		t.Fatal(err)
	}
	troubled, calm := context.WithCancel(ctx)
	var disturbed atomic.Bool // at least once in each way
	var trouble sync.WaitGroup
	var kills, stops int
	trouble.Go(func() { kills, stops = p.trouble(troubled, &disturbed, rand.New(rand.NewPCG(*seed, 0))) })
	var next, wrong atomic.Int64
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			for n := int(next.Add(1)); n <= *attempts || n <= mostAttempts && !disturbed.Load(); n = int(next.Add(1)) {
				if err := one(ctx, h, fmt.Sprint("run-", n)); err != nil && wrong.Add(1) < 10 {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	calm()
	trouble.Wait()
	for i := range p.list {
		p.kill(i)
	}
	s.Close()
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	begun := lines(t, p.ledger)
	t.Logf("%d attempts that workers began, for %d steps at least; %d kills, %d stops", begun, *attempts, kills, stops)
	if begun < *attempts || kills == 0 || stops == 0 {
		t.Error("the workers have not begun each step, or were not disturbed")
	}
}

// one runs a workflow to its end, and checks that one result is recorded.
func one(ctx context.Context, h *host.Host, id string) error {
	if _, err := h.Start(ctx, "pay", nil, host.WithRunID(id)); err != nil {
		return err
	}
	if _, err := h.ResultRaw(ctx, id); err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	results := 0
	for e, err := range h.Journal(ctx, id, 0) {
		switch {
		case err != nil:
			return err
		case e.Kind.String() == "step_failure":
			return fmt.Errorf("run %s: the step has failed: %s", id, e.Data)
		case e.Kind.String() == "step_result":
			results++
			if !strings.HasPrefix(string(e.Data), `"`+id+" by ") {
				return fmt.Errorf("run %s has the result of another one: %s", id, e.Data)
			}
		}
	}
	if results != 1 {
		return fmt.Errorf("run %s has %d results", id, results)
	}
	return nil
}

func lines(t *testing.T, path string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n
}
