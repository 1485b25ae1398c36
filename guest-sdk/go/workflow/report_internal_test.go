package workflow

import (
	"context"
	"errors"
	"testing"
)

type declined struct{ error }

// TestTypeOfSaga: a failure keeps its type when its saga compensates, whether or not a compensation fails.
func TestTypeOfSaga(t *testing.T) {
	for _, undone := range []error{nil, errors.New("not undone")} {
		err := error(declined{errors.New("no")})
		var s Saga
		s.Add(func(context.Context) error { return undone })
		s.Compensate(t.Context(), &err)
		if r := reportOf(err); r.Type != "workflow.declined" {
			t.Errorf("%v: type %s", undone, r.Type)
		}
	}
}
