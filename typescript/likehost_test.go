package typescript_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/typescript"
)

// happening is an event of a run. Events at one instant happen before the run continues.
type happening struct {
	At      string `json:"at"` // how long after the start, or "end"
	Signal  string `json:"signal,omitempty"`
	Deliver string `json:"deliver,omitempty"`
	Query   string `json:"query,omitempty"`
	Update  string `json:"update,omitempty"`
	Cancel  bool   `json:"cancel,omitempty"`
	Data    any    `json:"data,omitempty"`
	Bytes   int    `json:"bytes,omitempty"` // of a payload in place of Data
}

// likeHost is a workflow of testdata/likehost.ts.
type likeHost struct {
	Name     string      `json:"-"`
	Workflow string      `json:"workflow"`
	Input    any         `json:"input,omitempty"`
	Events   []happening `json:"events,omitempty"`

	attempts int           // of the handler slow that begin
	pass     time.Duration // what passes then
}

func likeHosts() []likeHost {
	const second, full = "1s", 8 << 20
	signals := func(at string, names ...string) (list []happening) {
		for i, name := range names {
			list = append(list, happening{At: at, Signal: name, Data: i})
		}
		return list
	}
	pending := make([]happening, 8)
	for i := range pending {
		pending[i] = happening{At: second, Signal: []string{"a", "b"}[i%2], Bytes: full / len(pending)}
	}
	const big = 2 << 20
	return append(more(second), []likeHost{
		{Name: "losers of a race give back their signals", Workflow: "order", Events: signals(second, "stop", "x", "x")},
		{Name: "signals that an iteration was not told go over", Workflow: "iterations", Events: signals(second, "x", "x", "x", "x")},
		{Name: "a timer fires before a signal of the same instant", Workflow: "last-instant", Events: signals("1h", "x")},
		{Name: "a signal that is waited for needs no room", Workflow: "full", Events: append(pending, signals("2s", "d", "c")...)},
		{Name: "a run that has ended holds no token", Workflow: "token"},
		{Name: "a run that has ended takes nothing", Workflow: "ended", Events: []happening{{At: second, Signal: "end"},
			{At: "end", Signal: "end"}, {At: "end", Deliver: "token-of-ended"}, {At: "end", Update: "u", Data: 1},
			{At: "end", Query: "q", Data: 1}}},
		{Name: "inputs that are too large", Workflow: "ended", Events: []happening{{At: second, Update: "u", Bytes: big},
			{At: second, Query: "q", Bytes: big}, {At: "2s", Signal: "end"}}},
		{Name: "children stand 16 deep", Workflow: "deep"},
		{Name: "1,000 children live", Workflow: "many"},
		{Name: "the id of a child is taken", Workflow: "twins"},
		{Name: "details of failures", Workflow: "details"},
		{Name: "errors over 1 MiB", Workflow: "long-errors"},
		{Name: "the error of an update over 1 MiB", Workflow: "long-answer",
			Events: []happening{{At: second, Update: "u"}, {At: "2s", Signal: "end"}}},
		{Name: "what info says", Workflow: "about"},
		{Name: "an update that a cancelled run has not answered", Workflow: "unanswered",
			Events: []happening{{At: second, Update: "slow"}, {At: "2s", Cancel: true}}},
		{Name: "an update that a run rejects as it is told of a cancel", Workflow: "unanswered", Input: true,
			Events: []happening{{At: second, Update: "slow"}, {At: "2s", Cancel: true}}},
		{Name: "a timer wins against an attempt that takes longer", Workflow: "slow-race", attempts: 1, pass: time.Second},
		{Name: "attempts take their time beside each other", Workflow: "side-by-side", attempts: 2, pass: 2 * time.Second},
		{Name: "an attempt that fails after a cancel is the last", Workflow: "cancelled-attempt"},
	}...)
}

// more returns scenarios with promises, clocks and refusals, and with several events at one instant.
func more(second string) (list []likeHost) {
	for _, name := range []string{"handled-late", "unhandled", "unhandled-in-body", "abort-timeouts", "performance", "stuck"} {
		list = append(list, likeHost{Name: name, Workflow: name})
	}
	for _, how := range []string{"timer", "then"} {
		list = append(list, likeHost{Name: "continues as new in a " + how, Workflow: "continues", Input: how})
	}
	refusals := likeHost{Name: "refusals", Workflow: "refusals"}
	for _, what := range []string{"text", "null", "undefined", "number", "object", "error", "empty", "proxy", "proxy of an error", "cause",
		"aggregate", "symbol", "long", "bigint"} {
		for _, e := range []happening{{Update: "u"}, {Update: "v"}, {Query: "q"}} {
			e.At, e.Data = second, what
			refusals.Events = append(refusals.Events, e)
		}
	}
	refusals.Events = append(refusals.Events, happening{At: "2s", Signal: "end"})
	list = append(list, refusals)
	for n := range ties {
		list = append(list, likeHost{Name: "ties " + strconv.Itoa(n), Workflow: "ties", Input: n * 12345 % 40320})
	}
	return list
}

const ties = 12 // number of call orders tested in the workflow ties

// onlyHost matches the prefix that a host puts before an error.
var onlyHost = regexp.MustCompile(`^(update "[^"]*" of run "test" (failed|was refused): |[A-Z_]+: )`)

