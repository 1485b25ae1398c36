package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Program returns a random program: a run of the workflow of the rules, with its events. It has no expected result and
// no journal. The same seed gives the same program.
func Program(seed uint64) Story {
	d := &drawing{state: seed, run: fmt.Sprint("program-", seed)}
	s := Story{Name: d.run, Workflow: RulesWorkflow}
	for range d.below(5) {
		at := time.Duration(d.below(1<<22)) * time.Millisecond
		e := Event{At: at.String(), Signal: fmt.Sprint("s", d.below(2)), Data: json.RawMessage(fmt.Sprint(d.below(100)))}
		if d.below(6) == 0 {
			e = Event{At: at.String(), Cancel: true}
		}
		s.Do = append(s.Do, e)
	}
	slices.SortStableFunc(s.Do, func(a, b Event) int {
		x, _ := a.after() // the text was made of a duration
		y, _ := b.after()
		return int(x - y)
	})
	s.Input = d.program(0)
	return s
}

// drawing generates a program.
type drawing struct {
	state  uint64
	run    string
	n      int64 // of names and durations
	within bool  // the calls are part of a within
}

type object = map[string]any

// below returns a random number from 0 to n-1 (SplitMix64).
func (d *drawing) below(n uint64) uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) % n
}

// ms returns a duration that no other call has, so that outcomes of different calls never come at the same instant, at
// which any order would be right.
func (d *drawing) ms() int64 {
	d.n++
	return int64(d.below(1000)+1)<<10 + d.n
}

func (d *drawing) name(kind string) string {
	d.n++
	return fmt.Sprint(kind, d.n)
}

// program returns the input of a run: the calls that it makes.
func (d *drawing) program(depth int) json.RawMessage {
	around := d.within // of a run that starts this one
	d.within = false
	defer func() { d.within = around }()
	var calls []object
	if d.below(3) == 0 {
		calls = append(calls, object{"call": "cancel_policy", "newest": 1})
	}
	for range 1 + d.below(8) {
		calls = append(calls, d.call(depth))
	}
	if depth < 2 && d.below(8) == 0 { // then nothing follows, whatever the workflow does with the error
		at := d.below(uint64(len(calls)))
		calls = slices.Insert(calls, int(at), d.continues(depth))
	}
	if depth < 2 && d.below(4) == 0 {
		calls = append(calls, d.continues(depth))
	}
	b, err := json.Marshal(object{"calls": calls, "messages": true})
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return b
}

// continues draws the end of an iteration, with the next iteration.
func (d *drawing) continues(depth int) object {
	return object{"call": "continue_as_new", "payload": d.program(depth + 1)}
}

func (d *drawing) sequence(depth int, draw func(int) object) (calls []object) {
	for range 1 + d.below(3) {
		calls = append(calls, draw(depth))
	}
	return calls
}

// call draws a call, with the calls in it if it is composite.
func (d *drawing) call(depth int) object {
	switch n := d.below(20); {
	case n < 2 && depth < 2:
		branches := [][]object{d.sequence(depth+1, d.alone), d.sequence(depth+1, d.alone)}
		if d.below(8) == 0 && !d.within { // the branches of a within all end at the same instant
			branches[1] = append(branches[1], d.sleeps(), d.continues(depth)) // at an instant without any other event
		}
		return object{"call": "together", "branches": branches}
	case n < 4 && depth < 2:
		around := d.within
		d.within = true
		calls := d.sequence(depth+1, d.call)
		d.within = around
		return object{"call": "within", "ms": d.ms(), "calls": calls}
	case n < 6:
		return object{"call": "race", "calls": []object{d.sleeps(), d.waits(depth)}}
	case n < 12:
		return d.waits(depth)
	case n < 14:
		return d.refused()
	}
	return d.ends(depth)
}

// alone draws a call that is independent of other calls, so that it may run concurrently with them.
func (d *drawing) alone(depth int) object {
	if d.below(3) == 0 {
		return d.sleeps()
	}
	return d.performs(depth)
}

func (d *drawing) sleeps() object {
	if d.below(2) == 0 {
		return object{"call": "sleep", "name": d.name("sleep"), "ms": d.ms()}
	}
	return object{"call": "sleep_text", "name": d.name("text"), "to": fmt.Sprint(d.ms(), "ms")}
}

// waits draws a call that may wait.
func (d *drawing) waits(depth int) object {
	switch d.below(4) {
	case 0:
		return d.sleeps()
	case 1:
		return object{"call": "signal", "name": fmt.Sprint("s", d.below(2)), "ms": d.ms()}
	}
	return d.performs(depth)
}

// performs draws a step or a child.
func (d *drawing) performs(depth int) object {
	switch d.below(4) {
	case 0:
		return object{"call": "step", "name": d.name("step"), "handler": "rules-late", "payload": d.below(5),
			"options": object{"attempts": d.below(4), "delay": fmt.Sprint(d.ms(), "ms"), "backoff": d.backoff(),
				"max_elapsed": d.elapsed()}}
	case 1:
		return object{"call": "body", "name": d.name("body"), "until": d.below(5), "payload": d.below(10),
			"options": object{"attempts": 1 + d.below(4), "delay": fmt.Sprint(d.ms(), "ms"), "backoff": d.backoff()}}
	case 2:
		if depth < 2 {
			o := object{}
			if d.below(4) == 0 {
				o["timeout"] = fmt.Sprint(d.ms(), "ms")
			}
			if d.below(2) == 0 {
				o["on_end"] = []string{"cancel", "terminate", "abandon"}[d.below(3)]
			}
			return object{"call": "child", "name": d.name("child"), "handler": RulesWorkflow, "payload": d.program(depth + 1),
				"options": o}
		}
	}
	return object{"call": "child", "name": d.name("child"), "handler": "rules-child", "payload": d.below(10)}
}

