package host_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

// TestNothingToDrain ends a host that does not wait for attempts: if none is in progress, the log does not mention
// any.
func TestNothingToDrain(t *testing.T) {
	var log bytes.Buffer
	h, err := host.Open(ctx, host.Config{Store: memstore.New().Open(), Drain: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	do(t, err)
	running, stop := context.WithCancel(ctx)
	stop()
	do(t, h.Run(running))
	do(t, h.Close())
	if strings.Contains(log.String(), "still running") {
		t.Error(log.String())
	}
}
