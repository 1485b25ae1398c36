// Package backup makes backups of stores, and restores them. A backup is a directory:
//
//	manifest.json   its contents: each file with its size and SHA-256
//	store/          the files of the store
//
// In transit a backup is a tar stream of the same files with the manifest at its end, so that a truncated stream is not
// taken for a backup. A place is a directory of backups, each named after its time. A table of a store never changes,
// so a backup shares tables with the backup before by hard links, and they are not sent again. Each backup is complete:
// any of them may be deleted.
package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/store"
)

const (
	// ManifestName is the file that makes a directory a backup.
	ManifestName = "manifest.json"
	// storeFolder is the folder with the store's files.
	storeFolder = "store"
	// manifestVersion is the version of the manifest and of the stream.
	manifestVersion = 1
	// maxManifestBytes bounds the size of a manifest: some 100,000 files, as many as a store of a terabyte has.
	maxManifestBytes = 64 << 20
	// chunkBytes is the size of a copied chunk. Other users of the disk get their turn between chunks.
	chunkBytes = 256 << 10
	// syncEveryBytes is how much is written between syncs: a disk that gets gigabytes at once does not answer other
	// requests meanwhile.
	syncEveryBytes = 8 << 20
	fileMode       = 0o600
	dirMode        = 0o700
)

// Manifest lists the contents of a backup.
type Manifest struct {
	Version int       `json:"version"` // of the manifest: 1
	Time    time.Time `json:"time"`    // of the store's checkpoint
	Release string    `json:"release"` // of wfhost that made it
	Format  int       `json:"format"`  // of the store, as of the release that last had it open
	Files   []File    `json:"files"`   // by name
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// ModifiedNs is when the store wrote the file, in Unix nanoseconds. Name, size and time identify a table.
	ModifiedNs int64 `json:"modified_ns"`
	// Unread is how many backups have shared the file since its bytes were last compared with SHA256. The receiver sets it.
	Unread int `json:"unread,omitempty"`
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// ErrNotBackup: the input is not a backup, or a truncated one.
var ErrNotBackup = errors.New("not a backup")

// ErrDamaged: a file of a backup has changed since the backup was made.
var ErrDamaged = errors.New("backup is damaged")

// Options says how Write writes a backup.
type Options struct {
	Time    time.Time // of the checkpoint; required
	Release string
	Format  int // of the store; 0 = store.FormatVersion
	// Have lists files of an earlier backup, which the stream leaves out if the store still has them.
	Have []File
	// BytesPerSecond bounds how fast files are read; 0 = no bound.
	BytesPerSecond int64
}

// leftOut reports whether a file in a store's directory is not part of the store: locks, prepared files, checkpoints,
// and the format file, which the backup writes itself.
func leftOut(name string) bool {
	return name == "LOCK" || name == "prepared" || name == "checkpoints" || strings.HasPrefix(name, formatName)
}

// formatName is the file with the format of a store: see store/FORMAT.md. Each backup has it, a checkpoint does not.
const formatName = "wfhost-format"

// isTable reports whether a file is a table, which never changes once it exists.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// Write writes the backup of a store whose files are in a directory and do not change: a checkpoint, or a store that is
// not open. It returns the manifest, which includes files that were left out of the stream.
func Write(ctx context.Context, w io.Writer, dir string, opts Options) (*Manifest, error) {
	m := &Manifest{Version: manifestVersion, Time: opts.Time.UTC(), Release: opts.Release,
		Format: cmp.Or(opts.Format, store.FormatVersion)}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := &stream{ctx: ctx, tar: tar.NewWriter(w)}
	if opts.BytesPerSecond > 0 {
		out.limit = rate.NewLimiter(rate.Limit(opts.BytesPerSecond), chunkBytes)
	}
	for _, e := range list {
		if leftOut(e.Name()) || e.IsDir() { // a store has files only; lost+found may be there
			continue
		}
		if !e.Type().IsRegular() { // its bytes may be elsewhere, and may still change
			return nil, fmt.Errorf("back up %s: it must be a regular file, and is %s; put the file itself in its place", e.Name(),
				kindOf(e.Type()))
		}
		f, err := out.file(filepath.Join(dir, e.Name()), opts.Have)
		if err != nil {
			return nil, fmt.Errorf("back up %s: %w", e.Name(), err)
		}
		m.Files = append(m.Files, f)
	}
	if len(m.Files) == 0 {
		return nil, fmt.Errorf("%s holds no store", dir)
	}
	format := fmt.Appendln(nil, m.Format)
	f, err := out.put(File{Name: formatName, Size: int64(len(format)), ModifiedNs: m.Time.UnixNano()}, bytes.NewReader(format))
	if err != nil {
		return nil, err
	}
	m.Files = append(m.Files, f)
	text, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = out.tar.WriteHeader(&tar.Header{Name: ManifestName, Mode: fileMode, Size: int64(len(text)), ModTime: m.Time})
	}
	if err == nil {
		_, err = out.tar.Write(text)
	}
	if err == nil {
		err = out.tar.Close()
	}
	return m, err
}

