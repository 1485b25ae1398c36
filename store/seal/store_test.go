package seal_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/seal"
)

// world is data that is accessed both sealed and directly.
type world struct {
	t     *testing.T
	data  *memstore.Data
	below store.Store
	s     *seal.Store
	part  map[store.PartitionID]store.Partition
}

func newWorld(t *testing.T, codec seal.Codec) *world {
	w := &world{t: t, data: memstore.New(), part: map[store.PartitionID]store.Partition{}}
	w.below = w.data.Open()
	w.s = sealed(t, w.below, codec)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// post is a partition that only sends commands.
const post store.PartitionID = 0

func (w *world) partition(s store.Store, p store.PartitionID) store.Partition {
	w.t.Helper()
	part, err := s.Acquire(ctx, p, "test", 0)
	w.ok(err)
	return part
}

// full is a commit that creates a run, with every part that a commit can have.
func full(id string) store.RunCommit {
	run := store.RunKey{ID: id}
	to := store.RunKey{ID: "to " + id}
	return store.RunCommit{Run: run, Create: true,
		State: store.RunState{Run: run, Workflow: "w", Status: store.Waiting, Reason: "secret reason", InputDigest: store.Digest{1, 2},
			WakeUnixMs: store.NoWake, LogRecords: 1, Output: 1, Length: 2, Incarnation: store.Incarnation{7},
			Attributes: []store.Attribute{{Key: "k", Value: "v"}}, Memo: `"secret memo"`},
		Append: []store.Entry{
			{Seq: 0, Kind: store.KindStarted, UnixMs: 4, Name: "secret name", Data: []byte("secret data"), Options: []byte("secret options")},
			{Seq: 1, Kind: store.KindStep, UnixMs: 5, Handle: 3, Name: "secret step", Target: "secret target", Input: []byte("secret input"),
				DueUnixMs: 9, HasDue: true}},
		Logs:   []store.LogLine{{Index: 0, UnixMs: 6, Level: 2, Step: "secret step", Text: "secret line"}},
		Output: []store.Chunk{{Index: 0, UnixMs: 7, Topic: "secret topic", Data: []byte("secret chunk")}},
		Outbox: []store.Command{{ID: store.CommandID{Incarnation: store.Incarnation{7}, Seq: 1}, Kind: store.CommandSignal, To: to, From: run,
			Name: "secret signal", Data: []byte("secret payload")}}}
}

// read reads all of a run and the inbox of its partition.
func (w *world) read(s store.Store, run store.RunKey) (all struct {
	State  store.RunState
	Run    []store.Entry
	Load   []store.Entry
	Logs   []store.LogLine
	Output []store.Chunk
	Inbox  []store.Command
	Page   store.Page
}) {
	w.t.Helper()
	var err error
	all.State, all.Run, err = s.Run(ctx, run)
	w.ok(err)
	for e, err := range s.Load(ctx, run, 0, 0) {
		w.ok(err)
		all.Load = append(all.Load, e)
	}
	all.Logs, err = s.Logs(ctx, run, 0, 10)
	w.ok(err)
	all.Output, err = s.Output(ctx, run, 0, 10)
	w.ok(err)
	all.Inbox, err = w.partition(s, store.RunKey{ID: "to " + run.ID}.Partition()).Commands(ctx, 0, 10)
	w.ok(err)
	all.Page, err = s.List(ctx, store.Query{})
	w.ok(err)
	return all
}

// TestSealed commits everything, reads it back unchanged, and finds none of it in the store below.
func TestSealed(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	c := full("r")
	given := reflect.ValueOf(full("r")).Interface()
	w.ok(w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}))
	if !reflect.DeepEqual(c, given) {
		t.Error("the commit of the caller was changed")
	}
	got := w.read(w.s, c.Run)
	c.Outbox[0].Seq = 1
	for _, x := range []struct {
		what      string
		got, want any
	}{
		{"state", got.State, c.State}, {"run", got.Run, c.Append}, {"load", got.Load, c.Append}, {"logs", got.Logs, c.Logs},
		{"output", got.Output, c.Output}, {"inbox", got.Inbox, c.Outbox}, {"page", got.Page.Runs, []store.RunState{c.State}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s:\n%+v, want\n%+v", x.what, x.got, x.want)
		}
	}
	below := w.read(w.below, c.Run)
	var text strings.Builder
	for _, e := range below.Load {
		text.Write(store.AppendEntry(nil, &e))
	}
	text.Write(store.AppendState(nil, &below.State))
	text.Write(store.AppendLogLine(nil, &below.Logs[0]))
	text.Write(store.AppendChunk(nil, &below.Output[0]))
	text.Write(store.AppendCommand(nil, &below.Inbox[0]))
	if strings.Contains(text.String(), "secret") {
		t.Errorf("it can be read below: %q", text.String())
	}
	if below.State.InputDigest != (store.Digest{}) {
		t.Error("the digest of the input can be read below")
	}
}

