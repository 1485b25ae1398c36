package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/schema"
	"github.com/wfhost/wfhost/store"
)

// SchemaFault is a place in an input that does not fit a schema:
//
//	Pointer string `json:"pointer"` // of the value, by RFC 6901; "" is the whole input
//	Message string `json:"message"`
type SchemaFault = schema.Fault

// SchemaError says why an input or the payload of a signal does not fit the schema of the workflow. Nothing was
// recorded. errors.Is(err, ErrInvalid) is true.
type SchemaError struct {
	What   string        // for example: input of workflow "order"
	Faults []SchemaFault // sorted by pointer, at most 20
	More   int           // the number of further faults
}

// Error lists all faults.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s: %v", e.What, &schema.Error{Faults: e.Faults, More: e.More})
}

// Unwrap returns ErrInvalid.
func (e *SchemaError) Unwrap() error { return ErrInvalid }

// SchemaSet checks the JSON Schemas of one module before the module exists. If Add accepts each schema, an upload of
// a module with all of them accepts them, too. The zero value is ready to use. It is not safe for concurrent use.
type SchemaSet struct{ all schema.Set }

// Add adds a schema, draft 2020-12. The error is a sentence that says what is wrong with the schema, or that the
// schemas together exceed the limits: 1 MiB, 20,000 parts. A repeated schema counts once.
func (s *SchemaSet) Add(text []byte) error { return s.all.Add(text) }

// Schemas are the JSON Schemas, draft 2020-12, of a version of a workflow: for its input, result, signals and
// updates. Schemas that the workflow does not give are nil.
type Schemas struct {
	Input   json.RawMessage            `json:"input,omitempty"`
	Result  json.RawMessage            `json:"result,omitempty"`
	Signals map[string]json.RawMessage `json:"signals,omitempty"`
	Updates map[string]json.RawMessage `json:"updates,omitempty"`
}

// Schemas returns the schemas of a version of a workflow; number 0 is the latest. ErrNotFound if the version does not
// exist.
//
// A start or signal, by Go, HTTP or the command line, that does not fit is refused with a *SchemaError. The same
// holds for deliveries to a hook with a signal's name. Inputs of children, signals between workflows, and results are
// not checked: they come from uploaded code, which reports its own errors.
func (s Workflows) Schemas(ctx context.Context, workflow string, number uint32) (Schemas, error) {
	v, err := s.Version(ctx, workflow, number)
	if err != nil {
		return Schemas{}, err
	}
	d := s.described(ctx, workflow, v.Module)
	return Schemas{Input: d.InputSchema, Result: d.OutputSchema, Signals: d.SignalSchemas, Updates: d.UpdateSchemas}, nil
}

// schemasOf returns the compiled schemas of a workflow of a module, nil if it has none.
func (s *nsRef) schemasOf(ctx context.Context, workflow string, module store.Digest) (*schema.Workflow, error) {
	w, err := s.h.schemas.Of(ctx, module, workflow, func() ([]byte, error) {
		info, err := s.h.store.Modules().Info(ctx, module)
		return info.DescriptionJSON, err
	})
	return w, translate(err)
}

// fitting checks the input of a start and its first signal. The input of an existing run was checked at its start.
func (s *nsRef) fitting(ctx context.Context, n *run.NewRun, module store.Digest, o *start) error {
	if n.Existing {
		if o.signal == nil {
			return nil
		}
		return s.fittingTo(ctx, n.Key, *o.signal)
	}
	w, err := s.schemasOf(ctx, n.Workflow, module)
	if err != nil || w == nil {
		return err
	}
	if w.Input != nil {
		if err := refusal(ctx, w.Input, fmt.Sprintf("input of workflow %q", n.Workflow), n.Input); err != nil {
			return err
		}
	}
	if o.signal == nil {
		return nil
	}
	return fittingSignal(ctx, w, o.signal.Name, o.signal.Data)
}

// refusal checks a value. It returns ctx's error if ctx has ended.
func refusal(ctx context.Context, s *schema.Schema, what string, value []byte) error {
	e := s.Check(ctx, value)
	if e == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return &SchemaError{what, e.Faults, e.More}
}

// fittingSignal checks the payload of a signal.
func fittingSignal(ctx context.Context, w *schema.Workflow, name string, payload []byte) error {
	if w == nil || w.Signals[name] == nil {
		return nil
	}
	what := fmt.Sprintf("payload of signal %q", name)
	if update, ok := strings.CutPrefix(name, abi.UpdatePrefix); ok {
		what = fmt.Sprintf("input of update %q", update)
	}
	return refusal(ctx, w.Signals[name], what, payload)
}

// fittingTo checks the payload of a signal to a run. A signal that the run accepted before, by its idempotency key,
// fits, whatever the schema of the run's version is by now. If the run does not exist, it returns nil: the signal
// fails anyway.
func (s *nsRef) fittingTo(ctx context.Context, key store.RunKey, n run.Signal) error {
	st, err := s.h.rt.Runs.State(ctx, key)
	if err != nil {
		return nil //nolint:nilerr // the signal itself returns the error
	}
	w, err := s.schemasOf(ctx, st.Workflow, st.Module)
	if err != nil {
		return err
	}
	refused := fittingSignal(ctx, w, n.Name, n.Data)
	if refused == nil || n.IdempotencyKey == "" {
		return refused
	}
	taken := false
	err = s.h.rt.Runs.Look(ctx, key, func(r *run.Run) (err error) {
		taken, err = r.Journal().CheckSignal(n.Name, n.IdempotencyKey, n.Data)
		return err
	})
	if err == nil && taken {
		return nil
	}
	return refused
}
