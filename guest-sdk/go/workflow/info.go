package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
)

type infoJSON struct {
	RunID     string `json:"run_id"`
	Workflow  string `json:"workflow"`
	Version   uint32 `json:"version"`
	Module    string `json:"module"`
	StartedAt int64  `json:"started_at"`
	Iteration uint32 `json:"iteration"`
	Position  uint64 `json:"position"`
	Query     string `json:"query"`
	Schedule  string `json:"schedule"`
	Nominal   int64  `json:"nominal"`

	SuggestContinue bool `json:"suggest_continue"`

	Attributes map[string]string `json:"attributes"`
	Memo       json.RawMessage   `json:"memo"`

	Step *stepJSON `json:"step"`
}

type stepJSON struct {
	Handler        string          `json:"handler"`
	Name           string          `json:"name"`
	Attempt        int             `json:"attempt"`
	Attempts       int             `json:"attempts"`
	IdempotencyKey string          `json:"idempotency_key"`
	LastError      json.RawMessage `json:"last_error"`
}

func (j *stepJSON) step(ctx context.Context) Step {
	if j == nil {
		return Step{Context: ctx}
	}
	var last struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(j.LastError, &last) // empty at the first attempt
	return Step{Context: ctx, Name: j.Name, Attempt: j.Attempt, Attempts: j.Attempts,
		IdempotencyKey: j.IdempotencyKey, LastError: last.Message}
}

// handler returns the name of the requested step function, "" if j is nil.
func (j *stepJSON) handler() string {
	if j == nil {
		return ""
	}
	return j.Handler
}

// parseInfo parses the host's info JSON. Every activation calls it, and package json's decoder would cost more than a
// dozen steps. So a parser by hand reads the common form, which has no escapes and no error.
func parseInfo(b []byte) (i infoJSON) {
	if bytes.IndexByte(b, '\\') < 0 && i.scan(b) {
		return i
	}
	i = infoJSON{}
	_ = json.Unmarshal(b, &i) // the host writes valid JSON
	return i
}

// scan parses an object of strings, numbers and booleans without white space. The objects step and attributes may be in
// it. It returns false for any other JSON.
func (i *infoJSON) scan(b []byte) bool {
	var ok bool
	var key, value []byte
	within := "" // name of the inner object
	for depth := 0; len(b) > 1; {
		switch b[0] {
		case '{':
			depth++
		case '}':
			depth--
			b = b[1:]
			continue
		case ',':
		default:
			return false
		}
		key, b, ok = quoted(b[1:])
		if !ok || len(b) < 2 || b[0] != ':' {
			return false
		}
		b = b[1:]
		switch b[0] {
		case '{':
			switch {
			case depth == 1 && string(key) == "step":
				within, i.Step = "step", &stepJSON{}
			case depth == 1 && string(key) == "attributes":
				within, i.Attributes = "attributes", map[string]string{}
			default:
				return false
			}
			continue
		case '"':
			value, b, ok = quoted(b)
			if !ok {
				return false
			}
		default:
			end := bytes.IndexAny(b, ",}")
			if end < 1 || b[0] == 'n' { // null
				return false
			}
			value, b = b[:end], b[end:]
		}
		if depth == 2 && within == "attributes" {
			i.Attributes[string(key)] = string(value)
		} else if !i.set(depth, string(key), string(value)) {
			return false
		}
	}
	return string(b) == "}"
}

// quoted returns the quoted string without escapes at the beginning of b, and the rest of b.
func quoted(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	return b[1 : 1+end], b[end+2:], true
}

// set sets a field of the outer object or, at depth 2, of step. It returns false if it cannot parse the value.
func (i *infoJSON) set(depth int, key, value string) (ok bool) {
	number := func() int64 {
		n, err := strconv.ParseInt(value, 10, 64)
		ok = ok && err == nil
		return n
	}
	ok = true
	if depth == 2 {
		switch key {
		case "name":
			i.Step.Name = value
		case "attempt":
			i.Step.Attempt = int(number())
		case "attempts":
			i.Step.Attempts = int(number())
		case "idempotency_key":
			i.Step.IdempotencyKey = value
		case "handler":
			i.Step.Handler = value
		case "last_error":
			ok = false
		}
		return ok
	}
	switch key {
	case "run_id":
		i.RunID = value
	case "workflow":
		i.Workflow = value
	case "version":
		i.Version = uint32(number())
	case "module":
		i.Module = value
	case "started_at":
		i.StartedAt = number()
	case "iteration":
		i.Iteration = uint32(number())
	case "position":
		i.Position = uint64(number())
	case "query":
		i.Query = value
	case "schedule":
		i.Schedule = value
	case "nominal":
		i.Nominal = number()
	case "memo":
		ok = false // package json keeps the JSON as it is
	case "suggest_continue":
		i.SuggestContinue = value == "true"
	}
	return ok
}
