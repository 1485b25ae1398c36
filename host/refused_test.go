package host_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestRefusalsComeLate makes each call that a quota can refuse repeatedly: each refusal takes at least a millisecond,
// of which the call itself takes a small part.
func TestRefusalsComeLate(t *testing.T) {
	const n = 50
	h := hosttest.New(t)
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	_, err := a.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("r"))
	do(t, err)
	_, err = b.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("moved"))
	do(t, err)
	h.Settle()
	var file bytes.Buffer
	do(t, b.Export(ctx, "moved", &file, host.ExportOptions{}))
	spec := host.ScheduleSpec{Workflow: "nap", Input: []byte(`"1d"`), When: "0 9 * * *"}
	_, err = a.Schedules().Create(ctx, "s", spec)
	do(t, err)
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxRuns: 1, MaxVersions: 1, MaxSchedules: 1}))
	other := wasmgen.New(0).I32(0).Export(abi.ExportRun).Bytes()
	for name, call := range map[string]func() error{
		"start":    func() error { _, err := a.StartRaw(ctx, "nap", []byte("1d")); return err },
		"upload":   func() error { _, err := a.Upload(ctx, "other", other); return err },
		"restart":  func() error { _, err := a.Restart(ctx, "r", "", ""); return err },
		"schedule": func() error { _, err := a.Schedules().Create(ctx, "t", spec); return err },
		"trigger":  func() error { _, err := a.Schedules().Trigger(ctx, "s", ""); return err },
		"import":   func() error { _, err := a.Import(ctx, bytes.NewReader(file.Bytes()), host.ImportOptions{}); return err },
	} {
		begun := time.Now()
		for range n {
			if err := call(); !errors.Is(err, host.ErrBusy) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if took := time.Since(begun); took < n*time.Millisecond {
			t.Errorf("%s: it was refused %d times in %v", name, n, took)
		}
	}
}

// TestImportBeyondVersions imports a run with an invalid module into a namespace at its limit of versions. The error
// does not reveal that the module is invalid, since it is not compiled.
func TestImportBeyondVersions(t *testing.T) {
	h := hosttest.New(t)
	a, b := tenant(t, h, "a", nil), tenant(t, h, "b", nil)
	_, err := b.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("r"))
	do(t, err)
	h.Settle()
	var file bytes.Buffer
	do(t, b.Export(ctx, "r", &file, host.ExportOptions{}))
	of, err := archive.Read(bytes.NewReader(file.Bytes()))
	do(t, err)
	broken := wasmgen.New(0).Op(0x00).Export("_initialize").I32(0).Export(abi.ExportRun).Bytes()
	l := &liar{Source: withModule{wasm: broken}, run: *of}
	l.run.State.LogRecords, l.run.State.LogLines = 0, 0
	l.run.State.Module = sha256.Sum256(broken)
	lied(&l.run.Entries[0], of.State.Module.String(), l.run.State.Module.String())
	var changed bytes.Buffer
	do(t, archive.Write(ctx, &changed, l, of.State.Run, true, false))
	for quota, want := range map[int64]error{1: host.ErrBusy, 2: host.ErrRejected} {
		do(t, h.SetQuota(ctx, "a", host.Quota{MaxVersions: quota}))
		if _, err := a.Import(ctx, bytes.NewReader(changed.Bytes()), host.ImportOptions{}); !errors.Is(err, want) {
			t.Error(fmt.Errorf("quota %d: %w", quota, err))
		}
	}
}
