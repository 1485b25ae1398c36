package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// liar is an archive source that returns a run with a changed journal.
type liar struct {
	archive.Source // has no earlier iterations
	run            archive.Run
	output         []store.Chunk
}

// State hides the size of the journal, so that the archive reads the journal at once.
func (l *liar) State(context.Context, store.RunKey) (store.RunState, error) {
	st := l.run.State
	st.JournalBytes = 0
	return st, nil
}

func (l *liar) Run(context.Context, store.RunKey) (store.RunState, []store.Entry, error) {
	return l.run.State, l.run.Entries, nil
}

func (l *liar) Load(context.Context, store.RunKey, uint32, store.Seq) iter.Seq2[store.Entry, error] {
	return func(func(store.Entry, error) bool) {}
}

func (l *liar) Logs(context.Context, store.RunKey, uint64, int) ([]store.LogLine, error) {
	return nil, nil
}

func (l *liar) Output(_ context.Context, _ store.RunKey, from uint64, _ int) ([]store.Chunk, error) {
	if len(l.output) == 0 || from > l.output[0].Index {
		return nil, nil
	}
	return l.output, nil
}

// change changes one field of an entry, or the list of entries.
func (l *liar) change(rnd *rand.Rand) {
	entries := l.run.Entries
	i := 1 + rnd.IntN(len(entries)-1)
	e := &entries[i]
	n := []int64{0, 1, 2, 3, -1, 1 << 62, -1 << 63}[rnd.IntN(7)]
	switch rnd.IntN(12) {
	case 0:
		e.Handle = n
	case 1:
		e.Kind = store.Kind(rnd.IntN(128))
	case 2:
		e.Ref = store.Seq(n)
	case 3:
		e.Consumed = uint64(n)
	case 4:
		e.Attempt = uint32(n)
	case 5:
		e.DueUnixMs, e.HasDue = n, true
	case 6:
		e.Code = int32(n)
	case 7:
		e.Name = entries[rnd.IntN(len(entries))].Name
	case 8:
		e.Options, e.Data = []byte(`{"void":[1,-1,99]}`), []byte("{")
	case 9:
		e.Refused = int32(n)
	case 10:
		l.run.State.Suspension = store.Suspension{Seq: store.Seq(n), Awaited: []int64{n, 1}, Poll: n > 1, PollDueUnixMs: n}
	default:
		entries = slices.Delete(entries, i, i+1)
	}
	for i := range entries {
		entries[i].Seq = store.Seq(i)
	}
	l.run.Entries, l.run.State.Length = entries, store.Seq(len(entries))
}

// TestJournalsThatLie replays archives whose journals were changed and have valid checksums. Each is refused,
// diverges or fits; nothing worse happens.
func TestJournalsThatLie(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	u.start("desk", "d")
	do(t, u.Signal(ctx, "d", "note", "hi"))
	u.Settle()
	u.Finish("a")
	refused, outcomes, seeds := 0, map[host.CheckOutcome]int{}, uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for _, id := range []string{"a", "d"} {
		var file bytes.Buffer
		do(t, u.Export(ctx, id, &file, host.ExportOptions{WithoutModule: true}))
		for seed := range seeds {
			of, err := archive.Read(bytes.NewReader(file.Bytes()))
			do(t, err)
			l, rnd := &liar{run: *of}, rand.New(rand.NewPCG(seed, 0))
			for range 1 + rnd.IntN(3) {
				l.change(rnd)
			}
			var b bytes.Buffer
			do(t, archive.Write(ctx, &b, l, of.State.Run, false, false))
			a, err := host.ReadArchive(&b)
			if err != nil {
				refused++
				if !errors.Is(err, host.ErrInvalid) && !errors.Is(err, host.ErrVersion) {
					t.Errorf("%s, %d: %v", id, seed, err)
				}
				continue
			}
			r, err := u.ReplayArchive(ctx, a, host.ReplayOptions{Module: code(t, "v1"), Strict: seed%2 == 0,
				Trace: func(host.TraceCall) {}})
			outcomes[r.Outcome]++
			if err != nil {
				t.Errorf("%s, %d: %v", id, seed, err)
			}
		}
	}
	if t.Log(refused, outcomes); refused == 0 || outcomes[host.CheckDiverges] == 0 || outcomes[host.CheckCompatible] == 0 {
		t.Errorf("%d refused, %v: too few kinds", refused, outcomes)
	}
}

// chunkReads counts the reads of output.
type chunkReads struct {
	store.Store
	n *atomic.Int64
}

func (s chunkReads) Output(ctx context.Context, key store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	s.n.Add(1)
	return s.Store.Output(ctx, key, from, limit)
}

// TestArchiveOfEndlessOutput imports a run whose output claims more chunks than a run can have, and one with the
// largest possible gap, whose last chunks can be read.
func TestArchiveOfEndlessOutput(t *testing.T) {
	data, reads := memstore.New(), new(atomic.Int64)
	g := newRestarts(t, hosttest.WithStore(func() store.Store { return chunkReads{data.Open(), reads} }))
	g.begin("r", doing{Do: "sleep", Name: "s", MS: 1})
	g.Finish("r")
	var file bytes.Buffer
	do(t, g.Export(ctx, "r", &file, host.ExportOptions{}))
	of, err := archive.Read(bytes.NewReader(file.Bytes()))
	do(t, err)
	was := of.Entries[0].Options
	for chunks, may := range map[uint64]bool{math.MaxInt32: true, math.MaxInt32 + 1: false, 1 << 62: false, math.MaxUint64: false} {
		of.Entries[0].Options = bytes.Replace(was, []byte(`"run_attempt":1`), fmt.Appendf(nil, `"run_attempt":2,"output":%d`, chunks), 1)
		of.State.Output = chunks
		newest := store.Chunk{Index: chunks - 1, Topic: "other"}
		var b bytes.Buffer
		do(t, archive.Write(ctx, &b, &liar{run: *of, output: []store.Chunk{newest}}, of.State.Run, false, false))
		ns, err := g.Namespace(ctx, fmt.Sprint("chunks-", chunks))
		do(t, err)
		if _, err = ns.Import(ctx, &b, host.ImportOptions{}); (err == nil) != may {
			t.Errorf("%d chunks: %v", chunks, err)
		}
		for c, err := range ns.Output(ctx, "r", "topic", -3) {
			if err == nil || may {
				t.Errorf("%d chunks: %+v %v", chunks, c, err)
			}
		}
	}
	if n := reads.Load(); n > 100 {
		t.Errorf("the last chunks are sought in %d reads", n)
	}
}
