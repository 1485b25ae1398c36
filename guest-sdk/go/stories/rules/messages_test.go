//go:build !wasip1

package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/conformance"
	"github.com/wfhost/wfhost/host/hosttest"
)

// sameButFor removes the allowed differences: a host reads at most 257 bytes of a name, and the environment says how
// to register a missing handler.
var sameButFor = strings.NewReplacer("got 258", "got 257", " in this test: register it, or stand in for it by HandleChild", "",
	` in this test: workflow.Handle(env, "host/no-such-handler", fn)`, " in this host, and rules@1 is not allowed to call it")

// TestMessagesInEnv checks the rules with error messages on a host and in the test environment: the messages are
// equal. TestRulesInEnv covers queries and validators.
func TestMessagesInEnv(t *testing.T) {
	b, err := os.ReadFile("../../../../host/conformance/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Rules []rule }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	var stories []conformance.Story
	for i, r := range all.Rules {
		if r.In == "query" || r.In == "validator" {
			continue
		}
		r.Messages = true
		input, err := json.Marshal(r.Case)
		if err != nil {
			t.Fatal(err)
		}
		s := conformance.Program(1)
		s.Name, s.Input, s.Do = fmt.Sprintf("rule-%d", i), input, nil
		names, stories = append(names, r.Name), append(stories, s)
	}
	told, err := conformance.Tell(t.Context(), hosttest.Build(t, ".."), host.UserCacheDir(), stories)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stories {
		var got conformance.Told
		synctest.Test(t, func(t *testing.T) { got = inEnv(t, &stories[i]) })
		var host, env []string
		if err := errors.Join(json.Unmarshal([]byte(told[i].Result), &host), json.Unmarshal([]byte(got.Result), &env)); err != nil ||
			told[i].Status != got.Status || len(host) != len(env) {
			t.Errorf("%s:\nhost %s %.300s %s\nenv  %s %.300s %s", names[i], told[i].Status, told[i].Result, told[i].Message, got.Status,
				got.Result, got.Message)
			continue
		}
		for n := range host {
			if sameButFor.Replace(host[n]) != sameButFor.Replace(env[n]) {
				t.Errorf("%s, outcome %d:\nhost %.500s\nenv  %.500s", names[i], n, host[n], env[n])
			}
		}
	}
}
