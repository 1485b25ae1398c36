package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestAdoptEnded adopts ended runs, which need no move; a failed run is retried. Retention counts from the import.
func TestAdoptEnded(t *testing.T) {
	p := newPrims(t)
	p.fails = 2
	failed, done := p.begin("retryable", 0), p.begin("output", 1)
	killed := p.begin("patient", 3600)
	do(t, p.Terminate(ctx, killed))
	p.Finish(failed)
	p.Finish(done)
	q := p.second()
	q.Clock.Set(p.Clock.Now().Add(90 * day))
	for _, id := range []string{failed, done, killed} {
		file := export(t, p.Host.Host, id)
		before, r := get(t, p.Host, id), adopt(t, q.Host, file)
		if again := adopt(t, q.Host, file); r.Existed || !again.Existed || r.Status != before.Status || r.Ended != before.Ended ||
			r.Aside != "" || r.Output != before.Output || r.Entries != before.Entries {
			t.Errorf("%+v, before %+v", r, before)
		}
		if err := q.Signal(ctx, id, "go", "x"); !errors.Is(err, host.ErrTerminal) {
			t.Error(err)
		}
	}
	do(t, q.Retentions().Set(ctx, host.Retention{Completed: 30 * day}))
	if swept, err := q.Retentions().Sweep(ctx, false); err != nil || swept.Deleted != 0 {
		t.Errorf("%+v, %v", swept, err)
	}
	q.Clock.Set(q.Clock.Now().Add(31 * day))
	if swept, err := q.Retentions().Sweep(ctx, false); err != nil || swept.Deleted != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
	if _, err := q.Import(ctx, bytes.NewReader(export(t, p.Host.Host, done)), host.ImportOptions{Adopt: true}); !errors.Is(err,
		host.ErrConflict) || !strings.Contains(err.Error(), "was deleted here") {
		t.Error(err)
	}
	do(t, q.Retry(ctx, failed, 0))
	if got := result[string](q, failed); got != "good,bad" || len(q.mails) > 0 {
		t.Errorf("%q, %q: the step that was made there is made here", got, q.mails)
	}
}

// TestAdoptHeld adopts paused and stuck runs, which stay so until someone resumes them.
func TestAdoptHeld(t *testing.T) {
	p := newPrims(t)
	id := p.begin("patient", 60)
	_, err := p.Pause(ctx, id)
	do(t, err)
	q := p.second()
	adopt(t, q.Host, move(t, p.Host.Host, id))
	q.Advance(time.Hour)
	if r := get(t, q.Host, id); r.Status != host.Paused || r.Aside != "" {
		t.Errorf("%+v", r)
	}
	_, err = q.Unpause(ctx, id)
	do(t, err)
	if got := result[string](q, id); got != "timeout" {
		t.Error(got)
	}
	id = p.begin("patient", 60)
	r, err := q.Import(ctx, bytes.NewReader(move(t, p.Host.Host, id)), host.ImportOptions{Adopt: true, Paused: true})
	do(t, err)
	if q.Advance(time.Hour); r.Status != host.Paused || get(t, q.Host, id).Status != host.Paused {
		t.Errorf("%+v", r)
	}
	_, err = q.Unpause(ctx, id)
	do(t, err)
	if got := result[string](q, id); got != "timeout" {
		t.Error(got)
	}

	u := upgradesOf(t, "v1", "added")
	_, err = u.Start(ctx, "order", "x", host.WithRunID("s"), host.WithVersion(u.numbers["v1"]))
	do(t, err)
	u.Settle()
	do(t, u.Replay(ctx, "s"))
	stuck := stick(t, u, "s")
	other := hosttest.New(t)
	adopt(t, other, stuck)
	other.Advance(90 * day)
	if r := get(t, other, "s"); r.Status != host.Stuck || r.Reason == "" || r.Aside != "" {
		t.Errorf("%+v", r)
	}
}

