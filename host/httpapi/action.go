package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// Changed is the answer of an action.
type Changed struct {
	Run   host.Run `json:"run"`
	Count int      `json:"count"` // how many items the action changed
}

// actionHelp describes the actions that take only a run.
var actionHelp = map[string]string{
	"cancel":    "Ask a run to end: one that takes a cancel is told, another one ends as cancelled",
	"terminate": "End a run at once",
	"pause":     "Stop a run where it waits next, until unpause",
	"unpause":   "Let a paused run go on",
	"take-back": "Let a run go on here that was moved, and was adopted nowhere",
}

func (s *API) registerActions(api huma.API) {
	type action func(n *host.Namespace, ctx context.Context, id string) (int, error)
	count := func(act func(*host.Namespace, context.Context, string) (bool, error)) action {
		return func(n *host.Namespace, ctx context.Context, id string) (int, error) {
			changed, err := act(n, ctx, id)
			if changed {
				return 1, err
			}
			return 0, err
		}
	}
	for name, act := range map[string]action{
		"cancel": count((*host.Namespace).Cancel), "pause": count((*host.Namespace).Pause),
		"unpause": count((*host.Namespace).Unpause), "take-back": count((*host.Namespace).TakeBack),
		"terminate": func(n *host.Namespace, ctx context.Context, id string) (int, error) {
			return 1, n.Terminate(ctx, id)
		},
	} {
		huma.Register(api, huma.Operation{OperationID: name, Method: http.MethodPost, Path: "/v1/runs/{id}/" + name,
			Summary: actionHelp[name]},
			func(ctx context.Context, in *RunPath) (*struct{ Body Changed }, error) {
				n, err := act(namespaceFrom(ctx), ctx, in.ID)
				if err != nil {
					return nil, failedFor(ctx, err)
				}
				return s.changed(ctx, in.ID, n)
			})
	}
	huma.Register(api, huma.Operation{OperationID: "wake", Method: http.MethodPost, Path: "/v1/runs/{id}/wake",
		Summary: "End sleeps of a run before their time; without a name all of them, and the delay of its start"},
		func(ctx context.Context, in *struct {
			RunPath
			Name string `query:"name"`
		}) (*struct{ Body Changed }, error) {
			n, err := namespaceFrom(ctx).Wake(ctx, in.ID, in.Name)
			if err != nil {
				return nil, failed(err)
			}
			return s.changed(ctx, in.ID, n)
		})
	huma.Register(api, huma.Operation{OperationID: "timers", Method: http.MethodGet, Path: "/v1/timers",
		Summary: "List what wakes within a time, soonest first; next, if there is one, is the cursor of the next page"}, s.timers)
}

type timersInput struct {
	Within string `query:"within" doc:"duration text; all without it"`
	Limit  int    `query:"limit" default:"100"`
	Cursor string `query:"cursor" doc:"next of the page before"`
}

func (s *API) timers(ctx context.Context, in *timersInput) (*listOutput[host.Timer], error) {
	if in.Limit < 1 || in.Limit > maxPage {
		return nil, problem(http.StatusBadRequest, "invalid", "limit must be 1 to %d, got %d", maxPage, in.Limit)
	}
	q := host.TimerQuery{Limit: in.Limit, Cursor: in.Cursor}
	if in.Within != "" {
		ms, err := abi.ParseDuration(in.Within)
		if err != nil {
			return nil, problem(http.StatusBadRequest, "invalid", "within: %v", err)
		}
		q.WithinMs = max(ms, 1) // 0 means all
	}
	page, err := namespaceFrom(ctx).TimerPage(ctx, q)
	return paged(page.Timers, page.Next, err)
}

func (s *API) changed(ctx context.Context, id string, n int) (*struct{ Body Changed }, error) {
	r, err := namespaceFrom(ctx).Get(ctx, id)
	return &struct{ Body Changed }{Changed{r, n}}, failed(err)
}

// Entry is an entry of a journal as the API and the command line show it. Payloads are JSON if they are valid JSON,
// else text in base64, as Base64 says.
type Entry struct {
	Seq      uint64          `json:"seq"`
	Kind     string          `json:"kind"`
	Time     time.Time       `json:"time"`
	Handle   int64           `json:"handle,omitempty"`
	Name     string          `json:"name,omitempty"`
	Target   string          `json:"target,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Options  json.RawMessage `json:"options,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Due      *time.Time      `json:"due,omitempty"`
	Attempt  uint32          `json:"attempt,omitempty"`
	Refused  string          `json:"refused,omitempty"`
	Code     int32           `json:"code,omitempty"`
	Skipped  bool            `json:"skipped,omitempty"`
	Consumed uint64          `json:"consumed,omitempty"`
	Base64   []string        `json:"base64,omitempty" doc:"which of input, options and data are no JSON, and stand there in base64"`
}

// EntryOf returns an entry as the API shows it, without the seed of entry 0.
func EntryOf(e host.Entry) Entry {
	out := Entry{Seq: uint64(e.Seq), Kind: e.Kind.String(), Time: abi.TimeOf(e.UnixMs), Handle: e.Handle,
		Name: e.Name, Target: e.Target, Attempt: e.Attempt, Code: e.Code, Skipped: e.Skipped, Consumed: e.Consumed}
	text := textOf(&e)
	for _, x := range []struct {
		name string
		from []byte
		to   *json.RawMessage
	}{{"input", e.Input, &out.Input}, {"options", e.Options, &out.Options}, {"data", e.Data, &out.Data}} {
		var coded bool
		switch {
		case x.name == text:
			*x.to = quoted(string(x.from))
			continue
		case e.Kind == store.KindStarted && x.name == "options":
			x.from = withoutSeed(x.from)
		}
		*x.to, coded = payload(x.from)
		if coded {
			out.Base64 = append(out.Base64, x.name)
		}
	}
	if e.Kind == store.KindCancelPolicy && e.Refused == 0 && len(e.Data) == 0 {
		out.Data = quoted(policies[e.Code == 1])
	}
	if e.Refused != 0 {
		out.Refused = abi.Code(e.Refused).String()
	}
	if e.HasDue {
		t := abi.TimeOf(e.DueUnixMs)
		out.Due = &t
	}
	return out
}

// policies are the names of policies of cancel, by whether they are cooperative.
var policies = map[bool]string{false: "final", true: "cooperative"}

// textOf returns which of input, options and data is a text and never a payload: an id, a token, a name, the value of
// an attribute.
func textOf(e *host.Entry) string {
	switch {
	case e.Refused != 0:
	case e.Kind == store.KindAttribute:
		return "input"
	case e.Kind == store.KindSignalSend:
		return "options"
	case e.Kind == store.KindChild, e.Kind == store.KindHook, e.Kind == store.KindHookReady && e.Code == 0:
		return "data"
	}
	return ""
}

// withoutSeed returns the options of entry 0 without the seed of the run's random numbers.
func withoutSeed(options []byte) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(options, &o) != nil {
		return options
	}
	delete(o, "seed")
	b, err := json.Marshal(o)
	if err != nil {
		return nil // unreachable: it was decoded
	}
	return b
}

// payload returns a payload as the API shows it, and whether that is base64. JSON is passed on unchanged, so that no
// number and no member changes.
func payload(b []byte) (json.RawMessage, bool) {
	switch {
	case len(b) == 0:
		return nil, false
	case abi.IsJSON(b):
		return b, false
	}
	return quoted(base64.StdEncoding.EncodeToString(b)), true
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	b, err := marshal(text)
	if err != nil {
		return nil // unreachable: invalid UTF-8 is replaced
	}
	return b
}
