package host_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// op is an operation of a random program.
type op struct {
	kind string
	a    int // how long, which handle, which name
}

// ms returns how long the op at a place takes. All sums of durations differ, so that outcomes of different places
// never come at the same instant, where any order would be valid.
func (o op) ms(place int) int64 { return int64(o.a%1000+1)<<15 | 1<<place }

func (o op) String() string { return fmt.Sprintf("%s(%d)", o.kind, o.a) }

// event is an external action on a run.
type event struct {
	atMs int
	name string // of a signal; "" pauses or unpauses the run
}

// program is a random workflow, with external events and crashes.
type program struct {
	ops    []op
	events []event
	cuts   []cut
	linger bool // instances are kept while attempts run
}

// cut kills the host at the given number of commits after the previous cut.
type cut struct {
	commits int
	after   bool
}

var opKinds = []string{"sleep", "sleep", "block", "step", "fail", "signal", "child", "emit", "attribute", "marker", "withdraw", "any", "any",
	"result", "now", "random", "send", "hook", "continue"}

func drawProgram(t *rapid.T) program {
	p := program{linger: rapid.Bool().Draw(t, "linger")}
	for range rapid.IntRange(1, 14).Draw(t, "ops") {
		p.ops = append(p.ops, op{rapid.SampledFrom(opKinds).Draw(t, "kind"), rapid.IntRange(1, 1_000_000).Draw(t, "a")})
	}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		name := rapid.SampledFrom([]string{"s0", "s1", ""}).Draw(t, "signal")
		p.events = append(p.events, event{rapid.IntRange(0, 100_000_000).Draw(t, "at"), name})
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return a.atMs - b.atMs })
	for range rapid.IntRange(1, 3).Draw(t, "cuts") {
		p.cuts = append(p.cuts, cut{rapid.IntRange(0, 6).Draw(t, "commits"), rapid.Bool().Draw(t, "after")})
	}
	return p
}

// wasm compiles the program: it stores each answer in memory, and all answers are the result.
func (p program) wasm() []byte {
	m := wasmgen.New(1)
	m.Pages = 4
	slot := int32(16384)
	keep := func() { // stores the i64 in local 0
		m.Set(0).I32(slot).Get(0).Store64()
		slot += 8
	}
	handles := 0
	for i, o := range p.ops {
		name := fmt.Sprint(o.kind, "-", i)
		switch o.kind {
		case "sleep":
			m.Text(name).I64(o.ms(i)).Call(abi.FnSleepStart)
			handles++
		case "block":
			m.Text(name).I64(o.ms(i)).Call(abi.FnSleep)
			handles++
		case "step", "fail": // one at a time, so that the order of results is fixed
			m.Text(name).Text("host/" + o.kind).Text(fmt.Sprint(o.a)).Text(`{"attempts":1}`).I32(slot + 8).I32(24).Call(abi.FnStepDo)
			handles++
			keep()
			slot += 24
			continue
		case "signal":
			m.Text(fmt.Sprint("s", o.a%2)).I64(o.ms(i)).Call(abi.FnSignalStart)
			handles++
		case "child":
			m.Text(name).Text("nap").Text(fmt.Sprint(o.ms(i), "ms")).I32(0).I32(0).Call(abi.FnChildStart)
			handles++
		case "send":
			m.Text(name).Text([]string{"sink", "nobody"}[o.a%2]).Text("go").Text(name).Call(abi.FnSignalSend)
			handles++
			keep() // await its answer, too, so that its position among the results is fixed
			m.I32(slot - 8).I32(1).Call(abi.FnAwait)
		case "hook":
			m.Text(name).I32(0).I32(0).I32(0).I32(0).Call(abi.FnHookStart)
			handles++
		case "emit":
			m.Text("topic").Text(name).Call(abi.FnEmit)
		case "attribute":
			m.Text(fmt.Sprint("k", o.a%3)).Text(name).Call(abi.FnSetAttribute)
		case "marker":
			m.Text(fmt.Sprint("block-", o.a%4)).I64(int64(o.a)).Call(abi.FnVersion) // asked again, or named as a sleep
		case "withdraw":
			m.I64(int64(o.a % (handles + 1))).Call(abi.FnCancel)
		case "any":
			m.I32(0).I32(0).Call(abi.FnAwait)
		case "result":
			m.I64(int64(o.a % (handles + 1))).I32(slot + 8).I32(24).Call(abi.FnResult)
			keep()
			slot += 24
			continue
		case "now":
			m.Call(abi.FnNow)
		case "random":
			m.I32(slot + 8).I32(8).Call(abi.FnRandom)
			keep()
			slot += 8
			continue
		case "continue": // once
			m.I32(0).I32(0).Call(abi.FnInput).IfZero64().Text("again").I32(0).I32(0).Call(abi.FnContinueAsNew).End()
			continue
		}
		keep()
	}
	for range handles { // nothing stays open
		m.I32(0).I32(0).Call(abi.FnAwait)
		keep()
	}
	m.Call(abi.FnNow)
	keep()
	m.I32(16384).I32(slot - 16384).Call(abi.FnComplete).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// lane runs programs in one host.
type lane struct {
	*hosttest.Host
	t     *testing.T
	cuts  []cut
	plain bool // it is never cut, and not encrypted
}

var programSeed sync.Mutex

// newLane makes a lane whose host keeps compiled modules in a folder.
func newLane(t *testing.T, dir string, linger bool, cuts []cut) *lane {
	l := &lane{t: t, cuts: cuts, plain: len(cuts) == 0}
	l.Host = hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.Dir = dir
		if !linger {
			c.Linger = -1
		}
		if len(cuts) > 0 { // encrypted, it does the same
			c.Codec = keyring(t, keyLine("k1", 1))
		}
		c.Random = func(b []byte) { // equal seeds and tokens in all lanes; incarnations must differ
			if len(b) == len(store.Incarnation{}) {
				_, _ = rand.Read(b) // never fails
				return
			}
			for i := range b {
				b[i] = byte(i)
			}
		}
	}), hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "step", func(_ context.Context, n int) (int, error) { return n * 2, nil })
		host.HandleStep(h, "fail", func(context.Context, int) (int, error) { return 0, errors.New("as it must") })
	}))
	return l
}

