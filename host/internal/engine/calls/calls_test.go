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
