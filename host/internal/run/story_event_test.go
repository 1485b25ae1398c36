package run_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// start starts the run: start [input=TEXT] [workflow=NAME] [in=1h] [timeout=1m] [conflict=fail|terminate|replace]
// [signal=NAME] [signal-bytes=N] [forever] [customer=NAME], with which the workflow has limits.
func (s *story) start() {
	s.pass()
	s.step(run.Start{New: s.newRun()}, true)
}

func (s *story) newRun() run.NewRun {
	input, workflow := s.arg("input"), s.arg("workflow")
	if input == "" {
		input = `{"n":1}`
	}
	if workflow == "" {
		workflow = "order"
	}
	s.number++
	n := run.NewRun{Key: key, Workflow: workflow, Version: 1, Module: sha256.Sum256([]byte("v1")), Input: []byte(input),
		InputDigest: run.InputDigest([]byte(input)), Seed: make([]byte, 32), Incarnation: store.Incarnation{byte(s.number)}}
	if s.d.HasArg("in") {
		n.AtUnixMs = s.now + s.ms(s.arg("in"))
	}
	n.TimeoutMs = s.ms(s.arg("timeout"))
	if s.d.HasArg("forever") {
		n.TimeoutMs = 1 << 62
	}
	if c := s.arg("customer"); c != "" {
		n.Limit = &journal.Limit{Keys: map[string]string{"input.customer": c}, Priority: 3}
	}
	switch s.arg("conflict") {
	case "fail":
		n.Conflict = run.ConflictFail
	case "terminate":
		n.Conflict = run.ConflictTerminate
	case "replace":
		n.Conflict = run.ConflictReplace
	}
	if name := s.arg("signal"); name != "" {
		n.Signal = &run.Signal{Name: name, Data: []byte("with the start")}
		if bytes := s.int("signal-bytes", 0); bytes > 0 {
			n.Signal.Data = make([]byte, bytes)
		}
	}
	return n
}

var parent = store.RunKey{ID: "parent-1"}

// child starts the run as a child of another one, by a command: child [handle=3].
func (s *story) child() {
	s.pass()
	n := s.newRun()
	handle := s.int("handle", 3)
	by := store.Incarnation{0xaa}
	n.Conflict, n.Ack = run.ConflictFail, 7
	n.Parent = &journal.Parent{RunID: parent.ID, Incarnation: by[:], Handle: handle, Depth: 1}
	s.step(run.StartChild{New: n, Message: run.Message{Sender: by, Handle: handle}}, false)
}

// signal sends a signal: signal NAME [data=TEXT] [key=TEXT] [bytes=N].
func (s *story) signal() {
	s.pass()
	data := []byte(s.arg("data"))
	if n := s.int("bytes", 0); n > 0 {
		data = []byte(strings.Repeat("x", int(n)))
	}
	for range max(s.int("times", 1), 1) {
		s.step(run.Signal{Name: s.d.CmdArgs[0].Key, Data: data, IdempotencyKey: s.arg("key")}, true)
	}
}

func (s *story) cancel()    { s.pass(); s.step(run.Cancel{}, true) }
func (s *story) terminate() { s.pass(); s.step(run.Terminate{}, true) }
func (s *story) pause()     { s.pass(); s.step(run.Pause{}, true) }
func (s *story) unpause()   { s.pass(); s.step(run.Unpause{}, true) }

// delete deletes the run, or what is left of it: delete [if=yes|no].
func (s *story) delete() {
	s.pass()
	var which func(*store.RunState) bool
	if yes := s.arg("if"); yes != "" {
		which = func(st *store.RunState) bool {
			s.say("asked about a run that was deleted: %v", st.Deleted)
			return yes == "yes"
		}
	}
	s.step(run.Delete{If: which}, true)
}

// wake ends sleeps before their time: wake [name=NAME].
func (s *story) wake() { s.pass(); s.step(run.Wake{Name: s.arg("name")}, true) }

// due reports that time has passed, or that a condition has changed: due [after=1h].
func (s *story) due() { s.pass(); s.step(run.Due{}, false) }

