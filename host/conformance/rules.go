package conformance

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
)

//go:embed rules.json
var rulesFile []byte

// RulesWorkflow is the workflow that makes the calls of rules. Under this name the rules are one of the stories.
const RulesWorkflow = "rules"

// Rule has the host's answers to some calls of a workflow. rules.json has the rules and explains their fields.
type Rule struct {
	Name  string          `json:"name"`
	In    string          `json:"in,omitempty"` // where the calls are made; empty: in the workflow
	Calls json.RawMessage `json:"calls"`
	Want  []string        `json:"want"` // the outcome of each call
	// Repeats says that the calls repeat names, which some SDKs number.
	Repeats bool `json:"repeats,omitempty"`
}

// Rules returns all rules.
func Rules() ([]Rule, error) {
	var all struct {
		About []string
		Rules []Rule
	}
	d := json.NewDecoder(bytes.NewReader(rulesFile))
	d.DisallowUnknownFields()
	err := d.Decode(&all)
	return all.Rules, err
}

// Input returns the input of the workflow that makes the calls.
func (r *Rule) Input() []byte {
	b, err := json.Marshal(struct {
		In      string          `json:"in,omitempty"`
		Repeats bool            `json:"repeats,omitempty"`
		Calls   json.RawMessage `json:"calls"`
	}{r.In, r.Repeats, r.Calls})
	if err != nil {
		panic(err) // it was JSON when it was read
	}
	return b
}

// obey runs the rules and returns the violations, in sentences.
func (t *stage) obey(ctx context.Context) (faults []string, err error) {
	rules, err := Rules()
	if err != nil {
		return nil, err
	}
	for i := range rules {
		r := &rules[i]
		got, err := t.outcomes(ctx, fmt.Sprint("rule-", i), r)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", r.Name, err))
			continue
		}
		faults = append(faults, r.Broken(got)...)
	}
	return faults, nil
}

// Broken compares outcomes with the rule's, and returns the differences in sentences. The outcome of a call that the
// SDK does not have is empty.
func (r *Rule) Broken(got []string) (faults []string) {
	var calls []json.RawMessage
	if err := json.Unmarshal(r.Calls, &calls); err != nil {
		return []string{fmt.Sprintf("%s: %v", r.Name, err)}
	}
	if len(got) != len(r.Want) || len(got) != len(calls) {
		return []string{fmt.Sprintf("%s: %d calls have %d outcomes: %q", r.Name, len(calls), len(got), got)}
	}
	for i, want := range r.Want {
		if got[i] != want && got[i] != "" {
			faults = append(faults, fmt.Sprintf("%s: the outcome of %s is %q, and should be %q", r.Name, calls[i], got[i], want))
		}
	}
	return faults
}

// outcomes runs a rule and returns the outcomes of its calls.
func (t *stage) outcomes(ctx context.Context, id string, r *Rule) (got []string, err error) {
	if _, err := t.StartRaw(ctx, RulesWorkflow, r.Input(), host.WithRunID(id)); err != nil {
		return nil, err
	}
	var answer []byte
	switch r.In {
	case "query", "validator":
		if err := t.advance(ctx, t.clock.Now().Add(time.Second)); err != nil {
			return nil, err
		}
		if r.In == "query" {
			answer, err = t.Query(ctx, id, RulesWorkflow, nil)
		} else if _, err = t.Update(ctx, id, RulesWorkflow, nil); err != nil {
			_, text, _ := strings.Cut(err.Error(), "[")
			answer, err = []byte("["+text), nil
		}
		if err != nil {
			return nil, err
		}
	}
	run, err := t.finish(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case run.Status != host.Completed:
		return nil, fmt.Errorf("the run is %s: %s", run.Status, firstOf(run.Error, run.Reason))
	case answer == nil:
		answer, err = t.ResultRaw(ctx, id)
	}
	if err == nil {
		err = json.Unmarshal(answer, &got)
	}
	if err != nil {
		return nil, err
	}
	return got, t.Replay(ctx, id)
}
