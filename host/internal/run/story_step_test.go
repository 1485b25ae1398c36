package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// step applies an event, prints its effects, and commits.
func (s *story) step(ev run.Event, answered bool) {
	s.apply(s.run.Apply(s.now, ev), ev, answered)
	s.settle()
}

// apply carries out effects that need no commit, and keeps the rest.
func (s *story) apply(fx *run.Effects, ev run.Event, answered bool) {
	s.tellAppended()
	if fx.Err != nil {
		s.say("answer at once: %v", fx.Err)
	}
	for _, o := range fx.Orders {
		s.say("order %s: %s", s.lease(o.Lease), o.Order)
	}
	if fx.Activate != nil {
		s.leases = append(s.leases, fx.Activate)
		s.say("activate %s, under version %d", s.lease(fx.Activate), fx.Activate.State.Version)
	}
	for _, a := range fx.Tell {
		s.say("tell %s that it is cancelled", s.name(a))
	}
	for _, a := range fx.Drop {
		s.say("drop %s", s.name(a))
	}
	s.sayNotes(fx)
	a := after{start: fx.Start}
	switch {
	case fx.Again:
		a.again = ev
	case answered && fx.Err == nil:
		a.answer = answerText(fx.Answer)
	}
	if a.answer != "" || len(a.start) > 0 || a.again != nil {
		s.behind = append(s.behind, a)
		s.urgent = s.urgent || !fx.Answer.Created || !s.run.Running()
	}
}

func (s *story) sayNotes(fx *run.Effects) {
	if fx.WithdrawAll {
		s.say("withdraw all asks")
	}
	for _, handle := range fx.Withdraw {
		s.say("withdraw the ask of step #%d", handle)
	}
	for _, place := range fx.Return {
		s.say("return a place of handler %s", place)
	}
	if fx.Stuck != "" {
		s.say("stuck: %s", fx.Stuck)
	}
	if fx.LongJournal > 0 {
		s.say("the journal has become long: %d entries", fx.LongJournal)
	}
	if fx.Fault != nil {
		s.say("fault of the host: %v", fx.Fault)
	}
	if fx.Unrecorded != nil {
		s.say("not recorded: %v", fx.Unrecorded)
	}
}

func answerText(a run.Answer) string {
	var parts []string
	if a.Created {
		parts = append(parts, "created")
	}
	if a.Changed {
		parts = append(parts, "changed")
	}
	if a.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d ended", a.Count))
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}

// settle does what the shard does after an event: it commits if necessary, and prints when the run wakes.
func (s *story) settle() {
	for !s.manual && !s.run.Lent() && (s.urgent || s.run.Wants()) {
		if !s.prepare() {
			break
		}
	}
	if s.run.Lent() {
		return
	}
	if wake, ok := s.run.NextWake(s.now); ok {
		s.say("next wake: %s", at(wake))
	}
}

// commit makes the commit that the run has ready, in stories with manual commits.
func (s *story) commit() {
	if !s.prepare() {
		s.say("nothing to commit")
	}
}

// prepare makes one commit durable, and carries out the effects that waited for it. It reports whether there was
// anything to do.
func (s *story) prepare() bool {
	continued := s.run.Continued()
	c := s.run.Prepare(s.now)
	done := s.behind
	s.behind, s.urgent = nil, false
	if continued {
		defer func() {
			s.say("-- the next iteration may begin")
			s.apply(s.run.Apply(s.now, run.Due{}), run.Due{}, false)
		}()
	}
	if c != nil {
		s.write(*c)
	}
	for _, a := range done {
		s.durable(a)
	}
	return c != nil || len(done) > 0
}

// write commits to the store, which checks that commits follow one another.
func (s *story) write(c store.RunCommit) {
	s.sayCommit(&c)
	if err := s.owned.Commit(context.Background(), []store.RunCommit{c}); err != nil {
		s.d.Fatalf(s.t, "commit: %v", err)
	}
	for _, cmd := range c.Outbox {
		s.say("  to %s: %s", cmd.To.ID, commandText(&cmd))
	}
	if len(c.Ack) > 0 {
		s.say("  takes command %d out of the inbox", c.Ack)
	}
	if n := len(c.Output); n > 10 {
		s.say("  %d chunks of output", n)
		c.Output = nil
	}
	for _, chunk := range c.Output {
		s.say("  output %d: %s %q", chunk.Index, chunk.Topic, chunk.Data)
	}
	for _, l := range c.Logs {
		s.say("  log %d: %s", l.Index, l.Text)
	}
}

