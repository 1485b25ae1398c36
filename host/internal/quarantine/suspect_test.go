package quarantine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

const (
	runningName  = "running"
	suspectsName = "suspects.json"
)

var quiet = slog.New(slog.DiscardHandler)

// world is a set of runs, and a sequence of processes.
type world struct {
	t       *testing.T
	dir     string
	entries map[string]int
}

func (w *world) look(run store.RunKey) (Progress, error) {
	n, ok := w.entries[run.ID]
	if !ok {
		return Progress{}, fmt.Errorf("run %q: %w", run.ID, store.ErrNotFound)
	}
	return Progress{Entries: n, Over: n < 0}, nil
}

func (w *world) config(read ReadProgress) Config {
	return Config{Running: filepath.Join(w.dir, runningName), Records: File(filepath.Join(w.dir, suspectsName), quiet),
		Times: DefaultTimes(), Logger: quiet, Read: read}
}

// open starts a process after the previous one has died.
func (w *world) open() (*Watch, []string) {
	w.t.Helper()
	watch, convicted, err := Open(context.Background(), w.config(w.look))
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, r := range convicted {
		ids = append(ids, r.ID)
		w.entries[r.ID] = -1
	}
	return watch, ids
}

// end kills a process, including its timers.
func (w *world) end(watch *Watch) {
	watch.mu.Lock()
	defer watch.mu.Unlock()
	if watch.timer != nil {
		watch.timer()
	}
	watch.table = nil
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), entries: map[string]int{}}
}

// life lets each run compute when it may, and kills the process after some time, or a second after a poison run has
// begun. It returns the convicted runs.
func (w *world) life(lasts time.Duration, poison []string, runs ...string) []string {
	watch, convicted := w.open()
	dies := make(chan struct{}, len(runs))
	for _, id := range runs {
		if w.entries[id] < 0 {
			continue
		}
		s := watch.Subject(0, id)
		s.Ask(func() {
			s.Begin()
			if slices.Contains(poison, id) {
				go func() {
					<-time.After(time.Second)
					dies <- struct{}{}
				}()
			}
		}, func() {})
	}
	select {
	case <-dies:
	case <-time.After(lasts):
	}
	synctest.Wait()
	w.end(watch)
	return convicted
}

// A run that kills the process each time is convicted at the sixth start; runs that compute beside it are not.
func TestConvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.entries = map[string]int{"poison": 3, "beside": 5, "after": 1}
		for i := range 5 {
			if got := w.life(time.Hour, []string{"poison"}, "after", "beside", "poison"); len(got) > 0 {
				t.Fatalf("%v are convicted at start %d", got, i+1)
			}
		}
		if got := w.life(time.Hour, []string{"poison"}, "beside", "poison"); !slices.Equal(got, []string{"poison"}) {
			t.Fatalf("%v are convicted", got)
		}
		if got := w.life(time.Hour, []string{"poison"}, "beside"); len(got) > 0 {
			t.Fatalf("%v are convicted, too", got)
		}
	})
}

// Three runs that kill the process are all convicted, however they interfere with each other, and no other run is.
func TestThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.entries = map[string]int{"a": 3, "b": 3, "c": 3, "d": 3}
		var convicted []string
		for i := 0; len(convicted) < 3; i++ {
			if i > 15 {
				t.Fatal("15 processes have ended, and convicted are", convicted)
			}
			convicted = append(convicted, w.life(time.Hour, []string{"a", "b", "c"}, "a", "b", "c", "d")...)
		}
		if got := w.life(time.Minute, nil, "d"); len(got) > 0 {
			t.Error(got)
		}
	})
}

// No run is convicted if the process is killed from outside at the same age each time, at any age, even if the runs
// make no progress.
func TestKilledPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for age := 500 * time.Millisecond; age < 80*time.Second; age += 1700 * time.Millisecond {
			w := newWorld(t)
			var runs []string
			for i := range 4 {
				id := fmt.Sprint("run", i)
				runs, w.entries[id] = append(runs, id), 7
			}
			for range 12 {
				if got := w.life(age, nil, runs...); len(got) > 0 {
					t.Fatalf("killed at the age of %v, and %v are convicted", age, got)
				}
			}
		}
	})
}

