package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// workflow is a random program, in some versions.
type workflow struct {
	index    int
	name     string
	versions []*version
}

// stmt is a statement of a program.
type stmt struct {
	op   op
	a, b int64
	list []stmt
	how  change // what another version does differently here
}

type op string

var ops = []op{"sleep", "sleep", "until", "step", "step", "step", "body", "body", "signal", "signal", "race", "race", "poll", "child",
	"update", "update", "send", "hook", "emit", "attribute", "policy", "marker", "log", "random", "if", "loop", "continue", "fail", "trap", "never"}

// rare are statements that are mostly replaced: they end or prevent much of what could follow.
var rare = map[op]int64{"fail": 4, "trap": 6, "continue": 2, "policy": 2, "never": 8, "loop": 2}

func (w *world) statements(depth, n int) (list []stmt) {
	for range n {
		s := stmt{op: ops[w.rng.IntN(len(ops))], a: w.rng.Int64N(1 << 30), b: w.rng.Int64N(1 << 30)}
		if k := rare[s.op]; k > 0 && w.rng.Int64N(k) > 0 {
			s.op = "sleep"
		}
		if s.op == "if" || s.op == "loop" {
			if depth == 0 {
				s.op = "step"
			} else {
				s.list = w.statements(depth-1, 1+w.rng.IntN(3))
			}
		}
		list = append(list, s)
	}
	return list
}

// env executes a program against a machine.
type env struct {
	w     *world
	m     *replay.Machine
	prog  *version
	enter func() error // at each call
	wait  func() error // when nothing is there
	again func(m *replay.Machine) error
	lease *run.Lease // nil in a copy

	acc  uint64 // depends on all data that the program received
	n    int    // of names
	more int    // number of names of additional statements in another version
	how  change // of the statement that is executed
	logs uint64
	it   uint32

	markers map[string]int64 // their answers
	updates map[int64]string // handles of waits for updates that have not received one, with their names
	owed    []int64          // updates without an answer
	query   string           // the update for which it is asked
}

var (
	errRunBody   = errors.New("a body is executed")
	errCancelled = errors.New("cancelled")
	errFailed    = errors.New("failed")
)

func (g *env) mix(values ...any) {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], g.acc)
	_, _ = h.Write(b[:])
	_, _ = fmt.Fprint(h, values...)
	g.acc = h.Sum64()
}

func (g *env) name(kind op) string {
	if g.how >= changeMore { // the others keep their names
		g.more++
		return fmt.Sprintf("more-%s%d", kind, g.more)
	}
	g.n++
	return fmt.Sprintf("%s%d", kind, g.n)
}

// run executes the program, and returns the result of its entry point.
func (g *env) run() (int, error) {
	g.mix(string(g.m.Input()))
	err := g.all(g.prog.body)
	switch {
	case errors.Is(err, errFailed):
		g.m.Fail([]byte(fmt.Sprintf(`{"message":"%d"}`, g.acc)))
		return 1, nil
	case errors.Is(err, errCancelled):
		switch g.prog.onCancel {
		case 1:
			return 0, nil
		case 2: // it cleans up first
			h, err := g.m.Step(g.name("step"), abi.HandlerPrefix+"quick", nil, nil)
			if err != nil {
				return 0, err
			}
			if err := g.join(h); err != nil {
				return 0, err
			}
		}
		return 1, nil
	case err != nil:
		return 0, err
	}
	if err := g.enter(); err != nil {
		return 0, err
	}
	g.m.Complete([]byte(fmt.Sprint(g.acc)))
	return 0, nil
}

