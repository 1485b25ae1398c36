// Package conformance checks SDKs: it runs the story workflows of docs/conformance.md, as far as a module holds them, in a host
// in memory with a virtual clock, and compares the journals with those of the reference, which the stories in Go have written.
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

// Where the stories are, and how the names of their files end.
const (
	storyDir      = "stories"
	storySuffix   = ".json"
	journalSuffix = ".journal"
)

// Story is one run of a story workflow: how it is started, what happens to it, and what must come of it.
type Story struct {
	// Name is the story's, and the id of its run.
	Name string `json:"-"`
	// Workflow is the story workflow that is run.
	Workflow string `json:"workflow"`
	// Needs lists other workflows of the module that the run starts.
	Needs []string `json:"needs,omitempty"`
	// Input is the run's input. Text is the input where that is no JSON.
	Input json.RawMessage `json:"input,omitempty"`
	Text  string          `json:"text,omitempty"`
	// Do is what happens to the run, in order.
	Do []Event `json:"do,omitempty"`
	// Status is how the run ends. Result is its result as JSON, and ResultText where that is no JSON.
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result,omitempty"`
	ResultText string          `json:"result_text,omitempty"`
	// Journal is the reference: that of each iteration, and of each child.
	Journal string `json:"-"`
}

// Event is something that happens to a run.
type Event struct {
	// At is when, in duration text, after the run's start. "end" is after the run's end.
	At string `json:"at"`
	// One of these says what happens.
	Signal  string `json:"signal,omitempty"`  // a signal of this name, with Data
	Deliver string `json:"deliver,omitempty"` // a delivery to the hook of this token, with Data
	Cancel  bool   `json:"cancel,omitempty"`
	Query   string `json:"query,omitempty"`  // a query of this name, with Data
	Update  string `json:"update,omitempty"` // an update of this name, with Data
	// Data is the payload.
	Data json.RawMessage `json:"data,omitempty"`
	// Want is the answer to a query or update. Error is a part of the error in its place.
	Want  json.RawMessage `json:"want,omitempty"`
	Error string          `json:"error,omitempty"`
}

// atEnd is the time of events that happen after the run's end.
const atEnd = "end"

// after returns when the event happens.
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

// input returns the bytes with which the run is started.
func (s *Story) input() []byte {
	if s.Text != "" {
		return []byte(s.Text)
	}
	return compact(s.Input)
}

// Output returns the bytes that the run's result must have; none if the story does not say.
func (s *Story) Output() []byte {
	if s.ResultText != "" {
		return []byte(s.ResultText)
	}
	return compact(s.Result)
}
