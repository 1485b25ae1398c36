package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

const day = 24 * time.Hour

// example is a host with one example's workflow.
type example struct {
	*hosttest.Host
	t    *testing.T
	name string
}

func newExample(t *testing.T, name string) *example {
	t.Helper()
	return newExampleOf(t, name, hosttest.Build(t, name))
}

// newExampleOf uploads a workflow of a module.
func newExampleOf(t *testing.T, name string, wasm []byte) *example {
	t.Helper()
	e := &example{hosttest.New(t), t, name}
	if _, err := e.Upload(context.Background(), name, wasm); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *example) begin(id string, input any) {
	e.t.Helper()
	if _, err := e.Start(context.Background(), e.name, input, host.WithRunID(id)); err != nil {
		e.t.Fatal(err)
	}
	e.Settle()
}

func (e *example) signal(id, name string, payload any) {
	e.t.Helper()
	if err := e.Signal(context.Background(), id, name, payload); err != nil {
		e.t.Fatal(err)
	}
	e.Settle()
}

// ends gives the run's result, or the error with which it ended.
func (e *example) ends(id string) string {
	e.t.Helper()
	e.Finish(id)
	b, err := e.ResultRaw(context.Background(), id)
	if err != nil {
		return err.Error()
	}
	if err := e.Replay(context.Background(), id); err != nil {
		e.t.Fatal(err)
	}
	return string(b)
}

func (e *example) is(got, want string) {
	e.t.Helper()
	if !strings.Contains(got, want) {
		e.t.Fatalf("got %s, want %s", got, want)
	}
}

func TestApproval(t *testing.T) { testApproval(t, hosttest.Build(t, "approval")) }

// testApproval tests the workflow approval of a module.
func testApproval(t *testing.T, wasm []byte) {
	ctx := context.Background()
	e := newExampleOf(t, "approval", wasm)
	link := func(id string) string {
		lines, err := e.Logs(ctx, id, 0, 10)
		if err != nil || len(lines) == 0 {
			t.Fatal(lines, err)
		}
		_, token, _ := strings.Cut(lines[0].Text, "/v1/hooks/")
		return token
	}
	e.begin("a", map[string]string{"Number": "7", "Approver": "ada"})
	e.Advance(4 * day) // a reminder was sent
	if _, err := e.Hooks().Deliver(ctx, link("a"), []byte(`{"Approved":true,"By":"ada"}`)); err != nil {
		t.Fatal(err)
	}
	e.is(e.ends("a"), "approved by ada")
	e.begin("b", map[string]string{"Number": "8"})
	if _, err := e.Hooks().Deliver(ctx, link("b"), []byte(`{"By":"bob"}`)); err != nil {
		t.Fatal(err)
	}
	e.is(e.ends("b"), "refused by bob")
	e.begin("c", map[string]string{"Number": "9"})
	from := e.Clock.Now()
	e.is(e.ends("c"), "nobody decided within seven days")
	if took := e.Clock.Now().Sub(from); took != 7*day {
		t.Fatal(took)
	}
}

func TestTrial(t *testing.T) {
	e := newExample(t, "trial")
	e.begin("ada", "ada")
	e.begin("bob", "bob")
	e.begin("eve", "eve")
	e.Advance(8 * day)
	e.signal("ada", "subscribed", "gold")
	e.signal("bob", "left", "")
	e.is(e.ends("ada"), "ada took the gold plan")
	e.is(e.ends("bob"), "bob left")
	e.is(e.ends("eve"), "eve did not subscribe")
	if passed := e.Clock.Now().Sub(hosttest.Epoch); passed != 14*day {
		t.Fatal(passed)
	}
	for r, err := range e.Runs(context.Background(), host.Query{Attributes: map[string]string{"trial": "won"}}) {
		if err != nil || r.ID != "ada" {
			t.Fatal(r.ID, err)
		}
	}
}

func TestProgress(t *testing.T) {
	ctx := context.Background()
	e := newExample(t, "progress")
	e.begin("job", 3)
	e.Advance(90 * time.Minute)
	b, err := e.Query(ctx, "job", "progress", struct{}{})
	if err != nil || !strings.Contains(string(b), `"Done":2,"Of":3`) {
		t.Fatal(string(b), err)
	}
	e.is(e.ends("job"), "3")
	n := 0
	for c, err := range e.Output(ctx, "job", "progress", 0) {
		var p struct{ Done int }
		n++
		if err != nil || json.Unmarshal(c.Data, &p) != nil || p.Done != n {
			t.Fatal(string(c.Data), err)
		}
	}
	if n != 3 {
		t.Fatal(n)
	}
}

