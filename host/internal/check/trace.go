package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// Call is one call of a guest in a replay.
type Call struct {
	Seq   store.Seq // the last entry that the guest had reached when the call was answered
	Name  string    // of the function, as in the ABI
	Asked string    // the arguments
	Got   string    // the answer
}

// maxTraced is the maximum number of bytes that a Call shows of one payload.
const maxTraced = 1024

// tracer is a player that traces its calls and answers. It leaves out the calls of a language's runtime that the program does
// not make itself: WASI clocks and fuel.
type tracer struct{ teller }

// teller is the part of a tracer for output, events, and calls that concern other runs.
type teller struct{ *player }

var _ engine.Host = tracer{}

// host returns the Host of the player's instance.
func (p *player) host() engine.Host {
	if p.c.cfg.trace == nil {
		return p
	}
	return tracer{teller{p}}
}

func (t teller) tell(name, asked, got string) {
	t.c.cfg.trace(Call{Seq: replay.At(t.Machine), Name: name, Asked: asked, Got: got})
}

// text formats a payload.
func text(b []byte) string {
	rest := ""
	if len(b) > maxTraced {
		rest = fmt.Sprintf("… (%d bytes)", len(b))
		b = b[:maxTraced]
	}
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }
	if !utf8.Valid(b) && rest == "" || strings.ContainsFunc(string(b), control) {
		return strconv.Quote(string(b)) + rest
	}
	return strings.ToValidUTF8(string(b), "\uFFFD") + rest
}

func quoted(name string, rest ...string) string {
	return strings.Join(append([]string{strconv.Quote(name)}, rest...), ", ")
}

// with appends the payloads that are not empty.
func with(args string, payloads ...[]byte) string {
	for _, b := range payloads {
		if len(b) > 0 {
			args += ", " + text(b)
		}
	}
	return args
}

// ended describes why a call has ended the replay, and returns "" if it has not.
func ended(err error) string {
	var differs *replay.Mismatch
	switch {
	case err == nil:
		return ""
	case errors.As(err, &differs):
		return differs.Error()
	case errors.Is(err, replay.ErrSuspend):
		return "the journal ends here"
	case errors.Is(err, replay.ErrContinue):
		return "the iteration ends"
	}
	return err.Error()
}

// answer formats the answer of a call. A negative answer is an error code; the guest can read the error's text.
func (t teller) answer(n int64, err error) string {
	if why := ended(err); why != "" {
		return why
	}
	if n < 0 {
		return with(abi.Code(-n).String(), t.Last())
	}
	return strconv.FormatInt(n, 10)
}

// handle is answer for a call that returns a handle.
func (t teller) handle(n int64, err error) string {
	if err == nil && n > 0 {
		return fmt.Sprintf("handle %d", n)
	}
	return t.answer(n, err)
}

func (t tracer) Input() []byte {
	b := t.player.Input()
	t.tell("input", "", text(b))
	return b
}

func (t tracer) Now() int64 {
	n := t.player.Now()
	t.tell("now", "", abi.TimeOf(n).Format("2006-01-02T15:04:05.000Z07:00"))
	return n
}

func (t tracer) Random(p []byte) {
	t.player.Random(p)
	t.tell("random", fmt.Sprintf("%d bytes", len(p)), fmt.Sprintf("%x", p[:min(len(p), 32)]))
}

func (t tracer) Sleep(name string, ms int64) (int64, error) {
	h, err := t.player.Sleep(name, ms)
	t.tell("sleep", quoted(name, fmt.Sprintf("%d ms", ms)), t.handle(h, err))
	return h, err
}

func (t tracer) SleepUntil(name string, unixMs int64) (int64, error) {
	h, err := t.player.SleepUntil(name, unixMs)
	t.tell("sleep_until", quoted(name, fmt.Sprintf("%d", unixMs)), t.handle(h, err))
	return h, err
}

func (t tracer) SleepText(name, text string) (int64, error) {
	h, err := t.player.SleepText(name, text)
	t.tell("sleep_text", quoted(name, strconv.Quote(text)), t.handle(h, err))
	return h, err
}

func (t tracer) Step(name, handler string, input, options []byte) (int64, error) {
	h, err := t.player.Step(name, handler, input, options)
	t.tell("step", with(quoted(name, strconv.Quote(handler)), input, options), t.handle(h, err))
	return h, err
}

func (t tracer) StepBegin(name string, options []byte) (int64, error) {
	h, err := t.player.StepBegin(name, options)
	t.tell("step_begin", with(quoted(name), options), t.handle(h, err))
	return h, err
}

func (t tracer) Await(handles []int64) (int64, error) {
	h, err := t.player.Await(handles)
	asked := "any handle"
	if len(handles) > 0 {
		asked = fmt.Sprint(handles)
	}
	t.tell("await", asked, t.handle(h, err))
	return h, err
}

func (t tracer) Result(handle int64) ([]byte, int64) {
	b, code := t.player.Result(handle)
	got := text(b)
	if code < 0 {
		got = t.answer(code, nil)
	}
	t.tell("result", fmt.Sprintf("handle %d", handle), got)
	return b, code
}

func (t tracer) Cancel(handle int64) (int64, error) {
	n, err := t.player.Cancel(handle)
	t.tell("cancel", fmt.Sprintf("handle %d", handle), t.answer(n, err))
	return n, err
}

func (t tracer) Complete(b []byte) int64 {
	n := t.player.Complete(b)
	t.tell("complete", text(b), t.answer(n, nil))
	return n
}

func (t tracer) Fail(b []byte) int64 {
	n := t.player.Fail(b)
	t.tell("fail", text(b), t.answer(n, nil))
	return n
}
