package workflow

import (
	"context"
	"errors"
	"strings"
)

//go:wasmimport workflow_v1 update_reply
func hostUpdateReply(h int64, ok int32, b string) int64

// updates holds the update handlers of this instance's run.
var updates updateSet

func updatesOf(context.Context) *updateSet { return &updates }

// updateWait waits for the next update and returns its handle and input.
func updateWait(ctx context.Context, signal string) (h int64, input []byte, err error) {
	if err := begin(ctx); err != nil {
		return 0, nil, err
	}
	h = hostSignalStart(signal, -1)
	input, err = waitResult(ctx, h, nil)
	return h, input, err
}

// updateReply answers an update with b or the error failed. If the host refuses b, or refuses the error because it is too
// large, updateReply answers with the refusal as the error.
func updateReply(_ context.Context, h int64, b []byte, failed error) error {
	if err := gate(); err != nil {
		return err
	}
	if failed == nil {
		if hostUpdateReply(h, 0, viewed(b)) >= 0 {
			return nil
		}
		failed = lastError()
	}
	if hostUpdateReply(h, 1, reportOf(failed).json()) >= 0 {
		return nil
	}
	err := lastError()
	if errors.Is(err, ErrTooLarge) && hostUpdateReply(h, 1, reportOf(err).json()) >= 0 {
		return nil
	}
	return err
}

// validates returns the function for a query that asks whether an update is accepted. It returns false for other queries.
func validates(name string) (queryFunc, bool) {
	update, ok := strings.CutPrefix(name, updatePrefix)
	return func(input []byte) ([]byte, error) { return nil, updates.validate(update, input) }, ok
}
