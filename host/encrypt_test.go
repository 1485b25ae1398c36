package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// keyLine is a line with a key whose bytes are all equal.
func keyLine(id string, b byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
}

func keyring(t *testing.T, lines ...string) *host.Keyring {
	t.Helper()
	r, err := host.ParseKeyring([]byte(strings.Join(lines, "")))
	do(t, err)
	return r
}

// vaultCache returns a folder for compiled modules that the tests of this file share: compilation takes most of their
// time.
func vaultCache(t *testing.T) string {
	t.Helper()
	base, err := os.UserCacheDir()
	dir := filepath.Join(base, "wfhost-test", "vault")
	do(t, errors.Join(err, os.MkdirAll(dir, 0o700)))
	return dir
}

// vaultHost opens a host over a data directory, with handlers that return their input. The host runs until stop is
// called.
func vaultHost(t *testing.T, dir string, codec host.Codec) (h *host.Host, stop func()) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, "cache")); err != nil {
		do(t, errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(vaultCache(t), filepath.Join(dir, "cache"))))
	}
	return vaultHostOf(t, host.Config{Dir: dir, Codec: codec})
}

func vaultHostOf(t *testing.T, cfg host.Config) (h *host.Host, stop func()) {
	t.Helper()
	cfg.Drain = -1
	if cfg.Clock == nil {
		cfg.Clock = clock.NewFake(hosttest.Epoch)
	}
	h, err := host.Open(ctx, cfg)
	do(t, err)
	host.HandleStep(h, "echo", func(_ context.Context, in string) (string, error) { return in + "-answer", nil })
	host.HandleStep(h, "fail", func(_ context.Context, in string) (string, error) { return "", errors.New(in + "-error") })
	host.HandleStep(h, "walk", func(ctx context.Context, in string) (string, error) {
		return "", errors.Join(host.Heartbeat(ctx, in+"-details"), errors.New(in+"-lost"))
	})
	run, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(run) }()
	closed := false
	stop = func() {
		if !closed {
			closed = true
			cancel()
			do(t, errors.Join(<-done, h.Close()))
		}
	}
	t.Cleanup(stop)
	return h, stop
}

// marker is in every payload of the workload, and in no module.
const marker = "m4rk3r"

// marked are the payloads of the workload. Without encryption, all of them can be found on disk.
var marked = []string{"-log", "-stepname", "-stepinput", "-stepinput-answer", "-failing", "-failinput-error", "-bodylog", "-bodyresult",
	"-large", "-large" + strings.Repeat("x", 1000), "-topic", "-output", "-sent", "-childname", "-childinput", "-childinput-result",
	"-childerror-error", "-reply", "-delivered", "-continued", "-continued-name", "-continued-end", "-signal", "-idempotency", "-memo",
	"-walk", "-walk-details", "-walk-lost", "-update", "-updateid", "-update-answered", "-bad-failed", "-limitkey", "-windowkey", "-windowinput",
	"-scheduleinput", "-schedulememo", "-schedulenote"}

// workload makes runs with every kind of payload and waits for their ends.
func workload(t *testing.T, h *host.Host) {
	t.Helper()
	for _, name := range []string{"vault", "opened", "inner", "broken", "kept", "held", "gathered"} {
		_, err := h.Upload(ctx, name, hosttest.Build(t, "testdata/vault"), host.AllowStep("*"))
		do(t, err)
	}
	_, err := h.Start(ctx, "opened", "", host.WithRunID("listener"))
	do(t, err)
	_, err = h.Start(ctx, "vault", marker, host.WithRunID("v"), host.WithMemo(marker+"-memo"))
	do(t, err)
	waitsFor(t, h, "v", "delivery")
	reply, err := h.Hooks().Deliver(ctx, "open-sesame", []byte(`"`+marker+`-delivered"`))
	do(t, err)
	if reply.Body != marker+"-reply" {
		t.Fatalf("the reply of the hook is %q", reply.Body)
	}
	waitsFor(t, h, "v", marker+"-continued-name")
	do(t, h.Signal(ctx, "v", marker+"-continued-name", marker+"-signal", host.WithIdempotencyKey(marker+"-idempotency")))
	do(t, h.Signal(ctx, "listener", "go", marker+"-signal"))
	if r, err := h.Wait(ctx, "v"); err != nil || r.Status != host.Failed {
		t.Fatalf("the run ends as %s %s, %v", r.Status, r.Reason, err)
	}
	workloadMore(t, h)
}

