package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestInspectData inspects data that is missing, in use by a host, or that a host would refuse.
func TestInspectData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := host.InspectData(dir, 0)
	do(t, err)
	if s.Exists || s.Store || s.Disk.Total == 0 || s.Disk.Reserve == 0 || s.Refused != nil {
		t.Errorf("before: %+v", s)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Error("it was made")
	}
	h, err := host.Open(ctx, host.Config{Dir: dir, Interpreter: true})
	do(t, err)
	s, err = host.InspectData(dir, 1<<62)
	do(t, err)
	if !s.Exists || !s.Store || !s.Open || s.Holder != os.Getpid() || s.Format != host.StoreFormat || len(s.Folders) != 0 ||
		!s.Disk.Full || s.Refused != nil {
		t.Errorf("open: %+v", s)
	}
	do(t, h.Close())
	s, err = host.InspectData(dir, -1)
	do(t, err)
	if s.Open || !s.Store || s.Disk.Full {
		t.Errorf("closed: %+v", s)
	}
	note := filepath.Join(dir, "store", "wfhost-format")
	do(t, os.WriteFile(note, []byte("99\n"), 0o600))
	s, err = host.InspectData(dir, 0)
	do(t, err)
	_, open := host.Open(ctx, host.Config{Dir: dir, Interpreter: true})
	if s.Format != 99 || s.Refused == nil || open == nil || !strings.Contains(open.Error(), s.Refused.Error()) {
		t.Errorf("newer: %+v; Open says %v", s, open)
	}
	if runtime.GOOS == "windows" {
		return
	}
	do(t, os.Chmod(filepath.Join(dir, "store"), 0o755))
	do(t, os.Chmod(filepath.Join(dir, "cache"), 0o755))
	do(t, os.Chmod(dir, 0o777))
	s, err = host.InspectData(dir, 0)
	do(t, err)
	var found []string
	for _, f := range s.Folders {
		verdict := "narrowed"
		if f.Refused {
			verdict = "refused"
		}
		found = append(found, verdict+" "+filepath.Base(f.Path))
		if !strings.Contains(f.Advice, "chmod 0700 "+f.Path) {
			t.Errorf("%+v", f)
		}
	}
	want(t, strings.Join(found, ", "), "refused b, narrowed store, refused cache")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("it was changed: %v %v", info, err)
	}
	do(t, os.RemoveAll(dir))
	do(t, os.WriteFile(dir, nil, 0o600))
	if _, err := host.InspectData(filepath.Join(dir, "below"), 0); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("below a file: %v", err)
	}
}
