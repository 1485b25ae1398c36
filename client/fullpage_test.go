package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
)

// TestShortPages lists large runs, timers and schedules: the server ends their pages before the requested limit.
func TestShortPages(t *testing.T) {
	const n = 30
	s, ctx := serve(t).shop(), t.Context()
	attributes := map[string]string{}
	for i := range abi.MaxAttributes {
		attributes[fmt.Sprint("key", i)] = strings.Repeat("x", abi.MaxAttributeBytes)
	}
	for i := range n {
		_, err := s.h.Start(ctx, "sleeps", nil, host.WithRunID(fmt.Sprint("r", i)), host.WithAttributes(attributes))
		must(t, err)
		_, err = s.h.Schedules().Create(ctx, fmt.Sprint("s", i), host.ScheduleSpec{Workflow: "sleeps", When: "0 0 1 1 *",
			Input: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)})
		must(t, err)
	}
	s.h.Settle()
	page, err := s.RunPage(ctx, client.Query{Limit: 1000})
	must(t, err)
	if len(page.Items) >= n || page.Next == "" {
		t.Errorf("a page of %d large runs, then %q", len(page.Items), page.Next)
	}
	want(t, "runs", len(all(t, s.Runs(ctx, client.Query{Limit: 1000}))), n)
	want(t, "timers", len(all(t, s.Timers(ctx, 0))), n)
	want(t, "schedules", len(all(t, s.Schedules().List(ctx))), n)
}
