package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// Kinds of events: the lower three bits of the answer of next_event. The upper bits are the handle.
const (
	eventResolved = 0
	eventRunBody  = 1
	eventCancel   = 2
	eventDump     = 3
	eventQuery    = 4
)

// eventsFD is the file descriptor that is readable when there are events.
const eventsFD = 3

// state is the state of this instance, which executes one workflow or step function.
type state struct {
	events  *os.File
	waiters []*waiter // by handle
	idle    []*waiter // for reuse
	cancel  context.CancelCauseFunc
	done    <-chan struct{} // of the context of the run
	queries map[string]queryFunc
	inBody  bool // a body or step function runs, or a query is being answered
	// goroutines is the number of goroutines before the workflow starts any.
	goroutines   int
	readerYields bool // the reader goroutine is runnable, but yields until all other goroutines wait
	answer       [4096]byte
}

var st state

// init starts the reader goroutine, so that it is part of the image from which every instance starts. The reader polls when
// every other goroutine is blocked, so the host sees a single point where the workflow waits, and answers it with one
// event. If possible, a goroutine waits without the scheduler (wait_wasip1.go).
func init() {
	st.events = os.NewFile(eventsFD, "events")
	if len(os.Args) == 0 { // there are no arguments when the image is made, and package flag slices os.Args
		os.Args = []string{"workflow"}
	}
	findCounters()
	findGenerator()
	go readEvents()
	runtime.Gosched()
	st.goroutines = runtime.NumGoroutine()
}

// handle dispatches an event. It does not block: a waiter's channel has room for the event. Unknown kinds are ignored.
func handle(kind int, h int64) {
	switch kind {
	case eventResolved, eventRunBody:
		if w := waiterOf(h); w != nil {
			w.c <- kind
		}
	case eventCancel:
		if st.cancel == nil {
			return
		}
		st.cancel(ErrCancelled)
		for _, w := range st.waiters {
			if w != nil && w.root && len(w.c) == 0 {
				w.c <- eventCancel
			}
		}
	case eventQuery:
		go answerQuery()
	case eventDump:
		b := make([]byte, 2*maxStackBytes)
		b = b[:runtime.Stack(b, true)]
		hostFail(report{Message: "deadlock: every goroutine of the workflow waits for something that can never come",
			Kind: "deadlock", Type: "deadlock", Stack: string(b)}.json())
	}
}

// The profiler label of a goroutine tells whether it belongs to a body. A new goroutine inherits the label of its creator.
//
//go:linkname setLabel runtime/pprof.runtime_setProfLabel
func setLabel(unsafe.Pointer)

//go:linkname getLabel runtime/pprof.runtime_getProfLabel
func getLabel() unsafe.Pointer

// bodyLabel has the layout of a pprof label set without labels.
var bodyLabel struct{ list []struct{ k, v string } }

// gate must be called before every call of the workflow. While a body runs, gate returns ErrNotHere to the body's
// goroutines and blocks the workflow's goroutines until the instance is discarded, which is at the end of the body.
func gate() error {
	if !st.inBody {
		return nil
	}
	if getLabel() == unsafe.Pointer(&bodyLabel) {
		return ErrNotHere
	}
	select {}
}

// runBody executes a body, reports its outcome to the host and ends the instance. It does not return.
func runBody(ctx context.Context, body func(Step) ([]byte, error)) {
	st.inBody = true
	setLabel(unsafe.Pointer(&bodyLabel))
	scatter()
	var b []byte
	err := errors.New("the body ended its goroutine")
	defer func() {
		if v := recover(); v != nil {
			hostStepEnd(1, panicReport(v, debug.Stack()).json())
		}
		if err != nil {
			hostStepEnd(1, reportOf(err).json())
		}
		hostStepEnd(0, viewed(b))
	}()
	b, err = body(readInfo(ctx).Step.step(ctx))
}