// workloadMore stores what belongs to runs that wait for each other: updates, limits, windows and schedules.
func workloadMore(t *testing.T, h *host.Host) {
	t.Helper()
	_, err := h.Start(ctx, "kept", marker, host.WithRunID("k"))
	do(t, err)
	waitsFor(t, h, "k", "signal_wait")
	u, err := h.Update(ctx, "k", "set", marker+"-update", host.WithUpdateID(marker+"-updateid"))
	if err != nil || string(u.Result) != `"`+marker+`-update-answered"` {
		t.Fatalf("the update is answered by %s, %v", u.Result, err)
	}
	_, err = h.Update(ctx, "k", "refuse", marker+"-bad", host.WithUpdateID("refused"))
	if err == nil {
		t.Fatal("the update has not failed")
	}
	_, err = h.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "held", Concurrency: []string{"1 per input.of"}})
	do(t, err)
	for _, id := range []string{"first", "second"} {
		_, err := h.Start(ctx, "held", map[string]string{"of": marker + "-limitkey"}, host.WithRunID(id))
		do(t, err)
	}
	waitsFor(t, h, "second", "a slot")
	_, err = h.StartWindows().Set(ctx, host.StartWindow{Workflow: "gathered", Debounce: "1h per input.of"})
	do(t, err)
	for _, in := range []string{"", "-windowinput"} {
		_, err = h.Start(ctx, "gathered", map[string]string{"of": marker + "-windowkey", "is": marker + in})
		do(t, err)
	}
	_, err = h.Schedules().Create(ctx, "nightly", host.ScheduleSpec{Workflow: "opened", Input: []byte(`"` + marker + `-scheduleinput"`),
		Memo: []byte(`"` + marker + `-schedulememo"`), When: "@every 24h"})
	do(t, err)
	_, err = h.Schedules().Trigger(ctx, "nightly", host.OverlapAllow)
	do(t, err)
	_, err = h.Schedules().Pause(ctx, "nightly", marker+"-schedulenote")
	do(t, err)
}

// waitsFor waits until a run waits for a signal.
func waitsFor(t *testing.T, h *host.Host, id, name string) {
	t.Helper()
	for {
		_, _, err := h.WaitIdle(ctx)
		do(t, err)
		r, err := h.Get(ctx, id)
		do(t, err)
		if r.Status == host.Waiting && strings.Contains(r.Reason, name) {
			return
		}
		if r.Status != host.Running && r.Status != host.Queued && r.Status != host.Waiting {
			t.Fatalf("the run is %s %s %s, it should wait for %s", r.Status, r.Reason, r.Error, name)
		}
	}
}

// workloadText is everything that a host shows of the workload.
func workloadText(t *testing.T, h *host.Host) string {
	t.Helper()
	var b strings.Builder
	ids := []string{"v", "listener", "k", "first", "second"}
	for r, err := range h.Runs(ctx, host.Query{Workflow: "gathered"}) {
		do(t, err)
		ids = append(ids, r.ID)
	}
	s, err := h.Schedules().Get(ctx, "nightly")
	do(t, err)
	fmt.Fprintf(&b, "%s %s %s %d\n", s.Spec.Input, s.Spec.Memo, s.Note, s.Started)
	for _, id := range ids {
		r, err := h.Get(ctx, id)
		do(t, err)
		fmt.Fprintln(&b, r.Workflow, r.Status, r.Reason, r.Error, string(r.Memo))
		for i := range r.Iteration + 1 {
			for e, err := range h.JournalOf(ctx, id, i, 0) {
				do(t, err)
				if e.Kind == store.KindStarted {
					e.Options = nil // they hold what is random
				}
				fmt.Fprintf(&b, "%d %v %s %s %.200s %.200s %s\n", e.Seq, e.Kind, e.Name, e.Target, e.Input, e.Data, e.Options)
			}
		}
	}
	logs, err := h.Logs(ctx, "v", 0, 100)
	do(t, err)
	for _, l := range logs {
		fmt.Fprintln(&b, l.Step, l.Text)
	}
	for o, err := range h.Output(ctx, "v", "", 0) {
		do(t, err)
		fmt.Fprintf(&b, "%s %s\n", o.Topic, o.Data)
	}
	return b.String()
}

// onDiskText is everything that a thief could find in folders: the files themselves, and the contents of databases,
// whose tables are compressed.
func onDiskText(t *testing.T, dirs ...string) (text []byte) {
	t.Helper()
	for _, dir := range dirs {
		do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			text = append(text, b...)
			if strings.HasPrefix(d.Name(), "MANIFEST-") {
				text = append(text, database(t, filepath.Dir(path))...)
			}
			return err
		}))
	}
	return text
}