// TestSwapped moves and changes stored data, which then cannot be decoded.
func TestSwapped(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	a, b := full("a"), full("b")
	for _, c := range []store.RunCommit{a, b} {
		w.ok(w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}))
	}
	x, y := w.read(w.below, a.Run), w.read(w.below, b.Run)
	at := 0
	// put writes a run to the store below, from parts of both, and reads it sealed.
	put := func(change func(c *store.RunCommit)) (entries, logs, output, state, list error) {
		at++
		run := a.Run
		c := store.RunCommit{Run: run, Create: true, Replace: true, State: x.State, Append: []store.Entry{x.Load[0], x.Load[1]},
			Logs: []store.LogLine{x.Logs[0]}, Output: []store.Chunk{x.Output[0]}}
		change(&c)
		w.ok(w.partition(w.below, run.Partition()).Commit(ctx, []store.RunCommit{c}))
		_, _, entries = w.s.Run(ctx, run)
		_, logs = w.s.Logs(ctx, run, 0, 10)
		_, output = w.s.Output(ctx, run, 0, 10)
		_, state = w.s.State(ctx, run)
		page, err := w.s.List(ctx, store.Query{})
		w.ok(err)
		for _, st := range page.Runs {
			if st.Run == run && st.Status == store.Stuck && strings.Contains(st.Reason, "cannot be read") {
				list = store.ErrCorrupt
			}
		}
		var loaded error
		for _, err := range w.s.Load(ctx, run, 0, 0) {
			loaded = errors.Join(loaded, err)
		}
		if (loaded != nil) != (entries != nil) && state == nil {
			t.Errorf("Run says %v, Load %v", entries, loaded)
		}
		return
	}
	if e, l, o, s, p := put(func(*store.RunCommit) {}); errors.Join(e, l, o, s, p) != nil {
		t.Fatal("what was not changed:", e, l, o, s, p)
	}
	const entries, logs, output, state = 1, 2, 4, 8
	for name, f := range map[string]struct {
		bad    int
		change func(*store.RunCommit)
	}{
		"entry of another run": {entries, func(c *store.RunCommit) { c.Append[1] = y.Load[1] }},
		"entry in another location": {entries, func(c *store.RunCommit) {
			c.Append[1] = x.Load[0]
			c.Append[1].Seq = 1
		}},
		"entry of another kind": {entries, func(c *store.RunCommit) { c.Append[1].Kind = store.KindBody }},
		"cut entry":             {entries, func(c *store.RunCommit) { c.Append[1].Data = c.Append[1].Data[:1] }},
		"log of another run":    {logs, func(c *store.RunCommit) { c.Logs[0] = y.Logs[0] }},
		"output of another run": {output, func(c *store.RunCommit) { c.Output[0] = y.Output[0] }},
		"changed status":        {entries | state, func(c *store.RunCommit) { c.State.Status = store.Paused }},
		"state of another run":  {entries | state, func(c *store.RunCommit) { c.State.Reason = y.State.Reason }},
	} {
		e, l, o, s, list := put(f.change)
		for i, err := range []error{e, l, o, s} {
			if want := f.bad&(1<<i) != 0; errors.Is(err, store.ErrCorrupt) != want {
				t.Errorf("%s: reading %d: %v, want an error: %v", name, 1<<i, err, want)
			}
		}
		if (list != nil) != (s != nil) {
			t.Errorf("%s: the list says %v, the state %v", name, list, s)
		}
	}
	// A command with a changed receiver is skipped.
	cmd := x.Inbox[0]
	cmd.To, cmd.ID.Seq = b.Outbox[0].To, 77
	w.ok(w.partition(w.below, post).Discard(ctx, nil, []store.Command{cmd}))
	list, err := w.partition(w.s, cmd.To.Partition()).Commands(ctx, 0, 10)
	w.ok(err)
	if last := list[len(list)-1]; last.Kind != 0 || last.Seq == 0 || last.Data != nil {
		t.Errorf("a command for another run: %+v", last)
	}
}

