package baddisk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// phaseEnv tells the child processes of TestFullTmpfs what to do, and baseEnv where.
const phaseEnv, baseEnv = "WFHOST_TEST_PHASE", "WFHOST_TEST_BASE"

// TestFullTmpfs fills a file system of 64 MiB under a host. New work is refused before it is full, runs continue in
// the reserve, and new work is accepted when there is space again. When even the reserve is used up, the store fails;
// when there is space again, a restart continues, and nothing is lost. The file system is mounted in a namespace of
// child processes, and each restart is a process.
func TestFullTmpfs(t *testing.T) {
	phases := map[string]func(*testing.T, string){"fill": fill, "full": openFull, "after": openAfter}
	if phase, ok := phases[os.Getenv(phaseEnv)]; ok {
		phase(t, os.Getenv(baseEnv))
		return
	}
	if testing.Short() {
		t.Skip("slow")
	}
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		t.Skip("this system lets nobody mount a file system in a namespace of their own: ", err)
	}
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "disk"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-rm", "sh", "-c", `mount -t tmpfs -o size=64m none "$`+baseEnv+`/disk" || exit
		for phase in fill full after; do `+phaseEnv+`=$phase "$0" "$@" || exit; done`,
		os.Args[0], "-test.run=^TestFullTmpfs$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), baseEnv+"="+base)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: TestFullTmpfs") != len(phases) {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// filler is a file that uses up the space of a disk.
type filler struct {
	t    *testing.T
	path string
}

// leave fills the disk until at most the given number of bytes is free.
func (f filler) leave(m *machine, free uint64) {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for block := make([]byte, 64<<10); ; {
		d, err := m.store.Disk()
		if err != nil {
			f.t.Fatal(err)
		}
		if d.Free <= free {
			return
		}
		if _, err := file.Write(block[:min(uint64(len(block)), d.Free-free)]); err != nil && !errors.Is(err, syscall.ENOSPC) {
			f.t.Fatal(err)
		}
	}
}

// tmpfs is what the phases share.
type tmpfs struct {
	*machine
	known *known
	data  string // the folder of the store
	files filler
	path  string // of the file with the known runs
}

func newTmpfs(t *testing.T, base string) *tmpfs {
	f := &tmpfs{machine: newMachine(t, filepath.Join(base, "cache")), known: newKnown(), data: filepath.Join(base, "disk", "store"),
		files: filler{t, filepath.Join(base, "disk", "filler")}, path: filepath.Join(base, "known.json")}
	if b, err := os.ReadFile(f.path); err == nil {
		if err := json.Unmarshal(b, f.known); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *tmpfs) start(id string, workflow string, n int, opts ...host.StartOption) error {
	_, err := f.Start(f.t.Context(), workflow, n, append(opts, host.WithRunID(id))...)
	if err == nil {
		f.known.Started[id] = true
	}
	return err
}

// free removes the file that uses up the space.
func (f *tmpfs) free() {
	f.t.Helper()
	if err := os.Remove(f.files.path); err != nil {
		f.t.Fatal(err)
	}
}

// fill fills the disk up to the reserve, makes space, and fills it completely.
func fill(t *testing.T, base string) {
	const reserve = 16 << 20
	f := newTmpfs(t, base)
	f.cfg.DiskReserve = reserve
	if err := f.open(f.data, pebblestore.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.UploadAll(t.Context(), "", guest(t), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := f.start(fmt.Sprint("small-", i), "iterate", 3); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 { // together more than the log, whose space is preallocated
		in := host.WithStartIn(time.Hour + time.Duration(i)*time.Second)
		if err := f.start(fmt.Sprint("large-", i), "payload", 60_000+i, in); err != nil { // half a MiB of JSON, different each time
			t.Fatal(err)
		}
	}
	f.files.leave(f.machine, reserve-1<<20)
	if err := f.start("refused", "iterate", 1); !errors.Is(err, host.ErrDiskFull) {
		t.Fatal("a start with a nearly full disk:", err)
	}
	if err := f.advance(12 * time.Second); err != nil { // the reserve is for this
		t.Fatal(err)
	}
	if err := f.known.learn(f.machine); err != nil || len(f.known.Results) != 20 {
		t.Fatalf("%d runs have ended in the reserve, want 20: %v", len(f.known.Results), err)
	}
	f.free()
	if err := f.start("accepted", "iterate", 1); err != nil {
		t.Fatal("a start when there is room:", err)
	}
	f.files.leave(f.machine, 0)
	if err := f.advance(2 * time.Hour); err == nil {
		t.Fatal("runs went on with nothing free")
	}
	if err := f.start("failed", "iterate", 1); !errors.Is(err, host.ErrDiskFull) && !errors.Is(err, host.ErrStoreFailed) {
		t.Fatal("a start when the disk is full:", err)
	}
	err := f.close()
	if !errors.Is(err, host.ErrStoreFailed) || !strings.Contains(err.Error(), "no space left on device") {
		t.Fatal("the host has stopped, and says:", err)
	}
	t.Log("it said:", err)
	b, err := json.Marshal(f.known)
	if err == nil {
		err = os.WriteFile(f.path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openFull opens the store on the still full disk: it works, or fails with a sentence.
func openFull(t *testing.T, base string) {
	f := newTmpfs(t, base)
	err := f.open(f.data, pebblestore.Options{})
	if err == nil {
		err = f.close()
	}
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Fatal("with nothing free: ", err)
	}
	t.Log("it said:", err)
}

// openAfter opens it when there is room.
func openAfter(t *testing.T, base string) {
	f := newTmpfs(t, base)
	f.free()
	report, err := pebblestore.Check(t.Context(), f.data, pebblestore.CheckOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("%v %+v", err, report)
	}
	f.cfg.DiskReserve = 1 << 20
	if err := f.open(f.data, pebblestore.Options{}); err != nil {
		t.Fatal(err)
	}
	f.known.check(f.machine)
	if err := f.advance(2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	f.known.check(f.machine)
	if err := f.known.learn(f.machine); err != nil || len(f.known.Results) != len(f.known.Started) {
		t.Fatalf("%d of %d runs have ended: %v", len(f.known.Results), len(f.known.Started), err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
}
