package module

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/definition"
	"github.com/wfhost/wfhost/internal/segment"
)

// The id of the data section, and the instructions of a segment's offset.
const (
	data     = 11
	i32Const = segment.I32Const
	end      = segment.End
)

// segmentOf makes an active segment of data at an address.
func segmentOf(at int64, b []byte) []byte { return segment.Active(nil, uint32(at), b) }

// wasm makes a module of sections, each an id and a body.
func wasm(sections ...[]byte) []byte {
	m := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		m = append(m, s[0])
		m = append(binary.AppendUvarint(m, uint64(len(s)-1)), s[1:]...)
	}
	return m
}

func dataOf(segments ...[]byte) []byte {
	return append(binary.AppendUvarint([]byte{data}, uint64(len(segments))), bytes.Join(segments, nil)...)
}

func TestMake(t *testing.T) {
	for _, at := range []int64{0, 63, 64, 8191, 8192, 1 << 20, -2147483648 + 64} {
		in := wasm([]byte{1, 0}, dataOf(segmentOf(5, []byte("abc")), segmentOf(at, append([]byte("xy"), Marker[:]...))), []byte{0, 1, 'n'})
		out, err := Make(in, []byte(`{"name":"x"}`))
		if err != nil {
			t.Fatal(at, err)
		}
		want := wasm([]byte{1, 0}, dataOf(segmentOf(5, []byte("abc")), segmentOf(at, append([]byte("xy"), Marker[:]...)),
			segmentOf(at+2+int64(len(Marker)), []byte("\x0c\x00\x00\x00{\"name\":\"x\"}"))), []byte{0, 1, 'n'})
		if !bytes.Equal(out, want) {
			t.Errorf("at %d:\n%x, want\n%x", at, out, want)
		}
		if _, err := Make(out, []byte("{}")); !errors.Is(err, ErrNoInterpreter) || !strings.Contains(err.Error(), "already") {
			t.Error(err)
		}
	}
}

// TestRefused lists what is no interpreter.
func TestRefused(t *testing.T) {
	good := dataOf(segmentOf(64, Marker[:]))
	cases := map[string][]byte{
		"empty": nil, "text": []byte("hello, world"), "no data": wasm([]byte{1, 0}), "no marker": wasm(dataOf(segmentOf(0, []byte("x")))),
		"two":     wasm(dataOf(segmentOf(0, Marker[:]), segmentOf(99, Marker[:]))),
		"passive": wasm([]byte{data, 1, 1, 1, 'x'}), "no segments": wasm([]byte{data}), "claims": wasm([]byte{data, 9, 0, i32Const, 0, end, 99}),
		"no end": wasm([]byte{data, 1, 0, i32Const, 0, 0, 0}), "offset": wasm([]byte{data, 1, 0, i32Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}),
	}
	for n := 9; n < len(wasm(good)); n++ {
		cases["cut"+string(rune('0'+n))] = wasm(good)[:n]
	}
	for name, in := range cases {
		if out, err := Make(in, []byte("{}")); !errors.Is(err, ErrNoInterpreter) {
			t.Errorf("%s: %x %v", name, out, err)
		}
	}
	if _, err := Make(wasm(good), make([]byte, definition.MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "131073 bytes") {
		t.Error(err)
	}
}

// TestMarker compares the marker with the interpreter's copy: the interpreter does not import this package.
func TestMarker(t *testing.T) {
	if SlotBytes != 32+4+definition.MaxBytes {
		t.Fatal(SlotBytes)
	}
	text, err := os.ReadFile("../interpreter/main.go")
	if err != nil {
		t.Fatal(err)
	}
	this, err := os.ReadFile("module.go")
	if err != nil {
		t.Fatal(err)
	}
	bytesOf := func(b []byte) string {
		_, rest, _ := strings.Cut(string(b), "byte{")
		list, _, _ := strings.Cut(rest, "}")
		return strings.Trim(strings.Join(strings.Fields(list), " "), ", ")
	}
	if a, b := bytesOf(text), bytesOf(this); a != b || a == "" {
		t.Errorf("%s\n%s", a, b)
	}
}

// TestBuiltIn reads the built-in interpreter, if there is one.
func TestBuiltIn(t *testing.T) {
	wasm, ok := Interpreter()
	if !ok {
		t.Skip("there is none: make build puts it here")
	}
	if _, err := Make(wasm, []byte("{}")); err != nil {
		t.Error(err)
	}
	packed, err := built.ReadFile("built/interpreter.wasm.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, wasm) {
		t.Error("it is cut off", err)
	}
}

// FuzzMake takes modules of any bytes.
func FuzzMake(f *testing.F) {
	f.Add(wasm(dataOf(segmentOf(64, Marker[:]))))
	f.Add(wasm([]byte{data, 1, 0, i32Const, 0x7f, end, 32}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Make(b, []byte("{}")) // it does not panic
	})
}
