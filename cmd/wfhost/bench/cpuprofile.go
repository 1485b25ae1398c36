package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// cpuProfile writes a CPU profile from the beginning of the measured time until the host stops.
type cpuProfile struct {
	file *os.File // nil without a profile
	on   bool
	err  error
}

// newCPUProfile creates the file before the measurement, so that a wrong path fails early.
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

// start starts the profile. Further calls do nothing.
func (p *cpuProfile) start() {
	if p.file != nil && !p.on {
		p.err = pprof.StartCPUProfile(p.file)
		p.on = true
	}
}

// stop ends the profile and closes its file.
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
