package host_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// TestUpdateCrashes crashes the host at each commit of an update, before and after it is durable. The sender repeats
// the update with the same id: it is performed once.
func TestUpdateCrashes(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			p := newUpdates(t)
			id := p.begin("cart", nil)
			p.CrashAt(n, after)
			_, err := p.Update(ctx, id, "add", item{"pen", 3}, host.WithUpdateID("1"))
			crashed := p.Crashed()
			if crashed == (err == nil) && !crashed {
				t.Fatal(n, after, err)
			}
			p.CrashAt(1<<30, false)
			p.Crash()
			want(t, p.update(id, "add", item{"pen", 3}, host.WithUpdateID("1")), "3")
			want(t, p.update(id, "add", item{"ink", 1}), "4")
			p.signal(id, "done", "")
			want(t, result[string](p, id), "pen,ink,done")
			if !crashed {
				break
			}
		}
	}
}

// TestUpdatesAtOnce sends concurrent updates of which only three fit, although each would fit alone.
func TestUpdatesAtOnce(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	results := make(chan error)
	const senders = 6
	for i := range senders {
		go func() {
			_, err := p.Update(ctx, id, "add", item{fmt.Sprint("pen ", i), 3})
			results <- err
		}()
	}
	accepted := 0
	for range senders {
		err := <-results
		u, failed := errors.AsType[*host.UpdateError](err)
		switch {
		case err == nil:
			accepted++
		case !failed || !u.Refused || !strings.Contains(err.Error(), "12 things are too many"):
			t.Error(err)
		}
	}
	want(t, accepted, 3)
	p.signal(id, "done", "")
	result[string](p, id)
}

// TestUpdateMoves moves a run with an unanswered update. The sender is told so, and gets the answer where the run
// continues.
func TestUpdateMoves(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	want(t, p.update(id, "add", item{"pen", 3}, host.WithUpdateID("1")), "3")
	p.accepted(id, "slow", "1", "a")
	file := move(t, p.Host.Host, id)
	_, err := p.UpdateResult(ctx, id, "slow", "1", true)
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "gets none here") {
		t.Error("where it was moved from:", err)
	}
	if _, err := p.Update(ctx, id, "add", item{"ink", 3}); !errors.Is(err, host.ErrConflict) {
		t.Error("an update of a run that was moved:", err)
	}
	q := newUpdates(t)
	q.Clock.Set(p.Clock.Now())
	adopt(t, q.Host, file)
	want(t, q.answer(id, "add", "1"), "completed 3")
	want(t, q.answer(id, "slow", "1"), "accepted ")
	want(t, q.update(id, "add", item{"ink", 3}), "6")
	q.Advance(24 * time.Hour)
	want(t, q.answer(id, "slow", "1"), `completed "slept"`)
	q.signal(id, "done", "")
	want(t, result[string](q, id), "pen,ink,a,done")
	want(t, p.answer(id, "slow", "1"), "accepted ")

	copied := newUpdates(t)
	_, err = copied.Import(ctx, bytes.NewReader(file), host.ImportOptions{})
	do(t, err)
	want(t, copied.answer(id, "add", "1"), "completed 3")
	want(t, copied.query(id, "names"), `"pen"`)
}

// TestUpdateMigrates migrates a run with an unanswered update.
func TestUpdateMigrates(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	p.accepted(id, "slow", "1", "a")
	wasm := bytes.Clone(hosttest.Build(t, "testdata/updates"))
	wasm = append(wasm, 0, 5, 4, 'm', 'o', 'r', 'e') // an empty custom section
	_, err := p.Upload(ctx, "", wasm, host.AllowStep("*"))
	do(t, err)
	sum, err := p.Workflows().Migrate(ctx, "cart", host.MigrateOptions{To: 2})
	if err != nil || sum.Migrated != 1 {
		t.Fatalf("%+v %v", sum, err)
	}
	p.Crash()
	want(t, p.update(id, "add", item{"ink", 3}), "3")
	p.Advance(24 * time.Hour)
	want(t, p.answer(id, "slow", "1"), `completed "slept"`)
	p.signal(id, "done", "")
	want(t, result[string](p, id), "ink,a,done")
}

// TestUpdateAndRetry fails an update together with its run, and answers it when the run is retried.
func TestUpdateAndRetry(t *testing.T) {
	p := newUpdates(t)
	p.fails = 1
	id := p.begin("fails", nil)
	p.accepted(id, "say", "1", "hello")
	p.signal(id, "go", "")
	want(t, p.status(id), host.Failed)
	want(t, p.answer(id, "say", "1"), `update "say" of run "`+id+`" failed: the run failed before it had answered the update`)
	do(t, p.Retry(ctx, id, 0))
	p.Settle()
	want(t, p.answer(id, "say", "1"), "accepted ")
	p.Advance(time.Minute)
	want(t, p.answer(id, "say", "1"), `completed "hello"`)
	want(t, result[string](p, id), "x")
}

