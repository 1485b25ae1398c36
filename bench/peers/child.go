//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/wfhost/wfhost/bench/peers/engine"
	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/bench/peers/measure"
	"github.com/wfhost/wfhost/bench/peers/report"
	"github.com/wfhost/wfhost/bench/peers/workload"
)

// resultsFile is the descriptor to which a child writes its results: engines may print what they like.
const resultsFile = 3

// child opens an engine, runs the workloads of a session and closes the engine. Each session has a process of its own, so
// that no engine's memory holds what another one has left.
func child(ctx context.Context, o options) (err error) {
	s, err := find(plan(o.quick), o.child)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	// The parent removes it, too, unless it was killed.
	defer func() { err = errors.Join(err, os.RemoveAll(o.folder)) }()
	c := &childRun{options: o, out: json.NewEncoder(os.NewFile(resultsFile, "results")), tree: measure.Tree{Root: os.Getpid()}}
	alone, err := c.tree.Memory()
	if err != nil {
		return err
	}
	if err := c.write(bare, workload.Figures{"aloneBytes": float64(alone)}, nil, nil); err != nil {
		return err
	}
	b := &workload.Bench{Machine: c.tree}
	e, err := engine.Open(ctx, o.childEngine, engine.Options{Dir: o.folder, Guest: o.guest, PostgresBin: o.postgres,
		RestateBin: o.restate}, func(s job.Step) { b.Note(s) })
	if err != nil {
		return err
	}
	b.Engine = e
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, p := range s.parts {
		if err := c.run(ctx, b, p); err != nil {
			return err
		}
	}
	return nil
}

// childRun is what a child knows.
type childRun struct {
	options
	out  *json.Encoder
	tree measure.Tree
}

// run runs one workload and writes its result. That the workload failed is a result, too.
func (c *childRun) run(ctx context.Context, b *workload.Bench, p part) error {
	begun := time.Now()
	before, err := c.others()
	if err != nil {
		return err
	}
	f, failed := p.Run(ctx, b)
	if ctx.Err() != nil && failed == nil {
		failed = context.Cause(ctx)
	}
	after, err := c.others()
	if err != nil {
		return err
	}
	percent := max(100*(after-before).Seconds()/time.Since(begun).Seconds(), 0) // times in /proc are rounded
	return c.write(p.name, f, &percent, failed)
}

// others returns the CPU time of all other processes of the machine so far.
func (c *childRun) others() (time.Duration, error) {
	busy, err := measure.Busy()
	own, err2 := c.tree.CPU()
	return busy - own, errors.Join(err, err2)
}

func (c *childRun) write(name string, f workload.Figures, others *float64, failed error) error {
	r := report.Result{Round: c.round, Engine: c.childEngine, Workload: name, Figures: f, OthersPercent: others}
	if failed != nil {
		r.Error = failed.Error()
	}
	return c.out.Encode(r)
}
