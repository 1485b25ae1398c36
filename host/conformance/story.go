// Package conformance checks SDKs. It runs the story workflows of docs/reference/conformance.md that a module has, in a host in
// memory with a virtual clock, and compares the journals with the reference, which the stories in Go have written.
//
//	report, err := conformance.Check(ctx, wasm, conformance.Options{})
package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
)

//go:embed stories
var files embed.FS

// The folder of the stories, and the suffixes of their files.
const (
	storyDir      = "stories"
	storySuffix   = ".json"
	journalSuffix = ".journal"
)

// Story is one run of a story workflow: its start, its events, and its expected result.
type Story struct {
	// Name is the name of the story, and the id of its run.
	Name string `json:"-"`
	// Workflow is the story workflow to run.
	Workflow string `json:"workflow"`
	// Needs lists other workflows of the module that the run starts.
	Needs []string `json:"needs,omitempty"`
	// Input is the run's input. Text is an input that is not JSON.
	Input json.RawMessage `json:"input,omitempty"`
	Text  string          `json:"text,omitempty"`
	// Do has the events of the run, in order.
	Do []Event `json:"do,omitempty"`
	// Status is the run's final status. Result is its result as JSON, ResultText a result that is not JSON.
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result,omitempty"`
	ResultText string          `json:"result_text,omitempty"`
	// Journal is the reference journal of all iterations and children.
	Journal string `json:"-"`
}

// Event is an event of a run.
type Event struct {
	// At is the time after the run's start, as duration text, or "end" for after the run's end.
	At string `json:"at"`
	// Exactly one of these is set.
	Signal  string `json:"signal,omitempty"`  // a signal of this name, with Data
	Deliver string `json:"deliver,omitempty"` // a delivery to the hook of this token, with Data
	Cancel  bool   `json:"cancel,omitempty"`
	Query   string `json:"query,omitempty"`  // a query of this name, with Data
	Update  string `json:"update,omitempty"` // an update of this name, with Data
	// Data is the payload.
	Data json.RawMessage `json:"data,omitempty"`
	// Want is the expected answer to a query or an update. Error is a part of the expected error instead.
	Want  json.RawMessage `json:"want,omitempty"`
	Error string          `json:"error,omitempty"`
}

// atEnd is the time of events after the run's end.
const atEnd = "end"

// after returns the time of the event.
func (e *Event) after() (time.Duration, error) {
	ms, err := abi.ParseDuration(e.At)
	return time.Duration(ms) * time.Millisecond, err
}

// Stories returns all stories, by name.
func Stories() ([]Story, error) {
	entries, err := fs.ReadDir(files, storyDir)
	if err != nil {
		return nil, err
	}
	var list []Story
	for _, f := range entries {
		name, ok := strings.CutSuffix(f.Name(), storySuffix)
		if !ok {
			continue
		}
		s, err := readStory(name)
		if err != nil {
			return nil, fmt.Errorf("story %s: %w", name, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func readStory(name string) (s Story, err error) {
	b, err := files.ReadFile(path.Join(storyDir, name+storySuffix))
	if err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	s.Name = name
	for _, e := range s.Do {
		if e.At == atEnd {
			continue
		}
		if _, err := e.after(); err != nil {
			return s, err
		}
	}
	journal, err := files.ReadFile(path.Join(storyDir, name+journalSuffix))
	s.Journal = string(journal)
	return s, err
}

// runnable reports whether a module with these workflows can run the story.
func (s *Story) runnable(workflows []string) bool {
	for _, w := range append([]string{s.Workflow}, s.Needs...) {
		if !slices.Contains(workflows, w) {
			return false
		}
	}
	return true
}

// input returns the input of the run.
func (s *Story) input() []byte {
	if s.Text != "" {
		return []byte(s.Text)
	}
	return compact(s.Input)
}

// Output returns the expected result of the run; none if the story has none.
func (s *Story) Output() []byte {
	if s.ResultText != "" {
		return []byte(s.ResultText)
	}
	return compact(s.Result)
}
