package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/store/backup"
)

type backupCmd struct {
	Place string `arg:"" help:"Folder for the backups, each in a folder of its own; - writes one to standard output."`
	Data  string `help:"Folder with the data of a server that does not run; without it, the running server is asked." aliases:"dir"`
	Rate  int64  `help:"Bytes that are read in a second; 0 for as fast as possible." default:"67108864"`
	Full  bool   `help:"Share nothing with the backup before: all tables are read and sent again."`
}

func (c *backupCmd) Run(g *globals) error {
	if c.Rate < 0 {
		return &exitCode{exitUsage, fmt.Errorf("--rate must not be negative, got %d", c.Rate)}
	}
	rate := orNone(c.Rate)
	write := func(ctx context.Context, have []backup.File, w io.Writer) error {
		if c.Data != "" {
			cfg := host.Config{Dir: c.Data, Clock: g.io.clock}
			return host.WriteBackupDir(ctx, cfg, w, host.BackupOptions{BytesPerSecond: rate, Have: have})
		}
		return g.receiveBackup(ctx, rate, have, w)
	}
	if c.Place == "-" {
		return write(g.ctx, nil, g.io.out)
	}
	made, err := backup.Create(g.ctx, c.Place, backup.CreateOptions{Full: c.Full, BytesPerSecond: c.Rate}, write)
	if errors.Is(err, backup.ErrPlace) {
		return &exitCode{exitUsage, err}
	}
	if err != nil {
		return err
	}
	for _, note := range made.Notes {
		_, _ = fmt.Fprintln(g.io.err, printable(note))
	}
	if g.Format == "json" {
		return g.json(made)
	}
	if g.Format == "ids" {
		_, err = fmt.Fprintln(g.io.out, made.Dir)
		return err
	}
	_, err = fmt.Fprintf(g.io.out, "%s: %s, %s; %s, %s are new\n", made.Dir, plural(made.Files, "file"), plural(made.Bytes, "byte"),
		plural(made.NewFiles, "file"), plural(made.NewBytes, "byte"))
	return err
}

// receiveBackup receives a backup from a server and writes it to w.
func (g *globals) receiveBackup(ctx context.Context, rate int64, have []backup.File, w io.Writer) error {
	body, err := json.Marshal(httpapi.BackupRequest{BytesPerSecond: rate, Have: have})
	if err != nil {
		return err
	}
	return g.download(ctx, http.MethodPost, "/v1/backup", nil, body, "backup", w)
}

// fromServer is a stream from a server.
type fromServer struct {
	io.Reader
	what   string
	server string
}

// Read reads from the stream and explains errors.
func (f *fromServer) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server at %s has cut the %s, see its log: %w", f.server, f.what, err)
	}
	return n, err
}

type restoreCmd struct {
	Backup string `arg:"" help:"A backup, a folder of backups (the newest), a file that backup - wrote, or - for standard input."`
	Data   string `help:"Folder for the data, which must be empty or not be there." required:"" aliases:"dir"`
	AsCopy bool   `help:"Nothing runs in it until: wfhost copy release."`
}

func (c *restoreCmd) Run(g *globals) error {
	opts := host.RestoreOptions{AsCopy: c.AsCopy}
	var info *host.RestoreInfo
	var err error
	if c.Backup == "-" {
		info, err = host.RestoreFrom(g.ctx, g.io.in, c.Data, opts)
	} else {
		info, err = host.Restore(g.ctx, c.Backup, c.Data, opts)
	}
	if err != nil {
		return absent(err)
	}
	if g.Format == "json" {
		return g.json(map[string]any{"data": c.Data, "copy": c.AsCopy, "backup": info.Backup, "time": info.Time,
			"release": info.Release})
	}
	note := ""
	if c.AsCopy {
		note = " as a copy: nothing runs in it until `wfhost copy release`"
	}
	from := info.Backup
	if from == "" {
		from = "a backup"
	}
	_, err = fmt.Fprintf(g.io.out, "restored %s of %s into %s%s\n", from, instant(info.Time), c.Data, note)
	return err
}

type copyCmd struct {
	Show    copyShowCmd    `cmd:"" default:"1" help:"Say whether the server's data is a copy."`
	Release copyReleaseCmd `cmd:"" help:"Let the copy run. The server of the original must have ended."`
}

type copyShowCmd struct{}

func (c *copyShowCmd) Run(g *globals) error { return g.copyState(http.MethodGet, "/v1/copy") }

type copyReleaseCmd struct{}

func (c *copyReleaseCmd) Run(g *globals) error {
	return g.copyState(http.MethodPost, "/v1/copy:release")
}

func (g *globals) copyState(method, path string) error {
	var state httpapi.CopyState
	if _, _, err := g.call(method, path, nil, nil, &state); err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(state)
	}
	text := "the data is no copy: runs go on"
	if state.Copy {
		text = "the data is a copy, in which nothing runs or changes until: wfhost copy release"
	}
	_, err := fmt.Fprintln(g.io.out, text)
	return err
}

type upgradeCmd struct {
	Data string `help:"Folder with the data of a server that does not run." default:"data" aliases:"dir"`
}

func (c *upgradeCmd) Run(g *globals) error {
	before, after, err := host.UpgradeStore(c.Data)
	if err != nil {
		return err
	}
	if g.Format == "json" {
		return g.json(map[string]int{"before": before, "after": after})
	}
	if before == after {
		_, err = fmt.Fprintf(g.io.out, "the database of %s has format %d of Pebble, the newest of this release\n", c.Data, after)
		return err
	}
	_, err = fmt.Fprintf(g.io.out, "the database of %s has format %d of Pebble, and had %d: earlier releases may not open it\n",
		c.Data, after, before)
	return err
}