// database returns the keys and values in a database.
func database(t *testing.T, dir string) (text []byte) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true})
	do(t, err)
	it, err := db.NewIter(nil)
	do(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		text = append(append(append(text, it.Key()...), it.Value()...), '\n')
	}
	do(t, errors.Join(it.Error(), it.Close(), db.Close()))
	return text
}

// TestNothingInTheClear runs one workload with a key and one without, and searches for its payloads in all resulting
// files: the store with its log, the cache, a backup, a stream, and a restored backup.
func TestNothingInTheClear(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	outcomes := map[bool]string{}
	for _, encrypted := range []bool{false, true} {
		var codec host.Codec
		if encrypted {
			codec = keyring(t, keyLine("k1", 1))
		}
		data, place, to := t.TempDir(), filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "restored")
		h, stop := vaultHost(t, data, codec)
		workload(t, h)
		_, err := h.Backup(ctx, place, host.BackupOptions{})
		do(t, err)
		var stream bytes.Buffer
		do(t, h.WriteBackup(ctx, &stream, host.BackupOptions{}))
		outcomes[encrypted] = workloadText(t, h)
		stop()
		_, err = host.Restore(ctx, place, to, host.RestoreOptions{})
		do(t, err)
		again, stop := vaultHost(t, to, codec)
		if got := workloadText(t, again); got != outcomes[encrypted] {
			t.Errorf("encrypted %v: what was restored says\n%s, want\n%s", encrypted, got, outcomes[encrypted])
		}
		stop()
		text := append(onDiskText(t, data, place, to, vaultCache(t)), stream.Bytes()...)
		if encrypted && bytes.Contains(text, []byte(marker)) {
			at := bytes.Index(text, []byte(marker))
			t.Errorf("it can be read: %q", text[max(0, at-100):at+100])
		}
		for _, what := range marked {
			if !encrypted && !bytes.Contains(text, []byte(marker+what)) {
				t.Errorf("%s%s cannot be found without encryption: this test would not find it with it", marker, what[:min(len(what), 40)])
			}
			if short := what[:min(len(what), 40)]; !strings.Contains(outcomes[encrypted], marker+short) {
				t.Errorf("encrypted %v: the host does not say %s%s", encrypted, marker, short)
			}
		}
		if digest := sha256.Sum256([]byte(`"` + marker + `"`)); bytes.Contains(text, digest[:]) == encrypted {
			t.Errorf("encrypted %v: the SHA-256 of the input can be found: %v", encrypted, !encrypted)
		}
	}
	if outcomes[true] != outcomes[false] {
		t.Errorf("with a key, the host says\n%s, without\n%s", outcomes[true], outcomes[false])
	}
}

// opens tries to open a data directory.
func opens(t *testing.T, dir string, codec host.Codec) error {
	t.Helper()
	h, err := host.Open(ctx, host.Config{Dir: dir, Codec: codec, Clock: clock.NewFake(hosttest.Epoch)})
	if err == nil {
		do(t, h.Close())
	}
	return err
}

// TestKeysOfData opens data with wrong, missing or new keys. A refusal has a sentence and changes nothing: the run
// continues afterwards.
func TestKeysOfData(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	data := t.TempDir()
	start := func(id string, codec host.Codec) {
		t.Helper()
		h, stop := vaultHost(t, data, codec)
		_, err := h.Upload(ctx, "opened", hosttest.Build(t, "testdata/vault"))
		do(t, err)
		_, err = h.Start(ctx, "opened", marker, host.WithRunID(id))
		do(t, err)
		waitsFor(t, h, id, "go")
		stop()
	}
	start("clear", nil)
	start("old", keyring(t, keyLine("k1", 1)))
	before := database(t, filepath.Join(data, "store"))
	for name, c := range map[string]struct {
		codec host.Codec
		want  string
	}{
		"none":    {nil, `the data is encrypted: it needs the keys ["k1"], and none was given`},
		"missing": {keyring(t, keyLine("k2", 2)), `the data is encrypted: it needs the key "k1", which was not given`},
		"wrong":   {keyring(t, keyLine("k1", 9)), `the data is encrypted: with another key "k1" than the one that was given`},
	} {
		if err := opens(t, data, c.codec); !errors.Is(err, host.ErrKey) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if !bytes.Equal(database(t, filepath.Join(data, "store")), before) {
			t.Errorf("%s: the data was changed", name)
		}
	}
	both := keyring(t, keyLine("k1", 1), keyLine("k2", 2))
	start("new", both)
	if err := host.ForgetKey(ctx, data, "k1"); !errors.Is(err, host.ErrConflict) {
		t.Errorf("forgetting a key that is used: %v", err)
	}
	if err := host.ForgetKey(ctx, data, "k3"); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("forgetting a key that is not known: %v", err)
	}
	used, err := host.KeysInUse(ctx, data)
	do(t, err)
	if len(used) != 3 || used[0].Key != "" || used[1].Key != "k1" || used[2].Key != "k2" || used[0].Records == 0 ||
		used[1].Records == 0 || used[2].Records == 0 || used[1].CreatedUnixMs != hosttest.Epoch.UnixMilli() {
		t.Errorf("keys in use: %+v", used)
	}
	h, stop := vaultHost(t, data, both)
	for _, id := range []string{"clear", "old", "new"} {
		for _, v := range []string{"a", "b"} {
			do(t, h.Signal(ctx, id, "go", v))
		}
		if r, err := h.Wait(ctx, id); err != nil || r.Status != host.Completed {
			t.Errorf("%s ends as %s %s, %v", id, r.Status, r.Reason, err)
		}
		do(t, h.Delete(ctx, id))
	}
	stop()
	do(t, host.ForgetKey(ctx, data, "k1")) // only the states of deleted runs are left, written by the last commit
	do(t, opens(t, data, keyring(t, keyLine("k2", 2))))
	used, err = host.KeysInUse(ctx, data)
	do(t, err)
	if len(used) != 2 || used[0].Records != 0 || used[1].Key != "k2" {
		t.Errorf("keys in use: %+v", used)
	}
}

