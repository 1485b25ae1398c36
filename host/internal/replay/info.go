package replay

import (
	"encoding/json"
	"maps"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

type info struct {
	journalInfo
	Step  *StepInfo `json:"step,omitempty"`
	Query string    `json:"query,omitempty"`
}

type journalInfo struct {
	RunID           string `json:"run_id"`
	Workflow        string `json:"workflow"`
	Version         uint32 `json:"version"`
	Module          string `json:"module"`
	StartedAt       int64  `json:"started_at"`
	Iteration       uint32 `json:"iteration"`
	RunAttempt      int    `json:"run_attempt"`
	Position        uint64 `json:"position"`
	SuggestContinue bool   `json:"suggest_continue"`
	Schedule        string `json:"schedule,omitempty"` // id of the schedule that started the run
	Nominal         int64  `json:"nominal,omitempty"`  // instant of the schedule for this run

	Attributes map[string]string `json:"attributes,omitempty"`
	Memo       json.RawMessage   `json:"memo,omitempty"`
}

// Info returns the JSON of info. It depends on the journal alone, except for Step and Query.
func (m *Machine) Info() []byte {
	s := m.cfg.Started
	position := s.Position(m.position)
	i := info{journalInfo: journalInfo{RunID: s.RunID, Workflow: s.Workflow, Version: s.Version, Module: s.Module,
		StartedAt: m.cfg.StartedUnixMs, Iteration: s.Iteration, RunAttempt: s.RunAttempt,
		Position: uint64(position) + 1, SuggestContinue: position >= abi.SuggestContinueEntries,
		Schedule: s.Schedule, Nominal: s.NominalMs}}
	if m.cfg.Mode != StepFn {
		i.Attributes, i.Memo = m.attributes.after(&s, m.entries[:m.callPos]), s.Memo
	}
	if m.inBody {
		i.Step = m.cfg.Step
	}
	if m.query {
		i.Query = m.cfg.Query.Name
	}
	b, err := json.Marshal(i)
	if err != nil {
		panic(err) // strings, numbers and checked JSON always encode
	}
	return b
}

// argument is the program's only argument, the name of its workflow. It is empty for runs before RulesArguments.
type argument string

func argumentOf(s *journal.Started) argument {
	if s.Rules < journal.RulesArguments {
		return ""
	}
	return argument(s.Workflow)
}

// Program returns the program's argument, "" if it has none.
func (a argument) Program() string { return string(a) }

// attributes holds the attributes of the run at the guest's position, without attributes that later calls in the journal set.
type attributes struct {
	made int // number of entries applied to of
	of   map[string]string
}

// after returns the attributes of a run whose guest has made the calls in entries. Callers must not change the map. Each entry
// is read once, however often the machine or its forks call after.
func (a *attributes) after(s *journal.Started, entries []store.Entry) map[string]string {
	if a.of == nil {
		a.of = map[string]string{}
		maps.Copy(a.of, s.Attributes)
	}
	for ; a.made < len(entries); a.made++ {
		if e := &entries[a.made]; e.Kind == store.KindAttribute && e.Refused == 0 {
			a.of[e.Name] = string(e.Input)
		}
	}
	return a.of
}
