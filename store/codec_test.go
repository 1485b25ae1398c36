package store

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func bytesOrNil(t *rapid.T, label string) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, label)
	if len(b) == 0 {
		return nil
	}
	return b
}

func drawEntry(t *rapid.T) Entry {
	kinds := make([]Kind, 0, len(kindNames))
	for k := range Kind(127) {
		if k.Known() {
			kinds = append(kinds, k)
		}
	}
	return Entry{Seq: Seq(rapid.Uint64().Draw(t, "seq")), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
		UnixMs: rapid.Int64().Draw(t, "time"), Handle: rapid.Int64().Draw(t, "handle"),
		Consumed: rapid.Uint64().Draw(t, "consumed"), Name: rapid.String().Draw(t, "name"),
		Target: rapid.String().Draw(t, "target"), Input: bytesOrNil(t, "input"), Options: bytesOrNil(t, "options"),
		Refused: rapid.Int32().Draw(t, "refused"), Code: rapid.Int32().Draw(t, "code"), Data: bytesOrNil(t, "data"),
		DueUnixMs: rapid.Int64().Draw(t, "due"), HasDue: rapid.Bool().Draw(t, "has"), Attempt: rapid.Uint32().Draw(t, "attempt"),
		StartUnixMs: rapid.Int64().Draw(t, "start"), Skipped: rapid.Bool().Draw(t, "skipped"), Sealed: rapid.Bool().Draw(t, "sealed"),
		BehindMs: rapid.Int64().Draw(t, "behind")}
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		b := AppendEntry(nil, &e)
		got, err := DecodeEntry(b)
		if err != nil || !reflect.DeepEqual(e, got) {
			t.Fatalf("%+v\n%+v\n%v", e, got, err)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := DecodeEntry(b); err == nil {
			t.Fatal("a flipped bit was not noticed")
		}
	})
}

func TestOtherRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var inc Incarnation
		copy(inc[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "incarnation"))
		var d Digest
		copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		run := RunKey{Namespace: NamespaceID(rapid.Uint32().Draw(t, "ns")), ID: rapid.StringN(1, 20, 40).Draw(t, "id")}
		n := rapid.Uint32().Draw(t, "n")
		st := RunState{Run: run, Incarnation: inc, Iteration: n, Workflow: "w", Version: n, Module: d, Status: Waiting,
			Reason: "r", InputDigest: d, CreatedUnixMs: int64(n), StartedUnixMs: -int64(n), UpdatedUnixMs: 3, EndedUnixMs: 4,
			WakeUnixMs: NoWake, Length: Seq(n), JournalBytes: 7, LogLines: uint64(n), LogRecords: 8, Faults: n, Output: uint64(n),
			Attributes: []Attribute{{"a", "1"}, {"b", ""}}, Parent: "p", Memo: `{"a":1}`, Deleted: n%2 == 1, Sealed: n%4 == 1,
			Suspension: Suspension{Seq: Seq(n), Poll: true, Events: true, Awaited: []int64{1, int64(n)}, PollDue: true, PollDueUnixMs: -5}}
		if got, err := DecodeState(AppendState(nil, &st)); err != nil || !reflect.DeepEqual(got, st) {
			t.Fatalf("state %+v %v", got, err)
		}
		l := LogLine{Index: uint64(n), UnixMs: 5, Level: 3, Step: "s", Attempt: n, Text: rapid.String().Draw(t, "text"), Sealed: n%4 == 1}
		if got, err := DecodeLogLine(AppendLogLine(nil, &l)); err != nil || got != l {
			t.Fatalf("log line %+v %v", got, err)
		}
		c := Command{Seq: 1, ID: CommandID{inc, n, Seq(n)}, Kind: CommandCancel, To: run, ToIncarnation: inc, From: run, Name: "n",
			Data: bytesOrNil(t, "data"), Sealed: n%4 == 1}
		if got, err := DecodeCommand(AppendCommand(nil, &c)); err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("command %+v %v", got, err)
		}
		v := Version{Namespace: run.Namespace, Workflow: "w", Number: n, Module: d, CreatedUnixMs: 6, Deleted: n%2 == 0, Imported: n%3 == 0,
			Grants: Grants{Steps: []string{"a", "b"}, HTTPHosts: []string{"x"}, Secrets: []string{"s"}, Trusted: true}}
		if got, err := DecodeVersion(AppendVersion(nil, &v)); err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("version %+v %v", got, err)
		}
		o := Chunk{Index: uint64(n), UnixMs: 5, Topic: "t", Data: bytesOrNil(t, "output"), Sealed: n%4 == 1}
		if got, err := DecodeChunk(AppendChunk(nil, &o)); err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("output %+v %v", got, err)
		}
		k := SealKey{ID: "2026-11", Check: bytesOrNil(t, "check"), CreatedUnixMs: int64(n)}
		if got, err := DecodeKey(AppendKey(nil, &k)); err != nil || !reflect.DeepEqual(got, k) {
			t.Fatalf("key %+v %v", got, err)
		}
		tok := Token{Hash: d, Name: "n", Namespace: "s", Scopes: []string{"read"}, CreatedUnixMs: 1, ExpiresUnixMs: int64(n)}
		if got, err := DecodeToken(AppendToken(nil, &tok)); err != nil || !reflect.DeepEqual(got, tok) {
			t.Fatalf("token %+v %v", got, err)
		}
		m := ModuleInfo{Size: int64(n), StoredUnixMs: 9, DescriptionJSON: bytesOrNil(t, "description")}
		if got, err := DecodeModuleInfo(AppendModuleInfo(nil, &m)); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("module %+v %v", got, err)
		}
	})
}