// stick exports a run and makes it stuck in the archive, like a run that was moved while stuck.
func stick(t *testing.T, u *upgrades, id string) []byte {
	t.Helper()
	of, err := archive.Read(bytes.NewReader(move(t, u.Host.Host, id)))
	do(t, err)
	of.State.Status, of.State.Reason = store.Stuck, "poison"
	l := &liar{Source: withModule{wasm: of.Module}, run: *of}
	l.run.State.LogRecords, l.run.State.LogLines = 0, 0
	var b bytes.Buffer
	do(t, archive.Write(ctx, &b, l, of.State.Run, true, false))
	return b.Bytes()
}

// withModule is a source that has only a module.
type withModule struct {
	archive.Source
	wasm []byte
}

func (m withModule) Modules() store.ModuleStore { return oneModule{wasm: m.wasm} }

type oneModule struct {
	store.ModuleStore
	wasm []byte
}

func (m oneModule) Get(context.Context, store.Digest) ([]byte, error) { return m.wasm, nil }

// TestCopy imports live and ended runs as copies: overdue copies do not act, and retention does not delete them.
func TestCopy(t *testing.T) {
	p := newPrims(t)
	live, done, hook := p.begin("patient", 3600), p.begin("output", 2), p.begin("hooked", "my-own-chosen-token-0123456789")
	p.Finish(done)
	q := p.second()
	do(t, q.Retentions().Set(ctx, host.Retention{Completed: day, Keep: 1}))
	files := map[string][]byte{}
	for _, id := range []string{live, done, hook} {
		files[id] = export(t, p.Host.Host, id)
		for _, existed := range []bool{false, true} {
			r, err := q.Import(ctx, bytes.NewReader(files[id]), host.ImportOptions{})
			if err != nil || r.Aside != "copy" || r.Existed != existed || r.Status != host.Paused && id != done {
				t.Errorf("%+v, %v", r, err)
			}
		}
	}
	q.Crash()
	q.Advance(90 * day)
	if swept, err := q.Retentions().Sweep(ctx, false); err != nil || swept.Deleted != 0 {
		t.Errorf("%+v, %v", swept, err)
	}
	for _, id := range []string{live, done, hook} {
		if r := get(t, q.Host, id); r.Entries != get(t, p.Host, id).Entries || r.Aside != "copy" || !r.Wake.IsZero() {
			t.Errorf("%+v", r)
		}
		if got := export(t, q.Host.Host, id); len(got) == 0 {
			t.Error("it cannot be exported")
		}
		for what, err := range map[string]error{"signal": q.Signal(ctx, id, "go", "x"), "cancel": failing(q.Cancel(ctx, id)),
			"unpause": failing(q.Unpause(ctx, id)), "terminate": q.Terminate(ctx, id), "retry": q.Retry(ctx, id, 0)} {
			if !errors.Is(err, host.ErrConflict) && !errors.Is(err, host.ErrTerminal) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := q.Export(ctx, id, &bytes.Buffer{}, host.ExportOptions{Move: true}); !errors.Is(err, host.ErrConflict) && id != done {
			t.Error(err)
		}
		do(t, q.Replay(ctx, id))
		if _, err := q.Import(ctx, bytes.NewReader(files[id]), host.ImportOptions{Adopt: true, Force: true}); !errors.Is(err,
			host.ErrConflict) {
			t.Error(err)
		}
	}
	if err := deliver(q.Host, "my-own-chosen-token-0123456789"); err == nil {
		t.Error("a copy takes a delivery")
	}
	for _, id := range []string{live, done, hook} {
		do(t, q.Delete(ctx, id))
		if _, err := q.Get(ctx, id); !errors.Is(err, host.ErrNotFound) {
			t.Error(err)
		}
		adopted, err := q.Import(ctx, bytes.NewReader(files[id]), host.ImportOptions{Adopt: true, Force: true}) // nothing is left
		if err != nil || adopted.Existed {
			t.Errorf("%+v, %v", adopted, err)
		}
	}
	q.Settle()
	if got := result[string](q, live); got != "timeout" {
		t.Error(got)
	}
}

// TestNotAdopted refuses to adopt runs that would act twice, or would wait for events that go elsewhere, and stores
// nothing of them.
func TestNotAdopted(t *testing.T) {
	p := newPrims(t)
	live := p.begin("patient", 60)
	parent := p.begin("parent", childPlan{Child: "child", Sleep: 60, OnEnd: "cancel", ID: "kid"})
	q := hosttest.New(t)
	refuse := func(file []byte, opts host.ImportOptions, want error, text string) {
		t.Helper()
		if _, err := q.Import(ctx, bytes.NewReader(file), opts); !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("%v, want %v with %q", err, want, text)
		}
	}
	adopts := host.ImportOptions{Adopt: true}
	refuse(export(t, p.Host.Host, live), adopts, host.ErrConflict, "would act twice: export it with --move")
	refuse(export(t, p.Host.Host, parent), host.ImportOptions{Adopt: true, Force: true}, host.ErrConflict, `waits for its child "kid"`)
	refuse(nil, adopts, host.ErrInvalid, "it ends before its manifest")
	refuse(nil, host.ImportOptions{Force: true}, host.ErrInvalid, "for a run that is adopted")
	for id, text := range map[string]string{parent: `waits for its child "kid"`, "kid": "is a child of run"} {
		err := p.Export(ctx, id, &bytes.Buffer{}, host.ExportOptions{Move: true})
		if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), text) || get(t, p.Host, id).Aside != "" {
			t.Error(err)
		}
	}
	var bare bytes.Buffer
	do(t, p.Export(ctx, live, &bare, host.ExportOptions{WithoutModule: true}))
	refuse(bare.Bytes(), host.ImportOptions{}, host.ErrInvalid, "was written without its module")
	for v, err := range q.Workflows().Versions(ctx, "") {
		t.Errorf("a run that is refused leaves version %+v, %v", v, err)
	}
	for r, err := range q.Runs(ctx, host.Query{}) {
		t.Errorf("a run that is refused is there: %+v, %v", r, err)
	}
	other := p.second()
	_, err := other.Start(ctx, "patient", 7, host.WithRunID(live))
	do(t, err)
	if _, err := other.Import(ctx, bytes.NewReader(export(t, p.Host.Host, live)), host.ImportOptions{}); !errors.Is(err, host.ErrConflict) {
		t.Error(err)
	}
	forced, err := q.Import(ctx, bytes.NewReader(export(t, p.Host.Host, live)), host.ImportOptions{Adopt: true, Force: true})
	do(t, err)
	if q.Settle(); forced.Aside != "" || get(t, q, live).Status != host.Waiting {
		t.Errorf("%+v", get(t, q, live))
	}
}

