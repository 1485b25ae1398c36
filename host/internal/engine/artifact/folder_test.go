package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holding makes this program another process that compiles in the cache whose path is the value, until its standard
// input ends.
const holding = "WFHOST_TEST_SCRATCH"

// TestMain runs as that other process if holding is set.
func TestMain(m *testing.M) {
	if cache := os.Getenv(holding); cache != "" {
		dir, _, err := Folder(cache).Scratch()
		fmt.Println(dir, err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
		return
	}
	os.Exit(m.Run())
}

// TestCleanLeavesWhatIsUsed keeps the scratch folder of another process that compiles, and removes it after that
// process was killed.
func TestCleanLeavesWhatIsUsed(t *testing.T) {
	cache := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holding+"="+cache)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	dir, ok := strings.CutSuffix(said, " <nil>\n")
	if err != nil || !ok {
		t.Fatal(said, err)
	}
	for _, alive := range []bool{true, false} {
		if !alive {
			if err := other.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = other.Wait() // it was killed
		}
		if err := Folder(cache).Clean(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); (err == nil) != alive {
			t.Errorf("the process lives: %v, its folder: %v", alive, err)
		}
	}
	own, remove, err := Folder(cache).Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if err := Folder(cache).Clean(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
	if remove(); len(glob(t, cache)) > 0 {
		t.Error(glob(t, cache))
	}
}

func glob(t *testing.T, dir string) []string {
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReplacedCodeIsNoticed removes code while it is loaded, as another process that bounds the cache may do. The
// compiler then puts the skeleton's code in its place, in a file of the same or another size, which often has the
// inode of the removed file.
func TestReplacedCodeIsNoticed(t *testing.T) {
	for _, size := range []int{100, tinyCode, tinyCode + 1} {
		for _, by := range []int{100, tinyCode} {
			f := Folder(t.TempDir())
			code := filepath.Join(string(f), "v", "code")
			do := func(errs ...error) {
				t.Helper()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
			do(os.MkdirAll(filepath.Dir(code), 0o700), os.MkdirAll(filepath.Join(string(f), modules), 0o700),
				os.WriteFile(code, make([]byte, size), 0o600))
			a := &Artifact{Code: File{Folder: "v", Name: "code"}}
			do(a.Code.Measure(code))
			_, err := f.Put("m", a)
			do(err)
			_, replaced, err := f.Open("m")
			do(err, replaced(), os.Remove(code), os.WriteFile(code, bytes.Repeat([]byte("s"), by), 0o600))
			if err := replaced(); !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes were replaced by %d: %v", size, by, err)
			}
		}
	}
}
