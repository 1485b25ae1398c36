package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/host/internal/datadir"
)

// Folder is the path of a cache: artifacts in its folder "modules", code in a folder for each version of the
// compiler, and scratch folders of compilations. A process that can write into it can make the host execute anything.
type Folder string

const (
	modules  = "modules"
	index    = "artifact" // the artifact's file in a scratch folder
	scratch  = "new-"     // prefix of the names of scratch folders
	lock     = "lock"     // the file in a scratch folder that is locked while it is used
	dirMode  = 0o700
	fileMode = 0o600

	// scratchTries is how often Scratch tries again if another process removes the folder before it is locked, which
	// takes microseconds.
	scratchTries = 3

	tinyCode = 256 << 10 // see Open
)

// inFlight holds the scratch folders of this process.
var inFlight sync.Map

// Clean removes the scratch folders of killed processes. A folder that another process uses is locked: programs that
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

// clean removes a scratch folder unless it is locked.
func clean(dir string) error {
	held, err := datadir.Lock(filepath.Join(dir, lock))
	if err != nil {
		return nil //nolint:nilerr // its process is alive, or has just removed it
	}
	return removeLocked(dir, held)
}

// removeLocked removes a folder and the lock in it. Windows does not remove open files, so it tries again after
// closing the lock.
func removeLocked(dir string, held *os.File) error {
	err := os.RemoveAll(dir)
	if closed := held.Close(); err != nil {
		return errors.Join(os.RemoveAll(dir), closed)
	}
	return nil
}

// Scratch makes and locks a folder for a compilation. remove deletes it.
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
		_, err = os.Stat(path) // gone if another process had locked it to remove it
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

// Write writes the artifact into the scratch folder of its compilation, and moves the file with the code to the place
// where the compiler looks for the skeleton's code: folder/name.
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

// path returns the path of the code below a folder. It ignores directories within the artifact's names.
func (a *Artifact) path(dir string) string {
	return filepath.Join(dir, filepath.Base(a.Code.Folder), filepath.Base(a.Code.Name))
}

// Take moves what Write wrote from a scratch folder into the cache, under a name. The code is moved first, since the
// artifact refers to it. The compiler only looks in the folder of its own version. It would not find the code of
// another version and would compile the skeleton, whose functions trap, so Take refuses such code. It returns the
// bytes added to the cache.
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
		// Windows replaces no file that is open: another process may be loading the same code.
		if _, is := a.Code.Check(code); is != nil {
			return nil, 0, err
		}
	}
	return a, a.Code.Bytes + int64(len(b)), f.move(dir, name)
}

// move moves the artifact in a scratch folder into the cache, under a name.
func (f Folder) move(dir, name string) error {
	to := filepath.Join(string(f), modules, name)
	if err := os.MkdirAll(filepath.Dir(to), dirMode); err != nil {
		return err
	}
	from := filepath.Join(dir, index)
	err := os.Rename(from, to)
	if err != nil { // see Take
		is, _ := os.ReadFile(to)
		if b, e := os.ReadFile(from); e == nil && bytes.Equal(is, b) {
			return nil
		}
	}
	return err
}

// Put writes an artifact into the cache, under a name. Its code must be there already. It returns the bytes added.
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

// Open reads and checks an artifact and its code, and marks both as used. If the module must be compiled, the error
// is os.ErrNotExist or ErrDamaged. After loading the code, the caller calls replaced, which returns ErrDamaged if the
// loaded code was not the checked one.
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
	used(a.path(string(f))) // after the artifact, so that code is not evicted before all artifacts that need it
	return a, func() error {
		is, err := os.Stat(a.path(string(f)))
		// A file that replaces a removed one may have its inode. The compiler replaces code by that of the skeleton, which is shorter
		// unless both are tiny.
		same := err == nil && os.SameFile(was, is) && is.Size() == was.Size()
		if same && is.Size() <= tinyCode {
			_, err = a.Code.Check(a.path(string(f)))
		}
		if same && err == nil {
			return nil
		}
		return errors.Join(fmt.Errorf("%w: the code was replaced while it was loaded", ErrDamaged), err)
	}, nil
}
