package calls

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// clocks is a host whose clocks say 5.
type clocks struct{ engine.Host }

func (clocks) MonoNs() int64 { return 5 }
func (clocks) WallNs() int64 { return 5 }

// TestFinding03_LongTimeouts gives time-outs that do not fit, of which none is in the past.
func TestFinding03_LongTimeouts(t *testing.T) {
	f := &Frame{Host: clocks{}}
	for _, c := range []struct {
		clock, flags byte
		ns           uint64
		want         int64
	}{{1, 0, 7, 7}, {1, 0, math.MaxUint64, math.MaxInt64}, {0, clockAbsolute, math.MaxUint64, math.MaxInt64},
		{1, clockAbsolute, math.MaxInt64, math.MaxInt64 - 5}, {1, clockAbsolute, 1, -4}, {0, clockAbsolute, 5, 0}} {
		sub := make([]byte, subscriptionBytes)
		sub[16], sub[40] = c.clock, c.flags
		binary.LittleEndian.PutUint64(sub[24:], c.ns)
		if got := f.timeout(sub); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestNoFilesAndSockets calls what would open, read or change files and sockets, were there any.
func TestNoFilesAndSockets(t *testing.T) {
	standardStreams := []string{"fd_close", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_read", "fd_write"}
	funcs, refused := wasiFuncs(), 0
	for name := range abi.WASIFunctions {
		if kind, _, _ := strings.Cut(name, "_"); !slices.Contains([]string{"fd", "path", "sock"}, kind) || slices.Contains(standardStreams, name) {
			continue
		}
		if refused++; funcs[name](nil) == errnoSuccess {
			t.Errorf("%s succeeds", name)
		}
	}
	if refused < 25 {
		t.Errorf("only %d functions were called", refused)
	}
	for fd := range uint32(100) {
		if got := standard(fd); (got == errnoSuccess) != (fd <= abi.EventsFD) {
			t.Errorf("descriptor %d: %d", fd, got)
		}
	}
}

// program is a host whose guest has a name.
type program struct {
	engine.Host
	name string
}

func (p program) Program() string { return p.name }

// memory is that of a guest.
type memory []byte

func (m memory) Read(offset, n uint32) ([]byte, bool) {
	if int(offset)+int(n) > len(m) {
		return nil, false
	}
	return m[offset : offset+n], true
}

func (m memory) Size() uint32 { return uint32(len(m)) }

// TestArguments reads arguments as a C library does: their number and bytes first, then their addresses and texts.
func TestArguments(t *testing.T) {
	for name, want := range map[string]string{
		"":      "\x00\x00\x00\x00 \x00\x00\x00\x00 \xff\xff\xff\xff \xff\xff\xff\xff",
		"order": "\x01\x00\x00\x00 \x06\x00\x00\x00 \x0c\x00\x00\x00 order\x00\xff\xff",
	} {
		m := memory(strings.Repeat("\xff", 20))
		f := &Frame{Host: program{name: name}, Memory: m, Stack: []uint64{0, 4}}
		if n := argsSizesGet(f); n != errnoSuccess {
			t.Error(name, n)
		}
		f.Stack = []uint64{8, 12}
		if n := argsGet(f); n != errnoSuccess {
			t.Error(name, n)
		}
		if want = strings.ReplaceAll(want, " ", ""); string(m[:len(want)]) != want {
			t.Errorf("%q: %q, want %q", name, m, want)
		}
	}
}
