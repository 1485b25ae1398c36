//go:build linux

// Package engine has the engines that are compared, each with the settings that its own documentation recommends for
// durability.
package engine

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/workload"
)

// The engines.
const (
	Wfhost  = "wfhost"
	Restate = "Restate"
	DBOS    = "DBOS"
)

// Options say where things are.
type Options struct {
	Dir         string // a folder of its own for the data, which the caller removes
	Guest       string // wfhost: the compiled workflow
	PostgresBin string // DBOS: the folder of PostgreSQL's programs
	RestateBin  string // Restate: the server
}

// Opened is an engine that is running.
type Opened interface {
	workload.Engine
	Close() error
}

// MissingError says that an engine is not installed, and how to install it.
type MissingError struct{ Engine, What, Install string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is skipped: %s. To install it: %s", e.Engine, e.What, e.Install)
}

// Check returns a *MissingError if what an engine needs is not installed.
func Check(name string, o Options) error {
	switch name {
	case Restate:
		return checkRestate(o)
	case DBOS:
		return checkPostgres(o)
	}
	return nil
}

// Open starts an engine, with its servers, and returns when it takes workflows. note is called by the body of each step.
func Open(ctx context.Context, name string, o Options, note func(job.Step)) (Opened, error) {
	switch name {
	case Wfhost:
		return openWfhost(ctx, o, note)
	case Restate:
		return openRestate(ctx, o, note)
	case DBOS:
		return openDBOS(ctx, o, note)
	}
	return nil, fmt.Errorf("there is no engine %q", name)
}
