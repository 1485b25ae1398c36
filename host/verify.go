package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/backup"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/seal"
)

// VerifyOptions are the options of a verification. The zero value reads everything and changes nothing.
type VerifyOptions struct {
	// Repair rebuilds lists, counts and wakes that do not match the states of the runs. Journals, states, modules and
	// payloads are never changed. Backups are not repaired.
	Repair bool
	// AcceptLossAfter is FILE:OFFSET, where the log is damaged according to the error of opening the data. The
	// report's Loss then lists the commits after the damage, as far as they can be read, and nothing is changed. With
	// Repair, the log is cut there: those commits are lost, and runs return to earlier states. ErrInvalid if the log
	// is damaged elsewhere or not at all.
	AcceptLossAfter string
	// NoReplay omits the replay of each run against its module, which takes most of the time.
	NoReplay bool
	// Engines names the engines that replay each run; the function Engines returns the available ones. With several
	// engines, each is compared with the first: if they differ in the calls of a workflow, in its payloads, or in its
	// memory at the end, that is a problem of the kind "engine", which names the first entry that differs. With
	// NoReplay, Engines are ignored. Default: the engine of Config.
	Engines []string
}

// VerifyProblem is a fault of a store:
//
//	Kind      string // the kind of fault, such as "journal" or "index"
//	Partition int    // -1 for the whole store
//	Namespace store.NamespaceID
//	Run       string
//	Text      string
//	Repaired  bool
type VerifyProblem = pebblestore.Problem

// VerifyLoss is what is lost if the log is cut where it is damaged: File, Offset, Bytes, Later files, the number of
// readable Commits after the damage, the Runs that they change, Others, which counts changes that belong to no run by
// kind, and the folder with the files that were Kept, empty if nothing was changed.
type VerifyLoss = pebblestore.Loss

// VerifyReport is the result of Verify.
type VerifyReport struct {
	Backup     string    `json:"backup,omitempty"`     // the backup that was verified; empty for a data directory
	BackupTime time.Time `json:"backup_time,omitzero"` // of its data
	pebblestore.Report
	Loss     *VerifyLoss `json:"loss,omitempty"` // of VerifyOptions.AcceptLossAfter
	Replayed int64       `json:"replayed"`       // the number of replayed runs
	// Engines are the engines of VerifyOptions that replayed runs.
	Engines []string `json:"engines,omitempty"`
	// Uncompared counts the runs for which an engine was not compared with the first, since one of them stopped the
	// replay for a reason outside the workflow: calls were nested too deeply for it, or the machine was too slow.
	Uncompared int64 `json:"uncompared,omitempty"`
	// Encrypted says why payloads were not read and no run was replayed: they are encrypted, and no Codec was set. It
	// is empty otherwise.
	Encrypted string `json:"encrypted,omitempty"`
}

// Sound reports whether there are no faults, or all were repaired.
func (r *VerifyReport) Sound() bool { return r.Left() == 0 }

