package replay

import (
	"encoding/json"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// EndEntry returns the end entry of a run whose workflow returned. o is what the workflow handed over. code is the exit
// code of its entry point. printed is the standard output of a command: the result of the run, unless the workflow set
// one. explain completes the message of a workflow that failed without an error.
func EndEntry(o Outcome, code int32, printed []byte, explain func(string) string) store.Entry {
	e := store.Entry{Kind: store.KindCompleted, Data: o.Result}
	if code == 0 && !o.Completed && printed != nil {
		e.Data = printed
	}
	switch tooLong := len(e.Data) > abi.MaxPayloadBytes; {
	case tooLong:
		return store.Entry{Kind: store.KindFailed, Data: []byte(`{"code":"TOO_LARGE","message":` +
			`"standard output, which is the result of a command, is over the limit of 1048576 bytes"}`)}
	case code == 0:
		return e
	}
	e = store.Entry{Kind: store.KindFailed, Data: o.Failure}
	if !o.Failed {
		e.Data, _ = json.Marshal(abi.Errorf(abi.StepFailed, "%s", explain(fmt.Sprintf("the workflow returned %d", code))))
	}
	if o.Cancelled {
		e.Kind = store.KindCancelled
	}
	return e
}