func TestDamagedRecords(t *testing.T) {
	good := AppendEntry(nil, &Entry{Kind: KindSleep, Name: "x"})
	seal := func(b ...byte) []byte {
		e := encoder{b}
		return e.seal(0)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":           {nil, ErrCorrupt},
		"short":           {good[:4], ErrCorrupt},
		"cut":             {good[:len(good)-1], ErrCorrupt},
		"version 0":       {seal(0), ErrCorrupt},
		"newer":           {seal(CodecVersion + 1), ErrVersion},
		"unknown field":   {seal(CodecVersion, 100<<1, 1), ErrVersion},
		"fields backward": {seal(CodecVersion, 2<<1, 32, 1<<1, 1), ErrCorrupt},
		"no number":       {seal(CodecVersion, 1<<1, 0x80), ErrCorrupt},
		"long claim":      {seal(CodecVersion, 6<<1|1, 0xff, 0xff, 0x03), ErrCorrupt},
		"unknown kind":    {seal(CodecVersion, 2<<1, 60), ErrVersion},
		"no kind":         {seal(CodecVersion), ErrVersion},
		"huge":            {make([]byte, MaxRecordBytes+1), ErrCorrupt},
	} {
		if _, err := DecodeEntry(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	unknown := seal(CodecVersion, 100<<1, 1)
	for name, decode := range map[string]func() error{
		"state":   func() error { _, err := DecodeState(unknown); return err },
		"log":     func() error { _, err := DecodeLogLine(unknown); return err },
		"command": func() error { _, err := DecodeCommand(unknown); return err },
		"version": func() error { _, err := DecodeVersion(unknown); return err },
		"module":  func() error { _, err := DecodeModuleInfo(unknown); return err },
		"space":   func() error { _, err := DecodeNamespace(unknown); return err },
		"token":   func() error { _, err := DecodeToken(unknown); return err },
	} {
		if err := decode(); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := RunKey{Namespace: NamespaceID(rapid.Uint32().Draw(t, "ns")), ID: rapid.StringMatching(`[A-Za-z0-9._:~-]{1,30}`).Draw(t, "id")}
		a, b := rapid.Int64Range(0, 1<<50).Draw(t, "a"), rapid.Int64Range(0, 1<<50).Draw(t, "b")
		if ka, kb := EndedKey(run, a), EndedKey(run, b); (bytes.Compare(ka, kb) < 0) != (a < b) {
			t.Fatal("keys of ended runs are not in the order of time")
		}
		if r, err := ParseRunTableKey(RunTableKey(run, TableState)); err != nil || r != run {
			t.Fatalf("%+v %v", r, err)
		}
		if bytes.Compare(JournalKey(run, 1, 5), JournalKey(run, 1, 300)) >= 0 || bytes.Compare(JournalKey(run, 1, 300), JournalKey(run, 2, 0)) >= 0 {
			t.Fatal("journal keys are out of order")
		}
		if k := IndexKey(run, TableLog, 7); bytes.Compare(k, PrefixEnd(k)) >= 0 {
			t.Fatal("prefix end")
		}
	})
	if PrefixEnd([]byte{0xff, 0xff}) != nil || !bytes.Equal(PrefixEnd([]byte{1, 0xff}), []byte{2}) {
		t.Fatal("prefix end of ff")
	}
	if _, err := ParseWakeIndexKey(nil); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, err := ParseRunTableKey(nil); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if len(VersionKey(0, "w", 0))+4 != len(VersionKey(0, "w", 1)) || len(GlobalKey(0, TableMeta, []byte("x"))) != 8 {
		t.Fatal("global keys")
	}
}

// TestWakeKeys compares the order of keys on disk with Compare, and decodes what was encoded.
func TestWakeKeys(t *testing.T) {
	draw := func(t *rapid.T) WakeKey {
		return WakeKey{UnixMs: rapid.Int64Range(0, 3).Draw(t, "time"), Kind: WakeKind(rapid.IntRange(0, 3).Draw(t, "kind")),
			Key: RunKey{Namespace: NamespaceID(rapid.SampledFrom([]int{0, 0, 1, 300, math.MaxUint32}).Draw(t, "ns")),
				ID: rapid.StringMatching(`[A-Za-z0-9._:~-]{0,3}`).Draw(t, "id")}}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		ka, kb := WakeIndexKey(7, a), WakeIndexKey(7, b)
		if bytes.Compare(ka, kb) != a.Compare(b) {
			t.Fatalf("%+v and %+v are written as %x and %x", a, b, ka, kb)
		}
		if w, err := ParseWakeIndexKey(ka); a.class() != 0 && (err != nil || w != a) {
			t.Fatalf("%+v is read as %+v: %v", a, w, err)
		}
	})
	// The key as it was written before there were other kinds of wakes.
	old := append(AppendPrefix(nil, 0, 7, TableWake), 0, 0, 0, 0, 0, 0, 0, 9, 'r')
	if w := (WakeKey{UnixMs: 9, Key: RunKey{ID: "r"}}); !bytes.Equal(WakeIndexKey(7, w), old) {
		t.Errorf("%+v is written as %x", w, WakeIndexKey(7, w))
	}
	for rest, want := range map[string]error{
		"": ErrCorrupt, "\x00": ErrCorrupt, "\x00\x01\x00\x00\x00": ErrCorrupt, "\x00\x00\x00\x00\x00\x00r": ErrCorrupt,
		"\x00\x05\x00\x00\x00\x00r": ErrVersion,
	} {
		if w, err := ParseWakeIndexKey(append(old[:len(old)-1:len(old)-1], rest...)); !errors.Is(err, want) {
			t.Errorf("%x is read as %+v: %v", rest, w, err)
		}
	}
	if k := WakeIndexKey(7, WakeKey{UnixMs: -1, Kind: WakeLease, Key: RunKey{ID: "r"}}); k[7] != 0 {
		t.Errorf("a negative time is written as %x", k)
	}
	old[7] = 0x80
	if _, err := ParseWakeIndexKey(old); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for s := Queued; s <= Terminated; s++ {
		text, _ := s.MarshalText()
		var back Status
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseStatus(""); err == nil || Status(99).String() != "status(99)" || Kind(60).String() != "kind(60)" {
		t.Error("unknown names")
	}
	if !Completed.Terminal() || Stuck.Terminal() || !Stuck.Attention() || Running.Attention() {
		t.Error("classes of statuses")
	}
	if !KindSleep.Call() || !KindTimer.Delivery() || !KindFailed.End() || KindTimer.Call() {
		t.Error("classes of kinds")
	}
	d := Digest{1, 2}
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Error(err)
	}
	if _, err := ParseDigest("xyz"); err == nil || !strings.Contains(err.Error(), "64") {
		t.Error(err)
	}
	if len(Incarnation{}.String()) != 32 {
		t.Error("incarnation")
	}
	v, added := VersionSpec{Workflow: "w", Module: d}.Next(Version{})
	if !added || v.Number != 1 {
		t.Error("first version")
	}
	if again, added := (VersionSpec{Workflow: "w", Module: d}).Next(v); added || again.Number != 1 {
		t.Error("same version")
	}
	if (WakeKey{UnixMs: 1}).Compare(WakeKey{UnixMs: 2}) >= 0 {
		t.Error("wake keys")
	}
	c := Chunk{Index: 3, UnixMs: 4, Topic: "t", Data: []byte("x")}
	if got, err := DecodeChunk(AppendChunk(nil, &c)); err != nil || !reflect.DeepEqual(got, c) {
		t.Error("chunk", got, err)
	}
	tok := Token{Hash: Digest{1, 2}, Name: "ci", Namespace: "a", Scopes: []string{"read", "run"}, CreatedUnixMs: 7, ExpiresUnixMs: 8}
	if got, err := DecodeToken(AppendToken(nil, &tok)); err != nil || !reflect.DeepEqual(got, tok) {
		t.Error("token", got, err)
	}
	ns := Namespace{ID: math.MaxUint32, Name: "n", CreatedUnixMs: 5}
	if got, err := DecodeNamespace(AppendNamespace(nil, &ns)); err != nil || got != ns {
		t.Error("namespace", got, err)
	}
	h := HookHolder{Run: RunKey{3, "r"}, Incarnation: Incarnation{1}, Iteration: 2, Handle: 9}
	if got, err := DecodeHolder(AppendHolder(nil, &h)); err != nil || got != h {
		t.Error("holder", got, err)
	}
}

