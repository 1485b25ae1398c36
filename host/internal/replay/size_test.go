package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
)

// TestSizesOfOldRuns refuses a result and an error that are too large. No journal records these refusals, so a run with
// older rules, which report one byte more than the limit whatever the size, gets the same text in a replay.
func TestSizesOfOldRuns(t *testing.T) {
	large := make([]byte, 3<<20)
	for rules, want := range map[int]int{0: abi.MaxPayloadBytes + 1, journal.RulesHandle: abi.MaxPayloadBytes + 1, journal.RulesSize: 3 << 20} {
		m := newTail(t).machine(func(c *Config) { c.Started.Rules = rules })
		for _, end := range []func([]byte) int64{m.Complete, m.Fail} {
			must(t, abi.TooLarge.Neg())(end(large), nil)
			if says := fmt.Sprintf("has %d bytes, the limit is 1048576", want); !strings.Contains(string(m.Last()), says) {
				t.Errorf("rules %d: %s, want %q", rules, m.Last(), says)
			}
		}
	}
}

// TestLargeEndIsCopied ends a body and a query with more than is kept: the machine keeps no reference to the guest's
// memory.
func TestLargeEndIsCopied(t *testing.T) {
	large := make([]byte, 3<<20)
	m := newTail(t).machine(func(c *Config) { c.Mode = Body })
	m.inBody = true
	_ = m.StepEnd(0, large) // which is an error in any case
	m.query = true
	_, _ = m.Reply(0, 0, large) // likewise
	large[0] = 'x'
	o := m.Outcome()
	for what, b := range map[string][]byte{"body": o.Body, "reply": o.Reply} {
		if len(b) != abi.MaxPayloadBytes+1 || b[0] != 0 {
			t.Errorf("%s: %d bytes are kept, the first is %d", what, len(b), b[0])
		}
	}
	if o.BodyBytes != len(large) || o.ReplyBytes != len(large) {
		t.Errorf("they had %d and %d bytes", o.BodyBytes, o.ReplyBytes)
	}
}

// TestLargeReportIsCopied fails a body and a step function with reports over the limit: the machine keeps a copy, cut
// at MaxReportBytes.
func TestLargeReportIsCopied(t *testing.T) {
	const most = abi.MaxReportBytes
	for n, want := range map[int]int{3 << 20: 3 << 20, most: most, most + 1: abi.MaxPayloadBytes + 1} {
		large := make([]byte, n)
		body := newTail(t).machine(func(c *Config) { c.Mode = Body })
		body.inBody = true
		_ = body.StepEnd(1, large) // which is an error in any case
		function := newTail(t).machine(func(c *Config) { c.Mode = StepFn })
		must(t, 0)(function.Fail(large), nil)
		large[0] = 'x'
		for what, b := range map[string][]byte{"body": body.Outcome().Body, "step function": function.Outcome().Failure} {
			if len(b) != want || b[0] != 0 {
				t.Errorf("%s: %d bytes of %d are kept, want %d; the first is %d", what, len(b), n, want, b[0])
			}
		}
	}
}
