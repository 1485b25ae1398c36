package bench

import (
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// The guests.
const (
	Small = "small" // generated: a few hundred bytes of code without a run-time
	Go    = "go"    // examples/bench/main.go
	TS    = "ts"    // examples/bench/bench.ts
	C     = "c"     // examples/bench/c/bench.c
)

// ErrNoWorkflow reports that a guest lacks a workflow that a measurement needs.
var ErrNoWorkflow = errors.New("the guest does not offer the workflow")

// The memory layout of the small guests, below wasmgen.DataAt.
const (
	nameAt   = 16 // name of the next call: nameBytes digits
	outAt    = 512
	outBytes = 512
	inputAt  = 1024

	nameBytes  = 8
	inputBytes = wasmgen.DataAt - inputAt
)

// The locals of the small guests.
const (
	position byte = iota // in the input
	end                  // of the input
	char
	digits // digits of a name that remain to be written
	rest   // of the number in a name, still to be written
	serial // of the next name
	first  // first and the following locals hold numbers of the input
	second
	third
	fourth
	locals
)

// small writes the workflows, one module each. Their input is a JSON array of integers.
type small struct{ *wasmgen.Module }

// smallGuests are the workflows of the small guest. docs/operate/performance.md describes them; examples/bench has the same
// workflows in Go.
var smallGuests = map[string]func(s small){
	"empty": func(small) {},
	"steps": func(s small) { // n
		s.read(first)
		s.times(first, func() { s.step() })
	},
	"bodies": func(s small) { // n
		s.read(first)
		s.times(first, s.body)
	},
	"sleep": func(s small) { // instants
		s.While()
		s.number(first)
		s.Get(first).IsZero().Break()
		s.name()
		s.Get(first).Call(abi.FnSleepUntil).Drop()
		s.EndWhile()
	},
	"sleepstep": func(s small) { // instants
		s.step()
		s.While()
		s.number(first)
		s.Get(first).IsZero().Break()
		s.name()
		s.Get(first).Call(abi.FnSleepUntil).Drop()
		s.step()
		s.EndWhile()
	},
	"wake": func(s small) { // instant, n, ms, whether there are steps
		s.read(first, second, third, fourth)
		s.name()
		s.Get(first).Call(abi.FnSleepUntil).Drop()
		s.times(second, func() {
			s.name()
			s.Get(third).Call(abi.FnSleep).Drop()
			s.Get(fourth).IsZero().Op(0x45, 0x04, 0x40) // i32.eqz, if
			s.step()
			s.End()
		})
	},
	"calls": func(s small) { // n, wakes, ms
		s.read(first, second, third)
		s.times(first, func() {
			s.name()
			s.I64(0).Call(abi.FnSleep).Drop()
		})
		s.times(second, func() {
			s.name()
			s.Get(third).Call(abi.FnSleep).Drop()
		})
	},
	"signal": func(s small) { s.Text(signalName).I64(-1).I32(outAt).I32(outBytes).Call(abi.FnSignalWait).Drop() },
}

// smallGuest returns the module of a workflow.
func smallGuest(workflow string) ([]byte, error) {
	write := smallGuests[workflow]
	if write == nil {
		return nil, fmt.Errorf("%w %q", ErrNoWorkflow, workflow)
	}
	s := small{wasmgen.New(int(locals))}
	s.I32(inputAt).I32(inputBytes).Call(abi.FnInput).I64(inputAt).Add().Set(end)
	s.I64(inputAt).Set(position)
	write(s)
	return s.I32(0).Export(abi.ExportRun).Bytes(), nil
}

// read emits code that reads numbers of the input into locals.
func (s small) read(into ...byte) {
	for _, l := range into {
		s.number(l)
	}
}

// number emits code that reads the next number of the input into a local, 0 at the end of the input.
func (s small) number(into byte) {
	digit := func(leave func(*wasmgen.Module) *wasmgen.Module) {
		s.Get(position).Get(end).NotLess().Break()
		s.Get(position).Wrap().Load8().I64('0').Sub().Set(char)
		leave(s.Get(char).I64(10)).Break()
	}
	s.While()
	digit((*wasmgen.Module).Less)
	s.Count(position, 1)
	s.EndWhile()
	s.I64(0).Set(into)
	s.While()
	digit((*wasmgen.Module).NotLess)
	s.Get(into).I64(10).Mul().Get(char).Add().Set(into)
	s.Count(position, 1)
	s.EndWhile()
}

// times emits a loop around body that counts a local down to 0.
func (s small) times(local byte, body func()) {
	s.While()
	s.Get(local).IsZero().Break()
	body()
	s.Count(local, -1)
	s.EndWhile()
}

// name emits code that pushes a name that the run has not used for a call.
func (s small) name() {
	s.Get(serial).Set(rest)
	s.I64(nameBytes).Set(digits)
	s.While()
	s.Get(digits).IsZero().Break()
	s.Count(digits, -1)
	s.Get(digits).I64(nameAt).Add().Wrap()
	s.Get(rest).I64(10).Rem().I64('0').Add().Wrap().Store8()
	s.Get(rest).I64(10).Div().Set(rest)
	s.EndWhile()
	s.Count(serial, 1)
	s.I32(nameAt).I32(nameBytes)
}

// step emits a step that the handler performs, which does nothing.
func (s small) step() {
	s.name()
	s.Text(abi.HandlerPrefix + stepName).I32(0).I32(0).I32(0).I32(0).I32(outAt).I32(outBytes).Call(abi.FnStepDo).Drop()
}

// body emits a step whose body, in the guest, does nothing.
func (s small) body() {
	s.name()
	s.I32(0).I32(0).Call(abi.FnStepBegin).Set(char)
	s.Get(char).IfZero64()
	s.I32(0).I32(0).I32(0).Call(abi.FnStepEnd)
	s.End()
	s.I32(outAt).Get(char).Store64()
	s.I32(outAt).I32(1).Call(abi.FnAwait).Drop()
}

// upload uploads the guest with a workflow.
func (s *session) upload(workflow string) (err error) {
	wasm := s.module
	switch {
	case s.o.Module != "" || s.o.Guest == Go || s.o.Guest == TS:
	case s.o.Guest == C:
		wasm, err = compileC(s.ctx, workflow)
	default:
		wasm, err = smallGuest(workflow)
	}
	if err != nil {
		return err
	}
	if _, err := s.h.Upload(s.ctx, workflow, wasm, host.AllowStep("*")); err != nil {
		return fmt.Errorf("guest %s: %w", s.Guest, err)
	}
	return nil
}