// retry retries the run: retry [version=2] [workflow=NAME].
func (s *story) retry() {
	s.pass()
	s.step(run.Retry{Version: s.version()}, true)
}

// version returns the version of the arguments, nil if there is none.
func (s *story) version() *store.Version {
	n := s.int("version", 0)
	if n <= 0 {
		return nil
	}
	v := &store.Version{Workflow: "order", Number: uint32(n), Module: sha256.Sum256(fmt.Append(nil, "v", n))}
	if w := s.arg("workflow"); w != "" {
		v.Workflow = w
	}
	return v
}

// migrate moves the run to another version. By default, the check was made for the run as it is now: migrate
// version=2 [workflow=NAME] [length=N] [iteration=N] [from=VERSION] [incarnation=other].
func (s *story) migrate() {
	s.pass()
	st := s.run.State()
	of := run.Checked{Incarnation: st.Incarnation, Iteration: uint32(s.int("iteration", int64(st.Iteration))),
		Version: uint32(s.int("from", int64(st.Version)))}
	if j := s.run.Journal(); j != nil {
		of.Length = store.Seq(s.int("length", int64(j.Len())))
	}
	if s.d.HasArg("incarnation") {
		of.Incarnation = store.Incarnation{0xee}
	}
	s.step(run.Migrate{Version: *s.version(), Checked: of}, true)
}

// restart ends the story of this run, and begins the story of a restart of it: restart [from=NAME].
func (s *story) restart() {
	s.pass()
	var n run.NewRun
	fx := s.run.Apply(s.now, run.Look{Func: func(r *run.Run) (err error) {
		n, err = restarted(r, s.arg("from"))
		return err
	}})
	if fx.Err != nil {
		s.say("answer at once: %v", fx.Err)
		return
	}
	s.number++
	n.Key = store.RunKey{ID: "order-2"}
	n.Seed, n.Incarnation = make([]byte, 32), store.Incarnation{byte(s.number)}
	s.run, s.shown, s.manual = run.New(n.Key, s.config()), nil, true
	s.say("-- order-2 begins with what order-1 did, iteration %d, attempt %d of the run", n.Copy.Started.Iteration,
		n.Copy.Started.RunAttempt+1)
	s.step(run.Start{New: n}, true)
}

// restarted returns the start of a restart, unless it needs information from elsewhere.
func restarted(r *run.Run, from string) (run.NewRun, error) {
	x, err := r.Restart(nil, from)
	if err == nil && len(x.Plan.Open)+len(x.Plan.Undone) > 0 {
		err = fmt.Errorf("open: %v, undone: %v", x.Plan.Open, x.Plan.Undone)
	}
	if err == nil {
		err = x.Finish()
	}
	return x.New, err
}

// command delivers a command of another run: command KIND [handle=1] [iteration=0] [status=failed] [failure=JSON]
// [payload=TEXT] [name=SIGNAL] [incarnation=other] [parent=other] [end=terminate] [taken].
func (s *story) command() {
	s.pass()
	kinds := map[string]store.CommandKind{"child-end": store.CommandChildEnd, "cancel": store.CommandCancel,
		"signal": store.CommandSignal, "reply": store.CommandReply, "child-ask": store.CommandChildAsk}
	kind, ok := kinds[s.d.CmdArgs[0].Key]
	if !ok {
		s.d.Fatalf(s.t, "no such command")
	}
	s.number++
	cmd := store.Command{Seq: store.CommandSeq(s.number), Kind: kind, From: parent, To: key, Name: s.arg("end"),
		ID: store.CommandID{Incarnation: store.Incarnation{0xaa}, Seq: 16 * store.Seq(s.number)}}
	m := run.Message{Sender: store.Incarnation{0xaa}, Iteration: uint32(s.int("iteration", 0)), Handle: s.int("handle", 1),
		Status: store.Completed, Payload: []byte(s.arg("payload")), Signal: s.arg("name"), Token: s.arg("token")}
	if x := s.arg("status"); x != "" {
		st, err := store.ParseStatus(x)
		if err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		m.Status = st
	}
	if s.d.Input != "" {
		m.Failure = json.RawMessage(s.d.Input)
	}
	m.Taken = s.d.HasArg("taken")
	if s.d.HasArg("incarnation") {
		cmd.ToIncarnation = store.Incarnation{0xee}
	}
	if s.d.HasArg("parent") {
		m.Sender = store.Incarnation{0xbb}
	}
	s.step(run.Command{Command: cmd, Message: m}, false)
}

