package main

import (
	"math"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store"
)

// TestInstantsInText shows entries with the earliest and the latest instants as lines of text.
func TestInstantsInText(t *testing.T) {
	for ms, want := range map[int64]string{math.MinInt64: "until 0000-01-01T00:00:00.000Z", abi.MaxUnixMs: "until 9999-12-31T23:59:59.999Z"} {
		e := host.Entry{Kind: store.KindSleep, Name: "nap", Handle: 1, DueUnixMs: ms, HasDue: true}
		if line := entryLine(httpapi.EntryOf(e)); !strings.Contains(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
	}
}

// TestLongSleepIsTold shows sleeps that exceed a time.Duration, and one that is over.
func TestLongSleepIsTold(t *testing.T) {
	for ms, want := range map[int64]string{110_000 * 24 * 3_600_000: "(110000d)", math.MinInt64: "(0s)"} {
		e := host.Entry{Kind: store.KindSleep, Name: "nap", Handle: 1, DueUnixMs: ms, HasDue: true}
		if line := story(e); !strings.HasSuffix(line, want) {
			t.Errorf("%s, want %s", line, want)
		}
	}
}
