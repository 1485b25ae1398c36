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

// VerifyOptions says how data is verified. The zero value reads everything and changes nothing.
type VerifyOptions struct {
	// Repair makes lists, counts and wakes anew where they are not what the states of the runs imply. Journals, states, modules
	// and payloads are never changed. A backup is not repaired.
	Repair bool
	// AcceptLossAfter is FILE:OFFSET, where the log is damaged according to the error with which the data cannot be opened. The
	// report then says in Loss what was committed behind it, as far as that can be read, and nothing is changed. With
	// Repair, the log is cut there: all of that is lost, and runs go back to earlier states. ErrInvalid if the log is
	// damaged elsewhere or not at all.
	AcceptLossAfter string
	// NoReplay leaves out that each run's module is run against its journal, which takes most of the time.
	NoReplay bool
	// Engines names the engines on which each run is replayed; Engines returns which there are. If there are several,
	// each is compared with the first: a run for which they differ in what the workflow does, hands over, or has in its
	// memory at the end is a problem of the kind "engine", which names the first entry where they do. NoReplay ignores
	// them. Default: the one of Config alone.
	Engines []string
}

// VerifyProblem is one thing that is wrong with a store:
//
//	Kind      string // what is wrong, such as "journal" or "index"
//	Partition int    // -1 for the whole store
//	Namespace store.NamespaceID
//	Run       string
//	Text      string
//	Repaired  bool
type VerifyProblem = pebblestore.Problem

// VerifyLoss is what is lost when the log is cut where it is damaged: File, Offset, Bytes, Later files, Commits that can be
// read, the Runs that they change, how many of which Others, and the folder in which the files are Kept, empty if nothing
// was changed.
type VerifyLoss = pebblestore.Loss

// VerifyReport is what was found.
type VerifyReport struct {
	Backup     string    `json:"backup,omitempty"`     // the backup that was verified; empty for a data directory
	BackupTime time.Time `json:"backup_time,omitzero"` // of its data
	pebblestore.Report
	Loss     *VerifyLoss `json:"loss,omitempty"` // of VerifyOptions.AcceptLossAfter
	Replayed int64       `json:"replayed"`       // runs whose module was run against their journal
	// Engines are those of VerifyOptions on which runs were replayed.
	Engines []string `json:"engines,omitempty"`
	// Uncompared counts the runs for which an engine was not compared with the first, since one of them ended the replay for a
	// reason that is not the workflow's: calls were nested too deeply for it, or the machine was too slow.
	Uncompared int64 `json:"uncompared,omitempty"`
	// Encrypted says why payloads were not read and no run was replayed: they are encrypted, and there was no Codec. It
	// is empty otherwise.
	Encrypted string `json:"encrypted,omitempty"`
}

// Sound reports whether nothing is wrong, or no longer.
func (r *VerifyReport) Sound() bool { return r.Left() == 0 }

// Verify reads the whole of a data directory that no host has open, or of a backup, or of the newest backup of a place:
// all records decode, journals have no gaps, payloads and modules are what their SHA-256 says, files of a backup too,
// the lists, counts and wakes are what the states of the runs imply, and each run's module does what its journal
// records. cfg says how modules are compiled; its Dir and Store are not used. What is wrong is in the report; an error
// means that the data cannot be read at all. ErrLocked if a host has it open: verify a backup of it then. Of encrypted
// data, cfg.Codec decodes all but the commands in inboxes; without it, payloads are not read, and the report says so.
// ErrKey if the codec does not have the key.
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
		if len(wrong) > 0 { // it is clear why
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

// located is a store to be read.
type located struct {
	dir    string
	backup string // that the store is of; empty for a data directory
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

// readAll decodes all runs of a store that is encrypted, and replays them. It adds what is wrong to the report.
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
	broken := map[store.RunKey]bool{} // which cannot be read
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