// TestUpdateIsNotTakenBack refuses to retry a run that has answered an update after the failed step: the sender
// relies on the answer.
func TestUpdateIsNotTakenBack(t *testing.T) {
	p := newUpdates(t)
	p.fails = 1
	id := p.begin("fails", true)
	p.accepted(id, "say", "1", "hello")
	p.signal(id, "go", "")
	p.Advance(time.Minute)
	want(t, p.answer(id, "say", "1"), `completed "hello"`)
	p.signal(id, "give up", "")
	want(t, p.status(id), host.Failed)
	if err := p.Retry(ctx, id, 0); !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "update_reply") {
		t.Error(err)
	}
	want(t, p.answer(id, "say", "1"), `completed "hello"`)
}

// TestUpdateAndRestart: a restarted run knows the answers in the part that it repeats.
func TestUpdateAndRestart(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	want(t, p.update(id, "add", item{"pen", 3}, host.WithUpdateID("1")), "3")
	want(t, p.update(id, "add", item{"ink", 4}, host.WithUpdateID("2")), "7")
	_, err := p.Restart(ctx, id, "copy", "mail ink")
	do(t, err)
	p.Settle()
	want(t, p.answer("copy", "add", "1"), "completed 3")
	want(t, p.answer("copy", "add", "2"), "completed 7")
	want(t, strings.Join(p.mails, ","), "pen,ink,ink")
}

// TestUpdateOfAPausedRun accepts an update of a paused run, and answers it when the run continues.
func TestUpdateOfAPausedRun(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	_, err := p.Pause(ctx, id)
	do(t, err)
	p.accepted(id, "add", "1", item{"pen", 3})
	want(t, p.answer(id, "add", "1"), "accepted ")
	want(t, len(p.mails), 0)
	_, err = p.Unpause(ctx, id)
	do(t, err)
	p.Settle()
	want(t, p.answer(id, "add", "1"), "completed 3")
}

// updatesByHand is a guest that accepts every update, takes one in its second iteration only, and answers it once too
// often.
func updatesByHand() []byte {
	m := wasmgen.New(1)
	m.I32(0).I32(0).Call(abi.FnInput).IfZero64()
	m.Text("go").I64(-1).I32(0).I32(0).Call(abi.FnSignalWait).I64(int64(abi.Query)).Add().IfZero64()
	m.I32(0).I32(0).I32(0).Call(abi.FnQueryReply).End()
	m.Text("again").I32(0).I32(0).Call(abi.FnContinueAsNew).End()
	m.Text(abi.UpdatePrefix + "x").I64(-1).I32(64).I32(64).Call(abi.FnSignalWait).Drop()
	m.I64(7).I32(0).Text("none").Call(abi.FnUpdateReply).Drop()
	m.I64(0).I32(0).Text("none").Call(abi.FnUpdateReply).Drop()
	m.I64(1).I32(0).Text(`"by hand"`).Call(abi.FnUpdateReply).Drop()
	m.I32(256).I64(1).I32(0).Text("twice").Call(abi.FnUpdateReply).Store64()
	return m.I32(256).I32(8).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// TestUpdateMovesOver carries an update that the workflow has not taken over to the next iteration, with its id.
func TestUpdateMovesOver(t *testing.T) {
	p := newPrims(t)
	_, err := p.Upload(ctx, "hand", updatesByHand())
	do(t, err)
	id := p.begin("hand", nil)
	p.accepted(id, "x", "1", "input")
	p.Crash()
	want(t, p.answer(id, "x", "1"), "accepted ")
	p.signal(id, "go", "")
	want(t, p.answer(id, "x", "1"), `completed "by hand"`)
	_, err = p.Update(ctx, id, "x", "input", host.WithUpdateID("1"))
	do(t, err)
	r := p.Finish(id)
	want(t, r.Iteration, 1)
	var replies []string
	for e, err := range p.Journal(ctx, id, 0) {
		do(t, err)
		if e.Kind.String() == abi.FnUpdateReply {
			replies = append(replies, fmt.Sprint(abi.Code(e.Refused), " ", e.Handle))
		}
	}
	want(t, strings.Join(replies, ", "), "OK 1, INVALID_ARGUMENT 0")
	do(t, p.Replay(ctx, id))
}
