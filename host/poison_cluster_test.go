package host_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// poisonMember makes the process of poisonVariable a host of a cluster. Its value is the name of the host, a blank, and the URL of
// the database.
const poisonMember = "WFHOST_TEST_POISON_MEMBER"

func sharedStore(url string) store.Store {
	s, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true, Shared: true})
	if err != nil {
		panic(err)
	}
	return s
}

// supervised starts a host of a cluster again and again until ended is closed. It returns how often the process ended by itself.
func supervised(t *testing.T, ended <-chan struct{}, name, url, dir string) (deaths int) {
	for {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), poisonVariable+"=step:"+dir, poisonMember+"="+name+" "+url)
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return deaths
		}
		dead := make(chan struct{})
		go func() { _ = cmd.Wait(); close(dead) }()
		select {
		case <-ended:
			_ = cmd.Process.Kill()
			<-dead
			return deaths
		case <-dead:
		}
		if deaths++; cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%s ended with %d: %s", name, cmd.ProcessState.ExitCode(), said.String())
			return deaths
		}
	}
}

// A run whose step ends the process of one host after the other becomes stuck after the ends in three trials, whichever hosts they
// were. Steps beside it do not, and all other runs end.
func TestPoisonInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	url := pgtest.Fresh(t)
	first := host.Config{Dir: t.TempDir(), Store: sharedStore(url)}
	poisonIn(t, first, map[string]string{"poison": "one", "slow": "one", "good-0": "one", "good-1": "many", "good-2": "one"})
	do(t, first.Store.Close())

	ended := make(chan struct{})
	var deaths atomic.Int64
	var hosts sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		dir := t.TempDir()
		hosts.Go(func() { deaths.Add(int64(supervised(t, ended, name, url, dir))) })
	}
	cfg := host.Config{Dir: t.TempDir(), Store: sharedStore(url), Cluster: &host.Cluster{Name: "watcher", Lease: time.Second}}
	h, err := host.Open(ctx, cfg)
	do(t, err)
	timed, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for done := false; !done; {
		poison, err := h.Get(ctx, "poison")
		if err != nil {
			t.Fatal(err)
		}
		done = poison.Status == host.Stuck
		for _, id := range []string{"good-0", "good-1", "good-2"} {
			r, err := h.Get(ctx, id)
			do(t, err)
			done = done && r.Status == host.Completed
		}
		select {
		case <-timed.Done():
			t.Errorf("after %d ends poison is %s", deaths.Load(), poison.Status)
			done = true
		case <-look.C:
		}
		if done && !strings.HasSuffix(poison.Reason, " of them while it was tried alone; a retry lets it go on") {
			t.Errorf("poison is %s: %s", poison.Status, poison.Reason)
		}
	}
	slow, err := h.Get(ctx, "slow")
	if do(t, err); slow.Status != host.Running {
		t.Errorf("the step beside it is %s: %s", slow.Status, slow.Reason)
	}
	close(ended)
	hosts.Wait()
	// Some count twice: another host took the run over before the one that had ended was up again to tell.
	if n := deaths.Load(); n < 5 || n > 20 {
		t.Errorf("%d processes were ended", n)
	}
	do(t, h.Close())
	do(t, cfg.Store.Close())
}
