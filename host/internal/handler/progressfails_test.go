package handler_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
)

// TestWritesThatFail keeps details in memory if they cannot be written, and writes them when that is possible.
func TestWritesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		var last atomic.Value
		last.Store("")
		k := handler.NewProgressKeeper(clock.System(), func(_ handler.Attempt, details []byte) error {
			if !works.Load() {
				return errors.New("busy")
			}
			last.Store(string(details))
			return nil
		})
		defer k.Close()
		a := handler.Attempt{IdempotencyKey: "k", Number: 1}
		k.Record(a, []byte("1"))
		pass(time.Hour)
		if d := string(k.Latest(&a)); d != "1" || last.Load() != "" {
			t.Errorf("%q is in memory, %q is durable", d, last.Load())
		}
		works.Store(true)
		pass(time.Hour)
		if d := string(k.Latest(&a)); d != "" || last.Load() != "1" {
			t.Errorf("%q is in memory, %q is durable", d, last.Load())
		}
	})
}

// TestFlushWaits has a flush wait for details that are being written.
func TestFlushWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		durable, disk := "", make(chan bool)
		k := handler.NewProgressKeeper(clock.System(), func(_ handler.Attempt, details []byte) error {
			<-disk
			durable = string(details)
			return nil
		})
		defer k.Close()
		go k.Record(handler.Attempt{IdempotencyKey: "k", Number: 1}, []byte("1"))
		synctest.Wait()
		flushed := false
		go func() {
			k.Flush("k")
			flushed = true
		}()
		synctest.Wait()
		if flushed {
			t.Error("it did not wait")
		}
		close(disk)
		synctest.Wait()
		if !flushed || durable != "1" {
			t.Error(flushed, durable)
		}
	})
}
