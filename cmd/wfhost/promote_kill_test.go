//go:build kill

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/httpapi"
)

var promotions = flag.Int("kill.promotions", 4, "how often TestKillPrimary promotes a standby")

// TestKillPrimary kills the database of a cluster and promotes its standby, in turns a synchronous one, and one that has heard
// nothing for two seconds, while runs are started, sleep and step. The servers say that, end, and are started again by their
// supervisor. With the synchronous standby nothing that was acknowledged is lost; with the other one only what was begun in these two
// seconds. What is there finishes, without a gap in its journal: each step has one result, and no timer is early.
func TestKillPrimary(t *testing.T) {
	s := newServers(t, 3)
	if code := s.ask("PUT", "/v1/workflows/killed/versions", buildGuest(t, "testdata/killed"), nil); code != http.StatusCreated {
		t.Fatal("upload", code)
	}
	n := 0
	for round := range *promotions {
		wait := round%2 == 0
		primary := s.database
		standby := primary.Standby(t, wait)
		t.Cleanup(standby.Stop)
		s.redirect(fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/wf?sslmode=disable", primary.Port(), standby.Port()))
		var kept, late []string
		var mu sync.Mutex
		var detached, stop atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for !stop.Load() {
					mu.Lock()
					n++
					id := fmt.Sprint("r", n)
					mu.Unlock()
					before := !detached.Load()
					body, _ := json.Marshal(httpapi.StartRequest{ID: id, Input: json.RawMessage(fmt.Sprint(200 + 37*n%3000))})
					if code, _ := s.once(n%len(s.at), "POST", "/v1/workflows/killed/runs", body); code == http.StatusCreated {
						mu.Lock()
						if before {
							kept = append(kept, id)
						} else {
							late = append(late, id)
						}
						mu.Unlock()
					}
					<-time.After(20 * time.Millisecond)
				}
			})
		}
		<-time.After(3 * time.Second)
		if !wait {
			detached.Store(true)
			standby.Detach(t)
		}
		<-time.After(2 * time.Second)
		primary.Kill()
		standby.Promote(t)
		s.database = standby
		s.supervise(30 * time.Second)
		stop.Store(true)
		wg.Wait()
		if !s.log.has("a standby of the database was promoted") {
			t.Error("no server says why it ends")
		}
		lost := 0
		for _, id := range late {
			if s.ask("GET", "/v1/runs/"+id, nil, nil) == http.StatusNotFound {
				lost++
				continue
			}
			check(t, s.ask, id)
		}
		for _, id := range kept {
			check(t, s.ask, id)
		}
		t.Logf("synchronous %v: of %d runs all are there, of %d that were begun later %d were lost", wait, len(kept), len(late), lost)
	}
}

// redirect starts the servers again with another address of the store.
func (s *servers) redirect(store string) {
	s.store = store
	for i := range s.cmds {
		s.end(i, syscall.SIGTERM)
		s.start(i)
	}
}

// supervise waits until all servers have ended by themselves, and starts them again.
func (s *servers) supervise(within time.Duration) {
	s.t.Helper()
	ended := make(chan int, len(s.cmds))
	for i, cmd := range s.cmds {
		go func() {
			_ = cmd.Wait() // with whatever status
			ended <- i
		}()
	}
	late := time.After(within)
	for range s.cmds {
		select {
		case i := <-ended:
			s.cmds[i] = nil
			s.start(i)
		case <-late:
			s.t.Fatal("a server does not end although the database has gone back")
		}
	}
}
