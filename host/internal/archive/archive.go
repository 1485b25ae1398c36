// Package archive writes a run to one file, and reads such files, which may come from untrusted sources. The format is
// documented in store/FORMAT.md. The package does not depend on a host: it works on a store, a writer or a reader.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/wfhost/wfhost/store"
)

// Version is the newest version of the format. Readers refuse a greater one. An archive without the journals of some
// iterations has version 2, since older readers would find a gap in it. All other archives have version 1.
const Version = 2

// Limits of an archive. A reader compares a length with them before it allocates.
const (
	// partBytes is when a member of records is full. It is small enough that the reader's memory does not depend on how
	// much a run has logged, and large enough that most runs have one member of each kind.
	partBytes = 4 << 20
	// maxPartBytes is the size of the largest member of records: a nearly full one, to which the largest record was added
	// with its length and the number of its iteration.
	maxPartBytes = partBytes + store.MaxRecordBytes + 16
	// maxParts bounds the number of members of records. That allows 64 GiB, far more than a run can have within its quota.
	maxParts = 16 << 10
	// maxRefolds bounds the entries that are read again for retries: each retry reads the whole journal before it. At the
	// limit this takes some seconds. A run with 1,000 entries may have been retried 1,000 times.
	maxRefolds = 1 << 20
	// maxManifestBytes bounds the manifest, which has some 150 bytes for each member.
	maxManifestBytes = 4 << 20
)

// Names of members, in their order. The records of journals, logs and output are in parts, numbered from 0.
const (
	stateName    = "run"
	moduleName   = "module.wasm"
	journalName  = "journal"
	logsName     = "logs"
	outputName   = "output"
	manifestName = "manifest.json"
)

// ErrInvalid reports that a file is no archive of a run, or that its contents cannot be one.
var ErrInvalid = errors.New("not a sound archive of a run")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Manifest is the last member. It describes the archive, and has the checksum of each member before it.
type Manifest struct {
	Format    string `json:"format"`  // formatName
	Version   int    `json:"version"` // of the format
	Run       string `json:"run"`
	Workflow  string `json:"workflow"`
	Status    string `json:"status"`
	Iteration uint32 `json:"iteration"`
	Entries   uint64 `json:"entries"`         // of the newest iteration
	Module    string `json:"module"`          // SHA-256 in hexadecimal
	Moved     bool   `json:"moved,omitempty"` // the run was set aside where it was exported, and continues elsewhere
	Files     []File `json:"files"`
}

// File is a member of an archive.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// formatName distinguishes an archive from other files that have a manifest.
const formatName = "wfhost-run"

// Run is the checked content of an archive, without the journals of earlier iterations, the log and the output.
type Run struct {
	State   store.RunState // in namespace 0
	Entries []store.Entry  // of the newest iteration
	Module  []byte         // nil if the archive was written without it
	Logs    uint64         // lines
	Output  uint64         // chunks
}

// manifestOf returns the manifest of a run.
func manifestOf(st *store.RunState, files []File) Manifest {
	version := 1
	if st.Kept > 0 {
		version = 2
	}
	return Manifest{Format: formatName, Version: version, Run: st.Run.ID, Workflow: st.Workflow, Status: st.Status.String(),
		Iteration: st.Iteration, Entries: uint64(st.Length), Module: st.Module.String(), Moved: st.Aside == store.AsideMoved,
		Files: files}
}

// summed returns the manifest's entry for a member that was hashed.
func summed(name string, size int64, h hash.Hash) File {
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))}
}

func fileOf(name string, b []byte) File {
	h := sha256.New()
	_, _ = h.Write(b) // never fails
	return summed(name, int64(len(b)), h)
}
