package store

import "testing"

// TestCodecAllocates counts heap allocations of encoding and decoding: none into a buffer that is large enough,
// except for the strings that are decoded.
func TestCodecAllocates(t *testing.T) {
	e := Entry{Seq: 7, Kind: KindStepResult, UnixMs: 1_800_000_000_000, Handle: 3, Name: "name", Data: make([]byte, 100), Attempt: 1}
	s := RunState{Run: RunKey{ID: "id"}, Workflow: "workflow", Status: Sleeping, WakeUnixMs: 1_800_000_000_000, Length: 9}
	buf := make([]byte, 0, 1024)
	for name, c := range map[string]struct {
		want float64
		f    func()
	}{
		"AppendEntry": {0, func() { buf = AppendEntry(buf[:0], &e) }},
		"AppendState": {0, func() { buf = AppendState(buf[:0], &s) }},
		"DecodeEntry": {1, func() {
			if x, err := DecodeEntry(AppendEntry(buf[:0], &e)); err != nil || x.Name != e.Name {
				t.Fatal(err)
			}
		}},
		"DecodeState": {2, func() {
			if x, err := DecodeState(AppendState(buf[:0], &s)); err != nil || x.Run != s.Run {
				t.Fatal(err)
			}
		}},
	} {
		if got := testing.AllocsPerRun(100, c.f); got != c.want {
			t.Errorf("%s: %v allocations, want %v", name, got, c.want)
		}
	}
}

// BenchmarkEntry encodes and decodes an entry.
func BenchmarkEntry(b *testing.B) {
	e := Entry{Seq: 7, Kind: KindStepResult, UnixMs: 1_800_000_000_000, Handle: 3, Name: "name", Data: make([]byte, 100), Attempt: 1}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEntry(AppendEntry(buf[:0], &e)); err != nil {
			b.Fatal(err)
		}
	}
}