func (s *story) sayCommit(c *store.RunCommit) {
	what := "commit"
	switch {
	case c.Delete:
		s.say("commit: delete, the id stays taken: %v", c.State.Deleted)
		return
	case c.Replace:
		what = "commit: replace the run before"
	case c.Create:
		what = "commit: create"
	}
	if c.Before != nil {
		what += fmt.Sprintf(": end of iteration %d with %d entries,", c.Before.Iteration, len(c.Before.Append))
	}
	reason := ""
	if c.State.Reason != "" {
		reason = fmt.Sprintf(" (%s)", c.State.Reason)
	}
	s.say("%s %d entries; %s%s, wake %s", what, len(c.Append), c.State.Status, reason, at(c.State.WakeUnixMs))
}

// durable carries out what has waited for a commit.
func (s *story) durable(a after) {
	if a.answer != "" {
		s.say("answer when durable: %s", a.answer)
	}
	for _, attempt := range a.start {
		if s.run.Has(attempt) {
			s.begin(attempt)
		} else {
			s.say("not started: %s was given up", attempt.Name)
		}
	}
	if a.again == nil {
		return
	}
	s.say("-- again, after what it waits for")
	if _, start := a.again.(run.Start); start {
		if next := s.run.Successor(); next != s.run {
			s.run, s.shown = next, nil
		}
	}
	s.apply(s.run.Apply(s.now, a.again), a.again, true)
}

func (s *story) begin(a *run.Attempt) {
	if !slices.Contains(s.attempts, a) {
		s.attempts = append(s.attempts, a)
	}
	who := "by handler " + strings.TrimPrefix(a.Target, abi.HandlerPrefix)
	if a.Target == "" {
		who = "on a copy of the workflow"
		if a.Fork != nil {
			who = "in the instance of " + s.lease(a.Fork)
		}
	}
	last := ""
	if len(a.Last) > 0 {
		last = ", knows the failure before"
	}
	s.say("start %s: step %q, attempt %d, %s%s", s.name(a), a.Name, a.Number, who, last)
}

// name returns the story's name for an attempt.
func (s *story) name(a *run.Attempt) string {
	i := slices.Index(s.attempts, a)
	if i < 0 {
		s.attempts = append(s.attempts, a)
		i = len(s.attempts) - 1
	}
	return fmt.Sprintf("A%d", i+1)
}

// lease returns the story's name for a guest.
func (s *story) lease(l *run.Lease) string {
	return fmt.Sprintf("guest %d", slices.Index(s.leases, l)+1)
}

// check checks invariants after every event of every story.
func (s *story) check() {
	r := s.run
	if r.Lent() || !r.Exists() {
		return
	}
	if wake, ok := r.NextWake(s.now); ok && wake <= s.now {
		s.t.Errorf("the next wake %s is not after now, %s", at(wake), at(s.now))
	}
	ended := r.Journal().Ended() != store.KindInvalid
	if ended && len(r.Attempts()) > 0 {
		s.t.Errorf("the run has ended, and %d attempts go on", len(r.Attempts()))
	}
	if s.manual || !r.AtRest() || ended {
		return
	}
	s.checkWake()
}

// checkWake checks that a run at rest wakes: here, and on another host, which has only the durable state.
func (s *story) checkWake() {
	r := s.run
	st, entries, err := s.store.Run(context.Background(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := run.Load(st, entries, s.config()); err != nil {
		s.t.Errorf("what was committed cannot be loaded: %v", err)
	}
	if _, ok := r.NextWake(s.now); s.active && !ok && st.WakeUnixMs > s.now {
		s.t.Errorf("the durable wake is %s, and the run in memory has none", at(st.WakeUnixMs))
	}
	if _, ok := r.NextWake(math.MinInt64); ok && st.WakeUnixMs == store.NoWake {
		s.t.Errorf("something of the run is due, or will be, and another host would not wake it")
	}
}

// crash kills the host: what is not durable is lost, and another host loads the run.
func (s *story) crash() {
	s.pass()
	s.behind, s.urgent, s.leases = nil, false, nil
	s.attempts = nil
	st, entries, err := s.store.Run(context.Background(), key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.run = run.New(key, s.config())
		s.say("there is no run")
		return
	case err != nil:
		s.d.Fatalf(s.t, "%v", err)
	}
	s.run, err = run.Load(st, entries, s.config())
	if err != nil {
		s.say("cannot be loaded: %v", err)
		return
	}
	s.shown = &shown{entries: len(entries)}
	if j := s.run.Journal(); j != nil {
		s.shown.started = int64(j.Started().Iteration)
	}
	s.say("loaded: %s with %d entries, wake %s", st.Status, len(entries), at(st.WakeUnixMs))
	if !s.d.HasArg("quiet") {
		s.step(run.Due{}, false)
	}
}