func TestCooldown(t *testing.T) {
	e := newExample(t, "cooldown")
	e.begin("queue", nil)
	for i := range 25 {
		e.signal("queue", "job", fmt.Sprint("job ", i))
		if i%7 == 0 {
			e.Crash()
		}
	}
	from := e.Clock.Now()
	e.is(e.ends("queue"), "25")
	if took := e.Clock.Now().Sub(from); took != day+25*time.Minute {
		t.Fatal(took)
	}
	r, err := e.Get(context.Background(), "queue")
	if err != nil || r.Iteration != 2 || r.Output != 25 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestFanout(t *testing.T) {
	e := newExample(t, "fanout")
	e.begin("good", []int{1, 2, 3})
	e.is(e.ends("good"), "14")
	if took := e.Clock.Now().Sub(hosttest.Epoch); took != 3*time.Minute {
		t.Fatal(took)
	}
	e.begin("bad", []int{60, -1, 60})
	e.is(e.ends("bad"), "no part -1")
	n := 0
	for r, err := range e.Runs(context.Background(), host.Query{Workflow: "part", Status: host.Cancelled}) {
		n++
		if err != nil || r.Parent != "bad" {
			t.Fatal(r, err)
		}
	}
	if n != 2 {
		t.Fatalf("%d children were cancelled", n)
	}
}

func TestCleanup(t *testing.T) {
	e := newExample(t, "cleanup")
	e.begin("whole", 2)
	e.begin("short", 2)
	e.Advance(day)
	if _, err := e.Cancel(context.Background(), "short"); err != nil {
		t.Fatal(err)
	}
	e.is(e.ends("short"), "cancelled")
	e.is(e.ends("whole"), "machine-7")
	lines, err := e.Logs(context.Background(), "short", 0, 10)
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0].Text, "gave back") {
		t.Fatal(lines, err)
	}
}

func TestUpgrade(t *testing.T) {
	ctx := context.Background()
	e := &example{hosttest.New(t), t, "upgrade"}
	if _, err := e.Upload(ctx, e.name, build(t, "upgrade/before")); err != nil {
		t.Fatal(err)
	}
	e.begin("old", "Paris")
	sum, err := e.Workflows().Check(ctx, "upgrade", build(t, "upgrade/wrong"), host.CheckOptions{})
	if err != nil || sum.Diverging != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	after := build(t, "upgrade")
	sum, err = e.Workflows().Check(ctx, "upgrade", after, host.CheckOptions{})
	if err != nil || !sum.Fits() || sum.Runs != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	v, err := e.Upload(ctx, "upgrade", after)
	if err != nil {
		t.Fatal(err)
	}
	sum, err = e.Workflows().Migrate(ctx, "upgrade", host.MigrateOptions{To: v.Number})
	if err != nil || sum.Migrated != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	e.begin("new", "Paris")
	e.is(e.ends("old"), "shipped to Paris")
	e.is(e.ends("new"), "checked, shipped to Paris")
}

func TestRelay(t *testing.T) {
	e := newExample(t, "relay")
	e.begin("b", map[string]any{"Other": "a", "Rounds": 3})
	e.begin("a", map[string]any{"Other": "b", "Begins": true, "Rounds": 3})
	e.is(e.ends("a"), "6")
	e.is(e.ends("b"), "5")
}

func TestCart(t *testing.T) {
	e := newExample(t, "cart")
	e.begin("c1", nil)
	add := func(name string, count int) string {
		t.Helper()
		u, err := e.Update(t.Context(), "c1", "add", map[string]any{"Name": name, "Count": count})
		if err != nil {
			return err.Error()
		}
		return string(u.Result)
	}
	for _, c := range []struct {
		name  string
		count int
		want  string
	}{
		{"pen", 2, `{"Things":2,"Cents":60}`}, {"ink", 99, `update "add" of run "c1" was refused: the cart holds 100 things, and has 2`},
		{"ink", 0, `input of update "add": /Count: minimum: got 0, want 1`}, {"pen", 1, `{"Things":3,"Cents":90}`},
	} {
		if got := add(c.name, c.count); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	full := 0
	if _, err := e.Pause(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 { // all of them are accepted by the state in which the cart stands
		if _, err := e.Update(t.Context(), "c1", "add", map[string]any{"Name": "pen", "Count": 40}, host.UntilAccepted(),
			host.WithUpdateID(strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Unpause(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		_, err := e.UpdateResult(t.Context(), "c1", "add", strconv.Itoa(n), true)
		if err != nil && strings.Contains(err.Error(), "the cart holds 100 things, and has 83") {
			full++
		} else if err != nil {
			t.Error(err)
		}
	}
	if full != 1 {
		t.Errorf("%d of 3 are too many", full)
	}
	e.signal("c1", "order", nil)
	if got := e.ends("c1"); got != `{"Things":83,"Cents":2490}` {
		t.Error(got)
	}
	if b, err := e.Query(t.Context(), "c1", "total", nil); err != nil || string(b) != `{"Things":83,"Cents":2490}` {
		t.Error(string(b), err)
	}
}