// TestAdoptLies refuses journals that diverge from their module, and journals whose entry 0 no host would write.
func TestAdoptLies(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	file := move(t, u.Host.Host, "a")
	for name, lie := range map[string]func(*archive.Run){
		"replay":     func(r *archive.Run) { r.Entries[4].Name = "lying" },
		"seed":       func(r *archive.Run) { lied(&r.Entries[0], `"seed":"`, `"seed":"AAAA","x":"`) },
		"salt":       func(r *archive.Run) { lied(&r.Entries[0], `"seed"`, `"child_salt":"\u0000","seed"`) },
		"parent":     func(r *archive.Run) { lied(&r.Entries[0], `"seed"`, `"parent":{"run_id":"p","depth":1},"seed"`) },
		"depth":      func(r *archive.Run) { lied(&r.Entries[0], `"seed"`, `"parent":{"run_id":"p","depth":-9},"seed"`) },
		"schedule":   func(r *archive.Run) { lied(&r.Entries[0], `"seed"`, `"schedule":"\u0000","seed"`) },
		"attributes": func(r *archive.Run) { lied(&r.Entries[0], `"seed"`, `"attributes":{"a\u0000":"b"},"seed"`) },
		"moved":      func(r *archive.Run) { r.State.Aside = store.NotAside },
		"output":     func(r *archive.Run) { r.State.Output = 7 },
	} {
		of, err := archive.Read(bytes.NewReader(file))
		do(t, err)
		l := &liar{Source: withModule{wasm: of.Module}, run: *of}
		l.run.State.LogRecords, l.run.State.LogLines = 0, 0
		lie(&l.run)
		var b bytes.Buffer
		do(t, archive.Write(ctx, &b, l, of.State.Run, true, false))
		other := hosttest.New(t)
		if _, err := other.Import(ctx, &b, host.ImportOptions{Adopt: true}); !errors.Is(err, host.ErrInvalid) &&
			!(name == "replay" && errors.Is(err, host.ErrMismatch)) {
			t.Errorf("%s: %v", name, err)
		} else {
			t.Log(name, err)
		}
		for v, err := range other.Workflows().Versions(ctx, "") {
			t.Errorf("%s leaves version %+v, %v", name, v, err)
		}
	}
}

