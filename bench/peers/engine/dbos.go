//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/wfhost/wfhost/bench/peers/job"
)

// shutdownWithin is how long DBOS may take to stop when all workflows have ended.
const shutdownWithin = 10 * time.Second

// dbosEngine is DBOS Transact in this process, on a PostgreSQL of its own. Everything is left at its default.
type dbosEngine struct {
	ctx      dbos.Context
	postgres *postgres
	note     func(job.Step)
	job      dbos.Workflow[job.Workflow, int]
}

func openDBOS(ctx context.Context, o Options, note func(job.Step)) (Opened, error) {
	p, err := startPostgres(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &dbosEngine{postgres: p, note: note}
	e.job = e.run
	e.ctx, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "bench-peers", DatabaseURL: p.url(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dbos: %w", err), p.stop())
	}
	dbos.RegisterWorkflow(e.ctx, e.job, dbos.WithWorkflowName("job"))
	if err := dbos.Launch(e.ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("dbos: %w", err), e.Close())
	}
	return e, nil
}

// run is the workflow.
func (e *dbosEngine) run(ctx dbos.Context, in job.Workflow) (int, error) {
	for n := range in.Before + in.After {
		if n == in.Before && in.SleepMs > 0 {
			if _, err := dbos.Sleep(ctx, time.Duration(in.SleepMs)*time.Millisecond); err != nil {
				return 0, err
			}
		}
		if _, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) {
			e.note(job.Step{Slot: in.Slot, Number: n})
			return n, nil
		}, dbos.WithStepName("step")); err != nil {
			return 0, err
		}
	}
	return in.Before + in.After, nil
}

func (e *dbosEngine) start(w job.Workflow) (dbos.WorkflowHandle[int], error) {
	return dbos.RunWorkflow(e.ctx, e.job, w, dbos.WithWorkflowID(w.ID))
}

// Start returns when the row of the workflow is committed.
func (e *dbosEngine) Start(_ context.Context, w job.Workflow) error {
	_, err := e.start(w)
	return err
}

func (e *dbosEngine) Run(_ context.Context, w job.Workflow) error {
	h, err := e.start(w)
	if err != nil {
		return err
	}
	_, err = h.GetResult()
	return err
}

func (e *dbosEngine) Close() error {
	return errors.Join(dbos.Shutdown(e.ctx, shutdownWithin), e.postgres.stop())
}
