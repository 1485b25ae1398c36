package archive

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// whole makes the source storable: its output matches its journal.
func (s *source) whole(t *testing.T, n uint64) *source {
	t.Helper()
	s.logs, s.output = s.logs[:n], s.output[:n]
	s.state.LogRecords, s.state.Output, s.state.LogLines = n, n, 1
	j := &journal.Journal{}
	started := journal.Started{RunID: "r", Workflow: "w", Version: 1, Module: s.state.Module.String(), Iteration: 1, Seed: make([]byte, 32),
		Output: n}
	for _, e := range []store.Entry{started.Entry([]byte("input")), {Kind: store.KindActivated},
		{Kind: store.KindSleep, Handle: 1, Name: "nap", DueUnixMs: 9000, HasDue: true}} {
		if _, err := j.Append(e, 2000); err != nil {
			t.Fatal(err)
		}
	}
	s.iterations[1] = j.All()
	return s
}

func TestReadWhole(t *testing.T) {
	s := newSource(t).whole(t, 7)
	file := s.write(t)
	w, err := ReadWhole(bytes.NewReader(file), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Earlier) != 1 || len(w.Earlier[0].Append) != len(s.iterations[0]) || len(w.Entries) != 3 || len(w.Logs) != 7 ||
		len(w.Output) != 7 || w.Logs[6].Text != s.logs[6].Text || !bytes.Equal(w.Module, s.wasm) || len(w.ID) != 64 {
		t.Errorf("%d iterations, %d lines, %d chunks, %q", len(w.Earlier), len(w.Logs), len(w.Output), w.ID)
	}
	var bare bytes.Buffer
	if err := Write(t.Context(), &bare, s, s.state.Run, false, false); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadWhole(&bare, 1<<20); err != nil || again.ID != w.ID {
		t.Errorf("without its module it has another id: %v", err)
	}
	for _, most := range []int64{0, 1000, 3000, 6000, 100_000} {
		if _, err := ReadWhole(bytes.NewReader(file), most); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%d bytes: %v", most, err)
		}
	}
	moved := newSource(t).whole(t, 1)
	moved.iterations[1] = append(moved.iterations[1], store.Entry{Seq: 3, UnixMs: 2000, Kind: store.KindMoved, Target: "the move"})
	moved.state.Length, moved.state.Aside = 4, store.AsideMoved
	if w, err := ReadWhole(bytes.NewReader(moved.write(t)), 1<<20); err != nil || w.ID != "the move" {
		t.Errorf("%+v, %v", w, err)
	}
	moved.iterations[1] = append(moved.iterations[1], store.Entry{Seq: 4, UnixMs: 2000, Kind: store.KindTerminated})
	moved.state.Length, moved.state.Status = 5, store.Terminated
	if w, err := ReadWhole(bytes.NewReader(moved.write(t)), 1<<20); err != nil || len(w.ID) != 64 {
		t.Errorf("what is left of it where it was has the id %+v, %v", w, err)
	}
	if _, err := ReadWhole(strings.NewReader("x"), 1<<20); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestReadWholeRefuses refuses archives that could not be stored, or that mix two runs.
func TestReadWholeRefuses(t *testing.T) {
	for name, lie := range map[string]func(*source){
		"lines":           func(s *source) { s.state.LogRecords++ },
		"output":          func(s *source) { s.state.Output, s.output = 6, s.output[:6] },
		"a missing line":  func(s *source) { s.logs[6].Index, s.state.LogRecords = 7, 8 },
		"moved":           func(s *source) { s.state.Aside = store.AsideMoved },
		"chunks beyond":   func(s *source) { s.output[5].Index, s.output[6].Index = math.MaxUint64, 6 },
		"a missing chunk": func(s *source) { s.output[6].Index, s.state.Output = 7, 8 },
		"another run": func(s *source) {
			s.iterations[0] = replaced(s.iterations[0], `"run_id":"r"`, `"run_id":"q"`)
		},
		"another incarnation": func(s *source) {
			s.iterations[0] = replaced(s.iterations[0], `"incarnation":""`, `"incarnation":"x"`)
		},
	} {
		s := newSource(t).whole(t, 7)
		lie(s)
		if _, err := ReadWhole(bytes.NewReader(s.write(t)), 1<<20); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOutputOfACopy reads a restart of another run: its output may have gaps, except where its journal has an entry.
func TestOutputOfACopy(t *testing.T) {
	for emits, want := range map[int32]bool{7: true, 5: false} {
		s := newSource(t).whole(t, 7)
		s.iterations[1] = append(replaced(s.iterations[1], `"run_attempt":0`, `"run_attempt":2`),
			store.Entry{Seq: 3, UnixMs: 2000, Kind: store.KindEmit, Name: "out", Code: emits})
		s.output[5].Index, s.output[6].Index, s.state.Output, s.state.Length = 6, 7, 8, 4
		if _, err := ReadWhole(bytes.NewReader(s.write(t)), 1<<20); (err == nil) != want {
			t.Errorf("emits chunk %d: %v", emits, err)
		}
	}
}

func replaced(entries []store.Entry, from, to string) []store.Entry {
	list := append([]store.Entry{}, entries...)
	list[0].Options = bytes.Replace(list[0].Options, []byte(from), []byte(to), 1)
	return list
}

// TestRetriesAreBounded refuses a journal whose retries would take minutes to read.
func TestRetriesAreBounded(t *testing.T) {
	s := newSource(t).whole(t, 1)
	for seq := 3; seq < 1600; seq++ {
		s.iterations[1] = append(s.iterations[1], store.Entry{Seq: store.Seq(seq), UnixMs: 2000, Kind: store.KindRetried, Ref: 1,
			Options: []byte(`{"void":[]}`)})
	}
	s.state.Length = 1600
	_, err := Read(bytes.NewReader(s.write(t)))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the limit is 1048576") {
		t.Error(err)
	}
}