// survive restarts the host if it was cut, and arms the next cut. It reports whether it was cut.
func (l *lane) survive() bool {
	if !l.Crashed() {
		return false
	}
	l.Kill()
	l.Reopen()
	l.arm()
	return true
}

func (l *lane) arm() {
	if len(l.cuts) > 0 {
		l.CrashAt(l.cuts[0].commits, l.cuts[0].after)
		l.cuts = l.cuts[1:]
	}
}

// do calls f until a call is not interrupted by a cut.
func (l *lane) do(f func() error) {
	l.t.Helper()
	for {
		err := f()
		if !l.survive() {
			if err != nil && !errors.Is(err, host.ErrTerminal) {
				l.t.Fatal(err)
			}
			return
		}
	}
}

// to advances the clock to an instant; while the host is down, the clock stands still.
func (l *lane) to(end time.Time) {
	for {
		next, ok := l.Settle()
		switch {
		case l.survive():
		case !ok || next.After(end):
			if end.After(l.Clock.Now()) {
				l.Clock.Set(end)
			}
			l.Settle()
			for l.survive() { // everything of this instant happens
				l.Settle()
			}
			return
		default:
			l.Clock.Set(next)
		}
	}
}

// play runs a program to its end and returns everything that is observable.
func (l *lane) play(p program) string {
	l.t.Helper()
	for name, wasm := range map[string][]byte{"program": p.wasm(), "nap": napModule(), "sink": sinkModule()} {
		if _, err := l.Upload(ctx, name, wasm, host.AllowStep("*")); err != nil {
			l.t.Fatal(err)
		}
	}
	start := l.Clock.Now()
	l.arm()
	l.do(func() error { _, err := l.Start(ctx, "sink", nil, host.WithRunID("sink")); return err })
	l.do(func() error { _, err := l.Start(ctx, "program", nil, host.WithRunID("run")); return err })
	paused := false
	toggle := func() error {
		if paused {
			_, err := l.Unpause(ctx, "run")
			return err
		}
		_, err := l.Pause(ctx, "run")
		return err
	}
	for i, e := range p.events {
		l.to(start.Add(time.Duration(e.atMs) * time.Millisecond))
		if e.name == "" {
			l.do(toggle)
			paused = !paused
			continue
		}
		l.do(func() error { return l.Signal(ctx, "run", e.name, i, host.WithIdempotencyKey(fmt.Sprint(i))) })
	}
	if paused {
		l.do(toggle)
	}
	l.to(start.Add(1000 * time.Hour))
	for l.survive() {
		l.to(start.Add(1000 * time.Hour))
	}
	return l.tell(p)
}