// TestVerifyEncrypted verifies encrypted data with its key, without it, and with swapped records.
func TestVerifyEncrypted(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	data, codec := t.TempDir(), keyring(t, keyLine("k1", 1))
	h, stop := vaultHost(t, data, codec)
	workload(t, h)
	stop()
	cfg, quick := host.Config{Codec: codec, Interpreter: true}, host.VerifyOptions{NoReplay: true}
	r, err := host.Verify(ctx, data, cfg, quick)
	do(t, err)
	if !r.Sound() || r.Runs != 9 || r.Encrypted != "" {
		t.Errorf("with the key: %+v", r)
	}
	small := t.TempDir()
	h, stop = vaultHost(t, small, codec)
	_, err = h.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = h.StartRaw(ctx, "nap", []byte("1h"))
	do(t, err)
	stop()
	r, err = host.Verify(ctx, small, cfg, host.VerifyOptions{})
	do(t, err)
	if !r.Sound() || r.Runs != 1 || r.Replayed != 1 {
		t.Errorf("with the key and a replay: %+v", r)
	}
	r, err = host.Verify(ctx, data, host.Config{}, host.VerifyOptions{})
	do(t, err)
	if !r.Sound() || r.Replayed != 0 || r.Runs != 9 || !strings.Contains(r.Encrypted, `"k1"`) {
		t.Errorf("without the key: %+v", r)
	}
	if _, err := host.Verify(ctx, data, host.Config{Codec: keyring(t, keyLine("k1", 2))}, host.VerifyOptions{}); !errors.Is(err, host.ErrKey) {
		t.Errorf("with another key: %v", err)
	}
	swap(t, filepath.Join(data, "store"), store.IndexKey(store.RunKey{ID: "v"}, store.TableLog, 0),
		store.IndexKey(store.RunKey{ID: "v"}, store.TableLog, 1), store.DecodeLogLine, store.AppendLogLine,
		func(a, b *store.LogLine) { a.Text, b.Text = b.Text, a.Text })
	r, err = host.Verify(ctx, data, cfg, quick)
	do(t, err)
	if len(r.Problems) != 1 || r.Problems[0].Kind != "log" || !strings.Contains(r.Problems[0].Text, "belongs to another location") {
		t.Errorf("with two log lines that were swapped: %+v", r.Problems)
	}
}

// swap swaps two records of a closed store, as an attacker without the key could.
func swap[T any](t *testing.T, dir string, a, b []byte, decode func([]byte) (T, error), encode func([]byte, *T) []byte,
	change func(a, b *T)) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	do(t, err)
	var records [2]T
	for i, k := range [][]byte{a, b} {
		v, closer, err := db.Get(k)
		do(t, err)
		records[i], err = decode(bytes.Clone(v))
		do(t, errors.Join(err, closer.Close()))
	}
	change(&records[0], &records[1])
	do(t, db.Set(a, encode(nil, &records[0]), pebble.Sync))
	do(t, db.Set(b, encode(nil, &records[1]), pebble.Sync))
	do(t, db.Close())
}
