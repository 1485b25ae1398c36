package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

func (t teller) Log(level int32, line []byte) int64 {
	n := t.player.Log(level, line)
	t.tell("log", fmt.Sprintf("level %d, %s", level, text(line)), t.answer(n, nil))
	return n
}

func (t teller) Output(fd uint32, p []byte) {
	t.player.Output(fd, p)
	t.tell("fd_write", fmt.Sprintf("%d, %s", fd, strings.TrimRight(text(p), "\n")), strconv.Itoa(len(p)))
}

func (t teller) NextEvent() int64 {
	n := t.player.NextEvent()
	t.tell("next_event", "", event(n))
	return n
}

// event formats an event packed by abi.PackEvent.
func event(n int64) string {
	switch kind, handle := abi.EventKind(n&7), n>>3; {
	case n == 0:
		return "nothing"
	case kind == abi.EventResolved:
		return fmt.Sprintf("handle %d is resolved", handle)
	case kind == abi.EventRunBody:
		return fmt.Sprintf("run the body of handle %d", handle)
	case kind == abi.EventCancel:
		return "cancel"
	default:
		return fmt.Sprintf("event %d of handle %d", kind, handle)
	}
}

func (t teller) WaitEvent(timeoutNs int64) (int64, error) {
	n, err := t.player.WaitEvent(timeoutNs)
	got := event(n)
	if err != nil {
		got = ended(err)
	}
	t.tell("wait_event", waitsFor(timeoutNs), got)
	return n, err
}

// waitsFor formats a time-out. A negative value means no time-out.
func waitsFor(ns int64) string {
	if ns < 0 {
		return "without time-out"
	}
	return fmt.Sprintf("at most %d ns", ns)
}

func (t teller) Poll(q engine.Poll) (engine.Ready, error) {
	r, err := t.player.Poll(q)
	ns := q.TimeoutNs
	if !q.HasClock {
		ns = -1
	}
	got := fmt.Sprintf("%d", r)
	if err != nil {
		got = ended(err)
	}
	t.tell("poll_oneoff", waitsFor(ns), got)
	return r, err
}

func (t teller) Signal(name string, timeoutMs int64) (int64, error) {
	h, err := t.player.Signal(name, timeoutMs)
	t.tell("signal", quoted(name, fmt.Sprintf("%d ms", timeoutMs)), t.handle(h, err))
	return h, err
}

func (t teller) SignalSend(name, run, signal string, input []byte) (int64, error) {
	h, err := t.player.SignalSend(name, run, signal, input)
	t.tell("signal_send", with(quoted(name, strconv.Quote(run), strconv.Quote(signal)), input), t.handle(h, err))
	return h, err
}

func (t teller) Reply(handle int64, ok int32, b []byte) (int64, error) {
	n, err := t.player.Reply(handle, ok, b)
	if handle != 0 {
		t.tell("update_reply", with(fmt.Sprintf("handle %d, %d", handle, ok), b), t.answer(n, err))
	}
	return n, err
}

func (t teller) Child(name, workflow string, input, options []byte) (int64, error) {
	h, err := t.player.Child(name, workflow, input, options)
	t.tell("child", with(quoted(name, strconv.Quote(workflow)), input, options), t.handle(h, err))
	return h, err
}

func (t teller) ChildID(handle int64) ([]byte, int64) {
	b, code := t.player.ChildID(handle)
	got := text(b)
	if code < 0 {
		got = t.answer(code, nil)
	}
	t.tell("child_id", fmt.Sprintf("handle %d", handle), got)
	return b, code
}

func (t teller) Hook(name, token string, options []byte) (int64, error) {
	h, err := t.player.Hook(name, token, options)
	t.tell("hook", with(quoted(name), []byte(token), options), t.handle(h, err))
	return h, err
}

func (t teller) Emit(topic string, data []byte) (int64, error) {
	n, err := t.player.Emit(topic, data)
	t.tell("emit", with(quoted(topic), data), t.answer(n, err))
	return n, err
}

func (t teller) SetAttribute(key string, value []byte) (int64, error) {
	n, err := t.player.SetAttribute(key, value)
	t.tell("set_attribute", with(quoted(key), value), t.answer(n, err))
	return n, err
}

func (t teller) CancelPolicy(policy int32) (int64, error) {
	n, err := t.player.CancelPolicy(policy)
	t.tell("cancel_policy", strconv.Itoa(int(policy)), t.answer(n, err))
	return n, err
}

func (t teller) Version(id string, maximum int64) (int64, error) {
	n, err := t.player.Version(id, maximum)
	t.tell("version", quoted(id, strconv.FormatInt(maximum, 10)), t.answer(n, err))
	return n, err
}

func (t teller) ContinueAsNew(input, options []byte) error {
	err := t.player.ContinueAsNew(input, options)
	t.tell("continue_as_new", strings.TrimPrefix(with("", input, options), ", "), ended(err))
	return err
}
