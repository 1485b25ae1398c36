package module

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// Exit codes of a child.
const (
	exitBuilt = 0 // also if the compiler refused the module
	exitLimit = 3
	exitFault = 4
)

// Child reads a request, compiles the module by build within the limits of the request, answers, and calls exit.
func Child(in io.Reader, out io.Writer, exit func(code int), build func(ctx context.Context, wasm []byte, dir string) error) {
	c := &child{out: out, exit: exit}
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	var req request
	if err == nil {
		err = json.Unmarshal(line, &req)
	}
	if err != nil {
		c.end(exitFault, answer{Error: fmt.Sprintf("the request to the process that compiles is damaged: %v", err)})
		return
	}
	stop := c.watch(req.Limits.WithDefaults())
	defer stop()
	wasm, err := io.ReadAll(r)
	if err == nil {
		err = build(context.Background(), wasm, req.Dir)
	}
	var file *fs.PathError
	var files *os.LinkError
	switch {
	case err == nil:
		c.end(exitBuilt, answer{OK: true})
	case errors.As(err, &file) || errors.As(err, &files): // a module has no files, so the machine is at fault
		c.end(exitBuilt, answer{Fault: cut(err.Error())})
	default:
		c.end(exitBuilt, answer{Error: cut(err.Error())})
	}
}

// maxError bounds the text of an error. A module chooses parts of it, such as names of exports, and the parent does
// not understand answers longer than maxAnswer.
const maxError = 4 << 10

func cut(text string) string {
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") + "…"
}

// child is the state of a process that compiles.
type child struct {
	once sync.Once
	out  io.Writer
	exit func(int)
}

// end writes the answer and exits. Only the first call has an effect.
func (c *child) end(code int, a answer) {
	c.once.Do(func() {
		if b, err := json.Marshal(a); err == nil {
			_, _ = c.out.Write(append(b, '\n')) // fails if the parent is gone
		}
		c.exit(code)
	})
}

// watchEvery is the interval at which the child checks its own usage. A compiler that allocates as fast as it can
// takes some ten megabytes in that time.
const watchEvery = 5 * time.Millisecond

// watch ends the process when it reaches a limit, until stop is called. Slightly higher limits of the system back it
// up.
func (c *child) watch(l CompileLimits) (stop func()) {
	debug.SetMemoryLimit(l.Memory / 4 * 3) // collect garbage before the limit is reached
	limitProcess(l)
	system, done := clock.System(), make(chan struct{})
	began := system.Now()
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	go func() {
		for {
			t := system.NewTimer(watchEvery)
			select {
			case <-t.C():
			case <-done:
				t.Stop()
				return
			}
			metrics.Read(sample)
			held := int64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
			switch cpu := cpuTime(); {
			case held > l.Memory:
				c.end(exitLimit, answer{Limit: fmt.Sprintf("compiling the module takes more than %d bytes of memory, which is the limit",
					l.Memory)})
			case cpu > l.CPU:
				c.end(exitLimit, answer{Limit: fmt.Sprintf("compiling the module takes more than %v of CPU time, which is the limit", l.CPU)})
			case system.Now().Sub(began) > l.Wall: // the parent may be gone
				c.end(exitLimit, answer{Limit: wallSentence(l.Wall)})
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