func lied(e *store.Entry, from, to string) {
	e.Options = bytes.Replace(bytes.Clone(e.Options), []byte(from), []byte(to), 1)
}

// TestMoveAttempts moves a run during an attempt of its step. The attempt is cancelled, and the other host repeats it
// with the same idempotency key.
func TestMoveAttempts(t *testing.T) {
	keys := make(chan string, 4)
	var stays atomic.Bool
	stays.Store(true)
	handlers := hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "book", func(ctx context.Context, _ map[string]string) (string, error) {
			keys <- host.StepInfo(ctx).IdempotencyKey
			if stays.Load() {
				<-ctx.Done()
			}
			return "booked", ctx.Err()
		})
	})
	module := hosttest.Build(t, "testdata/primitives")
	from, to := hosttest.New(t, handlers), hosttest.New(t, handlers)
	for _, h := range []*hosttest.Host{from, to} {
		_, err := h.Upload(ctx, "", module, host.AllowStep("*"))
		do(t, err)
	}
	_, err := from.Start(ctx, "beside", 5, host.WithRunID("r"))
	do(t, err)
	first := <-keys
	file := move(t, from.Host, "r")
	stays.Store(false)
	adopt(t, to, file)
	if again := <-keys; again != first {
		t.Errorf("the attempt has the key %q, and had %q", again, first)
	}
	if r := to.Finish("r"); r.Status != host.Completed || r.Version != 1 {
		t.Errorf("%+v", r)
	}
	if r := get(t, from, "r"); r.Aside != "moved" || r.Status != host.Paused {
		t.Errorf("%+v", r)
	}
}

// TestImportIntoEncryptedData encrypts what an import brings unencrypted, also in other namespaces, subject to their
// quotas.
func TestImportIntoEncryptedData(t *testing.T) {
	p := newPrims(t)
	id := p.begin("collect", map[string]any{"Left": 3, "Got": []string{"MARKER"}})
	p.signal(id, "go", "a")
	file := move(t, p.Host.Host, id)
	data := memstore.New()
	q := hosttest.New(t, hosttest.WithStore(func() store.Store { return data.Open() }),
		hosttest.WithConfig(func(c *host.Config) { c.Codec = keyring(t, keyLine("k1", 1)) }))
	n, err := q.Namespace(ctx, "team")
	do(t, err)
	do(t, q.SetQuota(ctx, "team", host.Quota{MaxRuns: 1}))
	_, err = n.Import(ctx, bytes.NewReader(file), host.ImportOptions{Adopt: true})
	do(t, err)
	q.Settle()
	for _, text := range []string{"b", "c"} {
		do(t, n.Signal(ctx, id, "go", text))
		q.Settle()
	}
	if got, err := n.ResultRaw(ctx, id); err != nil || string(got) != `"MARKER,a,b,c"` {
		t.Errorf("%s, %v", got, err)
	}
	s := data.Open()
	ns, err := s.Namespace(ctx, "team", false)
	do(t, err)
	for iteration := range uint32(2) {
		for e, err := range s.Load(ctx, store.RunKey{Namespace: ns, ID: id}, iteration, 0) {
			if do(t, err); !e.Sealed || bytes.Contains(e.Data, []byte("MARKER")) {
				t.Errorf("entry %d of iteration %d is in the clear", e.Seq, iteration)
			}
		}
	}
	second := p.begin("patient", 60)
	third := p.begin("patient", 60)
	_, err = n.Import(ctx, bytes.NewReader(move(t, p.Host.Host, second)), host.ImportOptions{Adopt: true})
	do(t, err)
	if _, err := n.Import(ctx, bytes.NewReader(move(t, p.Host.Host, third)), host.ImportOptions{Adopt: true}); !errors.Is(err,
		host.ErrBusy) {
		t.Error(err)
	}
}

