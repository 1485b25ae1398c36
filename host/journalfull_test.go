package host_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store/memstore"
)

// hog is a module that writes 12 MiB of its memory, sleeps so that this is measured, emits 4 MiB, and makes a long
// step.
func hog() []byte {
	m := wasmgen.New(1)
	m.Pages = 256
	m.I32(1<<20).I32(1).I32(12<<20).Op(0xfc, 11, 0).Text("nap").I64(1).Call(abi.FnSleep).Drop() // memory.fill
	m.I64(0).Set(0).While().Get(0).I64(64).NotLess().Break().Text("t").I32(0).I32(62<<10).Call(abi.FnEmit).Drop().Count(0, 1).EndWhile()
	return m.Text("s").Text("host/stay").Text("").Text("").I32(0).I32(0).Call(abi.FnStepDo).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// lateNapper is a module that writes 12 MiB of its memory, emits 180 KiB, and sleeps for two seconds.
func lateNapper() []byte {
	m := wasmgen.New(0)
	m.Pages = 256
	m.I32(1<<20).I32(1).I32(12<<20).Op(0xfc, 11, 0)
	for range 3 {
		m.Text("t").I32(0).I32(60 << 10).Call(abi.FnEmit).Drop()
	}
	return m.Text("nap").I64(2000).Call(abi.FnSleep).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// Guests that wait for room for their journals do not hold memory for guests in the meantime: the guest that may
// exceed the budget makes a long step, and another run still wakes.
func TestWaitingForJournalsHoldsNoInstance(t *testing.T) {
	h, err := host.Open(ctx, host.Config{Store: memstore.New().Open(), JournalBytes: 4 << 20, GuestBytes: 128 << 20})
	do(t, err)
	stay := make(chan struct{})
	host.HandleStep(h, "stay", func(ctx context.Context, _ any) (any, error) {
		select {
		case <-stay:
		case <-ctx.Done():
		}
		return nil, nil
	})
	ran := make(chan error, 1)
	live, stop := context.WithCancel(ctx)
	go func() { ran <- h.Run(live) }()
	defer func() {
		close(stay)
		stop()
		<-ran
		do(t, h.Close())
	}()
	_, err = h.Upload(ctx, "hog", hog(), host.AllowStep("stay"))
	do(t, err)
	_, err = h.Upload(ctx, "nap", lateNapper())
	do(t, err)
	for i := range 3 {
		_, err = h.Start(ctx, "nap", nil, host.WithRunID(fmt.Sprint("nap-", i)))
		do(t, err)
	}
	for i := range 40 {
		_, err = h.Start(ctx, "hog", nil, host.WithRunID(fmt.Sprint("hog-", i)))
		do(t, err)
	}
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for i := range 3 {
		r, err := h.Wait(wait, fmt.Sprint("nap-", i))
		if err != nil || r.Status != host.Completed {
			t.Fatalf("a run that wakes beside guests that wait for journals: %s %v; %+v", r.Status, err, h.Stats())
		}
	}
	if bytes := h.Stats().JournalBytes; bytes < 4<<20 {
		t.Errorf("journals hold %d bytes, which is less than their budget: the test shows nothing", bytes)
	}
}
