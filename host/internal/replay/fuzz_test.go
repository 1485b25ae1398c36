package replay

import (
	"errors"
	"fmt"
	"testing"
)

// script is a guest made of bytes: each call reads an opcode and arguments.
type script struct{ b []byte }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

func (s *script) text() string {
	n := min(int(s.byte()), len(s.b))
	text := string(s.b[:n])
	s.b = s.b[n:]
	return text
}

// number gives small numbers, handles, extremes.
func (s *script) number() int64 {
	c := s.byte()
	switch {
	case c < 128:
		return int64(c) - 3
	case c < 192:
		return int64(c) << (c % 56)
	}
	return -int64(c) << (c % 56)
}

// play makes the calls on a machine and returns the answers, up to its suspension.
func (s *script) play(m *Machine) (answers []string, err error) {
	say := func(v any, err error) error {
		answers = append(answers, fmt.Sprint(v, err, string(m.Last())))
		return err
	}
	for len(s.b) > 0 && err == nil {
		switch op := s.byte(); op % 20 {
		case 0:
			v, e := m.Sleep(s.text(), s.number())
			err = say(v, e)
		case 1:
			v, e := m.SleepUntil(s.text(), s.number())
			err = say(v, e)
		case 2:
			v, e := m.SleepText(s.text(), s.text())
			err = say(v, e)
		case 3:
			v, e := m.Step(s.text(), s.text(), []byte(s.text()), []byte(s.text()))
			err = say(v, e)
		case 4:
			v, e := m.StepBegin(s.text(), []byte(s.text()))
			err = say(v, e)
		case 5:
			v, e := m.Cancel(s.number())
			err = say(v, e)
		case 6:
			b, n := m.Result(s.number())
			_ = say(fmt.Sprint(string(b), n), nil)
		case 7:
			handles := make([]int64, s.byte()%4)
			for i := range handles {
				handles[i] = s.number()
			}
			v, e := m.Await(handles)
			err = say(v, e)
		case 8:
			v, e := m.Poll(PollRequest{Events: op&16 != 0, HasClock: op&32 != 0, TimeoutNs: s.number()})
			err = say(v, e)
		case 9:
			_ = say(m.NextEvent(), nil)
		case 10:
			_ = say(fmt.Sprint(m.Complete([]byte(s.text())), m.Fail([]byte(s.text()))), nil)
		case 11:
			_ = say(string(m.Info()), nil)
		default:
			err = say(s.primitive(m, op%20))
		}
	}
	return answers, err
}

// primitive makes a call other than time and steps.
func (s *script) primitive(m *Machine, op byte) (any, error) {
	switch op {
	case 12:
		return m.Signal(s.text(), s.number())
	case 13:
		return m.SignalSend(s.text(), s.text(), s.text(), []byte(s.text()))
	case 14:
		return m.Child(s.text(), s.text(), []byte(s.text()), []byte(s.text()))
	case 15:
		return m.Hook(s.text(), s.text(), []byte(s.text()))
	case 16:
		return m.Emit(s.text(), []byte(s.text()))
	case 17:
		return m.SetAttribute(s.text(), []byte(s.text()))
	case 18:
		return m.Version(s.text(), s.number())
	}
	b, n := m.ChildID(s.number())
	return fmt.Sprint(string(b), n), nil
}

// FuzzCalls makes any calls with any arguments, lets the timers of the run fire, and makes the same calls again:
// nothing panics, and the replay answers as the live run did.
func FuzzCalls(f *testing.F) {
	f.Add([]byte("\x00\x03nap\x10\x07\x01\x04"))
	f.Add([]byte("\x02\x01a\x021h\x02\x01a\x025x\x08\x40\x09"))
	f.Add([]byte("\x03\x01s\x06host/x\x01i\x00\x05\x04\x06\x04\x0a\x01r\x01f\x0b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := newTail(t)
		live, err := (&script{b}).play(x.machine())
		for range 3 {
			if errors.Is(err, ErrSuspend) {
				x.now += 1 << 40
				_ = x.j.FireDue(x.now) // what is due; the rest of the run stays asleep
			}
			var again []string
			again, err = (&script{b}).play(x.machine())
			// The suspended call is answered in the replay, which has more of the journal.
			n := len(live)
			if n > 0 && len(again) >= n {
				n--
			}
			for i := range min(n, len(again)) {
				if live[i] != again[i] {
					t.Fatalf("answer %d was %q, the replay answers %q", i, live[i], again[i])
				}
			}
			live = again
			if _, ok := errors.AsType[*Mismatch](err); ok {
				t.Fatal(err)
			}
		}
	})
}
