package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// ready reports that a guest has its instance and a place: ready [guest=1]. The default is the newest guest.
func (s *story) ready() {
	s.pass()
	s.step(run.GuestReady{Lease: s.leaseArg()}, false)
}

func (s *story) leaseArg() *run.Lease {
	n := s.int("guest", int64(len(s.leases)))
	if n < 1 || int(n) > len(s.leases) {
		s.d.Fatalf(s.t, "there is no guest %d", n)
	}
	return s.leases[n-1]
}

func (s *story) evict()   { s.pass(); s.step(run.Evict{Lease: s.leaseArg()}, false) }
func (s *story) refused() { s.pass(); s.step(run.Refused{Lease: s.leaseArg(), Later: true}, false) }

// guest is what a guest does that has the run to itself. Each line is a call; the last one says how it gives the run back:
//
//	sleep NAME 10s | step NAME handler=charge [attempts=1] [delay=1s] [at_most_once=true] … | body NAME [attempts=1] |
//	signal_wait NAME [1h] | child NAME workflow=W [id=R] [on_end=abandon] | send NAME to=RUN | hook NAME [token=T] |
//	withdraw HANDLE | emit TOPIC DATA | attribute KEY VALUE | policy cooperative | log TEXT | replayed-log TEXT
//
//	wait [HANDLE …] [poll=10s] [events] [fork] | yield | complete RESULT | fail MESSAGE [step=NAME] | cancelled |
//	continue INPUT [told] [version=2] | mismatch TEXT | fault TEXT | lost
func (s *story) guest() {
	s.pass()
	l := s.leaseArg()
	lines := strings.Split(strings.TrimSpace(s.d.Input), "\n")
	for i, line := range lines {
		f := parseCall(line)
		if i < len(lines)-1 {
			s.call(l, f)
			continue
		}
		s.tellAppended()
		s.end(l, f)
	}
}

// call is one line of a guest's calls.
type call struct {
	name string
	args []string
	opts map[string]string
}

func parseCall(line string) call {
	c := call{opts: map[string]string{}}
	for i, f := range strings.Fields(line) {
		k, v, named := strings.Cut(f, "=")
		switch {
		case i == 0:
			c.name = f
		case named:
			c.opts[k] = v
		default:
			c.args = append(c.args, f)
		}
	}
	return c
}

func (c call) arg(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

// options returns options of the call as JSON: numbers and booleans as they are, the rest as text.
func (c call) options(names ...string) []byte {
	m := map[string]any{}
	for _, name := range names {
		v, ok := c.opts[name]
		if !ok {
			continue
		}
		m[name] = v
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			m[name] = n
		}
		if v == "true" {
			m[name] = true
		}
	}
	if len(m) == 0 {
		return nil
	}
	b, _ := json.Marshal(m)
	return b
}

func (s *story) call(l *run.Lease, c call) {
	next := int64(1)
	for _, e := range l.Entries() {
		if e.Kind.Call() && e.Kind != store.KindWithdraw {
			next = max(next, e.Handle+1)
		}
	}
	e := store.Entry{Name: c.arg(0), Handle: next}
	switch c.name {
	case "log", "replayed-log":
		s.log(l, c)
		return
	case "sleep":
		e.Kind, e.DueUnixMs, e.HasDue = store.KindSleep, s.now+s.ms(c.arg(1)), true
	case "step":
		e.Kind, e.Target, e.Input = store.KindStep, abi.HandlerPrefix+c.opts["handler"], []byte("input")
		e.Options = c.options("attempts", "delay", "backoff", "at_most_once", "max_elapsed", "timeout", "jitter")
	case "body":
		e.Kind, e.Options = store.KindBody, c.options("attempts", "delay", "at_most_once")
	case "signal_wait":
		e.Kind = store.KindSignalWait
		if x := c.arg(1); x != "" {
			e.DueUnixMs, e.HasDue = s.now+s.ms(x), true
		}
	case "child":
		e.Kind, e.Target, e.Data = store.KindChild, c.opts["workflow"], []byte(c.opts["id"])
		e.Options = c.options("on_end")
	case "send":
		e.Kind, e.Target, e.Options, e.Input = store.KindSignalSend, c.opts["to"], []byte("hello"), []byte("data")
	case "hook":
		e.Kind, e.Target, e.Data = store.KindHook, c.opts["token"], []byte(c.opts["token"])
		if e.Target == "" {
			e.Data = []byte("made-here")
		}
	default:
		s.record(&e, c)
	}
	if c.opts["refused"] != "" {
		e.Handle, e.Refused = 0, int32(abi.InvalidArgument)
	}
	s.appendCall(l, e)
}