// TestImportedStoreIsSound verifies a store on disk with imported runs: all iterations, log, output and large
// payloads.
func TestImportedStoreIsSound(t *testing.T) {
	p := newPrims(t)
	large := strings.Repeat("large ", 60_000)
	id := p.begin("collect", map[string]any{"Left": 2, "Got": []string{large}})
	p.signal(id, "go", "a")
	done := p.begin("output", 2)
	p.Finish(done)
	dir := t.TempDir()
	h, stop := onDisk(t, dir, time.Hour)
	for _, c := range []struct {
		file  []byte
		adopt bool
	}{{export(t, p.Host.Host, done), false}, {move(t, p.Host.Host, id), true}} {
		_, err := h.Import(ctx, bytes.NewReader(c.file), host.ImportOptions{Adopt: c.adopt})
		do(t, err)
	}
	do(t, h.Signal(ctx, id, "go", "b"))
	if got, err := h.Wait(ctx, id); err != nil || got.Status != host.Completed {
		t.Errorf("%+v, %v", got, err)
	}
	stop()
	if r := sound(t, dir); r.Runs != 2 {
		t.Errorf("%+v", r)
	}
	h, stop = onDisk(t, dir, 2*time.Hour)
	do(t, h.Delete(ctx, done))
	do(t, h.Delete(ctx, id))
	stop()
	sound(t, dir)
}

// TestMoveAtMostOnce does not repeat an at-most-once step whose outcome is unknown.
func TestMoveAtMostOnce(t *testing.T) {
	begun := make(chan struct{}, 2)
	handlers := hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "stubborn", func(ctx context.Context, _ string) (string, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return "", ctx.Err()
		})
		host.HandleStep(h, "after", func(_ context.Context, text string) (string, error) { return text, nil })
	})
	module := hosttest.Build(t, "testdata/mixed")
	from, to := hosttest.New(t, handlers), hosttest.New(t, handlers)
	for _, h := range []*hosttest.Host{from, to} {
		_, err := h.Upload(ctx, "", module, host.AllowStep("*"))
		do(t, err)
	}
	_, err := from.Start(ctx, "once", 0, host.WithRunID("r"))
	do(t, err)
	<-begun
	adopt(t, to, move(t, from.Host, "r"))
	if r := to.Finish("r"); r.Status != host.Completed || len(begun) > 0 {
		t.Errorf("%+v, begun again: %d", r, len(begun))
	}
	got, err := to.ResultRaw(ctx, "r")
	if err != nil || !strings.HasPrefix(string(got), `"b, `) || !strings.Contains(string(got), "nobody knows its outcome") {
		t.Errorf("%s, %v", got, err)
	}
}

// TestQueryOfACopy queries a copy, which answers like the original. Neither a copy nor a moved run can be migrated.
func TestQueryOfACopy(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 5)
	q := p.second()
	_, err := q.Import(ctx, bytes.NewReader(export(t, p.Host.Host, id)), host.ImportOptions{})
	do(t, err)
	if got, err := q.Query(ctx, id, "count", 3); err != nil || string(got) != "8" {
		t.Errorf("%s, %v", got, err)
	}
	if r := get(t, q.Host, id); r.Aside != "copy" || r.Entries != get(t, p.Host, id).Entries {
		t.Errorf("%+v", r)
	}
	moved := q.begin("counter", 5)
	move(t, q.Host.Host, moved)
	v, err := q.Upload(ctx, "counter", hosttest.Build(t, "testdata/primitives"), host.AllowStep("mail"))
	do(t, err)
	of := map[string]host.RunCheck{}
	sum, err := q.Workflows().Migrate(ctx, "counter", host.MigrateOptions{To: v.Number, Each: reports(of)})
	if err != nil || sum.Migrated != 0 || !strings.HasSuffix(of[id].Reason, ": copy") || !strings.HasSuffix(of[moved].Reason, ": moved") {
		t.Errorf("%+v %+v, %v", sum, of, err)
	}
}

