package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/host"
)

// Options are the options of Check.
type Options struct {
	// Only has the names of the stories to run; nil runs all stories that the module has.
	Only []string
	// CacheDir is a folder for compiled modules, as host.Config.CacheDir; empty compiles the module in memory in each call.
	CacheDir string
}

// Outcome is the result of one story.
type Outcome struct {
	Story string `json:"story"`
	// Skipped says why the story was not run; empty if it was.
	Skipped string `json:"skipped,omitempty"`
	// Faults are the errors found, in sentences; none if the module conforms.
	Faults []string `json:"faults,omitempty"`
	// Journal is the journal that the module has produced.
	Journal string `json:"-"`
}

// Report has the results of all stories.
type Report struct {
	Outcomes []Outcome `json:"stories"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	// Points is how often the memory of a waiting workflow was compared with the memory of another instance at the
	// same point of the same journal.
	Points int `json:"memories_compared"`
}

// ways are the modes of each story: with instances that are kept if possible, and with a new instance after each wait,
// which replays the journal.
var ways = []struct {
	name     string
	replayed bool
}{{"kept instances", false}, {"a replay before each step", true}}

// Check runs the stories against a module. It returns an error if the check is impossible: the module is refused, or
// Options.Only names no story.
func Check(ctx context.Context, wasm []byte, o Options) (*Report, error) {
	stories, err := Stories()
	if err != nil {
		return nil, err
	}
	if err := known(stories, o.Only); err != nil {
		return nil, err
	}
	outcomes := map[string]*Outcome{}
	report := &Report{}
	for _, way := range ways {
		t, err := open(ctx, wasm, way.replayed, &memories{}, o.CacheDir)
		if err != nil {
			return nil, err
		}
		for i := range stories {
			s := &stories[i]
			if len(o.Only) > 0 && !slices.Contains(o.Only, s.Name) {
				continue
			}
			out := outcomes[s.Name]
			if out == nil {
				out = &Outcome{Story: s.Name}
				outcomes[s.Name] = out
			}
			if !s.runnable(t.workflows) {
				out.Skipped = "the module has no workflow " + strings.Join(append([]string{s.Workflow}, s.Needs...), " or ")
				continue
			}
			journal, faults := t.tell(ctx, s)
			if out.Journal == "" {
				out.Journal = journal
			}
			for _, f := range faults {
				out.Faults = append(out.Faults, fmt.Sprintf("with %s: %s", way.name, f))
			}
		}
		if err := t.judge(ctx, o.Only, way.name, outcomes); err != nil {
			return nil, err
		}
		report.Points += t.memories.points()
		if err := t.close(); err != nil {
			return nil, err
		}
	}
	report.add(stories, outcomes)
	return report, nil
}

// judge adds the results of the rules, which count as one story.
func (t *stage) judge(ctx context.Context, only []string, way string, outcomes map[string]*Outcome) error {
	if len(only) > 0 && !slices.Contains(only, RulesWorkflow) {
		return nil
	}
	out := outcomes[RulesWorkflow]
	if out == nil {
		out = &Outcome{Story: RulesWorkflow}
		outcomes[RulesWorkflow] = out
	}
	if !slices.Contains(t.workflows, RulesWorkflow) {
		out.Skipped = "the module has no workflow " + RulesWorkflow
		return nil
	}
	faults, err := t.obey(ctx)
	for _, f := range faults {
		out.Faults = append(out.Faults, fmt.Sprintf("with %s: %s", way, f))
	}
	return err
}

// add counts the outcomes of the stories, in order, and of the rules.
func (r *Report) add(stories []Story, outcomes map[string]*Outcome) {
	for _, name := range append(namesOf(stories), RulesWorkflow) {
		out := outcomes[name]
		if out == nil {
			continue
		}
		r.Outcomes = append(r.Outcomes, *out)
		switch {
		case out.Skipped != "":
			r.Skipped++
		case len(out.Faults) > 0:
			r.Failed++
		default:
			r.Passed++
		}
	}
}

// known returns an error for names of unknown stories.
func known(stories []Story, names []string) error {
	for _, name := range names {
		if all := append(namesOf(stories), RulesWorkflow); !slices.Contains(all, name) {
			return fmt.Errorf("%w: there is no story %q; the stories are %s", host.ErrNotFound, name, strings.Join(all, ", "))
		}
	}
	return nil
}

func namesOf(stories []Story) (list []string) {
	for i := range stories {
		list = append(list, stories[i].Name)
	}
	return list
}

// difference describes the first difference of two journals.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		at := func(lines []string) string {
			if i < len(lines) && lines[i] != "" {
				return strings.TrimSpace(lines[i])
			}
			return "(no more entries)"
		}
		if at(w) != at(g) {
			return fmt.Sprintf("the journal differs in line %d:\n  reference: %s\n  module:    %s", i+1, at(w), at(g))
		}
	}
	return ""
}
