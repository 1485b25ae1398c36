package module

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or a child process that the second argument selects.
func TestMain(m *testing.M) {
	if !IsChild() {
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Println("a line of the program's own")
	switch os.Args[1] {
	case "rubbish":
		fmt.Println("{rubbish")
		os.Exit(0)
	case "silent":
		os.Exit(0)
	case "flood":
		for range 1000 {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 10_000))
			_, _ = os.Stderr.Write(bytes.Repeat([]byte("y"), 10_000))
		}
		os.Exit(1)
	case "killed":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Signal(syscall.SIGKILL)
		select {}
	case "panic":
		panic("the compiler is broken")
	}
	Child(os.Stdin, os.Stdout, os.Exit, builds[os.Args[1]])
}

var hog [][]byte

// builds are what compiles.
var builds = map[string]func(ctx context.Context, wasm []byte, dir string) error{
	"good": func(_ context.Context, wasm []byte, dir string) error {
		return os.WriteFile(filepath.Join(dir, "built"), wasm, 0o600)
	},
	"refuses": func(context.Context, []byte, string) error { return errors.New("compile: function 3 is too long") },
	"finds no room": func(context.Context, []byte, string) error {
		return fmt.Errorf("compile: %w", &fs.PathError{Op: "write", Path: "code", Err: errors.New("no space left on device")})
	},
	"talks": func(context.Context, []byte, string) error {
		return errors.New("export " + strings.Repeat("ü", 1<<20))
	},
	"hangs": func(context.Context, []byte, string) error { select {} },
	"computes": func(context.Context, []byte, string) error {
		for n := 0; ; n++ {
			hog = hog[:0]
		}
	},
	"hogs": func(context.Context, []byte, string) error {
		for {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			hog = append(hog, b)
		}
	},
	"one large piece": func(context.Context, []byte, string) error {
		hog = append(hog, make([]byte, 1<<40))
		return nil
	},
}

// tight are limits within which the test binary starts.
var tight = CompileLimits{CPU: time.Minute, Wall: time.Minute, Memory: 256 << 20}

func TestBuild(t *testing.T) {
	wasm := bytes.Repeat([]byte("wasm"), 1<<20)
	for _, c := range []struct {
		mode   string
		change func(l *CompileLimits)
		want   string // of the error; empty: none
	}{
		{"good", nil, ""},
		{"refuses", nil, "compile: function 3 is too long"},
		{"rubbish", nil, "the process that compiles the module ended without an answer"},
		{"silent", nil, "the process that compiles the module ended without an answer"},
		{"flood", nil, `the process that compiles the module died: exit status 1; it said "yyy`},
		{"killed", nil, "the process that compiles the module died: signal: killed"},
		{"panic", nil, "the compiler is broken"},
		{"hangs", func(l *CompileLimits) { l.Wall = 300 * time.Millisecond }, "takes longer than 300ms, which is the limit"},
		{"computes", func(l *CompileLimits) { l.CPU = 200 * time.Millisecond }, "takes more than 200ms of CPU time, which is the limit"},
		{"hogs", nil, "takes more than 268435456 bytes of memory, which is the limit"},
		{"finds no room", nil, "write code: no space left on device"},
		{"talks", nil, "export üüü"},
		{"one large piece", nil, "the process that compiles the module died"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			if runtime.GOOS == "windows" && (c.mode == "killed" || c.mode == "computes") {
				t.Skip("signals and CPU time are not known here")
			}
			l := tight
			if c.change != nil {
				c.change(&l)
			}
			dir := t.TempDir()
			err := NewCompiler([]string{os.Args[0], c.mode}, l).Build(t.Context(), wasm, dir)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err != nil && (errors.Is(err, ErrUnavailable) != (c.mode == "finds no room") || len(err.Error()) > 5000) {
				t.Error(err)
			}
			built, _ := os.ReadFile(filepath.Join(dir, "built"))
			if c.mode == "good" && !bytes.Equal(built, wasm) {
				t.Errorf("the child was given %d bytes", len(built))
			}
		})
	}
}

// If the compiler process cannot be started, the error does not blame the module.
func TestUnavailable(t *testing.T) {
	err := NewCompiler([]string{filepath.Join(t.TempDir(), "nothing")}, tight).Build(t.Context(), nil, t.TempDir())
	if !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// A caller that stops waiting ends the process, or its wait for a place.
func TestCancelled(t *testing.T) {
	p := NewCompiler([]string{os.Args[0], "hangs"}, tight)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	done := make(chan error)
	const callers = atOnce + 2
	for range callers {
		go func() { done <- p.Build(ctx, nil, t.TempDir()) }()
	}
	for len(p.permits) < atOnce {
		runtime.Gosched()
	}
	cancel(gone)
	for range callers {
		if err := <-done; !errors.Is(err, gone) {
			t.Error(err)
		}
	}
}

// A child whose parent has died ends by its own time limit. It could notice the end of its parent only by its
// standard input.
func TestOrphan(t *testing.T) {
	cmd := exec.Command(os.Args[0], "hangs", Argument)
	cmd.Stdin = strings.NewReader(`{"Dir":"x","Limits":{"Wall":200000000}}` + "\n")
	out, err := cmd.Output()
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) || exit.ExitCode() != exitLimit || !strings.Contains(string(out), "takes longer than 200ms") {
		t.Errorf("%v: %s", err, out)
	}
}

// A request that is damaged is answered.
func TestDamagedRequest(t *testing.T) {
	for _, text := range []string{"", "{}", "{\n", "no\n"} {
		var out bytes.Buffer
		code := -1
		Child(strings.NewReader(text), &out, func(c int) { code = c }, builds["good"])
		if err := verdict(out.Bytes(), nil, nil); code != exitFault || err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%q: %d %v", text, code, err)
		}
	}
}

func TestTail(t *testing.T) {
	w := &tail{most: 5}
	for _, s := range []string{"ab", "cde", "", "f", "0123456789"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Error(n, err)
		}
		if s == "f" && string(w.b) != "bcdef" {
			t.Errorf("%s", w.b)
		}
	}
	if string(w.b) != "56789" {
		t.Errorf("%s", w.b)
	}
}