func kindOf(mode os.FileMode) string {
	if mode&os.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "none: its mode is " + mode.String()
}

// stream is a tar stream that is being written.
type stream struct {
	ctx   context.Context //nolint:containedctx // for as long as Write takes
	tar   *tar.Writer
	limit *rate.Limiter
}

// file writes a file to the stream, unless the receiver has it.
func (s *stream) file(path string, have []File) (File, error) {
	r, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = r.Close() }() // it was read
	info, err := r.Stat()
	if err != nil {
		return File{}, err
	}
	f := File{Name: info.Name(), Size: info.Size(), ModifiedNs: info.ModTime().UnixNano()}
	if i := slices.IndexFunc(have, f.same); i >= 0 {
		return have[i], nil
	}
	return s.put(f, r)
}

// same reports whether a file of an earlier backup is this file.
func (f File) same(of File) bool {
	return isTable(f.Name) && f.Name == of.Name && f.Size == of.Size && f.ModifiedNs == of.ModifiedNs
}

func (s *stream) put(f File, r io.Reader) (File, error) {
	err := s.tar.WriteHeader(&tar.Header{Name: storeFolder + "/" + f.Name, Mode: fileMode, Size: f.Size,
		ModTime: time.Unix(0, f.ModifiedNs)})
	if err != nil {
		return f, err
	}
	sum := sha256.New()
	n, err := copyChunks(s.ctx, io.MultiWriter(s.tar, sum), io.LimitReader(r, f.Size), s.limit)
	if err == nil && n != f.Size {
		err = fmt.Errorf("%d bytes of %d are there: it has changed meanwhile", n, f.Size)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f, err
}

// copyChunks copies until r ends or ctx is done.
func copyChunks(ctx context.Context, w io.Writer, r io.Reader, limit *rate.Limiter) (n int64, err error) {
	buf := make([]byte, chunkBytes)
	for {
		if err := ctx.Err(); err != nil {
			return n, context.Cause(ctx)
		}
		k, err := io.ReadFull(r, buf)
		if k > 0 {
			if limit != nil {
				if err := limit.WaitN(ctx, k); err != nil {
					return n, err
				}
			}
			if _, err := w.Write(buf[:k]); err != nil {
				return n, err
			}
			n += int64(k)
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// received is a file that is written, hashed, and synced every syncEveryBytes.
type received struct {
	*os.File
	sum   hash.Hash
	dirty int
}

func create(path string) (*received, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	return &received{File: f, sum: sha256.New()}, nil
}

// Write implements io.Writer.
func (r *received) Write(b []byte) (int, error) {
	_, _ = r.sum.Write(b) // never fails
	n, err := r.File.Write(b)
	r.dirty += n
	if err == nil && r.dirty >= syncEveryBytes {
		r.dirty, err = 0, r.Sync()
	}
	return n, err
}

// finish makes the file durable, and returns its hash.
func (r *received) finish() (string, error) {
	return hex.EncodeToString(r.sum.Sum(nil)), errors.Join(r.Sync(), r.File.Close())
}

// digest is a hash as text.
type digest struct{ hash.Hash }

func newSum() digest { return digest{sha256.New()} }

func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)) }

// ReadManifest reads the manifest of a backup. A directory without one is ErrNotBackup.
func ReadManifest(dir string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(dir, ManifestName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; one that was cut has none", ErrNotBackup, dir, ManifestName)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	m, err := decodeManifest(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return m, err
}

func decodeManifest(r io.Reader) (*Manifest, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifestBytes {
		return nil, fmt.Errorf("%w: its manifest is larger than %d bytes", ErrNotBackup, maxManifestBytes)
	}
	m := &Manifest{}
	if err := json.Unmarshal(b, m); err != nil || m.Version < 1 || len(m.Files) == 0 {
		return nil, fmt.Errorf("%w: its manifest cannot be read", ErrNotBackup)
	}
	if m.Version > manifestVersion {
		return nil, fmt.Errorf("%w: the manifest has version %d, this release knows %d", store.ErrVersion, m.Version, manifestVersion)
	}
	if m.Format > store.FormatVersion {
		return nil, fmt.Errorf("%w: the backup has a store of format %d, this release knows %d", store.ErrVersion, m.Format,
			store.FormatVersion)
	}
	for i := range m.Files {
		if err := checkName(m.Files[i].Name); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// checkName refuses file names that would be outside of the folder.
func checkName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return fmt.Errorf("%w: it has a file named %q", ErrNotBackup, name)
	}
	return nil
}
