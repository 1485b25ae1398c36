package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// TestCursorsThatAreNoText lists from positions that no run can have.
func TestCursorsThatAreNoText(t *testing.T) {
	s, err := postgres.Open(ctx, pgtest.Fresh(t), postgres.Options{Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, id := range []string{"a\x00b", "\xff"} {
		at := &store.Position{UnixMs: 1, ID: id}
		_, list := s.List(ctx, store.Query{After: at})
		_, timers := s.Timers(ctx, store.TimerQuery{After: at})
		_, schedules := s.Schedules(ctx, store.ScheduleQuery{After: id, Limit: 1})
		for what, err := range map[string]error{"list": list, "timers": timers, "schedules": schedules} {
			if a, ok := errors.AsType[*abi.Error](err); !ok || a.Code != abi.InvalidArgument || strings.Contains(err.Error(), "SQLSTATE") {
				t.Errorf("%s after %q: %v", what, id, err)
			}
		}
	}
}

// TestPasswordsStayOutOfMessages opens addresses whose passwords are not percent-encoded, or are, at a server that is not there.
func TestPasswordsStayOutOfMessages(t *testing.T) {
	for _, url := range []string{
		"postgres://u:SEC@RET@127.0.0.1:1/db", "postgres://u:12/SECRET@127.0.0.1:1/db", "postgres://u:SEC/RET@127.0.0.1:1/db",
		"postgres://u:SECRET:RET@127.0.0.1:1/db", "postgres://u:SEC?RET@127.0.0.1:1/db", "postgres://u:SEC#RET@127.0.0.1:1/db",
		"postgres://u:SEC%RET@127.0.0.1:1/db", "postgres://u:SEC RET@127.0.0.1:1/db", "postgres://u:SEC%40RET@127.0.0.1:1/db",
		"postgres://u:SECRET@127.0.0.1:1/db", "user=u password='SEC RET' host=127.0.0.1 port=1 dbname=db",
	} {
		_, err := postgres.Open(ctx, url, postgres.Options{})
		if err == nil || strings.Contains(err.Error(), "SEC") || strings.Contains(err.Error(), "RET") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
