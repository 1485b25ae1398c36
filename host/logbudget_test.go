package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestLogOfActivations logs 2 x 40 KiB in each of three activations, which replays repeat. The first line of each is
// kept. A dropped line does not come back, and does not use up the budget of later lines.
func TestLogOfActivations(t *testing.T) {
	for _, crash := range []bool{false, true} {
		m := wasmgen.New(1)
		m.Pages = 8
		for i := range 3 {
			for _, c := range "ab" {
				m.I32(1).Text(fmt.Sprint(i) + strings.Repeat(string(c), 40<<10)).Call(abi.FnLog).Drop()
			}
			m.Text(fmt.Sprint("nap ", i)).I64(1000).Call(abi.FnSleep).Drop()
		}
		h := handmade(t, m.I32(0))
		for range 3 {
			h.Settle()
			if crash {
				h.Crash()
			}
			h.Advance(time.Second)
		}
		h.Finish("r")
		lines, err := h.Logs(ctx, "r", 0, 10)
		do(t, err)
		var kept []string
		for _, l := range lines {
			kept = append(kept, l.Text[:2])
		}
		want(t, strings.Join(kept, " "), "0a 1a 2a")
	}
}
