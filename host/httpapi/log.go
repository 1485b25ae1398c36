package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// logPortion is how many lines of a log are in memory at a time for each client: 1 MiB if each line has 64 KiB.
const logPortion = 16

// Log is one line of a run's log.
type Log struct {
	Index   uint64    `json:"index"`
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Step    string    `json:"step,omitempty"`
	Attempt uint32    `json:"attempt,omitempty"`
	Text    string    `json:"text"`
}

var levels = [...]string{"debug", "info", "warn", "error"}

func (s *API) logs(ctx context.Context, in *struct {
	RunPath
	From   uint64 `query:"from"`
	Limit  int    `query:"limit" default:"1000"`
	Cursor string `query:"cursor" doc:"next of the page before, in place of from"`
	Follows
}) (*huma.StreamResponse, error) {
	if in.Limit < 1 {
		return nil, problem(http.StatusBadRequest, "invalid", "limit must be at least 1, got %d", in.Limit)
	}
	from, err := position(in.Cursor, in.From)
	if err != nil {
		return nil, err
	}
	if in.wanted() {
		return s.followLogs(ctx, in.ID, in.LastID, from)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		out := stream{c: c, limit: min(in.Limit, maxPage)}
		for n := logPortion; n == logPortion; {
			lines, err := namespaceFrom(ctx).Logs(ctx, in.ID, from, logPortion)
			for _, l := range lines {
				from = l.Index + 1
				if !out.add(l.Index, LogOf(l), nil) {
					return
				}
			}
			if err != nil {
				out.add(0, nil, err)
				return
			}
			n = len(lines)
		}
		out.end()
	}}, nil
}

// LogOf returns a log line as the API shows it.
func LogOf(l host.LogLine) Log {
	return Log{Index: l.Index, Time: abi.TimeOf(l.UnixMs), Level: levels[min(max(int(l.Level), 0), len(levels)-1)],
		Step: l.Step, Attempt: l.Attempt, Text: l.Text}
}