// sinkModule is a workflow that waits forever.
func sinkModule() []byte {
	m := wasmgen.New(0)
	m.Text("never").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

func (l *lane) tell(p program) string {
	l.t.Helper()
	r, err := l.Get(ctx, "run")
	if err != nil {
		l.t.Fatal(err)
	}
	var b strings.Builder
	due := map[int64]int64{} // deadlines of open timers, by handle
	_, _ = fmt.Fprintf(&b, "%s %s iteration %d %v\n", r.Status, r.Reason, r.Iteration, r.Attributes)
	for e, err := range l.Journal(ctx, "run", 0) {
		if err != nil {
			l.t.Fatal(err)
		}
		if wrong := timersFirst(due, e); wrong != "" {
			return wrong
		}
		if e.Kind == store.KindAttemptStarted {
			continue // the number of attempts depends on the crashes
		}
		if e.Kind == store.KindStepResult || e.Kind == store.KindStepFailure {
			e.Attempt = 0
		}
		data := string(e.Data)
		switch e.Kind {
		case store.KindCompleted:
			data = words(e.Data)
		case store.KindChild:
			data = "" // the id contains the entry's number, which counts those attempts, too
		}
		_, _ = fmt.Fprintf(&b, "%s %q #%d consumed %d at %d due %d refused %d code %d in %q out %s\n", e.Kind, e.Name, e.Handle, e.Consumed,
			e.UnixMs, e.DueUnixMs, e.Refused, e.Code, e.Input, data)
	}
	chunks := uint64(0)
	for c, err := range l.Output(ctx, "run", "", 0) {
		if err != nil {
			l.t.Fatal(err)
		}
		_, _ = fmt.Fprintf(&b, "output %d %s %s\n", c.Index, c.Topic, c.Data)
		chunks++
	}
	if chunks != r.Output {
		return fmt.Sprintf("%d chunks of output, the run says %d\n%s", chunks, r.Output, &b)
	}
	sink, err := l.Get(ctx, "sink")
	if err != nil {
		l.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(&b, "sink has %d entries\n", sink.Entries)
	if r.Status != host.Completed {
		_, _ = fmt.Fprintf(&b, "%v did not complete\n", p.ops)
	}
	if err := l.Replay(ctx, "run"); err != nil {
		_, _ = fmt.Fprintf(&b, "replay: %v\n", err)
	}
	if l.plain { // nor does the engine matter
		_, _ = b.WriteString(l.onBothEngines("run"))
	}
	return b.String()
}

// onBothEngines replays a run with the compiler and the interpreter, and returns a failed replay or a memory
// difference at a wait.
func (l *lane) onBothEngines(id string) string {
	m := &memories{hashes: map[point][32]byte{}}
	for _, interpreter := range []bool{false, true} {
		h, err := host.Open(ctx, host.Config{Store: l.OpenStore(), Dir: l.Dir(), Clock: l.Clock, Interpreter: interpreter,
			Partitions: []int{}, Events: host.Events{GuestWaits: m.see}})
		if err != nil {
			l.t.Fatal(err)
		}
		err = h.Replay(ctx, id)
		if err := errors.Join(err, h.Close()); err != nil {
			return fmt.Sprintf("replay, interpreted %v: %v\n", interpreter, err)
		}
	}
	if len(m.diffs) > 0 {
		return fmt.Sprintf("the memory of the engines differs at %d of %d waits: %v\n", len(m.diffs), m.points, m.diffs)
	}
	return ""
}

// timersFirst reports an entry that precedes a timer which was due earlier.
func timersFirst(due map[int64]int64, e host.Entry) string {
	switch {
	case e.Kind == store.KindTimer || e.Kind == store.KindSignalTimeout:
		delete(due, e.Handle)
	case e.Kind == store.KindSignal || e.Kind == store.KindWithdraw && e.Code == 0:
		delete(due, e.Handle)
	default:
		for h, at := range due {
			if at <= e.UnixMs {
				return fmt.Sprintf("%s at %d stands before the timer of handle %d, which was due at %d", e.Kind, e.UnixMs, h, at)
			}
		}
	}
	if e.HasDue && e.Refused == 0 && (e.Kind == store.KindSleep || e.Kind == store.KindSignalWait) {
		due[e.Handle] = e.DueUnixMs
	}
	return ""
}

// words shows what a program stored.
func words(b []byte) string {
	var list []string
	for ; len(b) >= 8; b = b[8:] {
		list = append(list, fmt.Sprint(int64(binary.LittleEndian.Uint64(b))))
	}
	return strings.Join(list, " ")
}

// TestRandomPrograms runs random workflows with all primitives, once undisturbed, and once with crashes at random
// commits, before or after the commit: result, journal and output are the same. For more of them: -rapid.checks=2000.
func TestRandomPrograms(t *testing.T) {
	dir := t.TempDir() // a cache of its own, since no program is used twice
	rapid.Check(t, func(rt *rapid.T) {
		programSeed.Lock()
		defer programSeed.Unlock()
		p := drawProgram(rt)
		play := func(linger bool, cuts []cut) string {
			l := newLane(t, dir, linger, cuts)
			defer l.Stop()
			return l.play(p)
		}
		whole := play(true, nil)
		if parts := play(p.linger, p.cuts); parts != whole {
			rt.Fatalf("%v\nuncut:\n%s\ncut:\n%s", p, whole, parts)
		}
		if !strings.HasPrefix(whole, "completed") {
			rt.Fatalf("%v\n%s", p, whole)
		}
	})
}
