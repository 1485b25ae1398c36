package run_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestStories tells the life of a run: events in, effects out. Each file of testdata is a story, and each of its commands
// is one event, with what the run wants done about it. Where nothing is said of a commit, the story plays the shard: it
// commits when somebody waits for it, or when the run wants it, and then does what had to wait.
//
// Rewrite the stories with: go test ./host/internal/run -run TestStories -rewrite
// Then read the difference: every line of it is a change of what runs do.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStory(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			h, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "there is no command %q", d.Cmd)
			}
			s.out.Reset()
			h(s)
			s.check()
			if s.out.Len() == 0 {
				return "ok\n"
			}
			return s.out.String()
		})
	})
}

// commands are the commands of stories, documented where they are defined.
var commands = map[string]func(*story){
	"host": (*story).host, "clock": (*story).clock, "start": (*story).start, "child": (*story).child, "load": (*story).load,
	"signal": (*story).signal, "cancel": (*story).cancel, "terminate": (*story).terminate, "pause": (*story).pause,
	"unpause": (*story).unpause, "wake": (*story).wake, "retry": (*story).retry, "migrate": (*story).migrate, "delete": (*story).delete,
	"restart": (*story).restart, "command": (*story).command, "slot": (*story).slot, "due": (*story).due, "ready": (*story).ready,
	"guest": (*story).guest, "evict": (*story).evict, "refused": (*story).refused, "attempt": (*story).attempt,
	"body": (*story).body, "commit": (*story).commit, "crash": (*story).crash, "journal": (*story).journal,
	"logs": (*story).logs, "fill": (*story).fill, "lease": (*story).look, "launch": (*story).launch,
	"admitted": (*story).admitted, "queued": (*story).queued,
}

// epoch is the start of every story; instants are shown as the time since then.
const epoch = 1_800_000_000_000

// story is one run with its environment: a store, and a host that does not really execute guests.
type story struct {
	t   *testing.T
	d   *datadriven.TestData
	out strings.Builder

	now      int64
	handlers map[string]run.Verdict // verdict for an attempt that asks for a place of the handler
	active   bool
	manual   bool // commits are made by commands alone

	store    *memstore.Store
	owned    store.Partition
	run      *run.Run
	shown    *shown
	leases   []*run.Lease
	attempts []*run.Attempt
	behind   []after // effects that wait for a commit
	urgent   bool
	number   uint64 // of what has to differ: incarnations, commands
}

// shown is how much of a journal the story has printed.
type shown struct {
	started int64
	entries int
}

// after has the effects that wait for a commit to be durable.
type after struct {
	answer string
	start  []*run.Attempt
	again  run.Event
}

var key = store.RunKey{ID: "order-1"}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, now: epoch, handlers: map[string]run.Verdict{"charge": run.Begins, "mail": run.Begins}, active: true,
		store: memstore.New().Open()}
	owned, err := s.store.Acquire(context.Background(), key.Partition(), "here", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.owned = owned
	s.run = run.New(key, s.config())
	return s
}

func (s *story) config() run.Config {
	return run.Config{Ask: s.ask, Active: s.active}
}

// say adds a line to the output of the command.
func (s *story) say(format string, args ...any) {
	fmt.Fprintf(&s.out, format+"\n", args...)
}

// at shows an instant.
func at(unixMs int64) string {
	switch {
	case unixMs == store.NoWake:
		return "never"
	case unixMs < epoch/2:
		return fmt.Sprint(unixMs)
	}
	return "+" + (time.Duration(unixMs-epoch) * time.Millisecond).String()
}

// arg returns an argument of the command, "" if it is missing.
func (s *story) arg(name string) (value string) {
	s.d.MaybeScanArgs(s.t, name, &value)
	return value
}

func (s *story) int(name string, otherwise int64) int64 {
	s.d.MaybeScanArgs(s.t, name, &otherwise)
	return otherwise
}

// ms returns a duration in milliseconds.
func (s *story) ms(text string) int64 {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return d.Milliseconds()
}

// pass advances the clock by the argument "after", which every event has.
func (s *story) pass() { s.now += s.ms(s.arg("after")) }

// clock only sets the clock: clock by=1h, clock to=5s. It can be set back.
func (s *story) clock() {
	s.now += s.ms(s.arg("by"))
	if s.d.HasArg("to") {
		s.now = epoch + s.ms(s.arg("to"))
	}
	s.say("it is %s", at(s.now))
}

// ask answers a step that asks for a place.
func (s *story) ask(a run.Ask) (place any, v run.Verdict) {
	v, ok := s.handlers[a.Handler]
	switch {
	case !ok && a.Handler == run.Instances:
		return nil, run.Begins
	case !ok:
		v = run.Unhandled
	}
	names := map[run.Verdict]string{run.Soon: "it will be told soon", run.Queues: "it waits", run.Unhandled: "there is no such handler"}
	if v != run.Begins {
		s.say("step #%d asks for a place of handler %s: %s", a.Handle, a.Handler, names[v])
		return nil, v
	}
	return a.Handler, v
}

// host sets properties of the host: its handlers, and for which of them steps must wait for a place or get the
// verdict Soon; whether guests and attempts may start; and whether the story commits by itself.
func (s *story) host() {
	if a, ok := s.d.Arg("handlers"); ok {
		s.handlers = map[string]run.Verdict{}
		for _, name := range a.Vals {
			s.handlers[name] = run.Begins
		}
	}
	for arg, v := range map[string]run.Verdict{"full": run.Queues, "soon": run.Soon} {
		if a, ok := s.d.Arg(arg); ok {
			for _, name := range a.Vals {
				s.handlers[name] = v
			}
		}
	}
	if s.d.HasArg("active") {
		s.active = s.arg("active") == "true"
		s.run.SetActive(s.active)
	}
	if s.d.HasArg("commit") {
		s.manual = s.arg("commit") == "manual"
	}
}
