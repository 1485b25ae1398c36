package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// cpuProfile writes what the processors do from the first measured time until the host is stopped.
type cpuProfile struct {
	file *os.File // nil if none was asked for
	on   bool
	err  error
}

// newCPUProfile makes the file at once: nobody wants to wait for a measurement to learn that it cannot be written.
func newCPUProfile(path string) (*cpuProfile, error) {
	if path == "" {
		return &cpuProfile{}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return &cpuProfile{}, fmt.Errorf("--cpu-profile: %w", err)
	}
	return &cpuProfile{file: f}, nil
}

// start begins it, if it has not begun.
func (p *cpuProfile) start() {
	if p.file != nil && !p.on {
		p.err = pprof.StartCPUProfile(p.file)
		p.on = true
	}
}

// stop ends it and writes it.
func (p *cpuProfile) stop() error {
	if p.file == nil {
		return nil
	}
	if p.on && p.err == nil {
		pprof.StopCPUProfile()
	}
	err := errors.Join(p.err, p.file.Close())
	p.file = nil
	if err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	return nil
}