// Verify reads all of a data directory that no host has open, or of a backup, or of the newest backup of a place. It
// checks that all records decode, that journals have no gaps, that payloads, modules and the files of a backup match
// their SHA-256, that the lists, counts and wakes match the states of the runs, and that each run's module does what
// its journal records. cfg says how modules are compiled; its Dir and Store are not used. Faults are in the report;
// an error means that the data cannot be read at all. ErrLocked if a host has it open: verify a backup instead. With
// encrypted data, cfg.Codec decodes all but the commands in inboxes; without a Codec, payloads are not read, and the
// report says so. ErrKey if the codec does not have the key.
func Verify(ctx context.Context, path string, cfg Config, opts VerifyOptions) (report *VerifyReport, err error) {
	report = &VerifyReport{}
	if err := checkEngines(opts.Engines); err != nil {
		return nil, err
	}
	at, err := locate(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	var wrong []error
	report.Backup = at.backup
	if at.backup != "" {
		if opts.Repair {
			return nil, &joined{fmt.Errorf("%s is a backup, which is not repaired: restore it, and repair that", at.backup), ErrInvalid}
		}
		m, err := backup.ReadManifest(at.backup)
		if err != nil {
			return nil, translate(err)
		}
		report.BackupTime = m.Time
		wrong, err = backup.Check(ctx, at.backup)
		if err != nil {
			return nil, translate(err)
		}
	}
	if opts.AcceptLossAfter != "" {
		if at.backup != "" {
			return nil, &joined{fmt.Errorf("%s is a backup, whose log is not cut: restore it", at.backup), ErrInvalid}
		}
		report.Loss, err = pebblestore.AcceptLoss(at.dir, opts.AcceptLossAfter, opts.Repair)
		if errors.Is(err, pebblestore.ErrNoLoss) {
			err = &joined{err, ErrInvalid}
		}
		if err != nil || !opts.Repair {
			return report, translate(err)
		}
	}
	found, err := pebblestore.Check(ctx, at.dir, pebblestore.CheckOptions{Repair: opts.Repair, Logger: cfg.Logger,
		Queue: checkQueue})
	if found != nil {
		report.Report = *found
	}
	for _, w := range wrong {
		report.Add(VerifyProblem{Kind: "file", Partition: -1, Text: w.Error()})
	}
	if err != nil {
		if len(wrong) > 0 { // the report has the cause
			report.Add(VerifyProblem{Kind: "file", Partition: -1, Text: err.Error()})
			return report, nil
		}
		return nil, translate(err)
	}
	if report.Format != store.FormatVersion {
		return report, nil
	}
	return report, translate(readAll(ctx, at.dir, cfg, opts, report))
}

// located is a store to read.
type located struct {
	dir    string
	backup string // the backup of the store; empty for a data directory
	close  func() error
}

// locate finds the store of a data directory, of a backup, or of the newest backup of a place.
func locate(ctx context.Context, path string) (*located, error) {
	of, err := backup.Find(path)
	if err == nil {
		dir, remove, err := backup.Link(ctx, of)
		if err != nil {
			return nil, translate(err)
		}
		return &located{dir, of, remove}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return nil, &joined{fmt.Errorf("%s is a file: restore it (wfhost restore %s --data NEW), and verify the data", path, path),
			ErrInvalid}
	}
	dir := filepath.Join(path, storeName)
	if _, err := os.Stat(dir); err != nil {
		return nil, &joined{fmt.Errorf("%s holds neither data of wfhost nor a backup", path), ErrNotFound}
	}
	return &located{dir, "", func() error { return nil }}, nil
}

// readAll decodes and replays all runs of an encrypted store. It adds faults to the report.
func readAll(ctx context.Context, dir string, cfg Config, opts VerifyOptions, report *VerifyReport) (err error) {
	s, err := pebblestore.Open(dir, pebblestore.Options{ReadOnly: true, Logger: cfg.Logger})
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion) {
		report.Add(VerifyProblem{Kind: "replay", Partition: -1, Text: fmt.Sprintf("no run was replayed: %v", err)})
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if cfg.Codec == nil {
		err := seal.InTheClear(ctx, s)
		if errors.Is(err, store.ErrKey) {
			report.Encrypted = err.Error()
			return nil
		}
		if err != nil || opts.NoReplay {
			return err
		}
	}
	cache, err := os.MkdirTemp("", "wfhost-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	cfg.Store, cfg.Partitions, cfg.SkipSleeps = s, []int{}, false
	v, err := newVerifier(ctx, cache, cfg, opts, report)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	broken := map[store.RunKey]bool{} // unreadable runs
	for _, p := range report.Problems {
		if p.Kind == "state" || p.Kind == "journal" {
			broken[store.RunKey{Namespace: p.Namespace, ID: p.Run}] = true
		}
	}
	for ns, err := range s.Namespaces(ctx) {
		if err != nil {
			return err
		}
		for st, err := range store.Runs(ctx, s, store.Query{Namespace: ns.ID, Limit: store.MaxPage}, 0) {
			if err != nil {
				return err
			}
			if broken[st.Run] {
				continue
			}
			if err := v.run(ctx, st.Run); err != nil {
				return err
			}
		}
	}
	return nil
}
