package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/dirs"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// Loss describes what is lost when the log of a store is cut where it is damaged.
type Loss struct {
	// File is the damaged file of the log, which can be read up to Offset.
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	// Bytes is how many bytes are cut, later files included, without the zeros after the last write.
	Bytes int64 `json:"bytes"`
	// Later lists the files of the log that were written after File. They are removed as a whole.
	Later []string `json:"later,omitempty"`
	// Commits is how many commits after the damage can be read. The unreadable part may have more.
	Commits int64 `json:"commits"`
	// Runs lists the runs that readable commits after the damage change, including the commit that the damage cuts, by
	// namespace and id.
	Runs []LostRun `json:"runs"`
	// Others counts changes that do not belong to a run, by kind.
	Others map[string]int64 `json:"others,omitempty"`
	// Kept is the folder with the files as they were; empty if nothing was changed.
	Kept string `json:"kept,omitempty"`
}

// LostRun is a run that returns to an earlier state, or disappears.
type LostRun struct {
	Namespace store.NamespaceID `json:"namespace"`
	Run       string            `json:"run"`
	Changes   int64             `json:"changes"` // of its state, journal, log and output
}

// ErrNoLoss: the log is not damaged at the given position.
var ErrNoLoss = errors.New("this is not where the log is damaged")

// AcceptLoss cuts the log of a closed store where it is damaged. position is FILE:OFFSET, exactly as the error of
// opening the store says. All commits after it are lost. Without apply, it changes nothing. The damaged file and the
// later ones are kept in a folder beside the store. Only a log can be cut: if a table or the list of tables is damaged,
// a backup must be restored.
func AcceptLoss(dir, position string, apply bool) (l *Loss, err error) {
	files := vfs.Default
	if err := checkFormat(files, dir); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(dir, files)
	if err != nil {
		return nil, locked(err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found, err := peek(files, dir)
	if err != nil {
		return nil, unsound(err)
	}
	if !found.Exists {
		_, err := checkRecords(files, dir, found)
		return nil, errors.Join(errors.New("there is no list of tables, and nothing that a log could be cut for"), err)
	}
	if _, err := checkRecordsOf(files, dir, filepath.Base(found.ManifestFilename), 0); err != nil {
		return nil, fmt.Errorf("the list of tables is damaged, not a log: %w", err)
	}
	logs, err := neededLogs(dir, lock)
	if err != nil {
		return nil, err
	}
	at, err := findDamage(dir, logs)
	if err != nil {
		return nil, err
	}
	if at == nil {
		return nil, fmt.Errorf("%w: no log of %s is damaged", ErrNoLoss, dir)
	}
	if is := fmt.Sprintf("%s:%d", at.name, at.end); is != position {
		return nil, fmt.Errorf("%w: got %q, it is %q", ErrNoLoss, position, is)
	}
	later := logs[slices.Index(logs, at.name)+1:]
	l, err = at.loss(dir, later)
	if err != nil || !apply {
		return l, err
	}
	return l, at.cut(dir, l)
}

// checkFormat refuses a store that a newer release has written.
func checkFormat(files vfs.FS, dir string) error {
	format, err := readFormat(files, dir)
	if err == nil && format > store.FormatVersion {
		err = newerFormat(format)
	}
	return err
}

// logsOf returns the names of the files of the log, the oldest first.
func logsOf(dir string) (logs []string, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if base, ok := strings.CutSuffix(e.Name(), ".log"); ok {
			if _, err := strconv.ParseUint(base, 10, 64); err == nil {
				logs = append(logs, e.Name())
			}
		}
	}
	slices.SortFunc(logs, func(a, b string) int { return int(numberOf(a)) - int(numberOf(b)) })
	return logs, err
}

// numberOf returns the number of a log file, truncated to 32 bits as in its chunks.
func numberOf(log string) uint32 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(log, ".log"), 10, 64)
	return uint32(n)
}

// logDamage is a damaged log file.
type logDamage struct {
	name string
	b    []byte
	end  int
}

// findDamage returns the first damage of a log, nil if there is none. Every file except the newest has an orderly end,
// so in those any unreadable byte is damage.
func findDamage(dir string, logs []string) (*logDamage, error) {
	for i, name := range logs {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		end, is := logfs.Damaged(b, numberOf(name))
		if !is && i < len(logs)-1 {
			is = end < len(b) && len(bytes.Trim(b[end:], "\x00")) > 0
		}
		if is {
			return &logDamage{name, b, end}, nil
		}
	}
	return nil, nil
}

// olderDamage adds the position to err, the error of opening a store, if it is about damage of a log file other than
// the newest. Pebble refuses such a log without giving the position.
func olderDamage(dir string, err error) error {
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	logs, _ := neededLogs(dir, nil)
	at, _ := findDamage(dir, logs) // if this read fails too, err is still the error to return
	if at == nil || at.name == logs[len(logs)-1] {
		return err
	}
	return damagedLog(at.name, at.end)
}

