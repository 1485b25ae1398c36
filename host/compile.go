package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/runtime"
	"github.com/wfhost/wfhost/host/internal/slots"
)

// CompileLimits bound the compilation of one module in a process of its own. A module that reaches one of them is
// refused with a sentence that names it. Two modules are compiled at a time; others wait.
//
//	CPU    time.Duration // of user and system mode together; default 1 min; not on Windows
//	Wall   time.Duration // from the start of the process; default 2 min
//	Memory int64         // bytes that the process has from the system; default 2 GiB
type CompileLimits = module.CompileLimits

// CompilerMain compiles a module and ends the process, if the process was started for that by a host with Config.Compiler;
// otherwise it returns at once. It is called at the very beginning of main, before anything that the program does only once:
// opening files, listening, parsing its command line.
//
//	func main() {
//		host.CompilerMain()
//		h, err := host.Open(ctx, host.Config{Dir: "data", Compiler: host.SelfCompiler()})
func CompilerMain() {
	if module.IsChild() {
		module.Child(os.Stdin, os.Stdout, os.Exit, wazero.Build)
	}
}

// SelfCompiler returns the command line for Config.Compiler that starts this program again, whose main calls
// CompilerMain first. It returns nil, with which modules are compiled in the process itself, if the system does not
// tell where the program is.
func SelfCompiler() []string {
	const self = "/proc/self/exe" // the program that runs, though its file may have been replaced
	if _, err := os.Stat(self); err == nil {
		return []string{self}
	}
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path}
}

// build returns what compiles modules in a process of its own, nil if Config asks for none.
func (c *Config) build() (func(ctx context.Context, wasm []byte, dir string) error, error) {
	l := c.CompileLimits
	if l.CPU < 0 || l.Wall < 0 || l.Memory < 0 {
		return nil, fmt.Errorf("%w: CompileLimits must not be negative, got %v, %v and %d", ErrInvalid, l.CPU, l.Wall, l.Memory)
	}
	if len(c.Compiler) == 0 {
		return nil, nil
	}
	if module.IsChild() { // or it would start itself again, and so on
		return nil, fmt.Errorf("%w: this process was started to compile a module, and its main does not begin with host.CompilerMain",
			ErrInvalid)
	}
	return module.NewCompiler(c.Compiler, l).Build, nil
}

// rejected makes an error of compiling and starting a module one that says so, unless it says nothing of the module.
func rejected(err error) error {
	if errors.Is(err, slots.ErrFull) {
		return &joined{fmt.Errorf("the module cannot be taken now, others are compiled and started: %w", err), ErrBusy}
	}
	if errors.Is(err, runtime.ErrClosed) {
		return translate(err)
	}
	if errors.Is(err, module.ErrUnavailable) || errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return &joined{fmt.Errorf("module rejected: %w", err), ErrRejected}
}
