package guest

import (
	"errors"
	"fmt"
)

// QueryError says that a workflow refused a query, or could not be asked.
type QueryError struct {
	Run, Name string
	JSON      []byte // what the workflow said; nil if it could not be asked
	Cause     error
}

// Error says why.
func (e *QueryError) Error() string {
	if e.JSON != nil {
		return fmt.Sprintf("query %q of run %q failed: %s", e.Name, e.Run, e.JSON)
	}
	return fmt.Sprintf("query %q of run %q: %v", e.Name, e.Run, e.Cause)
}

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Cause }

// Why a workflow did not answer. ErrOnItsWay: the workflow computes beyond the durable entries, and can be asked when
// more of them are durable. ErrNotBegun: the run's first activation has not begun, or the run ended before it.
var (
	ErrOnItsWay = errors.New("the workflow has not come to a wait yet")
	ErrNotBegun = errors.New("the run has not begun")
	ErrNoAnswer = errors.New("the workflow does not answer queries, or waited while it did")
	ErrTooEarly = errors.New("the run has ended where its workflow does not answer queries: it was at work, or its " +
		"module was built with an SDK that does not answer them at the end")
)