type verifyCmd struct {
	Path   string `arg:"" help:"Folder with the data of a server that does not run, a backup, or a folder of backups."`
	Repair bool   `help:"Make lists, counts and wakes anew, and remove payloads that no run has. Journals stay as they are."`

	AcceptLossAfter string `help:"Where a log is damaged: list what is lost. With --repair, cut it there." placeholder:"FILE:OFFSET"`

	NoReplay bool     `help:"Do not run the module of each run against its journal."`
	Engines  []string `help:"Replay each run on all of these, and compare: compiler, interpreter." placeholder:"NAME" type:"engine"`

	EncryptionKeys source `help:"Keys of encrypted data, as for serve." env:"WFHOST_ENCRYPTION_KEYS" placeholder:"SOURCE"`
}

// errUnsound ends a verification that found problems.
var errUnsound = errors.New("the data is not sound")

func (c *verifyCmd) Run(g *globals) error {
	codec, err := c.EncryptionKeys.keyring(g)
	if err != nil {
		return err
	}
	cfg := host.Config{Clock: g.io.clock, CacheDir: compiledModules(codec), CacheBytes: compiledBytes,
		Compiler: host.SelfCompiler(), Codec: codec}
	report, err := host.Verify(g.ctx, c.Path, cfg,
		host.VerifyOptions{Repair: c.Repair, AcceptLossAfter: c.AcceptLossAfter, NoReplay: c.NoReplay, Engines: c.Engines})
	if errors.Is(err, host.ErrLocked) {
		return fmt.Errorf("%w: end the server, or verify a backup: wfhost backup PLACE, wfhost verify PLACE", err)
	}
	if err != nil {
		return err
	}
	if g.Format == "json" {
		err = g.json(report)
	} else {
		err = c.show(g, report)
	}
	if err == nil && report.Loss != nil && report.Loss.Kept == "" {
		return &exitCode{exitError, fmt.Errorf("%w: nothing was changed; with --repair this loss is accepted for good", errUnsound)}
	}
	if err == nil && !report.Sound() {
		err = &exitCode{exitError, fmt.Errorf("%w: %s", errUnsound, plural(report.Left(), "problem"))}
	}
	return err
}

// showLoss prints what is lost, or would be lost.
func (c *verifyCmd) showLoss(g *globals, l *host.VerifyLoss) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintln(g.io.out, printable(fmt.Sprintf(format, args...)))
	}
	for _, r := range l.Runs {
		say("lost: %s of run %q of namespace %d", plural(r.Changes, "change"), r.Run, r.Namespace)
	}
	for _, what := range slices.Sorted(maps.Keys(l.Others)) {
		say("lost: %s of %s", plural(l.Others[what], "change"), what)
	}
	say("lost behind byte %d of %s: %s, in which %s can be read, of %s; and what cannot be read", l.Offset, l.File,
		plural(l.Bytes, "byte"), plural(l.Commits, "commit"), plural(int64(len(l.Runs)), "run"))
	if len(l.Later) > 0 {
		say("and all of %s", strings.Join(l.Later, ", "))
	}
	if l.Kept != "" {
		say("the log was cut; its files as they were are in %s", l.Kept)
	}
}

func (c *verifyCmd) show(g *globals, r *host.VerifyReport) error {
	if r.Loss != nil {
		c.showLoss(g, r.Loss)
		if r.Loss.Kept == "" {
			return nil
		}
	}
	for _, p := range r.Problems {
		of, done := "", ""
		if p.Partition >= 0 {
			of = fmt.Sprintf(" of partition %d", p.Partition)
		}
		if p.Run != "" {
			of = fmt.Sprintf(" of run %q", p.Run)
			if p.Namespace != 0 {
				of += fmt.Sprintf(" of namespace %d", p.Namespace)
			}
		}
		if p.Repaired {
			done = " (repaired)"
		}
		_, _ = fmt.Fprintln(g.io.out, printable(fmt.Sprintf("%s%s: %s%s", p.Kind, of, p.Text, done)))
	}
	if r.More > 0 {
		_, _ = fmt.Fprintf(g.io.out, "and %d more\n", r.More)
	}
	if r.Encrypted != "" {
		_, _ = fmt.Fprintf(g.io.out, "payloads were not read, and no run was replayed: %s; give them with --encryption-keys\n",
			r.Encrypted)
	}
	what := c.Path
	if r.Backup != "" {
		what = fmt.Sprintf("%s of %s", r.Backup, instant(r.BackupTime))
	}
	on := ""
	if len(r.Engines) > 0 {
		on = fmt.Sprintf(" on %s (%d of them not compared)", strings.Join(r.Engines, ", "), r.Uncompared)
	}
	if r.OrphansRemoved > 0 {
		_, _ = fmt.Fprintf(g.io.out, "removed %s that no run has\n", plural(r.OrphansRemoved, "large payload"))
	}
	_, err := fmt.Fprintf(g.io.out, "%s: %s with %s, %d of them replayed%s; %s, %s (%d of them of deleted runs, %s), %s; "+
		"%s, %d repaired\n", what, plural(r.Runs, "run"), plural(r.Entries, "entry"), r.Replayed, on, plural(r.Modules, "module"),
		plural(r.Blobs, "large payload"), r.Orphans, plural(r.OrphanBytes, "byte"), plural(r.Commands, "command"),
		plural(int64(len(r.Problems))+r.More, "problem"), r.Repaired)
	return err
}
