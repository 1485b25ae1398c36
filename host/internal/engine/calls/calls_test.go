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

// clocks is a host whose clocks show 5.
type clocks struct{ engine.Host }

func (clocks) MonoNs() int64 { return 5 }
func (clocks) WallNs() int64 { return 5 }

// TestLongTimeouts passes timeouts that overflow: none of them is in the past.
func TestLongTimeouts(t *testing.T) {
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

// TestNoFilesAndSockets makes calls that would open, read or change files and sockets.
func TestNoFilesAndSockets(t *testing.T) {
	standardStreams := []string{"fd_close", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_read", "fd_write"}
	funcs, refused := wasiFuncs(), 0
	for name := range abi.WASIFunctions {
		if kind, _, _ := strings.Cut(name, "_"); !slices.Contains([]string{"fd", "path", "sock"}, kind) || slices.Contains(standardStreams, name) {
			continue
		}
		refused++
		if funcs[name](nil) == errnoSuccess {
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

// TestArguments reads arguments as a C library does: first their number and total size, then their addresses and
// texts.
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
		want = strings.ReplaceAll(want, " ", "")
		if string(m[:len(want)]) != want {
			t.Errorf("%q: %q, want %q", name, m, want)
		}
	}
}

// stopped is the panic of a guest that a call has stopped.
type stopped struct{ reason error }

func (s *stopped) Halt(reason error) { s.reason = reason; panic(s) }
func (*stopped) Freezes() bool       { return false }

// charged is a host that counts charges, answers names with their length, and returns the same random bytes each
// time.
type charged struct {
	engine.Host
	worked int64
	random byte
}

func (c *charged) Work(n int64) error { c.worked += n; return nil }
func (c *charged) Input() []byte      { return []byte("input") }
func (c *charged) Sleep(name string, _ int64) (int64, error) {
	return int64(len(name)), nil
}
func (c *charged) Await(handles []int64) (int64, error) { return int64(len(handles)), nil }
func (c *charged) Random(p []byte) {
	for i := range p {
		p[i] = c.random
	}
}

// answer makes a call, and returns its answer, or why it stopped the guest.
func answer(fn Func, h engine.Host, m memory, args ...uint64) (n uint64, reason error) {
	guest := &stopped{}
	defer func() {
		if r := recover(); r != nil && r != any(guest) {
			panic(r)
		}
		reason = guest.reason
	}()
	return fn(&Frame{Guest: guest, Host: h, Memory: m, Stack: args}), nil
}

// TestNothingIsAnywhere passes no bytes at all kinds of addresses, and some bytes outside of the memory.
func TestNothingIsAnywhere(t *testing.T) {
	m := memory(make([]byte, 100))
	funcs := workflowFuncs()
	for _, at := range []uint64{0, 1, 99, 100, 101, 1 << 20, math.MaxUint32} {
		for name, want := range map[string]uint64{abi.FnInput: 5, abi.FnSleepStart: 0, abi.FnAwait: 0, abi.FnRandom: 0} {
			if n, err := answer(funcs[name], &charged{}, m, at, 0, 1); n != want || err != nil {
				t.Errorf("%s of nothing at %d: %d, %v", name, at, n, err)
			}
			if _, err := answer(funcs[name], &charged{}, m, at, 1, 1); (err == nil) != (at < 100 && (name != abi.FnAwait || at < 92)) {
				t.Errorf("%s of something at %d: %v", name, at, err)
			}
		}
	}
}

// TestHandlesNeedNoAlignment reads a list of handles at an odd address.
func TestHandlesNeedNoAlignment(t *testing.T) {
	if n, err := answer(workflowFuncs()[abi.FnAwait], &charged{}, make(memory, 30), 3, 3); n != 3 || err != nil {
		t.Error(n, err)
	}
}

// TestSeed computes AssemblyScript's seed from the run's random bytes: a number from 0 to less than 1.
func TestSeed(t *testing.T) {
	seed := envFuncs()["seed"]
	for random, want := range map[byte]float64{0: 0, 0x80: 0x80808080808080p-56, 0xff: 1 - 0x1p-53} {
		h := &charged{random: random}
		bits, err := answer(seed, h, nil)
		if got := math.Float64frombits(bits); math.Abs(got-want) > 1e-9 || got >= 1 || err != nil || h.worked != 8 {
			t.Errorf("%#x: %v, want %v; %v, charged %d", random, got, want, err, h.worked)
		}
	}
}
