package host_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestFailuresSayWhy runs modules that crash, and checks the errors.
func TestFailuresSayWhy(t *testing.T) {
	print := func() *wasmgen.Module { // "boom" to descriptor 2
		m := wasmgen.New(1).I32(16).I64(wasmgen.DataAt | 5<<32).Store64().Text("boom\n").Drop().Drop()
		return m.I32(2).I32(16).I32(1).I32(32).Call("wasi:fd_write").Drop()
	}
	for name, c := range map[string]struct {
		m             *wasmgen.Module
		kind, message string
	}{
		"memory":      {wasmgen.New(1).I32(2000).Op(0x40, 0).Drop().Op(0x00), "memory", "out of memory: it has 131072 bytes, the limit is 67108864; unreachable"},
		"unreachable": {print().Op(0x00), "trap", "boom (unreachable)"},
		"exit":        {print().I32(3).Call("wasi:proc_exit"), "", "boom (the workflow returned 3)"},
		"own words": {print().I32(2000).Op(0x40, 0).Drop().Text(`{"message":"mine","kind":"trap"}`).Call(abi.FnFail).Drop().
			I32(3).Call("wasi:proc_exit"), "trap", "mine"},
	} {
		h := handmade(t, c.m.I32(0))
		if e := failure(t, h, "r"); e.Kind != c.kind || e.Message != c.message {
			t.Errorf("%s: %+v, want %q %q", name, e, c.kind, c.message)
		}
		if err := h.Replay(ctx, "r"); err != nil {
			t.Errorf("%s: the replay differs: %v", name, err)
		}
	}
}

// TestGoFailuresSayWhy breaks Go guests down.
func TestGoFailuresSayWhy(t *testing.T) {
	f := newMixed(t)
	for _, name := range []string{"outofmemory", "crash"} {
		if _, err := f.Start(ctx, name, 0, host.WithRunID(name)); err != nil {
			t.Fatal(err)
		}
	}
	if e := failure(t, f.Host, "outofmemory"); e.Kind != abi.KindMemory || !strings.Contains(e.Message, "out of memory") {
		t.Errorf("%+v", e)
	}
	if e := failure(t, f.Host, "crash"); e.Message != "panic: nobody recovers this (unreachable)" {
		t.Errorf("%+v", e)
	}
	if _, err := f.Start(ctx, "bodyoutofmemory", 0, host.WithRunID("b")); err != nil {
		t.Fatal(err)
	}
	f.Finish("b")
	if got, err := host.Result[string](ctx, f.Host.Host, "b"); !strings.HasPrefix(got, "memory: ") || !strings.Contains(got, "out of memory") {
		t.Error(got, err)
	}
}

// TestUploadSaysWhy uploads a module that prints why its start-up crashes.
func TestUploadSaysWhy(t *testing.T) {
	h := hosttest.New(t)
	m := wasmgen.New(0).I32(16).I64(wasmgen.DataAt | 5<<32).Store64().Text("boom\n").Drop().Drop().
		I32(2).I32(16).I32(1).I32(32).Call("wasi:fd_write").Drop().Op(0x00).Export(abi.ExportInitialize)
	_, err := h.Upload(ctx, "w", m.I32(0).Export(abi.ExportRun).Bytes())
	if !errors.Is(err, host.ErrRejected) || err.Error() != "module rejected: boom (unreachable)" {
		t.Error(err)
	}
}

// describing is a module that computes forever while it is asked for its description.
func describing() []byte {
	return spin().Drop().Export(abi.ExportDescribe).I32(0).Export(abi.ExportRun).Bytes()
}

// TestUploadsHaveTheirOwnSlots uploads more modules that compute forever than there are places: runs continue beside
// them, and each upload ends when its client disconnects.
func TestUploadsHaveTheirOwnSlots(t *testing.T) {
	h := handmade(t, wasmgen.New(0).I32(0), hosttest.WithConfig(func(c *host.Config) {
		c.MaxInstances, c.MaxFuel, c.MaxSegmentCPU = 1, math.MaxInt64/2, time.Hour
	}))
	h.Finish("r")
	const uploads = 4
	own, leave := context.WithCancelCause(ctx)
	ended := make(chan error, uploads)
	for range uploads {
		go func() {
			_, err := h.Upload(own, "d", describing())
			ended <- err
		}()
	}
	for h.Stats().Instances < 2 { // until the maximum is in progress
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	if _, err := h.Start(ctx, "w", nil, host.WithRunID("beside")); err != nil {
		t.Fatal(err)
	}
	soon(t, "the run", func() {
		if r := h.Finish("beside"); r.Status != host.Completed {
			t.Error(r.Status)
		}
	})
	gone := errors.New("the client has gone")
	leave(gone)
	soon(t, "the uploads", func() {
		for range uploads {
			if err := <-ended; !errors.Is(err, gone) || errors.Is(err, host.ErrRejected) {
				t.Error(err)
			}
		}
	})
	if n := h.Stats().Instances; n != 0 {
		t.Error(n, "go on")
	}
}

// TestManyUploads refuses uploads when too many bytes of uploads are waiting.
func TestManyUploads(t *testing.T) {
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.MaxFuel, c.MaxSegmentCPU = math.MaxInt64/2, time.Hour }))
	own, leave := context.WithCancel(ctx)
	defer leave()
	large := append(describing(), 0) // a custom section of the maximum size
	large = append(large, 0x80, 0x80, 0x80, 0x04)
	large = append(large, make([]byte, 8<<20)...)
	const uploads = 2 + 64/8 // which are at it, and wait
	ended := make(chan error, uploads)
	for range uploads {
		go func() {
			_, err := h.Upload(own, "d", large)
			ended <- err
		}()
	}
	if err := <-ended; !errors.Is(err, host.ErrBusy) { // the last one: together, the uploads slightly exceed the limit
		t.Fatal(err)
	}
	leave()
	for range uploads - 1 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
