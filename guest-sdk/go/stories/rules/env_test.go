package rules

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { Register() }

// rule is one of host/conformance/rules.json.
type rule struct {
	Case

	Name string
	Want []string
}

// outcomes makes the calls of a case in an environment and returns their outcomes.
func outcomes(t *testing.T, c Case) (got []string) {
	t.Helper()
	env := workflow.NewEnv()
	done := make(chan error, 1)
	go func() {
		var err error
		got, err = workflow.Run(t.Context(), env, Run, c)
		done <- err
	}()
	var asked []string
	var err error
	switch c.In {
	case "query":
		time.Sleep(time.Second)
		err = env.Ask(Name, nil, &asked)
	case "validator":
		time.Sleep(time.Second)
		refused := env.Update(t.Context(), Name, nil, nil)
		if !errors.Is(refused, workflow.ErrUpdateRefused) {
			t.Fatal(refused)
		}
		_, text, _ := strings.Cut(refused.Error(), "[")
		err = json.Unmarshal([]byte("["+text), &asked)
	}
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	if asked != nil {
		return asked
	}
	return got
}

// TestRulesInEnv checks the rules in the test environment, which must answer as a host does.
func TestRulesInEnv(t *testing.T) {
	b, err := os.ReadFile("../../../../host/conformance/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Rules []rule }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Rules {
		t.Run(r.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := outcomes(t, r.Case)
				if len(got) != len(r.Want) {
					t.Fatalf("%d outcomes, want %d", len(got), len(r.Want))
				}
				for i, want := range r.Want {
					if got[i] != want {
						b, err := json.Marshal(r.Calls[i])
						t.Errorf("call %d, %.200s: got %q, want %q %v", i, b, got[i], want, err)
					}
				}
			})
		})
	}
	if len(all.Rules) < 30 {
		t.Errorf("there are %d rules", len(all.Rules))
	}
}