func (g *env) all(list []stmt) error {
	for i := range list {
		if err := g.enter(); err != nil {
			return err
		}
		if err := g.one(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// one executes a statement, and answers updates that are still unanswered.
func (g *env) one(s *stmt) error {
	before, outer := g.acc, g.how
	defer func() { g.how = outer }()
	g.how = max(g.how, s.how)
	if s.how == changeInputs {
		g.mix("changed")
	}
	if err := g.do(s); err != nil {
		return err
	}
	g.mix(g.m.Now())
	if err := g.pay(); err != nil {
		return err
	}
	if s.how == changeQuietly { // so that the statements after it are the same
		g.acc = before
	}
	return nil
}

func (g *env) do(s *stmt) error {
	switch s.op {
	case "if":
		if g.acc%2 == 0 {
			return g.all(s.list)
		}
		return nil
	case "loop":
		for range 2 + s.a%2 {
			if err := g.all(s.list); err != nil {
				return err
			}
		}
		return nil
	case "race":
		return g.race(s)
	case "poll":
		return g.poll(s)
	case "fail":
		return errFailed
	case "trap":
		return errTrap
	case "random":
		var b [8]byte
		g.m.Random(b[:])
		g.mix(b)
		return nil
	case "log":
		if n := g.logs; g.lease != nil && !g.lease.Log().Has(n, g.m.Passed()) {
			g.lease.Log().Write(n, g.m.Passed(), store.LogLine{UnixMs: g.m.Now(), Text: "a line"})
		}
		g.logs++
		return nil
	case "continue":
		if g.it < 2 {
			return g.m.ContinueAsNew(fmt.Appendf(nil, "again %d", g.acc), nil)
		}
		return nil
	case "emit", "attribute", "policy", "marker":
		return g.plain(s)
	}
	h, err := g.open(s)
	if err != nil {
		return err
	}
	if h < 0 {
		g.mix(h, string(g.m.Last()))
		return nil
	}
	if s.b%7 == 0 && s.op != "body" { // nobody waits for it
		return nil
	}
	return g.join(h)
}

// plain makes a call that resolves at once.
func (g *env) plain(s *stmt) (err error) {
	var n int64
	switch s.op {
	case "emit":
		n, err = g.m.Emit("topic", fmt.Appendf(nil, "%d", g.acc))
	case "attribute":
		n, err = g.m.SetAttribute(fmt.Sprint("k", s.a%3), fmt.Appendf(nil, "%d", g.acc%1000))
	case "policy":
		n, err = g.m.CancelPolicy(int32(s.a % 3 % 2))
	case "marker":
		n, err = g.marker(s)
		if err == nil && n > 0 {
			h, err := g.m.Sleep(g.name("sleep"), s.a%5000)
			if err != nil {
				return err
			}
			return g.join(h)
		}
	}
	g.mix(n)
	return err
}

// marker reads a marker of its own, or one that other statements also read, with the name of a sleep.
func (g *env) marker(s *stmt) (int64, error) {
	id := g.name("marker")
	if g.how < changeMore && s.b%3 > 0 {
		id = fmt.Sprint("sleep", s.a%3)
	}
	if g.markers == nil {
		g.markers = map[string]int64{}
	}
	n, err := g.m.Version(id, g.prog.level)
	if before, asked := g.markers[id]; err == nil && asked && before != n && before > 0 {
		g.w.broken("a marker has one answer in an iteration", "%q is answered %d after %d", id, n, before)
	}
	g.markers[id] = n
	return n, err
}

// open starts something, and returns its handle.
func (g *env) open(s *stmt) (int64, error) {
	name := g.name(s.op)
	switch s.op {
	case "until":
		return g.m.SleepUntil(name, g.m.Now()+s.a%100_000-20_000)
	case "step":
		return g.m.Step(name, abi.HandlerPrefix+handlerNames[s.a%int64(len(handlerNames))], fmt.Appendf(nil, `"%d"`, g.acc),
			stepOptions(s.b))
	case "body":
		return g.m.StepBegin(name, stepOptions(s.b))
	case "signal":
		timeout := s.b % 200_000
		if s.b%3 == 0 {
			timeout = -1
		}
		return g.m.Signal(signalNames[s.a%int64(len(signalNames))], timeout)
	case "update":
		return g.takes(s)
	case "child":
		return g.child(name, s)
	case "send":
		to := g.w.users.ids[s.a%int64(len(g.w.users.ids))]
		var random [8]byte // the run's own, so that runs with the same id send different data
		g.m.Random(random[:])
		return g.m.SignalSend(name, to, signalNames[s.b%int64(len(signalNames))], fmt.Appendf(nil, "from a run %x", random))
	case "hook":
		token := ""
		if s.a%2 == 0 {
			token = g.w.users.tokens[s.b%int64(len(g.w.users.tokens))]
		}
		return g.m.Hook(name, token, nil)
	case "never":
		return g.m.Signal("never", -1)
	}
	ms := s.a % 60_000
	if s.b%5 == 0 {
		ms = s.a % (40 * 24 * 3_600_000)
	}
	return g.m.Sleep(name, ms)
}

var signalNames = []string{"s0", "s1", "s2"}

func stepOptions(b int64) []byte {
	switch b % 6 {
	case 0:
		return []byte(`{"attempts":1}`)
	case 1:
		return []byte(`{"at_most_once":true}`)
	case 2:
		return []byte(`{"attempts":5,"delay":"100ms","jitter":0.5}`)
	case 3:
		return []byte(`{"timeout":"20s","attempts":2,"delay":"0s"}`)
	case 4:
		return []byte(`{"attempts":4,"max_elapsed":"1m"}`)
	}
	return nil
}

// child starts a child of a later workflow, so that the chain ends.
func (g *env) child(name string, s *stmt) (int64, error) {
	i := g.prog.flow.index + 1 + int(s.a%2)
	if i >= len(g.w.flows) {
		if s.b%5 > 0 {
			return g.m.Sleep(name, s.a%1000)
		}
		return g.m.Child(name, "nothing", nil, nil) // there is no such workflow
	}
	onEnd := []string{abi.OnEndCancel, abi.OnEndTerminate, abi.OnEndAbandon}[s.b%3]
	id := ""
	if g.w.homes != nil || s.b%4 > 0 {
		id = fmt.Sprintf(`"id":"%s",`, g.w.idIn(fmt.Sprintf("%s.%d.%s", g.m.RunID(), g.it, name)))
	}
	if s.b%11 == 0 {
		id = fmt.Sprintf(`"id":"%s",`, g.w.users.ids[s.a%int64(len(g.w.users.ids))])
	}
	timeout := ""
	if s.b%13 == 0 {
		timeout = `,"timeout":"30s"`
	}
	return g.m.Child(name, g.w.flows[i].name, fmt.Appendf(nil, "%d", g.acc), fmt.Appendf(nil, `{%s"on_end":"%s"%s}`, id, onEnd, timeout))
}

// await waits for handles.
func (g *env) await(ids []int64) (int64, error) {
	for {
		r, err := g.m.Await(ids)
		if err == nil && r == abi.RunBody.Neg() {
			return 0, errRunBody
		}
		if err == nil && r == abi.Query.Neg() {
			return 0, g.asked()
		}
		if !errors.Is(err, replay.ErrSuspend) {
			return r, err
		}
		g.again = func(m *replay.Machine) error {
			r, err := m.Await(ids)
			if err == nil && r == abi.RunBody.Neg() {
				return errRunBody
			}
			return fmt.Errorf("await: %d %w", r, err)
		}
		if err := g.wait(); err != nil {
			return 0, err
		}
		if err := g.enter(); err != nil {
			return 0, err
		}
	}
}

// told receives the outcome of a handle.
func (g *env) told(h int64) error {
	b, code := g.m.Result(h)
	g.mix(h, code, string(b), g.m.Now())
	return g.took(h, code)
}

// cancelled takes a cancel, and reports whether the program continues.
func (g *env) cancelled() error {
	g.mix("cancel")
	if g.prog.onCancel == 3 {
		return nil
	}
	return errCancelled
}

// join waits for one handle.
func (g *env) join(h int64) error {
	if h < 0 {
		g.mix(h)
		return nil
	}
	for {
		r, err := g.await([]int64{h})
		switch {
		case err != nil:
			return err
		case r == abi.Cancelled.Neg():
			if err := g.cancelled(); err != nil {
				return err
			}
			continue
		}
		return g.told(h)
	}
}

var racers = []op{"sleep", "step", "signal", "body", "until", "step", "update"}

// several starts some things at a time.
func (g *env) several(s *stmt) (ids []int64, err error) {
	for i := range 2 + s.a%2 {
		if err := g.enter(); err != nil {
			return nil, err
		}
		h, err := g.open(&stmt{op: racers[(s.b+i*s.a)%int64(len(racers))], a: s.a * (i + 1) % (1 << 30), b: s.b + i})
		if err != nil {
			return nil, err
		}
		if h > 0 {
			ids = append(ids, h)
		}
	}
	return ids, nil
}

// race starts several calls and awaits the first of them, or all.
func (g *env) race(s *stmt) error {
	ids, err := g.several(s)
	if err != nil {
		return err
	}
	first := s.b%3 > 0
	for len(ids) > 0 {
		var r int64
		if s.b%5 == 0 {
			r, err = g.await(nil) // any handle, those of earlier statements included
		} else {
			r, err = g.await(ids)
		}
		switch {
		case err != nil:
			return err
		case r == abi.Cancelled.Neg():
			if err := g.cancelled(); err != nil {
				return err
			}
			continue
		case r < 0:
			g.mix(r)
			return nil
		}
		if err := g.told(r); err != nil {
			return err
		}
		ids = slices.DeleteFunc(ids, func(id int64) bool { return id == r })
		if first {
			break
		}
	}
	if s.a%3 == 0 {
		return nil // the losers stay open
	}
	for _, id := range ids {
		delete(g.updates, id)
		n, err := g.m.Cancel(id)
		if err != nil {
			return err
		}
		g.mix(n)
	}
	return nil
}

// poll waits like a guest that is woken by events.
func (g *env) poll(s *stmt) error {
	ids, err := g.several(s)
	if err != nil {
		return err
	}
	p := replay.PollRequest{Events: s.b%6 > 0, HasClock: s.b%4 == 0 || s.b%6 == 0, TimeoutNs: (1 + s.a%30_000) * 1e6}
	for range 3 {
		got, err := g.pollOnce(p)
		if err != nil {
			return err
		}
		g.mix(got)
		if got == replay.PollClock {
			return nil
		}
		for e := g.m.NextEvent(); e != 0; e = g.m.NextEvent() {
			switch abi.EventKind(e & 7) {
			case abi.EventResolved:
				if err := g.told(e >> 3); err != nil {
					return err
				}
				ids = slices.DeleteFunc(ids, func(id int64) bool { return id == e>>3 })
			case abi.EventCancel:
				if err := g.cancelled(); err != nil {
					return err
				}
			case abi.EventRunBody:
				return errRunBody
			case abi.EventQuery:
				return g.asked()
			case abi.EventDump:
				return errFailed
			}
		}
		if len(ids) == 0 {
			return nil
		}
	}
	return nil
}

func (g *env) pollOnce(p replay.PollRequest) (replay.PollAnswer, error) {
	for {
		r, err := g.m.Poll(p)
		if !errors.Is(err, replay.ErrSuspend) {
			return r, err
		}
		g.again = func(m *replay.Machine) error {
			r, err := m.Poll(p)
			if e := m.NextEvent(); err == nil && r == replay.PollEvents && abi.EventKind(e&7) == abi.EventRunBody {
				return errRunBody
			}
			return fmt.Errorf("poll: %d %w", r, err)
		}
		if err := g.wait(); err != nil {
			return 0, err
		}
		if err := g.enter(); err != nil {
			return 0, err
		}
	}
}