// TestIterations also seals the end of an iteration, and binds entries to their iteration.
func TestIterations(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	c := full("r")
	p := w.partition(w.s, c.Run.Partition())
	w.ok(p.Commit(ctx, []store.RunCommit{c}))
	st := c.State
	st.Iteration, st.Length = 1, 1
	end := store.Entry{Seq: 2, Kind: store.KindContinue, Input: []byte("secret end")}
	first := store.Entry{Seq: 0, Kind: store.KindStarted, Data: []byte("secret begin")}
	next := store.RunCommit{Run: c.Run, State: st, Append: []store.Entry{first},
		Before: &store.IterationEnd{Iteration: 0, Expect: 2, Append: []store.Entry{end}}}
	w.ok(p.Commit(ctx, []store.RunCommit{next}))
	if string(next.Before.Append[0].Input) != "secret end" {
		t.Error("the commit of the caller was changed")
	}
	all := func(s store.Store, iteration uint32) (list []store.Entry) {
		t.Helper()
		for e, err := range s.Load(ctx, c.Run, iteration, 0) {
			w.ok(err)
			list = append(list, e)
		}
		return list
	}
	if got := all(w.s, 0); !reflect.DeepEqual(got, append(c.Append, end)) {
		t.Errorf("the first iteration: %+v", got)
	}
	if got := all(w.s, 1); !reflect.DeepEqual(got, next.Append) {
		t.Errorf("the second iteration: %+v", got)
	}
	old := all(w.below, 0)
	for _, e := range append(old, all(w.below, 1)...) {
		if !e.Sealed || e.Input != nil || e.Name != "" {
			t.Errorf("below: %+v", e)
		}
	}
	// Put the first entry of the second iteration in place of the first iteration's, which has the same number and kind.
	below, _, err := w.below.Run(ctx, c.Run)
	w.ok(err)
	moved := store.RunCommit{Run: c.Run, Create: true, Replace: true, State: below, Append: old[:1]}
	w.ok(w.partition(w.below, c.Run.Partition()).Commit(ctx, []store.RunCommit{moved}))
	if _, _, err := w.s.Run(ctx, c.Run); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("an entry of another iteration: %v", err)
	}
}

// TestInTheClear reads records from before there was a key, beside sealed ones.
func TestInTheClear(t *testing.T) {
	data := memstore.New()
	below := data.Open()
	w := &world{t: t, data: data, below: below}
	c := full("r")
	w.ok(w.partition(below, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}))
	w.ok(seal.InTheClear(ctx, below))
	w.s = sealed(t, below, keyring(t, line("a", 1)))
	w.ok(seal.InTheClear(ctx, below)) // nothing is written yet
	st := c.State
	st.Length, st.Reason = 3, "another reason"
	next := store.RunCommit{Run: c.Run, Expect: 2, State: st, Append: []store.Entry{{Seq: 2, Kind: store.KindTimer, Data: []byte("x")}}}
	w.ok(w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{next}))
	got := w.read(w.s, c.Run)
	if !reflect.DeepEqual(got.Run, append(c.Append, next.Append...)) || got.State.Reason != st.Reason || got.State.Memo != st.Memo || got.Logs[0].Text != "secret line" {
		t.Errorf("%+v", got)
	}
	if err := seal.InTheClear(ctx, below); !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a store with sealed records: %v", err)
	}
}

