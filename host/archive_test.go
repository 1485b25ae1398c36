package host_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// export exports a run.
func export(t *testing.T, h *host.Host, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	do(t, h.Export(ctx, id, &b, host.ExportOptions{}))
	return b.Bytes()
}

func archived(t *testing.T, file []byte) *host.Archive {
	t.Helper()
	a, err := host.ReadArchive(bytes.NewReader(file))
	do(t, err)
	return a
}

// TestExport replays exported live and ended runs on another host. Two exports of the same run are equal.
func TestExport(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	u.start("desk", "d")
	do(t, u.Signal(ctx, "d", "note", "hi"))
	u.Settle()
	live := export(t, u.Host.Host, "a")
	if again := export(t, u.Host.Host, "a"); !bytes.Equal(live, again) {
		t.Error("an export differs from the one before")
	}
	u.Reopen()
	u.Settle()
	if again := export(t, u.Host.Host, "a"); !bytes.Equal(live, again) {
		t.Error("an export after a restart differs from the one before")
	}
	desk := export(t, u.Host.Host, "d")
	want, err := u.Get(ctx, "a")
	do(t, err)
	u.ended("a", `"v1 v1"`, 30*day)
	ended := export(t, u.Host.Host, "a")

	other := hosttest.New(t)
	for name, file := range map[string][]byte{"live": live, "desk": desk, "ended": ended} {
		a := archived(t, file)
		var calls []host.TraceCall
		r, err := other.ReplayArchive(ctx, a, host.ReplayOptions{Trace: func(c host.TraceCall) { calls = append(calls, c) }})
		if err != nil || r.Outcome != host.CheckCompatible || len(calls) == 0 {
			t.Errorf("%s: %+v, %v, %d calls", name, r, err, len(calls))
		}
		if got := a.Run(); name == "live" && (got.ID != want.ID || got.Status != want.Status || got.Entries != want.Entries) ||
			uint64(len(a.Journal())) != got.Entries || !bytes.Equal(a.Module(), code(t, "v1")) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for r, err := range other.Runs(ctx, host.Query{}) {
		t.Errorf("a replay has left %+v, %v", r, err)
	}
	if err := u.Export(ctx, "nobody", &bytes.Buffer{}, host.ExportOptions{}); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}

// TestReplayArchive replays a run against other modules, strictly and as a check, and shows the calls.
func TestReplayArchive(t *testing.T) {
	u := upgradesOf(t, "v1")
	u.start("order", "a")
	a := archived(t, export(t, u.Host.Host, "a"))
	for _, c := range []struct {
		name    string
		strict  bool
		outcome host.CheckOutcome
		text    string
	}{
		{"v1", true, host.CheckCompatible, ""},
		{"tuned", false, host.CheckCompatible, ""},
		{"tuned", true, host.CheckDiverges, `replay differs from the journal at entry 4: the journal has sleep "packing" until`},
		{"added", false, host.CheckDiverges,
			`replay differs from the journal at entry 4: the journal has sleep "packing", the workflow did body "audit"`},
		{"added", true, host.CheckDiverges,
			`replay differs from the journal at entry 4: the journal has sleep "packing", the workflow did body "audit"`},
	} {
		var calls []string
		r, err := u.ReplayArchive(ctx, a, host.ReplayOptions{Module: code(t, c.name), Strict: c.strict,
			Trace: func(call host.TraceCall) { calls = append(calls, call.Call+" "+call.Asked+" -> "+call.Got) }})
		do(t, err)
		u.outcome(r, c.outcome, c.text)
		all := strings.Join(calls, "\n")
		if c.name == "v1" && !strings.Contains(all, `sleep "packing", 2592000000 ms -> handle`) ||
			c.outcome == host.CheckDiverges && !strings.Contains(all, "-> replay differs from the journal at entry 4") {
			t.Errorf("%s: %s", c.name, all)
		}
	}
	var bare bytes.Buffer
	do(t, u.Export(ctx, "a", &bare, host.ExportOptions{WithoutModule: true}))
	b := archived(t, bare.Bytes())
	if r, err := u.ReplayArchive(ctx, b, host.ReplayOptions{Module: code(t, "v1"), Strict: true}); err != nil || b.Module() != nil ||
		r.Outcome != host.CheckCompatible {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := u.ReplayArchive(ctx, b, host.ReplayOptions{}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
	if _, err := u.ReplayArchive(ctx, a, host.ReplayOptions{Module: listing("text", "other")}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// TestCheckArchives checks a folder: it skips runs of other workflows and reports invalid files.
func TestCheckArchives(t *testing.T) {
	u := upgradesOf(t, "v1")
	dir := t.TempDir()
	if _, err := u.Workflows().CheckArchives(ctx, dir, "order", code(t, "v1"), host.CheckOptions{}); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	u.start("order", "a", "b")
	u.start("desk", "d")
	for _, id := range []string{"a", "b", "d"} {
		u.Record(dir, id)
	}
	for name, want := range map[string]int64{"v1": 0, "added": 2} {
		of := map[string]host.RunCheck{}
		sum, err := u.Workflows().CheckArchives(ctx, dir, "order", code(t, name), host.CheckOptions{Each: reports(of)})
		if err != nil || sum.Runs != 2 || sum.Diverging != want || len(of) != 2 {
			t.Errorf("%s: %+v %+v, %v", name, sum, of, err)
		}
	}
	do(t, os.WriteFile(filepath.Join(dir, "bad"+host.ArchiveSuffix), []byte("nothing"), 0o600))
	of := map[string]host.RunCheck{}
	sum, err := u.Workflows().CheckArchives(ctx, dir, "order", code(t, "v1"), host.CheckOptions{Each: reports(of)})
	if err != nil || sum.Runs != 3 || sum.NotChecked != 1 || !strings.Contains(of["bad.wfrun"].Reason, "not a sound archive") {
		t.Errorf("%+v %+v, %v", sum, of, err)
	}
}

// TestExportOfEncryptedData: an export of encrypted data is not encrypted and can be read without a key.
func TestExportOfEncryptedData(t *testing.T) {
	keys := keyring(t, keyLine("k1", 1))
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.Codec = keys }))
	_, err := h.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = h.StartRaw(ctx, "nap", []byte(`"MARKER"`), host.WithRunID("r"))
	do(t, err)
	h.Settle()
	file := export(t, h.Host, "r")
	if !bytes.Contains(file, []byte("MARKER")) {
		t.Error("the input is not in the clear")
	}
	r, err := hosttest.New(t).ReplayArchive(ctx, archived(t, file), host.ReplayOptions{})
	if err != nil || r.Outcome != host.CheckCompatible {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestExportOfMigratedLog exports and adopts a run that logged more lines than are stored. Some of them belong to
// steps that the previous version performed without logging.
func TestExportOfMigratedLog(t *testing.T) {
	logs := func(h *hosttest.Host, id string, want int) {
		t.Helper()
		lines, err := h.Logs(ctx, id, 0, 10)
		do(t, err)
		if len(lines) != want {
			t.Errorf("%s has logged %d lines, want %d: %+v", id, len(lines), want, lines)
		}
	}
	ship := hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "ship", func(context.Context, string) (string, error) { return ".", nil })
	})
	h, to := hosttest.New(t, ship), hosttest.New(t, ship)
	for _, name := range []string{"first", "tuned"} {
		_, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/year/"+name), host.AllowStep("ship"))
		do(t, err)
	}
	_, err := h.Start(ctx, "plan", journey{Rounds: [][]int{{1, 1, 1, 1}}}, host.WithRunID("r"), host.WithVersion(1))
	do(t, err)
	h.Advance(2 * time.Hour)
	_, err = h.Workflows().Migrate(ctx, "plan", host.MigrateOptions{To: 2})
	do(t, err)
	h.Advance(time.Hour)
	logs(h, "r", 1) // of three
	_, err = to.Upload(ctx, "", hosttest.Build(t, "testdata/year/tuned"), host.AllowStep("ship"))
	do(t, err)
	to.Clock.Set(h.Clock.Now())
	adopt(t, to, move(t, h.Host, "r"))
	to.Advance(time.Hour)
	if got, err := host.Result[string](ctx, to.Host, "r"); err != nil || got != "...." {
		t.Error(got, err)
	}
	logs(to, "r", 2)
}