// Hundreds of kills at random times do not convict runs that make progress in between.
func TestKilledWithProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newWorld(t), rand.New(rand.NewPCG(1, 2))
		var runs []string
		for i := range 50 {
			id := fmt.Sprint("run", i)
			runs, w.entries[id] = append(runs, id), 1
		}
		for range 300 {
			for _, id := range runs {
				if r.IntN(3) > 0 {
					w.entries[id]++
				}
			}
			if got := w.life(time.Duration(r.Int64N(int64(time.Minute))), nil, runs...); len(got) > 0 {
				t.Fatalf("%v are convicted", got)
			}
		}
	})
}

// A suspect that survives its trial, or makes progress in it, is acquitted, and the next one is tried.
func TestAcquitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.entries = map[string]int{"a": 1, "b": 1, "c": 1}
		for range 2 {
			w.life(time.Second, nil, "a", "b", "c")
		}
		watch, _ := w.open()
		began := time.Now()
		var mu sync.Mutex // of at
		at := map[string]time.Duration{}
		for _, id := range []string{"c", "b", "a"} {
			s := watch.Subject(0, id)
			s.Ask(func() {
				s.Begin()
				mu.Lock()
				defer mu.Unlock()
				at[id] = time.Since(began)
			}, func() { t.Error("refused") })
		}
		mu.Lock()
		if len(at) > 0 {
			t.Fatal("held runs compute:", at)
		}
		mu.Unlock()
		<-time.After(5 * time.Second)
		watch.Committed(&store.RunCommit{Run: store.RunKey{ID: "a"}, Append: []store.Entry{{Kind: store.KindAttemptStarted, Code: 1}}})
		watch.Committed(&store.RunCommit{Run: store.RunKey{ID: "a"}, Append: []store.Entry{{Kind: store.KindTimer}}})
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if at["a"] != 2*time.Second || at["b"] != 5*time.Second || at["c"] != 25*time.Second {
			t.Error("tried at", at)
		}
		if _, err := os.Stat(filepath.Join(w.dir, suspectsName)); !errors.Is(err, os.ErrNotExist) {
			t.Error("there are suspects left:", err)
		}
		if err := watch.Close(); err != nil {
			t.Fatal(err)
		}
		if runs, unclean, err := readTable(filepath.Join(w.dir, runningName)); unclean || err != nil {
			t.Error(runs, unclean, err)
		}
	})
}

// Callers that wait for a trial are refused when the host stops. They wait again in the next process, and this does
// not convict the run.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.entries = map[string]int{"a": 1, "b": 1}
		for range 2 {
			w.life(time.Second, nil, "a", "b")
		}
		for range 3 {
			watch, convicted := w.open()
			if len(convicted) > 0 {
				t.Fatal(convicted)
			}
			refused := false
			watch.Subject(0, "a").Ask(func() { t.Error("it computes") }, func() { refused = true })
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errors.New("gone"))
			if err := watch.Subject(0, "b").Wait(ctx); err == nil || err.Error() != "gone" {
				t.Error(err)
			}
			waited := make(chan error)
			go func() { waited <- watch.Subject(0, "b").Wait(context.Background()) }()
			synctest.Wait()
			if err := watch.Close(); err != nil || !refused {
				t.Fatal(err, refused)
			}
			if err := <-waited; !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
			if err := watch.Close(); err != nil {
				t.Fatal(err)
			}
			watch.Subject(0, "a").Ask(func() {}, func() {}) // closed: whatever comes is not held
		}
		watch, _ := w.open()
		if err := watch.Subject(0, "b").Wait(context.Background()); err != nil { // at its trial
			t.Error(err)
		}
		w.end(watch)
	})
}

// A run that was deleted, has ended or was replaced is not a suspect.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.entries = map[string]int{"a": 1, "b": 1, "c": 1}
		for range 2 {
			w.life(time.Second, nil, "a", "b", "c")
		}
		delete(w.entries, "a")
		w.entries["b"] = -1
		w.entries["c"]++
		watch, _ := w.open()
		if c := watch.suspects[store.RunKey{ID: "c"}]; len(watch.suspects) != 1 || c == nil || c.Ends != 1 {
			t.Errorf("%v", watch.suspects)
		}
		w.end(watch)
	})
}

