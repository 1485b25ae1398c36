package doctor

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// is compares the verdict of a check, and checks that there is advice for warnings and failures only.
func is(t *testing.T, c Check, want Status, says string) {
	t.Helper()
	if c.Status != want || !strings.Contains(c.Found+"\n"+c.Advice, says) || (c.Advice != "") != (want == Warn || want == Fail) {
		t.Errorf("%+v, want %s, saying %q", c, want, says)
	}
}

func TestFsyncVerdicts(t *testing.T) {
	all := func(d time.Duration) []time.Duration {
		list := make([]time.Duration, 200)
		for i := range list {
			list[i] = d
		}
		return list
	}
	tail := func(d, last time.Duration) []time.Duration { return append(all(d), last, last, last) }
	is(t, judgeFsync(all(time.Millisecond), "ext4", false, false), OK, "p50 1ms, p99 1ms of 200 fsyncs, ext4")
	is(t, judgeFsync(all(fsyncSlowMedian), "", false, false), OK, "")
	is(t, judgeFsync(all(fsyncSlowMedian+1), "", false, false), Warn, "runs will be slow")
	is(t, judgeFsync(tail(time.Millisecond, fsyncSlowTail+1), "", false, false), Warn, "p99 100ms of 203")
	is(t, judgeFsync(all(fsyncBadMedian+1), "", false, false), Fail, "use a faster disk")
	is(t, judgeFsync(tail(time.Millisecond, fsyncBadTail+1), "", false, false), Fail, "p99 1s")
	is(t, judgeFsync(all(5*time.Microsecond), "xfs", false, false), Warn, "ask whether fsyncs reach a disk")
	is(t, judgeFsync(all(time.Microsecond), "tmpfs", true, false), Warn, "this is memory")
	is(t, judgeFsync(all(time.Millisecond), "nfs", false, true), Warn, "network file systems")
	if c := judgeFsync(all(1500*time.Microsecond), "xfs", false, false); c.Values["p50_ms"] != 1.5 || c.Values["count"] != 200 {
		t.Errorf("%+v", c.Values)
	}
}

