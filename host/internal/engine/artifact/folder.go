package artifact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/host/internal/datadir"
)

// Folder is the path of a cache: artifacts in its folder "modules", code in a folder for each version of the compiler, and
// folders in which modules are being compiled. Whoever can write into it can have the host execute anything.
type Folder string

const (
	modules  = "modules"
	index    = "artifact" // the file with the artifact where a module was compiled
	scratch  = "new-"     // what names of folders begin with in which modules are being compiled
	lock     = "lock"     // the file there that is locked for as long
	dirMode  = 0o700
	fileMode = 0o600

	// scratchTries is how often a folder is made that others remove before it is locked, which is within microseconds.
	scratchTries = 3
)

// inFlight are the folders in which this process has modules compiled.
var inFlight sync.Map

// Clean removes what processes that were killed have left. A folder in which another process compiles is locked: programs that
// test workflows share a cache.
func (f Folder) Clean() error {
	all, err := os.ReadDir(string(f))
	for _, d := range all {
		dir := filepath.Join(string(f), d.Name())
		if _, ok := inFlight.Load(dir); !ok && strings.HasPrefix(d.Name(), scratch) {
			err = errors.Join(err, clean(dir))
		}
	}
	return err
}

// clean removes a folder in which something was compiled, unless somebody has locked it.
func clean(dir string) error {
	held, err := datadir.Lock(filepath.Join(dir, lock))
	if err != nil {
		return nil //nolint:nilerr // its process is alive, or has just removed it
	}
	return removeLocked(dir, held)
}

// removeLocked removes a folder and the lock in it. Windows does not remove a file that is open.
func removeLocked(dir string, held *os.File) error {
	err := os.RemoveAll(dir)
	if closed := held.Close(); err != nil {
		return errors.Join(os.RemoveAll(dir), closed)
	}
	return nil
}

// Scratch makes a folder in which something is compiled.
func (f Folder) Scratch() (dir string, remove func(), err error) {
	for range scratchTries {
		dir, remove, err = f.scratch()
		if err == nil {
			return dir, remove, nil
		}
	}
	return "", nil, err
}

// scratch makes a folder and locks it. It fails if another process removes the folder in between.
func (f Folder) scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(string(f), scratch)
	if err != nil {
		return "", nil, err
	}
	inFlight.Store(dir, true)
	path := filepath.Join(dir, lock)
	held, err := datadir.Lock(path)
	if err == nil {
		_, err = os.Stat(path) // gone if somebody had it locked before, to remove it
	} else if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	remove = func() {
		_ = removeLocked(dir, held) // the next process tries again
		inFlight.Delete(dir)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// Write writes the artifact into a folder in which its module was compiled, and moves the file with the code to where the
// compiler looks for that of the skeleton: a name in a folder.
func (a *Artifact) Write(dir, code, folder, name string) error {
	a.Code = File{Folder: folder, Name: name}
	to := filepath.Join(dir, folder, name)
	if err := os.MkdirAll(filepath.Dir(to), dirMode); err != nil {
		return err
	}
	if err := os.Rename(code, to); err != nil {
		return err
	}
	if err := a.Code.Measure(to); err != nil {
		return err
	}
	b, err := a.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, index), b, fileMode)
}

// path returns that of the code below a folder, wherever the artifact says that it is.
func (a *Artifact) path(dir string) string {
	return filepath.Join(dir, filepath.Base(a.Code.Folder), filepath.Base(a.Code.Name))
}

// Take takes what was written into a folder by Write over into the cache, under a name: the code first, since the artifact says
// that it is there. The compiler looks for code in one folder, and would not find that of another version of it: it would compile
// the skeleton, whose functions trap. It returns how many bytes it added to the cache.
func (f Folder) Take(dir, name, folder string) (a *Artifact, bytes int64, err error) {
	b, err := os.ReadFile(filepath.Join(dir, index))
	if err != nil {
		return nil, 0, err
	}
	a, err = Decode(b)
	if err != nil {
		return nil, 0, fmt.Errorf("what the compiler wrote is %w", err)
	}
	if a.Code.Folder != folder {
		return nil, 0, fmt.Errorf("the process that compiles has the compiler %s, and this one has %s: they must be the same program",
			a.Code.Folder, folder)
	}
	code := a.path(string(f))
	if err := os.MkdirAll(filepath.Dir(code), dirMode); err != nil {
		return nil, 0, err
	}
	if err := os.Rename(a.path(dir), code); err != nil {
		return nil, 0, err
	}
	return a, a.Code.Bytes + int64(len(b)), f.move(dir, name)
}

// move moves the artifact in a folder into the cache, under a name.
func (f Folder) move(dir, name string) error {
	to := filepath.Join(string(f), modules, name)
	if err := os.MkdirAll(filepath.Dir(to), dirMode); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, index), to)
}

// Put writes an artifact into the cache, under a name. Its code is there already. It returns how many bytes it added.
func (f Folder) Put(name string, a *Artifact) (bytes int64, err error) {
	b, err := a.Encode()
	if err != nil {
		return 0, err
	}
	dir, remove, err := f.Scratch()
	if err != nil {
		return 0, err
	}
	defer remove()
	if err := os.WriteFile(filepath.Join(dir, index), b, fileMode); err != nil {
		return 0, err
	}
	return int64(len(b)), f.move(dir, name)
}

// Open reads and checks an artifact and its code. The error is os.ErrNotExist or ErrDamaged if the module has to be compiled.
// Both count as used now. When the code was loaded, replaced returns ErrDamaged if that was not the one which was checked.
func (f Folder) Open(name string) (a *Artifact, replaced func() error, err error) {
	b, err := os.ReadFile(filepath.Join(string(f), modules, name))
	if err != nil {
		return nil, nil, err
	}
	a, err = Decode(b)
	if err != nil {
		return nil, nil, err
	}
	was, err := a.Code.Check(a.path(string(f)))
	if err != nil {
		return nil, nil, err
	}
	used(filepath.Join(string(f), modules, name))
	used(a.path(string(f))) // after the artifact: code is not removed before all that need it
	return a, func() error {
		is, err := os.Stat(a.path(string(f)))
		if err == nil && os.SameFile(was, is) {
			return nil
		}
		return errors.Join(fmt.Errorf("%w: the code was replaced while it was loaded", ErrDamaged), err)
	}, nil
}