// inTests converts an answer of a host to the environment's.
func inTests(answer string) string {
	if _, failed, ok := strings.Cut(answer, `query "q" of run "test" failed: `); ok {
		var e struct{ Message string }
		if json.Unmarshal([]byte(failed), &e) == nil {
			return e.Message
		}
	}
	answer = onlyHost.ReplaceAllString(answer, "")
	return strings.ReplaceAll(answer, "no run holds this token", `no hook has the token "token-of-ended"`)
}

// TestLikeHostUnderNode runs workflows on a host and in the test environment under Node: results, and answers to
// signals, updates and queries, are equal, during a run and after its end.
func TestLikeHostUnderNode(t *testing.T) {
	cases := likeHosts()
	b, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var env []struct {
		Result  string
		Answers []string
		Logs    []string // their first lines
	}
	if err := json.Unmarshal(underNode(t, "likehost.main.ts", "likehost.ts", file), &env); err != nil {
		t.Fatal(err)
	}
	wasm, _, err := typescript.Build(t.Context(), "testdata/likehost.ts")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := upload(t, "likehost", wasm, host.AllowStep("slow", "cancels"))
			result, answers := p.plays(c)
			if result != env[i].Result {
				t.Errorf("the result\non a host %s\nin Node   %s", result, env[i].Result)
			}
			for n, answer := range answers {
				if got := env[i].Answers[n]; inTests(answer) != got {
					t.Errorf("%+v\non a host %s\nin Node   %s", c.Events[n], answer, got)
				}
			}
			if logs := firstLines(p.logs("test")); !slices.Equal(logs, env[i].Logs) {
				t.Errorf("the log\non a host %q\nin Node   %q", logs, env[i].Logs)
			}
		})
	}
}

// plays runs a workflow, and returns its result or error, and the answers to its events.
func (p *program) plays(c likeHost) (result string, answers []string) {
	begun := make(chan struct{}, c.attempts)
	host.HandleStep(p.Host.Host, "slow", func(ctx context.Context, _ any) (any, error) {
		passed := p.Clock.NewTimer(2 * time.Second)
		begun <- struct{}{}
		select {
		case <-passed.C():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	host.HandleStep(p.Host.Host, "cancels", func(ctx context.Context, _ any) (any, error) {
		if _, err := p.Cancel(p.ctx, "test"); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, errors.New("no")
	})
	began := p.Clock.Now()
	if _, err := p.Start(p.ctx, c.Workflow, c.Input, host.WithRunID("test")); err != nil {
		p.t.Fatal(err)
	}
	for range c.attempts {
		<-begun
	}
	p.Clock.Set(began.Add(c.pass))
	answers = make([]string, len(c.Events))
	for n := 0; n < len(c.Events) && c.Events[n].At != "end"; {
		n = p.happen(c.Events, n, began, answers)
	}
	r := p.Finish("test")
	for n, e := range c.Events {
		switch {
		case e.At == "end":
			answers[n] = p.answer(n, e)
		case e.Update != "" && answers[n] == "":
			u, err := p.UpdateResult(p.ctx, "test", e.Update, strconv.Itoa(n), false)
			answers[n] = said(u.Result, err)
		}
	}
	if r.Status == host.Cancelled {
		return "CANCELLED", answers
	}
	return p.ends("test"), answers
}

// happen delivers all events at the instant of the next one, and returns the index of the one after them.
func (p *program) happen(events []happening, n int, began time.Time, answers []string) int {
	p.t.Helper()
	after, err := time.ParseDuration(events[n].At)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Advance(began.Add(after).Sub(p.Clock.Now()))
	next := n + 1
	for next < len(events) && events[next].At == events[n].At {
		next++
	}
	atOnce := events[n].Signal != "" && next > n+1
	if atOnce {
		if _, err := p.Pause(p.ctx, "test"); err != nil {
			p.t.Fatal(err)
		}
	}
	for ; n < next; n++ {
		answers[n] = p.answer(n, events[n])
	}
	if atOnce {
		if _, err := p.Unpause(p.ctx, "test"); err != nil {
			p.t.Fatal(err)
		}
	}
	p.Settle()
	return next
}

// answer delivers an event, and returns the answer or error. It does not wait for the answer to an update.
func (p *program) answer(n int, e happening) string {
	p.t.Helper()
	data := e.Data
	if e.Bytes > 0 {
		data = strings.Repeat("x", e.Bytes-len(`""`))
	}
	switch {
	case e.Cancel:
		_, err := p.Cancel(p.ctx, "test")
		return said(nil, err)
	case e.Signal != "":
		return said(nil, p.Signal(p.ctx, "test", e.Signal, data))
	case e.Deliver != "":
		b, err := json.Marshal(data)
		if err == nil {
			_, err = p.Hooks().Deliver(p.ctx, e.Deliver, b)
		}
		return said(nil, err)
	case e.Query != "":
		return said(p.Query(p.ctx, "test", e.Query, data))
	}
	u, err := p.Update(p.ctx, "test", e.Update, data, host.WithUpdateID(strconv.Itoa(n)), host.UntilAccepted())
	return said(u.Result, err)
}

func said(answer []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// firstLines returns the first line of each text.
func firstLines(texts []string) (first []string) {
	for _, text := range texts {
		line, _, _ := strings.Cut(text, "\n")
		first = append(first, line)
	}
	return first
}
