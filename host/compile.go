package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/host/internal/module"
)

// CompileLimits limit the compilation of a module in a process of its own. A module that exceeds a limit is refused
// with a sentence that names the limit. Two modules are compiled at a time; further modules wait.
//
//	CPU    time.Duration // of user and system mode together; default 1 min; not on Windows
//	Wall   time.Duration // from the start of the process; default 2 min
//	Memory int64         // bytes that the process has from the system; default 2 GiB
type CompileLimits = module.CompileLimits

// CompilerMain compiles a module and exits, if the process was started as a compiler by a host with Config.Compiler.
// Otherwise it returns at once. Call it at the very beginning of main, before the program opens files, listens or
// parses its command line.
//
//	func main() {
//		host.CompilerMain()
//		h, err := host.Open(ctx, host.Config{Dir: "data", Compiler: host.SelfCompiler()})
func CompilerMain() {
	if module.IsChild() {
		module.Child(os.Stdin, os.Stdout, os.Exit, wazero.Build)
	}
}

// SelfCompiler returns a command line for Config.Compiler that starts this program again. The program's main must
// call CompilerMain first. If the system does not tell where the program is, it returns nil, and modules are compiled
// in this process.
func SelfCompiler() []string {
	const self = "/proc/self/exe" // the running program, even if its file was replaced
	if _, err := os.Stat(self); err == nil {
		return []string{self}
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path}
}

// build returns the function that compiles modules in another process, nil if Config asks for none.
func (c *Config) build() (func(ctx context.Context, wasm []byte, dir string) error, error) {
	l := c.CompileLimits
	if l.CPU < 0 || l.Wall < 0 || l.Memory < 0 {
		return nil, fmt.Errorf("%w: CompileLimits must not be negative, got %v, %v and %d", ErrInvalid, l.CPU, l.Wall, l.Memory)
	}
	if len(c.Compiler) == 0 {
		return nil, nil
	}
	if module.IsChild() { // else it would start itself again, endlessly
		return nil, fmt.Errorf("%w: this process was started to compile a module, and its main does not begin with host.CompilerMain",
			ErrInvalid)
	}
	return module.NewCompiler(c.Compiler, l).Build, nil
}

// rejected marks a compile or start-up error with ErrRejected, unless the module is not the cause.
func rejected(err error) error {
	if errors.Is(err, admission.ErrUploadsFull) {
		return &joined{fmt.Errorf("the module cannot be taken now, others are compiled and started: %w", err), ErrBusy}
	}
	if errors.Is(err, guest.ErrClosed) {
		return translate(err)
	}
	if errors.Is(err, module.ErrUnavailable) || errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return &joined{fmt.Errorf("module rejected: %w", err), ErrRejected}
}