// slot gives the run a slot: slot [retry=SEQ], which it asked for at first, or after that retry.
func (s *story) slot() {
	s.pass()
	st := s.run.State()
	ask := store.CommandID{Incarnation: st.Incarnation, Iteration: st.Iteration,
		Seq: store.Seq(16*s.int("retry", 0)) + store.Seq(store.CommandSlotAsk)}
	s.number++
	cmd := run.GiveSlot(store.RunKey{ID: "order"}, key.ID, ask)
	cmd.Seq = store.CommandSeq(s.number)
	s.step(run.Command{Command: cmd}, false)
}

// attempt ends an attempt, or makes it log a line: attempt A1 ok=DATA, attempt A1 fails [kind=K] [final] [after=1m]
// [retry-after=1m], attempt A1 abandoned, attempt A1 logs=TEXT, attempt A1 not-forked.
func (s *story) attempt() {
	s.pass()
	a := s.attemptArg()
	switch {
	case s.d.HasArg("logs"):
		s.step(run.AttemptLogs{Attempt: a, Line: store.LogLine{UnixMs: s.now, Step: a.Name, Attempt: a.Number,
			Text: s.arg("logs")}}, false)
	case s.d.HasArg("not-forked"):
		s.step(run.NotForked{Lease: a.Fork, Attempt: a}, false)
	default:
		s.step(run.AttemptEnds{Attempt: a, Outcome: s.outcome()}, false)
	}
}

// body ends an attempt that was executed in its guest's instance: its arguments are the ones of attempt.
func (s *story) body() {
	s.pass()
	a := s.attemptArg()
	l := a.Fork
	if l == nil {
		l = s.leases[s.int("guest", 1)-1]
	}
	s.step(run.BodyEnds{Lease: l, Attempt: a, Outcome: s.outcome()}, false)
}

func (s *story) attemptArg() *run.Attempt {
	var n int
	if _, err := fmt.Sscanf(s.d.CmdArgs[0].Key, "A%d", &n); err != nil || n > len(s.attempts) {
		s.d.Fatalf(s.t, "there is no attempt %q", s.d.CmdArgs[0].Key)
	}
	return s.attempts[n-1]
}

func (s *story) outcome() run.StepOutcome {
	switch {
	case s.d.HasArg("abandoned"):
		return run.StepOutcome{Abandoned: true}
	case s.d.HasArg("fails"):
		kind := s.arg("kind")
		if kind == "" {
			kind = "error"
		}
		out := run.StepFailure(kind, "card declined", !s.d.HasArg("final"))
		if s.d.HasArg("retry-after") {
			out.RetryAfterMs = s.ms(s.arg("retry-after"))
		}
		return out
	case s.d.HasArg("bytes"):
		return run.StepOutcome{Data: make([]byte, s.int("bytes", 0))}
	}
	return run.StepOutcome{Data: []byte(s.arg("ok"))}
}

// admitted gives a step a place: admitted step=1 handler=mail.
func (s *story) admitted() {
	s.pass()
	name := s.arg("handler")
	s.step(run.Admitted{Handle: s.int("step", 1), Handler: name, Place: name}, false)
}

// queued reports that a step waits, after the verdict Soon: queued step=1.
func (s *story) queued() {
	s.pass()
	s.step(run.Queued{Handle: s.int("step", 1)}, false)
}

// launch reports that attempts became durable while the run was lent: launch A1.
func (s *story) launch() {
	s.step(run.Launch{Attempts: []*run.Attempt{s.attemptArg()}}, false)
}
