// Package archive writes a run as one file, and reads such files, which may come from anybody. The format is documented in
// store/FORMAT.md. The package knows no host: it is given a store, a writer or a reader.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/wfhost/wfhost/store"
)

// Version is the newest version of the format. A reader refuses a greater one. Version 2 is that of an archive without
// the journals of some iterations: older readers would find a gap. Any other one has version 1.
const Version = 2

// Limits of an archive. A reader allocates nothing before it has compared a length with them.
const (
	// partBytes is when a member of records is full: small enough that the reader's memory does not depend on how much a run has
	// logged, large enough that most runs have one of each kind.
	partBytes = 4 << 20
	// maxPartBytes is the largest member of records: one that was nearly full when the largest record was added, with its length
	// and the number of its iteration.
	maxPartBytes = partBytes + store.MaxRecordBytes + 16
	// maxParts bounds the members of records, which is 64 GiB: far more than a run can have within its quota.
	maxParts = 16 << 10
	// maxRefolds bounds the entries that are read again for retries, each of which goes over the whole journal before it: some
	// seconds. A run with 1,000 entries may have been retried 1,000 times.
	maxRefolds = 1 << 20
	// maxManifestBytes bounds the manifest, with some 150 bytes for each member.
	maxManifestBytes = 4 << 20
)

// Names of members, in the order in which they stand. The records of journals, logs and output stand in parts, from 0.
const (
	stateName    = "run"
	moduleName   = "module.wasm"
	journalName  = "journal"
	logsName     = "logs"
	outputName   = "output"
	manifestName = "manifest.json"
)

// ErrInvalid says that a file is no archive of a run, or that what it holds cannot be one.
var ErrInvalid = errors.New("not a sound archive of a run")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Manifest is the last member: what the archive is, and the checksum of each member before it.
type Manifest struct {
	Format    string `json:"format"`  // formatName
	Version   int    `json:"version"` // of the format
	Run       string `json:"run"`
	Workflow  string `json:"workflow"`
	Status    string `json:"status"`
	Iteration uint32 `json:"iteration"`
	Entries   uint64 `json:"entries"`         // of the newest iteration
	Module    string `json:"module"`          // SHA-256 in hexadecimal
	Moved     bool   `json:"moved,omitempty"` // the run was set aside where it was exported, to go on elsewhere
	Files     []File `json:"files"`
}

// File is a member of an archive.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// formatName is how an archive is told from other files that have a manifest.
const formatName = "wfhost-run"

// Run is what an archive holds of a run, but for the journals of earlier iterations, its log and its output, which were read
// and checked.
type Run struct {
	State   store.RunState // in namespace 0
	Entries []store.Entry  // of the newest iteration
	Module  []byte         // its bytes; nil if the archive was written without
	Logs    uint64         // lines
	Output  uint64         // chunks
}

// manifestOf describes a run.
func manifestOf(st *store.RunState, files []File) Manifest {
	version := 1
	if st.Kept > 0 {
		version = 2
	}
	return Manifest{Format: formatName, Version: version, Run: st.Run.ID, Workflow: st.Workflow, Status: st.Status.String(),
		Iteration: st.Iteration, Entries: uint64(st.Length), Module: st.Module.String(), Moved: st.Aside == store.AsideMoved,
		Files: files}
}

// summed describes a member that was hashed.
func summed(name string, size int64, h hash.Hash) File {
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(h.Sum(nil))}
}

func fileOf(name string, b []byte) File {
	h := sha256.New()
	_, _ = h.Write(b) // never an error
	return summed(name, int64(len(b)), h)
}
