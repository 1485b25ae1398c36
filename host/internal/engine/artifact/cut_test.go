package artifact

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/internal/wasm"
	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// data is the data section of sample, with a segment of two bytes at address 8.
const data = "\x0b\x08\x01\x00\x41\x08\x0b\x02hi"

// withData returns sample with other segments, given as their bytes, and with before in front of its code.
func withData(before string, segments ...string) string {
	content := append(wasm.AppendU32(nil, uint32(len(segments))), strings.Join(segments, "")...)
	section := append(wasm.AppendU32([]byte{0x0b}, uint32(len(content))), content...)
	return strings.Replace(strings.Replace(sample, data, string(section), 1), "\x0a\x27\x02", before+"\x0a\x27\x02", 1)
}

var options = instrument.Options{Fuel: true, NaN: true, TableElements: 100}

// agree checks that two modules with the same code, whose data may be cut, are rewritten to the same module except
// for the data.
func agree(t *testing.T, wasm, other []byte) {
	t.Helper()
	code, segments, ok := Cut(wasm)
	r, err := instrument.Rewrite(wasm, options)
	if err == nil && r.Refusal == "" && !ok {
		t.Fatalf("the data of a module is not cut that is rewritten without it: %x", wasm)
	}
	if !ok {
		return
	}
	if err == nil && r.Refusal == "" && !reflect.DeepEqual(segments, r.Data) {
		t.Fatalf("it has the data %v, want %v", segments, r.Data)
	}
	otherCode, _, ok := Cut(other)
	if !ok || otherCode != code {
		return
	}
	than, err2 := instrument.Rewrite(other, options)
	if (err == nil) != (err2 == nil) || err == nil && r.Refusal != than.Refusal {
		t.Fatalf("modules with the same code are rewritten to %v and %v\n%x\n%x", err, err2, wasm, other)
	}
	if err != nil || r.Refusal != "" {
		return
	}
	r.Data, than.Data = nil, nil
	if !reflect.DeepEqual(r, than) {
		t.Fatalf("modules with the same code are rewritten to different ones\n%x\n%x", wasm, other)
	}
}

// A module without its data is the same for any data.
func TestCut(t *testing.T) {
	code, segments, ok := Cut([]byte(sample))
	if !ok || len(segments) != 1 || segments[0].Offset != 8 || string(segments[0].Bytes) != "hi" {
		t.Fatal(segments, ok)
	}
	for name, c := range map[string]struct {
		wasm string
		want []instrument.Segment
	}{
		"none":         {strings.Replace(sample, data, "", 1), nil},
		"empty":        {withData(""), nil},
		"no bytes":     {withData("", "\x00\x41\x08\x0b\x00"), nil},
		"another":      {withData("", "\x00\x41\x09\x0b\x03you"), []instrument.Segment{{Offset: 9, Bytes: []byte("you")}}},
		"counted":      {withData("\x0c\x01\x01", "\x00\x41\x08\x0b\x01x"), []instrument.Segment{{Offset: 8, Bytes: []byte("x")}}},
		"to the end":   {withData("", "\x00\x41\xfe\xff\x03\x0b\x02xy"), []instrument.Segment{{Offset: 65534, Bytes: []byte("xy")}}},
		"named memory": {withData("", "\x02\x00\x41\x08\x0b\x01x"), []instrument.Segment{{Offset: 8, Bytes: []byte("x")}}},
		"overlapping": {withData("", "\x00\x41\x09\x0b\x02ab", "\x00\x41\x08\x0b\x02cd"),
			[]instrument.Segment{{Offset: 9, Bytes: []byte("ab")}, {Offset: 8, Bytes: []byte("cd")}}},
		"custom section": {strings.Replace(sample, "what!", "other", 1), segments},
	} {
		got, other, ok := Cut([]byte(c.wasm))
		if !ok || got != code || !reflect.DeepEqual(other, c.want) {
			t.Errorf("%s: the code is the same: %v, the data %v", name, got == code, other)
		}
		agree(t, []byte(sample), []byte(c.wasm))
	}
}

