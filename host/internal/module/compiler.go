// Each compilation has a process of its own, which frees its memory when it exits. A module that makes the compiler
// loop forever, exhaust memory or crash ends only that process.
//
// The parent starts the process with Argument as its last argument. The child reads a line with a request as JSON
// from its standard input, and then the module up to the end. It writes its answer, a line of JSON, to its standard
// output.

package module

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Argument is the last argument of a compiling process.
const Argument = "wfhost-compile-module"

// CompileLimits bound one compilation. Zero selects the default of each limit.
type CompileLimits struct {
	CPU    time.Duration // user and system time together; ignored on Windows
	Wall   time.Duration // since the start of the process
	Memory int64         // bytes that the process holds from the system
}

// Defaults. A Go module of 4 MB takes a second of CPU time and 110 MB of memory; uploads are limited to 32 MB.
const (
	DefaultCPU    = time.Minute
	DefaultWall   = 2 * time.Minute
	DefaultMemory = 2 << 30
)

// WithDefaults replaces zero limits by their defaults.
func (l CompileLimits) WithDefaults() CompileLimits {
	if l.CPU == 0 {
		l.CPU = DefaultCPU
	}
	if l.Wall == 0 {
		l.Wall = DefaultWall
	}
	if l.Memory == 0 {
		l.Memory = DefaultMemory
	}
	return l
}

// request is what the parent sends to the child.
type request struct {
	Dir    string
	Limits CompileLimits
}

// answer is what the child sends back.
type answer struct {
	OK    bool   `json:"ok,omitempty"`
	Error string `json:"error,omitempty"` // the compiler refused the module
	Fault string `json:"fault,omitempty"` // the machine failed
	Limit string `json:"limit,omitempty"` // a sentence about the limit that was reached
}

// ErrUnavailable is wrapped by errors that do not concern the module itself.
var ErrUnavailable = errors.New("modules cannot be compiled")

// Compiler compiles modules in child processes. It is safe for concurrent use.
type Compiler struct {
	command []string
	limits  CompileLimits
	permits chan struct{}
}

// atOnce is how many processes compile at a time. Uploads take at most atOnce times CompileLimits.Memory.
const atOnce = 2

// NewCompiler returns a Compiler that starts command with Argument appended.
func NewCompiler(command []string, l CompileLimits) *Compiler {
	return &Compiler{command: append(command[:len(command):len(command)], Argument), limits: l.WithDefaults(),
		permits: make(chan struct{}, atOnce)}
}

// Bounds of what the parent keeps of the child's output: the answer, and the end of its standard error.
const (
	maxAnswer = 64 << 10
	maxWords  = 2 << 10
)

// killDelay is how long the parent waits for the pipes of a killed process, which its own children may hold open.
const killDelay = time.Second

// Build compiles a module into an empty folder. It blocks while atOnce other calls compile. An error that does not
// concern the module wraps ErrUnavailable: the process could not be started, or could not write.
func (p *Compiler) Build(ctx context.Context, wasm []byte, dir string) error {
	select {
	case p.permits <- struct{}{}:
		defer func() { <-p.permits }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	head, err := json.Marshal(request{dir, p.limits})
	if err != nil {
		return err
	}
	timed, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer clock.AfterFunc(clock.System(), p.limits.Wall, func() { cancel(errWall) })()
	cmd := exec.CommandContext(timed, p.command[0], p.command[1:]...)
	cmd.WaitDelay = killDelay
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(wasm))
	out, words := &tail{most: maxAnswer}, &tail{most: maxWords}
	cmd.Stdout, cmd.Stderr = out, words
	started := cmd.Start()
	if started == nil {
		err = cmd.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(context.Cause(timed), errWall):
		return errors.New(wallSentence(p.limits.Wall))
	case started != nil:
		return fmt.Errorf("%w: the process that compiles could not be started: %w", ErrUnavailable, started)
	}
	return verdict(out.b, words.b, err)
}

var errWall = errors.New("time is up")

// verdict returns the outcome of a child from the last line of its output, or from its exit error if there is no
// answer.
func verdict(out, words []byte, err error) error {
	var a answer
	lines := bytes.Split(bytes.TrimRight(out, "\r\n"), []byte("\n"))
	understood := json.Unmarshal(lines[len(lines)-1], &a) == nil
	switch {
	case understood && a.Limit != "":
		return errors.New(a.Limit)
	case understood && a.Fault != "":
		return fmt.Errorf("%w: %s", ErrUnavailable, a.Fault)
	case understood && a.Error != "":
		return errors.New(a.Error)
	case understood && a.OK && err == nil:
		return nil
	}
	how := "ended without an answer"
	if err != nil {
		how = "died: " + err.Error()
	}
	if last := bytes.TrimSpace(words); len(last) > 0 {
		return fmt.Errorf("the process that compiles the module %s; it said %.300q", how, last)
	}
	return fmt.Errorf("the process that compiles the module %s", how)
}

func wallSentence(limit time.Duration) string {
	return fmt.Sprintf("compiling the module takes longer than %v, which is the limit", limit)
}

// tail keeps the end of what is written to it, so that no output fills the parent's memory. The beginning of an error
// message says more, but the beginning of a program's output may not be an error message.
type tail struct {
	most int
	b    []byte
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > t.most {
		p = p[len(p)-t.most:]
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - t.most; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return n, nil
}

// IsChild reports whether this process was started to compile a module.
func IsChild() bool { return len(os.Args) > 1 && os.Args[len(os.Args)-1] == Argument }