// loss returns what is lost behind the damage.
func (d *logDamage) loss(dir string, later []string) (*Loss, error) {
	l := &Loss{File: d.name, Offset: int64(d.end), Bytes: unpadded(d.b[d.end:]), Later: slices.Clone(later), Runs: []LostRun{},
		Others: map[string]int64{}}
	runs := map[store.RunKey]int64{}
	cut, records := logfs.Salvage(d.b, numberOf(d.name), d.end)
	l.count(cut, runs)
	for _, name := range later {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		l.Bytes += unpadded(b)
		_, more := logfs.Salvage(b, numberOf(name), 0)
		records = append(records, more...)
	}
	for _, r := range records {
		l.Commits++
		l.count(r, runs)
	}
	for k, n := range runs {
		l.Runs = append(l.Runs, LostRun{k.Namespace, k.ID, n})
	}
	slices.SortFunc(l.Runs, func(a, b LostRun) int {
		if a.Namespace != b.Namespace {
			return int(a.Namespace) - int(b.Namespace)
		}
		return strings.Compare(a.Run, b.Run)
	})
	return l, nil
}

// unpadded returns the length of b without the zeros at its end: a log file is longer than its content.
func unpadded(b []byte) int64 { return int64(len(bytes.TrimRight(b, "\x00"))) }

// count counts the changes of a batch, as far as it can be read.
func (l *Loss) count(batch []byte, runs map[store.RunKey]int64) {
	if len(batch) < batchrepr.HeaderLen {
		return
	}
	for r := batchrepr.Read(batch); ; {
		_, key, _, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		if run, ok := runOfKey(key); ok {
			runs[run]++
		} else if what := whatOfKey(key); what != "" {
			l.Others[what]++
		}
	}
}

// runOfKey returns the run of a record of a run.
func runOfKey(k []byte) (run store.RunKey, ok bool) {
	if len(k) <= keyPrefix {
		return run, false
	}
	id := k[keyPrefix:]
	switch k[keyPrefix-1] {
	case store.TableState:
	case store.TableJournal, store.TableLog, store.TableOutput:
		id, _, ok = bytes.Cut(id, []byte{0})
		if !ok {
			return run, false
		}
	default:
		return run, false
	}
	run, err := store.ParseRunTableKey(append(bytes.Clone(k[:keyPrefix]), id...))
	return run, err == nil
}

// keyPrefix is the length of a key's namespace, partition and table.
const keyPrefix = 7

// whatOfKey returns a name for a record that does not belong to one run, and is not implied by runs. Empty for other
// records.
func whatOfKey(k []byte) string {
	if len(k) < keyPrefix {
		return ""
	}
	return map[byte]string{store.TableInbox: "commands between runs", store.TableSchedule: "schedules", store.TableHook: "hooks",
		store.TableQueue: "queues of limits", store.TableNamespace: "namespaces", store.TableToken: "tokens",
		store.TableModule:    "modules",
		store.TableRetention: "retentions", store.TableQuota: "quotas", store.TableLimits: "limits",
		store.TableWorkflow: "versions of workflows", store.TableKey: "encryption keys"}[k[keyPrefix-1]]
}

// cut copies the files to a folder beside the store, and ends the log before the damage. Later files are removed first,
// the newest first, so that a cut that was interrupted leaves the same damage, and can be repeated.
func (d *logDamage) cut(dir string, l *Loss) error {
	kept := filepath.Join(filepath.Dir(dir), fmt.Sprintf("damaged-%s-%d", strings.TrimSuffix(d.name, ".log"), d.end))
	if err := dirs.Make(kept, dirMode); err != nil {
		return err
	}
	for _, name := range append([]string{d.name}, l.Later...) {
		if err := keep(filepath.Join(dir, name), filepath.Join(kept, name)); err != nil {
			return fmt.Errorf("keep %s: %w", name, err)
		}
	}
	if err := syncDir(kept); err != nil {
		return err
	}
	for _, name := range slices.Backward(l.Later) {
		if err := errors.Join(os.Remove(filepath.Join(dir, name)), syncDir(dir)); err != nil {
			return err
		}
	}
	next := filepath.Join(dir, "cut.next")
	if err := writeSynced(next, d.b[:d.end]); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(next, filepath.Join(dir, d.name)), syncDir(dir)); err != nil {
		return err
	}
	l.Kept = kept
	return nil
}

// keep copies a file, unless an earlier attempt has copied it.
func keep(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(to); err == nil && bytes.Equal(there, b) {
		return nil
	} else if err == nil {
		return fmt.Errorf("%s is there, and is another file", to)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(to+".next", b); err != nil {
		return err
	}
	return os.Rename(to+".next", to)
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := vfs.Default.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
