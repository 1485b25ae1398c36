//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/bench/peers/job"
	"github.com/wfhost/wfhost/host"
)

// wfhost is the host embedded in this process, with its defaults and with Go's: what `wfhost serve` sets for a process of
// its own is not set here.
type wfhost struct {
	host *host.Host
	ran  chan error
}

func openWfhost(ctx context.Context, o Options, note func(job.Step)) (Opened, error) {
	wasm, err := os.ReadFile(o.Guest)
	if err != nil {
		return nil, err
	}
	h, err := host.Open(ctx, host.Config{Dir: filepath.Join(o.Dir, "store")})
	if err != nil {
		return nil, err
	}
	host.HandleStep(h, "step", func(_ context.Context, s job.Step) (int, error) { note(s); return s.Number, nil })
	e := &wfhost{host: h, ran: make(chan error, 1)}
	go func() { e.ran <- h.Run(context.WithoutCancel(ctx)) }() // until Close
	if _, err := h.Upload(ctx, "job", wasm, host.AllowStep("step")); err != nil {
		return nil, errors.Join(fmt.Errorf("upload: %w", err), e.Close())
	}
	return e, nil
}

func (e *wfhost) Start(ctx context.Context, w job.Workflow) error {
	_, err := e.host.Start(ctx, "job", w, host.WithRunID(w.ID))
	return err
}

func (e *wfhost) Run(ctx context.Context, w job.Workflow) error {
	if err := e.Start(ctx, w); err != nil {
		return err
	}
	_, err := host.Result[int](ctx, e.host, w.ID)
	return err
}

func (e *wfhost) Close() error {
	err := e.host.Close()
	return errors.Join(err, <-e.ran)
}