func (d *drawing) backoff() string { return []string{"fixed", "linear", "exponential"}[d.below(3)] }

// elapsed returns a bound for attempts without another bound.
func (d *drawing) elapsed() string { return fmt.Sprint(d.below(30)+1, "m") }

// ends draws a call that does not wait for time.
func (d *drawing) ends(depth int) object {
	n := d.below(9)
	if depth > 0 && n >= 3 && n <= 5 { // concurrent ones would change the same run
		n = 8
	}
	switch n {
	case 0:
		return object{"call": "emit", "name": "topic", "payload": d.below(10)}
	case 1:
		return object{"call": "attribute", "name": fmt.Sprint("k", d.below(3)), "to": fmt.Sprint(d.below(10))}
	case 2:
		return object{"call": "version", "name": fmt.Sprint("m", d.below(3)), "newest": d.below(10)}
	case 3:
		return object{"call": "send", "name": fmt.Sprint("s", d.below(2)), "to": d.run, "payload": d.below(10)}
	case 4:
		return object{"call": "send", "name": "go", "to": "nobody-is-there", "payload": d.below(10)}
	case 5:
		return object{"call": "hook", "name": "s0", "to": fmt.Sprint("token-of-all-", d.below(2))}
	case 6:
		return object{"call": "body", "name": d.name("body"), "fails": []string{"error", "fatal", "panic"}[d.below(3)],
			"options": object{"attempts": 1 + d.below(3), "delay": fmt.Sprint(d.ms(), "ms")}}
	case 7:
		return object{"call": "step", "name": d.name("step"), "handler": "rules-echo", "payload": []any{d.below(10), "text", nil}}
	}
	return object{"call": "body", "name": d.name("body"), "payload": object{"n": d.below(10)}}
}

// refused draws a call that a host may refuse.
func (d *drawing) refused() object {
	switch d.below(8) {
	case 0:
		return object{"call": "sleep", "name": "again", "ms": d.ms()}
	case 1:
		return object{"call": "step", "name": "again", "handler": "rules-echo", "payload": 1}
	case 2:
		return object{"call": "step", "name": d.name("step"), "handler": "nobody", "payload": 1}
	case 3:
		return object{"call": "body", "name": d.name("body"), "payload": 1, "options": object{"attempts": -1}}
	case 4:
		return object{"call": "sleep", "name": "host/x", "ms": 1}
	case 5:
		return object{"call": "child", "name": d.name("child"), "handler": "a b", "payload": 1}
	case 6:
		return object{"call": "attribute", "name": "k", "to": "a\nb"}
	}
	return object{"call": "hook", "name": "s1", "to": "short"}
}

// Told is the result of a story.
type Told struct {
	Status  string
	Result  string
	Message string // of the error
	Calls   []Call
}

// Tell runs stories of a module in a host and returns the result of each. It does not compare the answers to events.
// cacheDir is as Options.CacheDir.
func Tell(ctx context.Context, wasm []byte, cacheDir string, stories []Story) (told []Told, err error) {
	t, err := open(ctx, wasm, false, &memories{off: true}, cacheDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for i := range stories {
		one, err := t.told(ctx, &stories[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", stories[i].Name, err)
		}
		told = append(told, one)
	}
	return told, nil
}

func (t *stage) told(ctx context.Context, s *Story) (told Told, err error) {
	began := t.clock.Now()
	if _, err := t.StartRaw(ctx, s.Workflow, s.input(), host.WithRunID(s.Name)); err != nil {
		return told, err
	}
	for i := range s.Do {
		after, err := s.Do[i].after()
		if err != nil {
			return told, err
		}
		if err := t.advance(ctx, began.Add(after)); err != nil {
			return told, err
		}
		_ = t.happen(ctx, s, &s.Do[i]) // the run may have ended
	}
	r, err := t.finish(ctx, s.Name)
	if err != nil {
		return told, err
	}
	told.Status = r.Status.String()
	switch {
	case r.Failure != nil:
		told.Message = r.Failure.Message
	case r.Status == host.Stuck:
		told.Message = r.Reason
	}
	if r.Status == host.Completed {
		b, err := t.ResultRaw(ctx, s.Name)
		if err != nil {
			return told, err
		}
		told.Result = string(b)
	}
	journal, _, err := t.journals(ctx, s.Name)
	if err == nil {
		told.Calls, err = Calls(journal)
	}
	return told, err
}

// Difference describes how the result of the same story in a test environment differs; empty if it does not.
func (t *Told) Difference(env *Told) string {
	text := func(t *Told) string {
		calls := Settled(t.Calls)
		Sort(calls)
		return fmt.Sprintf("%s %s\nresult %s\n%s", t.Status, t.Message, t.Result, Lines(calls))
	}
	a, b := strings.Split(text(t), "\n"), strings.Split(text(env), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("a host and the environment say the same\n%s\nthen a host\n%s\nand the environment\n%s",
				strings.Join(a[:i], "\n"), strings.Join(a[i:], "\n"), strings.Join(b[i:], "\n"))
		}
	}
	return ""
}