// Data is not cut if the engine has to write or refuse it: passive, computed, outside of the memory, or malformed.
func TestNotCut(t *testing.T) {
	for name, wasm := range map[string]string{
		"passive":         withData("", "\x01\x02ab"),
		"active, passive": withData("\x0c\x01\x02", "\x00\x41\x08\x0b\x01x", "\x01\x02ab"),
		"computed":        withData("", "\x00\x23\x00\x0b\x01x"),
		"outside":         withData("", "\x00\x41\xff\xff\x03\x0b\x02xy"),
		"far outside":     withData("", "\x00\x41\x7f\x0b\x01x"),
		"nothing outside": withData("", "\x00\x41\x81\x80\x04\x0b\x00"),
		"another memory":  withData("", "\x02\x01\x41\x08\x0b\x01x"),
		"unknown":         withData("", "\x03\x00\x41\x08\x0b\x01x"),
		"miscounted":      withData("\x0c\x01\x02", "\x00\x41\x08\x0b\x01x"),
		"too few":         strings.Replace(sample, data, "\x0b\x08\x02\x00\x41\x08\x0b\x02hi", 1),
		"left over":       strings.Replace(sample, data, "\x0b\x08\x01\x00\x41\x08\x0b\x01hi", 1),
		"twice":           strings.Replace(sample, data, data+data, 1),
		"no memory":       strings.Replace(sample, "\x05\x03\x01\x00\x01", "", 1),
		"several":         strings.Replace(sample, "\x05\x03\x01\x00\x01", "\x05\x05\x02\x00\x01\x00\x01", 1),
		"no module":       "hello, world",
	} {
		if wasm == sample {
			t.Fatal(name)
		}
		if _, segments, ok := Cut([]byte(wasm)); ok {
			t.Errorf("%s: it is cut, with the data %v", name, segments)
		}
	}
	for n := range len(sample) {
		if code, _, ok := Cut([]byte(sample[:n])); ok {
			agree(t, []byte(sample), []byte(sample[:n])) // cut between sections
			if whole, _, _ := Cut([]byte(sample)); code == whole {
				t.Errorf("its first %d bytes have its code", n)
			}
		}
	}
}

// Modules that differ in anything other than data and custom sections share no code.
func TestCutDiffers(t *testing.T) {
	code, _, _ := Cut([]byte(sample))
	const custom = "\x00\x06\x04what!"
	for i := range sample {
		if within(i, data) || within(i, custom) {
			continue
		}
		for bit := range 8 {
			other := []byte(sample)
			other[i] ^= 1 << bit
			if got, _, ok := Cut(other); ok && got == code {
				t.Errorf("bit %d of byte %d makes no difference", bit, i)
			}
			agree(t, []byte(sample), other)
		}
	}
}

// within reports whether a byte of sample is in a part of it.
func within(i int, part string) bool {
	from := strings.Index(sample, part)
	return i >= from && i < from+len(part)
}

// FuzzCut puts other data into modules: what is compiled from their code does not depend on it.
func FuzzCut(f *testing.F) {
	for _, segments := range []string{"\x00", "\x01\x00\x41\x09\x0b\x03you", "\x01\x01\x02ab", "\x02\x00\x41\x08\x0b\x01x\x00\x41\x08\x0b\x01y"} {
		f.Add([]byte(sample), []byte(segments))
		f.Add([]byte(withData("\x0c\x01\x01", "\x00\x41\x08\x0b\x01x")), []byte(segments))
	}
	f.Fuzz(func(t *testing.T, module, content []byte) {
		r := wasm.Reader{Module: module, End: len(module)}
		r.Skip(8, "the header")
		other := slices.Clone(module[:r.At])
		for r.More() {
			from := r.At
			id := r.Byte("a section")
			r.Bytes("a section")
			switch id {
			case 0x0b:
				other = append(wasm.AppendU32(append(other, id), uint32(len(content))), content...)
			case 0x0c:
			default:
				other = append(other, module[from:r.At]...)
			}
		}
		if r.Err != nil {
			return
		}
		agree(t, module, other)
		agree(t, other, module)
	})
}

// The sum is part of file names, which processes of different versions share.
func TestCutSum(t *testing.T) {
	const is = "5d8da76f4f6cfcb0"
	if code, _, _ := Cut([]byte(sample)); hex.EncodeToString(code[:8]) != is {
		t.Errorf("the code of a module has the sum %x, want %s", code[:8], is)
	}
}
