package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// tellAppended prints the entries that were appended since the last call.
func (s *story) tellAppended() {
	j := s.run.Journal()
	if j == nil || !s.run.Exists() {
		return
	}
	if s.shown == nil || s.shown.started != int64(j.Started().Iteration) {
		s.shown = &shown{started: int64(j.Started().Iteration)}
		if j.Started().Iteration > 0 {
			s.say("iteration %d:", j.Started().Iteration)
		}
	}
	all := j.All()
	if n := len(all) - s.shown.entries; n > 20 {
		s.say("… and %d entries more", n)
		s.shown.entries = len(all)
		return
	}
	for i := s.shown.entries; i < len(all); i++ {
		s.say("%s", entryText(&all[i]))
	}
	s.shown.entries = len(all)
}

func entryText(e *store.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "entry %d %s %s", e.Seq, at(e.UnixMs), e.Kind)
	add := func(yes bool, format string, args ...any) {
		if yes {
			b.WriteByte(' ')
			fmt.Fprintf(&b, format, args...)
		}
	}
	add(e.Handle != 0, "#%d", e.Handle)
	add(e.Name != "" && e.Kind != store.KindStarted, "%s", e.Name)
	add(e.Attempt != 0, "attempt %d", e.Attempt)
	add(e.HasDue, "due %s", at(e.DueUnixMs))
	add(e.Skipped, "skipped")
	add(e.Kind == store.KindSignal, "of entry %d", e.Ref)
	add(e.Kind == store.KindAttemptStarted && e.Code != 0, "after a crash")
	add(e.Kind == store.KindWithdraw, "answer %d", e.Code)
	add(e.Kind == store.KindRetried, "voids %s", void(e))
	add(e.Kind == store.KindEmit, "chunk %d", e.Code)
	add(e.Refused != 0, "refused")
	add(e.Kind != store.KindWithdraw && e.Kind.Delivery() && e.Code != 0, "refused")
	add(len(e.Data) > 0 && e.Kind != store.KindEmit, "%s", short(e.Data))
	return b.String()
}

func void(e *store.Entry) string {
	var o struct {
		Void []int `json:"void"`
	}
	_ = json.Unmarshal(e.Options, &o)
	return fmt.Sprint(o.Void)
}

// short formats data: of an error its message, and for a step's error also its attempts.
func short(data []byte) string {
	var e struct {
		Kind     string `json:"kind"`
		Message  string `json:"message"`
		Attempts int    `json:"attempts"`
	}
	if json.Unmarshal(data, &e) == nil && e.Message != "" {
		text := fmt.Sprintf("%q", e.Message)
		switch {
		case e.Attempts == 1:
			text += " after 1 attempt"
		case e.Attempts > 1:
			text += fmt.Sprintf(" after %d attempts", e.Attempts)
		}
		return text
	}
	if len(data) > 100 {
		return fmt.Sprintf("%d bytes", len(data))
	}
	return fmt.Sprintf("%q", data)
}

// commandText shows a command to another run.
func commandText(c *store.Command) string {
	names := map[store.CommandKind]string{store.CommandChildStart: "start a child", store.CommandChildEnd: "the child has ended",
		store.CommandCancel: "end", store.CommandSignal: "signal", store.CommandHookClaim: "claim a token",
		store.CommandHookRelease: "release a token", store.CommandReply: "reply", store.CommandChildAsk: "how did you end?"}
	text := names[c.Kind]
	if c.Name != "" {
		text += " (" + c.Name + ")"
	}
	var m run.Message
	if err := json.Unmarshal(c.Data, &m); err != nil {
		return text + " " + err.Error()
	}
	add := func(yes bool, format string, args ...any) {
		if yes {
			text += fmt.Sprintf(" "+format, args...)
		}
	}
	add(m.Workflow != "", "of workflow %s", m.Workflow)
	add(m.Module != "", "of the upload %.6s", m.Module)
	add(m.Signal != "", "%s", m.Signal)
	add(m.Token != "", "%s", m.Token)
	add(m.Status != 0, "%s", m.Status)
	add(len(m.Payload) > 0, "%q", m.Payload)
	add(len(m.Failure) > 0, "%s", short(m.Failure))
	add(m.Iteration != 0, "iteration %d", m.Iteration)
	return fmt.Sprintf("%s, handle %d, id %d", text, m.Handle, c.ID.Seq)
}

// journal shows the whole journal of the run: journal [live]. Live is what a replay sees.
func (s *story) journal() {
	entries := s.run.Journal().All()
	if s.d.HasArg("live") {
		entries = s.run.Journal().Entries()
	}
	for i := range entries {
		s.say("%s", entryText(&entries[i]))
	}
}

// logs shows the stored lines of the run's log.
func (s *story) logs() {
	lines, err := s.store.Logs(context.Background(), key, 0, 100)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	for _, l := range lines {
		s.say("%d %s%s", l.Index, l.Step, l.Text)
	}
}

// look prints what a guest knows about its run.
func (s *story) look() {
	l := s.leaseArg()
	i := l.Info()
	s.say("started %s, input %s, has been given %d entries before, version %d", at(i.StartedMs), i.Input, i.Rested,
		l.State.Version)
}

// load loads a run as the store could have it: load status=NAME [wake=1h] [faults=1]. Its journal is the one that was
// committed last.
func (s *story) load() {
	st, entries, err := s.store.Run(context.Background(), key)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	st.Status, err = store.ParseStatus(s.arg("status"))
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	st.WakeUnixMs, st.Faults, st.Reason = store.NoWake, uint32(s.int("faults", 0)), s.arg("reason")
	if s.d.HasArg("wake") {
		st.WakeUnixMs = s.now + s.ms(s.arg("wake"))
	}
	if s.d.HasArg("lacks") {
		n := s.int("lacks", 0)
		entries = append(entries[:n:n], entries[n+1:]...)
	}
	if s.d.HasArg("empty") {
		entries = nil
	}
	s.run, err = run.Load(st, entries, s.config())
	if err != nil {
		s.say("cannot be loaded: %v", err)
		s.run = run.New(key, s.config())
		return
	}
	s.shown = &shown{entries: len(entries)}
	s.manual, s.leases, s.attempts = true, nil, nil
	s.step(run.Due{}, false)
}

// fill makes the journal nearly full with calls that the guest could make: fill entries=N [bytes=N].
func (s *story) fill() {
	l := s.leaseArg()
	data := bytes.Repeat([]byte{'x'}, int(s.int("bytes", 0)))
	for range s.int("entries", 0) {
		if _, err := l.Append(s.now, store.Entry{Kind: store.KindEmit, Name: "fill", Input: data}); err != nil {
			s.say("refused: %v", err)
			break
		}
	}
	s.tellAppended()
}
