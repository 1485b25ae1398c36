package workflow

import (
	"context"
	"errors"
	"unsafe"
)

//go:wasmimport workflow_v1 signal_start
func hostSignalStart(name string, timeoutMs int64) int64

//go:wasmimport workflow_v1 signal_send
func hostSignalSend(name, run, signal, in string) int64

//go:wasmimport workflow_v1 hook_start
func hostHookStart(name, token, opts string) int64

//go:wasmimport workflow_v1 child_start
func hostChildStart(name, workflow, in, opts string) int64

//go:wasmimport workflow_v1 child_id
func hostChildID(h int64, out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 continue_as_new
func hostContinueAsNew(in, opts string)

//go:wasmimport workflow_v1 emit
func hostEmit(topic, data string) int64

//go:wasmimport workflow_v1 set_attribute
func hostSetAttribute(key, value string) int64

//go:wasmimport workflow_v1 version
func hostVersion(id string, newest int64) int64

//go:wasmimport workflow_v1 cancel_policy
func hostCancelPolicy(policy int32) int64

//go:wasmimport workflow_v1 query_reply
func hostQueryReply(ok int32, b string)

// channels holds the channels of this instance's run.
var channels channelSet

func channelsOf(context.Context) *channelSet { return &channels }

func signalWait(ctx context.Context, name string, timeoutMs int64) ([]byte, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	return waitResult(ctx, hostSignalStart(name, timeoutMs), nil)
}

func signalSend(ctx context.Context, runID, name string, payload []byte) error {
	if err := begin(ctx); err != nil {
		return err
	}
	_, err := waitResult(ctx, hostSignalSend(name, runID, name, viewed(payload)), nil)
	return err
}

func hookStart(ctx context.Context, name, token, opts string) ([]byte, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	return waitResult(ctx, hostHookStart(name, token, opts), nil)
}

func childStart(ctx context.Context, name, workflow string, input []byte, opts string) (int64, string, error) {
	if err := begin(ctx); err != nil {
		return 0, "", err
	}
	h := hostChildStart(name, workflow, viewed(input), opts)
	if h < 0 {
		return 0, "", lastError()
	}
	newWaiter(h) // the child may end before Wait is called
	id := read(func(out unsafe.Pointer, n uint32) int64 { return hostChildID(h, out, n) })
	return h, string(id), nil
}

func childWait(ctx context.Context, h int64) ([]byte, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if err := waitAgain(ctx, h); err != nil {
		return nil, err
	}
	b, err := result(h)
	if errors.Is(err, ErrCancelled) && ctx.Err() != nil { // another goroutine withdrew it when the same context ended
		err = context.Cause(ctx)
	}
	return b, err
}

func continueAsNew(ctx context.Context, input []byte, opts string) error {
	if err := gate(); err != nil {
		return err
	}
	hostContinueAsNew(viewed(input), opts)
	return lastError()
}

func emit(_ context.Context, topic string, b []byte) (int64, error) {
	if err := gate(); err != nil {
		return 0, err
	}
	n := hostEmit(topic, viewed(b))
	if n < 0 {
		return 0, lastError()
	}
	return n, nil
}

func setAttribute(_ context.Context, key, value string) error {
	if err := gate(); err != nil {
		return err
	}
	if hostSetAttribute(key, value) < 0 {
		return lastError()
	}
	return nil
}

func version(ctx context.Context, id string, newest int) int {
	if gate() != nil {
		return 0
	}
	n := hostVersion(id, int64(newest))
	if n < 0 {
		Log(ctx).Error(markerRefused, "id", id, "cause", lastError())
		return 0
	}
	return int(n)
}

func setCancelPolicy(_ context.Context, p CancelPolicy) error {
	if err := gate(); err != nil {
		return err
	}
	if hostCancelPolicy(int32(p)) < 0 {
		return lastError()
	}
	return nil
}

func setQuery(_ context.Context, name string, fn queryFunc) {
	if st.queries == nil {
		st.queries = map[string]queryFunc{}
	}
	st.queries[name] = fn
}

// answerQuery answers the query of this activation, while the workflow's goroutines wait. It does not return.
func answerQuery() {
	st.inBody = true
	setLabel(unsafe.Pointer(&bodyLabel))
	defer func() {
		if v := recover(); v != nil {
			hostQueryReply(1, panicReport(v, nil).json())
		}
	}()
	i := readInfo(context.Background())
	fn := st.queries[i.Query]
	if f, ok := validates(i.Query); ok {
		fn = f
	}
	if fn == nil {
		hostQueryReply(1, report{Message: "the workflow does not offer query " + i.Query}.json())
	}
	b, err := fn(read(hostInput))
	if err != nil {
		hostQueryReply(1, reportOf(err).json())
	}
	hostQueryReply(0, viewed(b))
}