// TestFormatExample keeps the example of FORMAT.md honest.
func TestFormatExample(t *testing.T) {
	doc, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Seq: 2, Kind: KindSleep, UnixMs: 1000, Handle: 1, Name: "nap", DueUnixMs: 2000, HasDue: true}
	var b strings.Builder
	for i, c := range AppendEntry(nil, &e) {
		if i > 0 {
			b.WriteByte(' ')
		}
		const digits = "0123456789abcdef"
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	if !strings.Contains(string(doc), b.String()) {
		t.Errorf("FORMAT.md does not hold the example\n%s", b.String())
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(AppendEntry(nil, &Entry{Kind: KindSleep, Name: "nap"}))
	f.Add(AppendState(nil, &RunState{Run: RunKey{ID: "r"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeEntry(b); err == nil {
			if again, err := DecodeEntry(AppendEntry(nil, &e)); err != nil || !reflect.DeepEqual(e, again) {
				t.Fatalf("%+v %+v %v", e, again, err)
			}
		}
		sealed := encoder{append([]byte{CodecVersion}, b...)}
		s := sealed.seal(0)
		_, _ = DecodeEntry(s)
		_, _ = DecodeState(s)
		_, _ = DecodeVersion(s)
		_, _ = DecodeCommand(s)
		_, _ = DecodeLogLine(s)
	})
}

// TestEntryLargerThanDecoding checks at the limit that CheckRecord allows exactly what can be decoded.
func TestEntryLargerThanDecoding(t *testing.T) {
	e := Entry{Kind: KindStep, Options: make([]byte, MaxRecordBytes-100)}
	e.Options = make([]byte, len(e.Options)+MaxRecordBytes-len(AppendEntry(nil, &e))-1)
	for _, size := range []int{MaxRecordBytes - 1, MaxRecordBytes, MaxRecordBytes + 1} {
		b := AppendEntry(nil, &e)
		_, err := DecodeEntry(b)
		if check := CheckRecord("entry", b); len(b) != size || (err == nil) != (size <= MaxRecordBytes) ||
			(check == nil) != (err == nil) || check != nil && !errors.Is(check, ErrTooLarge) {
			t.Errorf("%d bytes, want %d: decoded %v, checked %v", len(b), size, err, check)
		}
		e.Options = append(e.Options, 0)
	}
}
