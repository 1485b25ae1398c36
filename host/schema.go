package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wfhost/wfhost/host/internal/schema"
	"github.com/wfhost/wfhost/store"
)

// SchemaFault is one thing that does not fit to a schema.
type SchemaFault = schema.Fault

// SchemaError says why an input or the payload of a signal does not fit to the schema that the workflow gives for it. Nothing was
// recorded. errors.Is(err, ErrInvalid) is true.
type SchemaError struct {
	What   string        // such as: input of workflow "order"
	Faults []SchemaFault // in the order of their pointers, at most 20
	More   int           // how many more there are
}

// Error tells all faults.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s: %v", e.What, &schema.Error{Faults: e.Faults, More: e.More})
}

// Unwrap gives ErrInvalid.
func (e *SchemaError) Unwrap() error { return ErrInvalid }

// Schemas are what a version of a workflow says of its input, result and signals, as JSON Schema, draft 2020-12. What it does not
// say is nil.
type Schemas struct {
	Input   json.RawMessage            `json:"input,omitempty"`
	Result  json.RawMessage            `json:"result,omitempty"`
	Signals map[string]json.RawMessage `json:"signals,omitempty"`
}

// Schemas returns the schemas of a version of a workflow; number 0 is the latest. ErrNotFound if there is none.
//
// A start and a signal, by Go, HTTP or the command line, that does not fit is refused with a *SchemaError; so is what is
// delivered to a hook of a signal's name. What workflows hand to children and to each other is not checked, and neither are
// results: they are code that was uploaded, and say themselves what is wrong.
func (s *scope) Schemas(ctx context.Context, workflow string, number uint32) (Schemas, error) {
	v, err := s.Workflow(ctx, workflow, number)
	if err != nil {
		return Schemas{}, err
	}
	d := s.described(ctx, workflow, v.Module)
	return Schemas{Input: d.InputSchema, Result: d.OutputSchema, Signals: d.SignalSchemas}, nil
}

// schemasOf returns the compiled schemas of a workflow of a module, nil if it has none.
func (s *scope) schemasOf(ctx context.Context, workflow string, module store.Digest) (*schema.Workflow, error) {
	w, err := s.h.schemas.Of(module, workflow, func() ([]byte, error) {
		info, err := s.h.store.Modules().Info(ctx, module)
		return info.DescriptionJSON, err
	})
	return w, translate(err)
}

// fitting checks the input of a start, and its first signal.
func (s *scope) fitting(ctx context.Context, workflow string, module store.Digest, input []byte, o *start) error {
	w, err := s.schemasOf(ctx, workflow, module)
	if err != nil || w == nil {
		return err
	}
	if w.Input != nil {
		if e := w.Input.Check(input); e != nil {
			return &SchemaError{fmt.Sprintf("input of workflow %q", workflow), e.Faults, e.More}
		}
	}
	if o.signal == nil {
		return nil
	}
	return fittingSignal(w, o.signal.Name, o.signal.Data)
}

// fittingSignal checks the payload of a signal.
func fittingSignal(w *schema.Workflow, name string, payload []byte) error {
	if w == nil || w.Signals[name] == nil {
		return nil
	}
	if e := w.Signals[name].Check(payload); e != nil {
		return &SchemaError{fmt.Sprintf("payload of signal %q", name), e.Faults, e.More}
	}
	return nil
}

// fittingTo checks the payload of a signal to a run. Of a run that is not there, the signal itself says so.
func (s *scope) fittingTo(ctx context.Context, key store.RunKey, name string, payload []byte) error {
	st, err := s.h.rt.Runs.State(ctx, key)
	if err != nil {
		return nil //nolint:nilerr // whoever gives the signal says it better
	}
	w, err := s.schemasOf(ctx, st.Workflow, st.Module)
	if err != nil {
		return err
	}
	return fittingSignal(w, name, payload)
}
