package host_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestQuotaOfVersions refuses uploads and imports that would exceed the versions of a namespace, but not those that
// add no version.
func TestQuotaOfVersions(t *testing.T) {
	h := hosttest.New(t)
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxVersions: 2}))
	a := tenant(t, h, "a", nil)
	nap := napModule()
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "more versions would pass the quota of 2 that the namespace has; delete some") {
			t.Error(err)
		}
	}
	upload := func(name string, opts ...host.UploadOption) error {
		_, err := a.Upload(ctx, name, nap, opts...)
		return err
	}
	do(t, upload("nap"))
	do(t, upload("other"))
	refused(upload("third"))
	refused(upload("nap", host.AllowStep("charge")))
	do(t, upload("nap")) // which is there
	// Its start-up would fail, but it is not compiled.
	broken := wasmgen.New(0).Op(0x00).Export("_initialize").I32(0).Export(abi.ExportRun).Bytes()
	_, err := a.Upload(ctx, "broken", broken)
	refused(err)
	if _, err := h.Upload(ctx, "broken", broken); !errors.Is(err, host.ErrRejected) {
		t.Errorf("elsewhere: %v", err)
	}
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxVersions: 1}))
	do(t, upload("nap"))
	do(t, h.SetQuota(ctx, "a", host.Quota{MaxVersions: 2}))

	b := tenant(t, h, "b", nil)
	_, err = b.Upload(ctx, "late", nap)
	do(t, err)
	_, err = b.StartRaw(ctx, "late", []byte("1d"), host.WithRunID("r"))
	do(t, err)
	h.Settle()
	var archive bytes.Buffer
	do(t, b.Export(ctx, "r", &archive, host.ExportOptions{}))
	_, err = a.Import(ctx, bytes.NewReader(archive.Bytes()), host.ImportOptions{})
	refused(err)
	do(t, a.Workflows().DeleteVersion(ctx, "other", 1))
	_, err = a.Import(ctx, bytes.NewReader(archive.Bytes()), host.ImportOptions{})
	do(t, err)
}