// TestImportsAtATime refuses an import while another one into the same namespace is in progress.
func TestImportsAtATime(t *testing.T) {
	h := hosttest.New(t)
	n, err := h.Namespace(ctx, "team")
	do(t, err)
	first, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := h.Import(ctx, first, host.ImportOptions{})
		done <- err
	}()
	_, err = w.Write(make([]byte, 100)) // it reads
	do(t, err)
	if _, err := h.Import(ctx, strings.NewReader(""), host.ImportOptions{}); !errors.Is(err, host.ErrBusy) {
		t.Error(err)
	}
	if _, err := n.Import(ctx, strings.NewReader(""), host.ImportOptions{}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
	do(t, w.Close())
	if err := <-done; !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
	if _, err := h.Import(ctx, strings.NewReader(""), host.ImportOptions{}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// TestImportsThatDoNotCome leaves many imports, small and large, unfinished, each into its own namespace: another
// import still succeeds, and the number of concurrent imports is bounded.
func TestImportsThatDoNotCome(t *testing.T) {
	p := newPrims(t)
	file := move(t, p.Host.Host, p.begin("patient", 60))
	q := p.second()
	var wg sync.WaitGroup
	var stalled []*io.PipeWriter
	namespace := func(i int) *host.Namespace {
		n, err := q.Namespace(ctx, fmt.Sprint("n", i))
		do(t, err)
		return n
	}
	for i := range 64 {
		r, w := io.Pipe()
		stalled = append(stalled, w)
		wg.Go(func() {
			if _, err := namespace(i).Import(ctx, r, host.ImportOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		})
		_, err := w.Write(file[:1+i%2*300<<10]) // it reads
		do(t, err)
		if i == 62 {
			adopt(t, q.Host, file)
		}
	}
	if _, err := namespace(64).Import(ctx, bytes.NewReader(file), host.ImportOptions{}); !errors.Is(err, host.ErrBusy) {
		t.Error(err)
	}
	for _, w := range stalled {
		do(t, w.CloseWithError(io.ErrUnexpectedEOF))
	}
	wg.Wait()
}

// TestMoveARunOfASchedule moves the run that a schedule waits for. The schedule continues as if the run had ended.
func TestMoveARunOfASchedule(t *testing.T) {
	p := newPrims(t)
	_, err := p.Schedules().Create(ctx, "hourly", host.ScheduleSpec{Workflow: "patient", Input: []byte("360000"), When: "@every 1h"})
	do(t, err)
	p.Advance(3 * time.Hour)
	runs := func(h *hosttest.Host) (ids []string) {
		for r, err := range h.Runs(ctx, host.Query{Order: host.OldestFirst}) {
			do(t, err)
			ids = append(ids, r.ID)
		}
		return ids
	}
	first := runs(p.Host)
	if len(first) != 1 {
		t.Fatal(first)
	}
	file := move(t, p.Host.Host, first[0])
	p.Advance(2 * time.Hour)
	if got := runs(p.Host); len(got) != 2 {
		t.Errorf("%q: the schedule waits for a run that was moved", got)
	}
	q := p.second()
	_, err = q.Schedules().Create(ctx, "hourly", host.ScheduleSpec{Workflow: "patient", Input: []byte("1"), When: "@every 1000h"})
	do(t, err)
	adopt(t, q.Host, file)
	if got := result[string](q, first[0]); got != "timeout" {
		t.Error(got)
	}
	if s, err := q.Schedules().Get(ctx, "hourly"); err != nil || s.Started != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
