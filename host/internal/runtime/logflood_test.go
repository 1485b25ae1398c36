package runtime

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFloodsOfTheLogAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := withoutFloods(slog.New(slog.NewTextHandler(&out, nil))).With("host", "a")
		for i := range 64 {
			log.Warn("partition was lost", "partition", i)
		}
		log.Warn("another message")
		<-time.After(floodTime)
		log.Warn("partition was lost", "partition", 64)
		log.Warn("partition was lost", "partition", 65)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != floodLines+3 {
			t.Fatalf("%d lines:\n%s", len(lines), out.String())
		}
		for i, want := range []string{"partition=0", "partition=1", "partition=2", "partition=3", "partition=4", "another message",
			"partition=64 leftOut=59", "partition=65"} {
			if !strings.HasSuffix(lines[i], want) && !strings.Contains(lines[i], `"`+want+`"`) {
				t.Errorf("line %d is %s, want %s", i, lines[i], want)
			}
		}
	})
}