// TestKeys refuses to open a store without each of its keys, and then writes nothing.
func TestKeys(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	c := full("r")
	w.ok(w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}))
	before := w.data.Commits()
	for name, x := range map[string]struct {
		codec seal.Codec
		want  string
	}{
		"another id":  {keyring(t, line("b", 1)), `it needs the key "a", which was not given`},
		"another key": {keyring(t, line("a", 2), line("b", 1)), `with another key "a" than the one that was given`},
		"outage":      {&flaky{Keyring: keyring(t, line("a", 1)), decode: errors.New("no route")}, "no route"},
	} {
		_, err := seal.New(ctx, w.below, x.codec, seal.Options{})
		if !errors.Is(err, store.ErrKey) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
	if _, err := seal.New(ctx, w.below, nameless{keyring(t, line("a", 1))}, seal.Options{}); err == nil || errors.Is(err, store.ErrKey) ||
		!strings.Contains(err.Error(), "0 bytes, it must have from 1 to 32") {
		t.Errorf("a codec whose key has no id: %v", err)
	}
	rotated := sealed(t, w.below, keyring(t, line("a", 1), line("b", 2)))
	w.ok(w.partition(rotated, post).Discard(ctx, nil, c.Outbox))
	known, err := w.below.SealKeys(ctx)
	w.ok(err)
	if len(known) != 2 || known[0].ID != "a" || known[1].ID != "b" || known[1].CreatedUnixMs != 7 {
		t.Errorf("keys %+v", known)
	}
	if w.data.Commits() != before {
		t.Error("something was committed")
	}
	got := w.read(rotated, c.Run)
	if got.State.Reason != c.State.Reason {
		t.Errorf("with both keys: %+v", got.State)
	}
}

// nameless has no id.
type nameless struct{ *seal.Keyring }

func (nameless) Key() string { return "" }

// flaky fails when it is told to.
type flaky struct {
	*seal.Keyring
	encode, decode error
}

func (f *flaky) Encode(dst, location, payload []byte) ([]byte, error) {
	if f.encode != nil {
		return nil, f.encode
	}
	return f.Keyring.Encode(dst, location, payload)
}

func (f *flaky) Decode(key string, location, b []byte) ([]byte, error) {
	if f.decode != nil {
		return nil, f.decode
	}
	return f.Keyring.Decode(key, location, b)
}

// TestOutage has a codec fail for a while: nothing is written, no record counts as damaged, and afterwards everything
// works again.
func TestOutage(t *testing.T) {
	f := &flaky{Keyring: keyring(t, line("a", 1))}
	w := newWorld(t, f)
	c := full("r")
	outage := errors.New("no route")
	f.encode = outage
	p := w.partition(w.s, c.Run.Partition())
	if err := p.Commit(ctx, []store.RunCommit{c}); !errors.Is(err, outage) {
		t.Fatalf("a commit: %v", err)
	}
	f.encode = nil
	mail := w.partition(w.s, post)
	w.ok(mail.Discard(ctx, nil, []store.Command{{Kind: store.CommandCancel, To: c.Run}})) // the key is noted
	f.encode = outage
	err := p.Commit(ctx, []store.RunCommit{c})
	var refused *store.RefusedError
	if !errors.As(err, &refused) || refused.Run != 0 || !errors.Is(err, outage) {
		t.Fatalf("a commit: %v", err)
	}
	if err := mail.Discard(ctx, nil, full("s").Outbox); !errors.Is(err, outage) {
		t.Fatalf("a command: %v", err)
	}
	tokens := w.partition(w.s, store.TokenPartition(0, "token"))
	claim := store.HookClaim{Token: "token", Holder: store.HookHolder{Run: c.Run},
		Reply: func(store.HookHolder) (*store.Command, error) { return &full("s").Outbox[0], nil }}
	if _, err := tokens.Claim(ctx, claim); !errors.Is(err, outage) {
		t.Fatalf("a claim: %v", err)
	}
	if _, held, err := w.s.Hook(ctx, 0, "token"); held || err != nil {
		t.Fatalf("a claim that was refused holds the token: %v", err)
	}
	f.encode = nil
	w.ok(p.Commit(ctx, []store.RunCommit{c}))
	if _, err := tokens.Claim(ctx, claim); err != nil {
		t.Fatal(err)
	}
	f.decode = outage
	_, err = w.s.State(context.Background(), c.Run)
	_, inbox := w.partition(w.s, c.Outbox[0].To.Partition()).Commands(ctx, 0, 10)
	for _, err := range []error{err, inbox} {
		if !errors.Is(err, outage) || errors.Is(err, store.ErrCorrupt) {
			t.Errorf("a reading: %v", err)
		}
	}
	f.decode = nil
	_, err = w.s.State(ctx, c.Run)
	if err != nil {
		t.Error(err)
	}
}

