package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

// Golden replays the recorded runs in a folder, its files with the suffix host.ArchiveSuffix, against a module, each
// in a subtest named after its file. A run that does not fit the module fails the test with the entry at which it
// diverges, the journal's entry, and what the workflow did: such a change of the code would leave live runs stuck. The
// allowed differences are those of `wfhost check`; notes are logged. A folder without any such file fails the test,
// too.
//
// Host.Record writes these files, and so does `wfhost export RUN --without-module`.
func Golden(t *testing.T, dir string, wasm []byte) {
	t.Helper()
	paths, err := recordings(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), host.Config{Dir: cacheDir(t), Store: memstore.New().Open(), Partitions: []int{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() }) // nothing was written
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), host.ArchiveSuffix), func(t *testing.T) {
			notes, err := replayed(t.Context(), h, path, wasm)
			for _, note := range notes {
				t.Log(note)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// recordings lists the archives in a folder.
func recordings(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, f := range files {
		if filepath.Ext(f.Name()) == host.ArchiveSuffix {
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no recorded run: no file ends with %s; Host.Record and `wfhost export` write them", dir,
			host.ArchiveSuffix)
	}
	return paths, nil
}

// replayed replays the run in a file. It returns notes, or an error if the run does not fit.
func replayed(ctx context.Context, h *host.Host, path string, wasm []byte) (notes []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, err := host.ReadArchive(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := h.ReplayArchive(ctx, a, host.ReplayOptions{Module: wasm})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Outcome != host.CheckCompatible {
		return nil, fmt.Errorf("%s: run %s of %q: %s", path, r.RunID, a.Run().Workflow, r.Reason)
	}
	return r.Notes, nil
}

// Record exports a run of the host without its module to a file in a folder. The file is named after the run, and is
// replaced if it exists. A test calls it on demand, for example with a flag -update; Golden replays the file in all
// later tests. Waiting runs are as useful as ended ones.
func (h *Host) Record(dir, id string) {
	h.t.Helper()
	var b bytes.Buffer
	err := h.Export(context.Background(), id, &b, host.ExportOptions{WithoutModule: true})
	if err == nil {
		err = os.MkdirAll(dir, 0o755) //nolint:gosec // a folder of a repository
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, id+host.ArchiveSuffix), b.Bytes(), 0o644) //nolint:gosec // likewise
	}
	if err != nil {
		h.t.Fatalf("record run %s: %v", id, err)
	}
}