// record fills in the calls that take no handle.
func (s *story) record(e *store.Entry, c call) {
	e.Handle = 0
	switch c.name {
	case "withdraw":
		e.Name = ""
		e.Kind = store.KindWithdraw
		e.Handle, _ = strconv.ParseInt(c.arg(0), 10, 64)
	case "emit":
		e.Kind, e.Input = store.KindEmit, []byte(c.arg(1))
	case "attribute":
		e.Kind, e.Input = store.KindAttribute, []byte(c.arg(1))
	case "policy":
		e.Kind, e.Name, e.Code = store.KindCancelPolicy, "", abi.CancelCooperative
	default:
		s.d.Fatalf(s.t, "a guest has no call %q", c.name)
	}
}

func (s *story) appendCall(l *run.Lease, e store.Entry) {
	e, err := l.Append(s.now, e)
	if err != nil {
		s.tellAppended()
		s.say("refused: %v", err)
		return
	}
	if e.Kind == store.KindWithdraw && e.Code != 0 {
		s.tellAppended()
		s.say("the guest learns that an attempt has begun, and waits for its outcome")
	}
}

func (s *story) log(l *run.Lease, c call) {
	n, err := strconv.ParseUint(c.arg(0), 10, 64)
	if err != nil {
		s.d.Fatalf(s.t, "log N TEXT: %v", err)
	}
	replays := c.name == "replayed-log"
	if l.Log().Has(n, replays) {
		s.say("log line %d was stored before", n)
		return
	}
	l.Log().Write(n, replays, store.LogLine{UnixMs: s.now, Text: strings.Join(c.args[1:], " ")})
}

// end gives the run back.
func (s *story) end(l *run.Lease, c call) {
	rest := strings.Join(c.args, " ")
	switch c.name {
	case "wait":
		s.step(run.GuestWaits{Lease: l, Suspension: s.suspension(l, c), CanFork: rest == "fork" || c.opts["fork"] != ""}, false)
		return
	case "yield":
		if fx := s.run.TakeBack(l); fx != nil {
			s.apply(fx, nil, false)
		}
		s.say("-- the guest has yielded")
		s.settle()
		return
	case "go-on":
		s.step(run.GuestYields{Lease: l}, false)
		return
	}
	end := run.End{}
	switch c.name {
	case "complete":
		end.Entry = &store.Entry{Kind: store.KindCompleted, Data: []byte(rest)}
	case "cancelled":
		end.Entry = &store.Entry{Kind: store.KindCancelled}
	case "fail":
		b, _ := json.Marshal(map[string]string{"message": rest, "name": c.opts["step"], "type": c.opts["type"]})
		end.Entry = &store.Entry{Kind: store.KindFailed, Data: b}
	case "trap":
		end.Entry = &store.Entry{Kind: store.KindFailed, Data: []byte(rest)}
	case "continue":
		version := uint64(1)
		if v := c.opts["version"]; v != "" {
			version, _ = strconv.ParseUint(v, 10, 32)
		}
		end.Continue = &run.Continue{Input: []byte(rest), Version: uint32(version), Module: l.State.Module,
			Cancelled: c.opts["cancelled"] != "", Told: func(h int64) bool { return c.opts["told"] == fmt.Sprint(h) }}
	case "mismatch":
		end.Mismatch = rest
	case "fault":
		end.Fault = errors.New(rest)
	case "lost":
		end.Evicted = true
	default:
		s.d.Fatalf(s.t, "a guest does not end with %q", c.name)
	}
	s.step(run.GuestEnds{Lease: l, End: end}, false)
}

func (s *story) suspension(l *run.Lease, c call) store.Suspension {
	w := store.Suspension{Seq: store.Seq(len(l.Entries()))}
	if x := c.opts["seen"]; x != "" {
		n, _ := strconv.ParseUint(x, 10, 64)
		w.Seq = store.Seq(n)
	}
	for _, x := range c.args {
		if h, err := strconv.ParseInt(x, 10, 64); err == nil {
			w.Awaited = append(w.Awaited, h)
		}
	}
	if x, ok := c.opts["poll"]; ok {
		w.Poll = true
		if x != "forever" {
			w.PollDue, w.PollDueUnixMs = true, s.now+s.ms(x)
		}
		w.Events = c.opts["events"] != ""
	}
	return w
}