// TestFsyncMeasures checks that the measurement leaves nothing in the folder, and reports why it cannot measure.
func TestFsyncMeasures(t *testing.T) {
	dir := t.TempDir()
	took, err := measureFsync(t.Context(), dir, time.Nanosecond)
	if err != nil || len(took) != fewestFsyncs || took[0] <= 0 {
		t.Errorf("%v %v", took, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
	is(t, fsync(t.Context(), filepath.Join(dir, "missing"), time.Second), Fail, "it cannot be measured")
}

func TestClockVerdicts(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	const took = 2 * time.Second
	is(t, judgeClock(now, took+time.Millisecond, took, ""), OK, "2026-11-25T12:00:00Z; 1ms off the monotonic clock in 2s")
	is(t, judgeClock(now, took-clockStep-1, took, ""), Warn, "it was set while it was watched")
	is(t, judgeClock(now, took+time.Hour, took, ""), Fail, "1h0m0s off")
	is(t, judgeClock(now, took, took, "the kernel says so"), Warn, "the kernel says so")
	is(t, judgeClock(time.Unix(0, 0), took, took, ""), Fail, "set the clock")
	is(t, judgeClock(now.AddDate(200, 0, 0), took, took, ""), Fail, "set the clock")
}

func TestLimitVerdicts(t *testing.T) {
	b := Budgets{GuestBytes: 160 << 20, ParkBytes: 128 << 20, PoolBytes: 32 << 20, WarmBytes: 64 << 20, JournalBytes: 96 << 20,
		ModuleBytes: -1, MaxConnections: 4096}
	is(t, judgeFiles(65536, 0, b), OK, "of this shell")
	is(t, judgeFiles(math.MaxUint64, 7, b), OK, "unlimited of the server (process 7); 4352 are wanted")
	is(t, judgeFiles(1024, 7, b), Warn, "with this, 768 connections are accepted")
	is(t, judgeFiles(fewestFiles-1, 7, b), Fail, "the store fails")

	if got := b.sum(); got != 736<<20 {
		t.Errorf("the budgets come to %d MiB", got>>20)
	}
	is(t, judgeMemory(2<<30, "of its cgroup", b), OK, "2048 MiB of its cgroup; a server may hold 736 MiB: guests 160 MiB")
	is(t, judgeMemory(800<<20, "of its cgroup", b), Warn, "--guest-bytes")
	is(t, judgeMemory(700<<20, "of its cgroup", b), Fail, "the kernel kills it")

	is(t, judgeAddresses(math.MaxUint64, false, 0), OK, "unlimited")
	is(t, judgeAddresses(math.MaxUint64, true, 0), Warn, "vm.overcommit_memory is 2")
	is(t, judgeAddresses(64<<30, false, 0), Warn, "64 GiB of this shell")
	is(t, judgeAddresses(4<<30, false, 0), Fail, "need addresses, not memory")
}

func TestCompilerVerdicts(t *testing.T) {
	is(t, judgeGo("go1.26.3", true), OK, "go1.26.3")
	is(t, judgeGo("go1.25.9", true), Warn, "install go1.26 or later")
	is(t, judgeGo("", false), Skip, "a server does not")
	is(t, judgeClang(true, true, true), OK, "build workflows in C")
	is(t, judgeClang(false, false, false), Skip, "a server does not")
	is(t, judgeClang(true, false, true), Warn, "its target wasm32 missing")
	is(t, judgeClang(true, true, false), Warn, "wasm-ld missing")
	is(t, judgeClang(false, false, true), Warn, "clang missing")
}

func TestDataVerdicts(t *testing.T) {
	here := host.DataState{Dir: "d", Exists: true, Store: true, Format: host.StoreFormat}
	is(t, dataOf(&here), OK, "which this release writes")
	with := func(change func(*host.DataState)) *host.DataState {
		s := here
		change(&s)
		return &s
	}
	is(t, dataOf(with(func(s *host.DataState) { s.Open, s.Holder = true, 7 })), OK, "a server has it open (process 7)")
	is(t, dataOf(with(func(s *host.DataState) { s.Format-- })), Warn, "becomes")
	is(t, dataOf(with(func(s *host.DataState) { s.Format = 0; s.Open = true })), Warn, "of an earlier release")
	is(t, dataOf(with(func(s *host.DataState) { s.Store = false })), OK, "has no store yet")
	is(t, dataOf(with(func(s *host.DataState) { s.Exists = false })), Skip, "there is no folder d")
	is(t, dataOf(with(func(s *host.DataState) { s.Refused = os.ErrInvalid })), Fail, "invalid argument")

	is(t, foldersOf(&here), OK, "as they should be")
	is(t, foldersOf(with(func(s *host.DataState) { s.Folders = []host.FolderFault{{Text: "a", Advice: "x"}} })), Warn, "x")
	is(t, foldersOf(with(func(s *host.DataState) {
		s.Folders = []host.FolderFault{{Text: "a", Advice: "x"}, {Text: "b", Advice: "y", Refused: true}}
	})), Fail, "a; b\nx; y")

	space := func(free, reserve uint64, full bool) *host.DataState {
		return &host.DataState{Disk: host.DiskState{Free: free, Total: 1 << 40, Reserve: reserve, Full: full}}
	}
	is(t, spaceOf(space(100<<30, 256<<20, false)), OK, "100 GiB of 1024 GiB free, 256 MiB reserved")
	is(t, spaceOf(space(1<<30-1, 256<<20, false)), Warn, "make room soon")
	is(t, spaceOf(space(100<<20, 256<<20, true)), Fail, "refuses what is new")
	is(t, spaceOf(&host.DataState{}), Skip, "")
}

// TestRun checks an existing folder: the report has each check once, and the worst verdict.
func TestRun(t *testing.T) {
	r := Run(t.Context(), Config{Data: t.TempDir(), Fsync: time.Nanosecond, Budgets: Budgets{MaxConnections: 1}})
	want := []string{"data", "folders", "fsync", "disk space", "clock", "open files", "memory", "address space", "go", "clang"}
	var names []string
	worst := OK
	for _, c := range r.Checks {
		names = append(names, c.Name)
		if c.Status == Fail || c.Status == Warn && worst == OK {
			worst = c.Status
		}
	}
	if strings.Join(names, ", ") != strings.Join(want, ", ") || r.Status != worst {
		t.Errorf("%v %s, want %v %s", names, r.Status, want, worst)
	}
	r.Add(Check{Name: "x", Status: Fail}, Check{Name: "y", Status: Warn})
	if r.Status != Fail || strings.Join(r.Named(Fail), "") != "x" {
		t.Errorf("%+v", r)
	}
	if r := Run(t.Context(), Config{}); r.Checks[0].Status != Skip || r.Named(Fail) != nil {
		t.Errorf("without data: %+v", r.Checks)
	}
}

// TestDocumented compares the thresholds with the manual.
func TestDocumented(t *testing.T) {
	b, err := os.ReadFile("../../../docs/operate/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	spaced := func(d time.Duration) string {
		text := short(d)
		i := strings.IndexFunc(text, func(r rune) bool { return r > '9' })
		return text[:i] + " " + text[i:]
	}
	for _, want := range []string{
		"p50 over " + spaced(fsyncSlowMedian) + ", or p99 over " + spaced(fsyncSlowTail), "p50 under " + spaced(fsyncNoDisk),
		"p50 over " + spaced(fsyncBadMedian) + ", or p99 over " + spaced(fsyncBadTail),
		"set by more than " + spaced(clockStep) + " while", "set by more than " + spaced(clockJump) + ",",
		fmt.Sprintf("before %d or after %d", earliestYear, latestYear), fmt.Sprintf("`max-connections` and %d ", reservedFiles),
		fmt.Sprintf("fewer than %d |", fewestFiles), "less than " + size(leastAddresses), size(otherBytes) + " for [everything else]",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("docs/operate/doctor.md does not say %q", want)
		}
	}
}