// begin returns an error if the workflow may not make a call: in a body, or if ctx has ended.
func begin(ctx context.Context) error {
	if err := gate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func result(h int64) ([]byte, error) {
	n := hostResult(h, unsafe.Pointer(&st.answer), uint32(len(st.answer)))
	switch {
	case n < 0:
		return nil, lastError()
	case int(n) > len(st.answer):
		b := make([]byte, n)
		hostLast(unsafe.Pointer(&b[0]), uint32(n))
		return b, nil
	}
	return append([]byte(nil), st.answer[:n]...), nil
}

func doBody(ctx context.Context, name, opts string, body func(Step) ([]byte, error)) ([]byte, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	return waitResult(ctx, hostStepBegin(name, opts), body)
}

// checkBody always returns nil in a module: a body's changes are lost with the instance. An Env checks bodies.
func checkBody(context.Context, string, any) error { return nil }

func doCall(ctx context.Context, name, handler string, input []byte, opts string) ([]byte, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	return waitResult(ctx, hostStepStart(name, handler, viewed(input), opts), nil)
}

func sleepMs(ctx context.Context, name string, ms int64) error {
	if err := begin(ctx); err != nil {
		return err
	}
	return wait(ctx, hostSleepStart(name, ms), nil)
}

func sleepUntilMs(ctx context.Context, name string, unixMs int64) error {
	if err := begin(ctx); err != nil {
		return err
	}
	return wait(ctx, hostSleepUntilStart(name, unixMs), nil)
}

func sleepText(ctx context.Context, name, text string) error {
	if err := begin(ctx); err != nil {
		return err
	}
	return wait(ctx, hostSleepTextStart(name, text), nil)
}

func random(_ context.Context, p []byte) { hostRandom(unsafe.Pointer(&p[0]), uint32(len(p))) }

func logLine(_ context.Context, level int32, line string) { hostLog(level, line) }

func readInfo(context.Context) infoJSON {
	return parseInfo(read(hostInfo))
}

//go:wasmexport workflow_run
func workflowRun() (code int32) {
	ctx, cancel := context.WithCancelCause(context.Background())
	st.cancel, st.done = cancel, ctx.Done()
	defer func() {
		if v := recover(); v != nil {
			fails(panicReport(v, debug.Stack()))
			hostExit(1) // a thawed guest cannot return; see below
		}
	}()
	var name string
	if len(registered.names) == 1 { // the host may have it under another name
		name = registered.names[0]
	} else {
		name = readInfo(ctx).Workflow
	}
	os.Args[0] = name
	fn := registered.workflows[name]
	if fn == nil {
		hostFail(report{Message: fmt.Sprintf("this module has no workflow %q, it has %q", name, registered.names)}.json())
		return 1
	}
	b, err := fn(ctx, read(hostInput))
	_ = gate()               // blocks if the workflow returns while a body runs in this copy
	hostExit(finish(b, err)) // a guest that was thawed has no caller to return to
	return 0
}

func finish(b []byte, err error) int32 {
	if err == nil {
		switch n := hostComplete(viewed(b)); {
		case n == -codeQuery:
			answerQuery()
		case n < 0:
			err = lastError()
		}
	}
	if err != nil {
		fails(reportOf(err))
		return 1
	}
	return 0
}

// fails reports the error of the workflow to the host. If the activation serves a query of a failed run, it answers the
// query.
func fails(r report) {
	if hostFail(r.json()) == -codeQuery {
		answerQuery()
	}
}

//go:wasmexport workflow_step
func workflowStep() (code int32) {
	defer func() {
		if v := recover(); v != nil {
			hostFail(panicReport(v, debug.Stack()).json())
			code = 1
		}
	}()
	st.inBody = true
	setLabel(unsafe.Pointer(&bodyLabel))
	scatter()
	i := readInfo(context.Background())
	os.Args[0] = i.Workflow
	fn := registered.steps[i.Step.handler()]
	if fn == nil {
		hostFail(reportOf(Fatal(fmt.Errorf("this module has no step function %q", i.Step.handler()))).json())
		return 1
	}
	return finish(fn(i.Step.step(context.Background()), read(hostInput)))
}

//go:wasmexport workflow_describe
func workflowDescribe() {
	b, err := json.Marshal(describe())
	if err != nil {
		panic(fmt.Sprintf("the description of the module is no JSON: %v", err))
	}
	hostComplete(viewed(b))
}
