package artifact

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// sample is a module with a data segment, a table, a start function, and names.
const sample = "\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // type () -> ()
	"\x03\x03\x02\x00\x00" + // two functions
	"\x04\x04\x01\x70\x00\x01" + // a table
	"\x05\x03\x01\x00\x01" + // a page
	"\x06\x06\x01\x7f\x01\x41\x05\x0b" + // a mutable global
	"\x07\x07\x01\x03run\x00\x00" +
	"\x08\x01\x01" + // start
	"\x0a\x27\x02\x0a\x00\x43\x00\x00\x00\x00\x91\x8c\x1a\x0b" + // a square root, and its sign
	"\x1a\x00\x41\x02\x1a\x03\x40\x41\x00\x0d\x00\x0b\x41\x00\x41\x00\x41\x00\xfc\x0b\x00\x41\x00\x40\x00\x1a\x0b" + // a loop, memory.fill, memory.grow
	"\x0b\x08\x01\x00\x41\x08\x0b\x02hi" +
	"\x00\x06\x04what!" + // a custom section
	"\x00\x0b\x04name\x01\x04\x01\x00\x01f"

func rewritten(t *testing.T) *instrument.Module {
	t.Helper()
	m, err := instrument.Rewrite([]byte(sample), instrument.Options{Fuel: true, NaN: true, TableElements: 100})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFormat fails when the rewrite changes its output: then Format must be increased, or modules compiled by an
// earlier release would be used unchanged.
func TestFormat(t *testing.T) {
	const is, at = "0eb787dc300d0357", 5
	all := fmt.Appendf(nil, "%+v", *rewritten(t))
	for op := range 256 {
		all = fmt.Append(all, instrument.Cost(byte(op)), instrument.CostFC(uint32(op)), instrument.CostFD(uint32(op)))
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(all))[:16]; got != is || Format != at {
		t.Errorf("what rewrite makes of a module has the sum %s, with Format %d; it had %s with Format %d: let Format grow, and note both here",
			got, Format, is, at)
	}
}

func TestEncode(t *testing.T) {
	a := &Artifact{Module: *rewritten(t), Code: File{"folder", "name", 1 << 40, 7}}
	if len(a.Module.Data) != 1 || len(a.Module.Globals) != 1 {
		t.Fatalf("%+v", a.Module)
	}
	b, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(b)
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Fatalf("%+v: %v", got, err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := Decode(bad); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d was changed: %v", i, err)
		}
		if _, err := Decode(b[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// Decoding any file returns an error or an artifact, and allocates no more than the size of the file.
func FuzzDecode(f *testing.F) {
	m, err := instrument.Rewrite([]byte(sample), instrument.Options{Fuel: true, NaN: true, TableElements: 100})
	if err != nil {
		f.Fatal(err)
	}
	a := &Artifact{Module: *m}
	b, err := a.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-sha256.Size])
	f.Add([]byte(magic + "\x00\x00\x00\x1e" + `{"Skeleton":-5,"Segments":[3]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		if a, err := Decode(append(bytes.Clone(b), sum[:]...)); err == nil {
			n := len(a.Module.Wasm)
			for _, s := range a.Module.Data {
				n += len(s.Bytes)
			}
			if n > len(b) {
				t.Errorf("%d bytes of %d", n, len(b))
			}
		}
	})
}

// A skeleton has everything of the module except its code, and no two modules have the same skeleton.
func TestSkeleton(t *testing.T) {
	wasm := []byte(sample)
	got, err := Skeleton(wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\x01\x04\x01\x60\x00\x00", "\x07\x07\x01\x03run", "\x0b\x08\x01\x00\x41\x08\x0b\x02hi", "name\x01\x04\x01\x00\x01f",
		"\x0a\x09\x02\x03\x00\x00\x0b\x03\x00\x00\x0b"} {
		if !bytes.Contains(got, []byte(part)) {
			t.Errorf("%q is not there", part)
		}
	}
	if bytes.Contains(got, []byte("what!")) {
		t.Error("a custom section is there")
	}
	other := bytes.Replace(wasm, []byte("\x41\x02\x1a"), []byte("\x41\x03\x1a"), 1)
	if than, err := Skeleton(other); err != nil || bytes.Equal(got, than) || len(than) != len(got) {
		t.Error("other code has the same skeleton:", err)
	}
	for i := len(wasm) - 1; i > 0; i-- {
		if _, err := Skeleton(wasm[:i]); err != nil {
			return // cut within a section
		}
	}
	t.Error("a module that is cut has a skeleton")
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(path, []byte("123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := File{Name: "code"}
	if err := f.Measure(path); err != nil || f.Bytes != 9 || f.Sum != 0xe3069283 { // the check value of CRC-32C
		t.Fatalf("%+v %v", f, err)
	}
	if _, err := f.Check(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("123456780"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Check(path); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if _, err := f.Check(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