// TestTooLarge refuses a record that could not be decoded, and then nothing of its commit is stored.
func TestTooLarge(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	c := full("r")
	c.Logs[0].Text = strings.Repeat("x", store.MaxRecordBytes)
	if err := w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}); !errors.Is(err, store.ErrTooLarge) {
		t.Fatalf("%v", err)
	}
	if _, err := w.s.State(ctx, c.Run); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("%v", err)
	}
}

func BenchmarkEncode(b *testing.B) {
	r := keyring(b, line("a", 1))
	location, payload := make([]byte, 50), make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Encode(nil, location, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// plain encodes nothing.
type plain struct{}

func (plain) Key() string { return "plain" }

func (plain) Encode(dst, _, payload []byte) ([]byte, error) { return append(dst, payload...), nil }

func (plain) Decode(_ string, _, encoded []byte) ([]byte, error) { return encoded, nil }

// TestCodecThatDoesNotAuthenticate uses a codec without authentication: entries in a wrong location are detected by
// their own fields.
func TestCodecThatDoesNotAuthenticate(t *testing.T) {
	w := newWorld(t, plain{})
	c := full("r")
	w.ok(w.partition(w.s, c.Run.Partition()).Commit(ctx, []store.RunCommit{c}))
	if got := w.read(w.s, c.Run); !reflect.DeepEqual(got.Run, c.Append) || got.State.Reason != c.State.Reason {
		t.Errorf("%+v", got)
	}
	st, entries, err := w.below.Run(ctx, c.Run)
	w.ok(err)
	bad := store.RunCommit{Run: c.Run, Create: true, Replace: true, State: st, Append: []store.Entry{entries[0], entries[1]}}
	bad.Append[0].Data, bad.Append[1].Data = bad.Append[1].Data, bad.Append[0].Data
	w.ok(w.partition(w.below, c.Run.Partition()).Commit(ctx, []store.RunCommit{bad}))
	if _, _, err := w.s.Run(ctx, c.Run); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("two entries that were swapped: %v", err)
	}
}

// TestSchedule seals the data of a schedule, and binds it to its revision, wake and id.
func TestSchedule(t *testing.T) {
	w := newWorld(t, keyring(t, line("a", 1)))
	key := store.RunKey{Namespace: 2, ID: "nightly"}
	x := store.Schedule{Key: key, Revision: 1, WakeUnixMs: 7, Data: []byte("secret")}
	set := func(s store.Store, x store.Schedule) {
		t.Helper()
		w.ok(s.Commit(ctx, []store.Group{{Partition: w.partition(s, key.Partition()), Schedules: []store.ScheduleSet{{Schedule: x}}}}))
	}
	set(w.s, x)
	if string(x.Data) != "secret" {
		t.Error("the data of the caller was changed")
	}
	got, err := w.s.Schedule(ctx, key)
	w.ok(err)
	list, err := w.s.Schedules(ctx, store.ScheduleQuery{Namespace: 2, Limit: 10})
	w.ok(err)
	if !reflect.DeepEqual(got, x) || len(list) != 1 || !reflect.DeepEqual(list[0], x) {
		t.Errorf("%+v, list %+v", got, list)
	}
	below, err := w.below.Schedule(ctx, key)
	w.ok(err)
	if !below.Sealed || strings.Contains(string(below.Data), "secret") {
		t.Errorf("it can be read below: %q", below.Data)
	}
	below.Revision++ // what was read, under another revision
	set(w.below, below)
	if _, err := w.s.Schedule(ctx, key); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a schedule that was changed: %v", err)
	}
	if _, err := w.s.Schedules(ctx, store.ScheduleQuery{Namespace: 2, Limit: 10}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a list with a schedule that was changed: %v", err)
	}
}
