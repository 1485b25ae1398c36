package calls

import (
	"encoding/binary"
	"math"
	"testing"

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
