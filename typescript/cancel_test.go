package typescript_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

func TestCancel(t *testing.T) {
	p := load(t, "cancel.ts")
	for _, name := range []string{"plain", "told", "saga", "late", "anew"} {
		p.begin(name, name, 0)
		p.Advance(time.Minute)
		if name == "saga" {
			p.Crash()
		}
		p.cancel(name)
		p.Settle()
	}
	for name, want := range map[string]string{"plain": "run plain cancelled", "told": `"stopped"`, "saga": "run saga cancelled",
		"late": `"carried on after CANCELLED"`, "anew": "run anew cancelled"} {
		if got := p.ends(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"saga": `"refund" "release"`, "anew": `"CANCELLED"`} {
		if got := strings.Join(p.outputs(name), " "); got != want {
			t.Errorf("%s did %s, not %s", name, got, want)
		}
	}
}

// TestCancelTimers cancels runs that wait for timers, whose promises cannot be rejected.
func TestCancelTimers(t *testing.T) {
	p := load(t, "cancel.ts")
	const cancelled = " cancelled: the run was asked to cancel"
	for _, c := range []struct{ workflow, result, dids string }{
		{"delay", "run delay" + cancelled, `"release"`},
		{"delay-last", "", `"release" "CANCELLED" "slept"`},
		{"delay-only", "run delay-only" + cancelled, ""},
		{"delay-both", "", `"a CANCELLED" "b CANCELLED" "slept"`},
		{"delay-beside", "", `"CANCELLED"`},
		{"cleared", "", `"CANCELLED"`},
		{"ticks", "", `"CANCELLED"`},
	} {
		t.Run(c.workflow, func(t *testing.T) {
			p := &program{p.Host, t, p.ctx}
			p.begin(c.workflow, c.workflow, nil)
			p.Advance(time.Minute)
			p.Crash()
			p.cancel(c.workflow)
			p.Settle()
			if c.workflow == "ticks" || c.workflow == "cleared" {
				p.Advance(50 * time.Hour)
			} else {
				p.Advance(time.Second)
			}
			p.Crash()
			if got := p.ends(c.workflow); !strings.HasPrefix(got, c.result) || c.result == "" && got != "" {
				t.Errorf("%s\nnot\n%s", got, c.result)
			}
			if got := strings.Join(p.outputs(c.workflow), " "); got != c.dids {
				t.Errorf("it did %s, not %s", got, c.dids)
			}
		})
	}
}

func (p *program) cancel(id string) {
	p.t.Helper()
	if _, err := p.Cancel(p.ctx, id); err != nil {
		p.t.Fatal(err)
	}
}

// TestCancelWhileStepRuns cancels runs while the body of a step waits for a service. The step resolves with its
// outcome, and the workflow's next call is refused, once.
func TestCancelWhileStepRuns(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan int)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
			w.WriteHeader(<-answer)
		case <-r.Context().Done():
		}
	}))
	defer service.Close()
	p := load(t, "cancel.ts", host.AllowHTTP(service.URL))
	for _, c := range []struct {
		workflow     string
		steps        int // that run at the cancel
		status       int // of the service's answers
		result, dids string
	}{
		{"busy", 1, 200, "run busy cancelled: the run was asked to cancel", `"release"`},
		{"failing", 1, 500, `["CANCELLED","reserve","STEP_FAILED","the service says 500"]`, ""},
		{"branches", 2, 200, `"slept"`, `"a CANCELLED" "b CANCELLED"`},
		{"together", 1, 200, `["` + strings.Repeat("CANCELLED,", 7) + `CANCELLED",2]`, ""},
		{"ticking", 1, 200, `"CANCELLED"`, ""},
		{"beside", 1, 200, `"CANCELLED"`, ""},
		{"continues", 1, 200, `"CANCELLED"`, ""},
		{"refuses", 1, 200, `"CANCELLED"`, `"release"`},
		{"anew-cancelled", 1, 200, "", `"stop"`},
		{"undo-awaits", 1, 200, "run undo-awaits cancelled: the run was asked to cancel", `"refund"`},
		{"undo-late", 2, 200, `"own"`, `"undone"`},
		{"undo-parallel", 2, 200, "", `"released a" "released b"`},
	} {
		t.Run(c.workflow, func(t *testing.T) {
			p := &program{p.Host, t, p.ctx}
			if _, err := p.Start(p.ctx, c.workflow, service.URL, host.WithRunID(c.workflow)); err != nil {
				t.Fatal(err)
			}
			for range c.steps {
				<-asked
			}
			p.cancel(c.workflow)
			for range c.steps {
				answer <- c.status
			}
			p.Settle()
			p.Crash() // the rest runs after a replay
			if got := p.ends(c.workflow); !strings.HasPrefix(got, c.result) {
				t.Errorf("%s\nnot\n%s", got, c.result)
			}
			dids := p.outputs(c.workflow)
			slices.Sort(dids) // two steps end in any order
			if got := strings.Join(dids, " "); got != c.dids {
				t.Errorf("it did %s, not %s", got, c.dids)
			}
		})
	}
}