// Progress is read from the store. An attempt that begins again after a restart is not progress.
func TestLook(t *testing.T) {
	st := store.RunState{Incarnation: store.Incarnation{1}, Iteration: 2, Status: store.Running}
	p := ProgressOf(&st, []store.Entry{{Kind: store.KindStarted}, {Kind: store.KindAttemptStarted, Code: 1}, {Kind: store.KindAttemptStarted}})
	if p != (Progress{Incarnation: store.Incarnation{1}, Iteration: 2, Entries: 2}) {
		t.Errorf("%+v", p)
	}
	for _, c := range []store.RunCommit{{Delete: true}, {Before: &store.IterationEnd{}}, {State: store.RunState{Status: store.Stuck}}} {
		if !advances(&c) {
			t.Errorf("%+v is no end", c)
		}
	}
}

// A damaged file is written again, and a table of another size is read as far as possible. If the table is truncated
// on disk, the watch stops recording, but the process continues.
func TestDamaged(t *testing.T) {
	w := newWorld(t)
	running := filepath.Join(w.dir, runningName)
	for name, b := range map[string][]byte{suspectsName: []byte("{"), runningName: make([]byte, rowBytes+1)} {
		if err := os.WriteFile(filepath.Join(w.dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	watch, _ := w.open()
	a, b := watch.Subject(7, "a"), watch.Subject(7, "b")
	a.Begin()
	a.Begin()
	if runs, unclean, err := readTable(running); !slices.Equal(runs, []store.RunKey{{Namespace: 7, ID: "a"}}) || !unclean || err != nil {
		t.Error(runs, unclean, err)
	}
	if err := os.Truncate(running, 0); err != nil {
		t.Fatal(err)
	}
	b.Begin()
	b.End()
	a.End()
	a.End()
	if !watch.table.lost && watch.table.put == nil {
		t.Error("nothing was noticed")
	}
	if err := watch.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := Open(t.Context(), Config{Running: filepath.Join(w.dir, "no such folder", runningName), Times: DefaultTimes(),
		Records: File(filepath.Join(w.dir, suspectsName), quiet), Logger: quiet, Read: w.look}); err == nil {
		t.Error("there is a table in a folder that does not exist")
	}
	failing := func(store.RunKey) (Progress, error) { return Progress{}, store.ErrClosed }
	watch, _ = w.open()
	watch.Subject(0, "a").Begin()
	w.end(watch)
	if _, _, err := Open(t.Context(), w.config(failing)); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// More runs than the table has rows can compute, and without a watch nothing is recorded.
func TestFull(t *testing.T) {
	w := newWorld(t)
	watch, _ := w.open()
	for i := range rows + 10 {
		watch.Subject(0, fmt.Sprint(i)).Begin()
	}
	if err := watch.Close(); err != nil {
		t.Error(err)
	}
	watch = nil
	s := watch.Subject(0, "a")
	s.Begin()
	s.End()
	begun := false
	if s.Ask(func() { begun = true }, nil); !begun || s.Wait(t.Context()) != nil {
		t.Error("held without a watch")
	}
	watch.Committed(&store.RunCommit{})
	watch.Release()
	if err := watch.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkBeginEnd(b *testing.B) {
	w := &world{dir: b.TempDir()}
	watch, _, err := Open(b.Context(), w.config(nil))
	if err != nil {
		b.Fatal(err)
	}
	s := watch.Subject(0, "a-run-with-an-id-of-some-length")
	for b.Loop() {
		s.Begin()
		s.End()
	}
	if err := watch.Close(); err != nil {
		b.Fatal(err)
	}
}

// clusterWorld is hosts that share records, and own runs in turn.
type clusterWorld struct {
	*world
	shared store.Store
}

func (c *clusterWorld) config(host string) Config {
	cfg := c.world.config(c.look)
	cfg.Running += "-" + host
	cfg.Host, cfg.Records = host, Cells(c.shared)
	return cfg
}

// life starts a host, lets each run compute there when it may, and ends the process after some time, or a second after a poison run
// has begun. Then the host is started again and closed, as a supervisor would before it gets runs. It returns the convicted runs.
func (c *clusterWorld) life(host string, lasts time.Duration, poison string, runs ...string) (convicted []string) {
	c.t.Helper()
	watch, list, err := Open(c.t.Context(), c.config(host))
	if err != nil || len(list) > 0 {
		c.t.Fatal(list, err)
	}
	list, err = watch.Refresh(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range list {
		convicted = append(convicted, r.ID)
		c.entries[r.ID] = -1
		watch.Forget(store.RunKey{ID: r.ID})
	}
	dies := make(chan struct{}, len(runs))
	for _, id := range runs {
		if c.entries[id] < 0 {
			continue
		}
		s := watch.Subject(0, id)
		s.Ask(func() {
			s.Begin()
			if id == poison {
				go func() {
					<-time.After(time.Second)
					dies <- struct{}{}
				}()
			}
		}, func() {})
	}
	select {
	case <-dies:
	case <-time.After(lasts):
	}
	synctest.Wait()
	c.end(watch)
	again, _, err := Open(c.t.Context(), c.config(host))
	if err == nil {
		err = again.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return convicted
}

// A run that ends one host of a cluster after the other is convicted after five ends, by whichever host takes it over. Runs beside it
// are not.
func TestConvictedInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusterWorld{newWorld(t), memstore.New().Open()}
		c.entries = map[string]int{"poison": 3, "beside": 5, "after": 1}
		for i := range 5 {
			if got := c.life(fmt.Sprint("host", i%3), time.Hour, "poison", "after", "beside", "poison"); len(got) > 0 {
				t.Fatalf("%v are convicted after %d ends", got, i)
			}
		}
		if got := c.life("host9", time.Minute, "poison", "beside", "poison"); !slices.Equal(got, []string{"poison"}) {
			t.Fatalf("%v are convicted", got)
		}
		if got := c.life("host1", time.Minute, "poison", "beside"); len(got) > 0 {
			t.Fatalf("%v are convicted, too", got)
		}
	})
}

// Hosts of a cluster that are killed in turn, at any age, convict no run, even if the runs make no progress.
func TestKilledInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for age := 500 * time.Millisecond; age < 80*time.Second; age += 7 * time.Second {
			c := &clusterWorld{newWorld(t), memstore.New().Open()}
			c.entries = map[string]int{"a": 7, "b": 7, "c": 7}
			for i := range 12 {
				if got := c.life(fmt.Sprint("host", i%3), age, "", "a", "b", "c"); len(got) > 0 {
					t.Fatalf("killed at the age of %v, and %v are convicted", age, got)
				}
			}
		}
	})
}

// A host learns of a suspect before it takes it over, and what it acquits is no suspect of the others. A trial that has moved to
// another host is that host's.
func TestTrialsOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusterWorld{newWorld(t), memstore.New().Open()}
		c.entries = map[string]int{"a": 1, "b": 1}
		open := func(host string) *Watch {
			t.Helper()
			w, _, err := Open(t.Context(), c.config(host))
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		refresh := func(w *Watch) {
			t.Helper()
			if list, err := w.Refresh(t.Context()); len(list) > 0 || err != nil {
				t.Fatal(list, err)
			}
		}
		third := open("third")
		for _, host := range []string{"one", "two"} {
			c.life(host, time.Second, "", "a", "b")
		}
		one, two := open("one"), open("two")
		if third.Subject(0, "a").AwaitsTrial() {
			t.Fatal("it cannot know")
		}
		refresh(third)
		if !third.Subject(0, "a").AwaitsTrial() || !one.Subject(0, "b").AwaitsTrial() {
			t.Fatal("suspects are not known")
		}
		begun := make(chan string, 3)
		one.Subject(0, "a").Ask(func() { begun <- "one" }, func() { t.Error("refused") })
		<-time.After(5 * time.Second)
		two.Subject(0, "a").Ask(func() { begun <- "two" }, func() { t.Error("refused") }) // it has moved
		<-time.After(17 * time.Second)
		synctest.Wait() // the trial at one is over, that at two is not
		if len(begun) != 2 {
			t.Fatal(len(begun), "trials have begun")
		}
		refresh(third)
		if !third.Subject(0, "a").AwaitsTrial() {
			t.Error("a trial that has moved is ended by the first host")
		}
		<-time.After(20 * time.Second)
		refresh(third)
		if third.Subject(0, "a").AwaitsTrial() || !third.Subject(0, "b").AwaitsTrial() {
			t.Error("what another host acquits is a suspect, or what it does not is none")
		}
		for _, w := range []*Watch{one, two, third} {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
