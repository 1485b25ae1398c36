package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// The error of a failed run is reported as it was recorded: an error of the workflow itself has no code, and never
// the code of success. A panic or a deadlock in an SDK has the code of a failure, and its stack.
func TestFailureOfOnesOwn(t *testing.T) {
	h := hosttest.New(t)
	for i, c := range []struct{ recorded, want string }{
		{`{"message":"out of stock","type":"errors.errorString"}`, `{"message":"out of stock","type":"errors.errorString"}`},
		{`{"message":"oh","kind":"trap","stack":"goroutine 1 [running]:"}`,
			`{"code":"STEP_FAILED","message":"oh","kind":"trap","details":{"stack":"goroutine 1 [running]:"}}`},
		{`{"code":"TIMEOUT","message":"late"}`, `{"code":"TIMEOUT","message":"late"}`},
	} {
		id := fmt.Sprint("run-", i)
		m := wasmgen.New(0).Text(c.recorded).Call(abi.FnFail).Drop().I32(1).Export(abi.ExportRun)
		if _, err := h.Upload(t.Context(), id, m.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Start(t.Context(), id, nil, host.WithRunID(id)); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		r, err := h.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(r.Failure); err != nil || string(got) != c.want {
			t.Errorf("%s is told as %s %v, want %s", c.recorded, got, err, c.want)
		}
		_, err = h.ResultRaw(t.Context(), id)
		failed, ok := errors.AsType[*host.RunError](err)
		if !ok || failed.Failure == nil || failed.Failure.Code != r.Failure.Code || string(failed.JSON) != c.recorded {
			t.Errorf("%s is the result %v", c.recorded, err)
		}
		if !reflect.DeepEqual(failed.Failure, r.Failure) {
			t.Errorf("the result says %+v, the run %+v", failed.Failure, r.Failure)
		}
	}
}
