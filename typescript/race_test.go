package typescript_test

import (
	"strings"
	"testing"
	"time"
)

// TestRaces warns about a wait that lost a race but takes a signal, however the race got the wait, and about nothing
// else.
func TestRaces(t *testing.T) {
	p := load(t, "races.ts")
	const plain, own = "use race({…}) of @wfhost/workflow", "make the entry a function"
	for name, warned := range map[string]string{"then": plain, "wrapped": plain, "later": plain, "any": plain, "direct": plain, "next": plain,
		"again": "", "others": "", "ended": "", "withdrawn": "", "own-then": own, "own-wrapped": own, "own-deaf": own, "own-nested": own,
		"own-direct": "", "own-function": "", "own-again": "", "own-twice": "", "twice": "", "pump": "", "pump-list": "", "pump-until": ""} {
		p.begin(name, name, nil)
		for range 4 {
			p.Advance(10 * time.Second)
			_ = p.Signal(p.ctx, name, "go", nil) // a run that has ended takes none
			p.Settle()
		}
		if got := p.ends(name); got != "true" && got != "false" {
			t.Errorf("%s: %s", name, got)
		}
		logs := strings.Join(p.logs(name), "\n")
		if !strings.Contains(logs, warned) || strings.Count(logs, "race({…})") != min(len(warned), 1) {
			t.Errorf("%s: the log is to have %q: %q", name, warned, logs)
		}
	}
}

// TestRaceOfFunctionThatThrows has a race fail before it begins. It leaves no wait that takes the signal.
func TestRaceOfFunctionThatThrows(t *testing.T) {
	p := load(t, "races.ts")
	p.begin("throws", "throws", nil)
	if err := p.Signal(p.ctx, "throws", "go", nil); err != nil {
		t.Fatal(err)
	}
	if got := p.ends("throws"); got != `["bad","go",[]]` {
		t.Error(got)
	}
}

// TestRacesKeepNothing uses one promise in so many races that keeping anything for each would exhaust the memory.
func TestRacesKeepNothing(t *testing.T) {
	p := load(t, "races.ts")
	for name, want := range map[string]string{"long": "true", "wrong": `["TypeError","TypeError"]`} {
		p.begin(name, name, nil)
		if got := p.ends(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}

// TestLoadedObjectsAreFreed passes more data than a guest can hold through lists, queues, promises and maps that were
// created while the program was loaded. References to objects that the SDK loaded are not counted; references to the
// program's objects are.
func TestLoadedObjectsAreFreed(t *testing.T) {
	p := load(t, "loaded.ts")
	for name, want := range map[string]string{"list": "1199.5", "queue": "83556000", "stream": "9600000", "maps": "1920000"} {
		p.begin(name, name, nil)
		if got := p.ends(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
