package store_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
)

func TestScheduleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := store.Schedule{Key: store.RunKey{Namespace: store.NamespaceID(rapid.Uint32().Draw(t, "ns")), ID: rapid.String().Draw(t, "id")},
			Revision: rapid.Uint64().Draw(t, "revision"), WakeUnixMs: rapid.Int64().Draw(t, "wake"),
			Data: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "data"), Sealed: rapid.Bool().Draw(t, "sealed")}
		b := store.AppendSchedule(nil, &x)
		got, err := store.DecodeSchedule(b)
		if err != nil || !reflect.DeepEqual(x, got) {
			t.Fatalf("%+v\n%+v\n%v", x, got, err)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := store.DecodeSchedule(b); err == nil {
			t.Fatal("a flipped bit was not noticed")
		}
		st := store.RunState{Schedule: rapid.String().Draw(t, "schedule"), NominalUnixMs: rapid.Int64().Draw(t, "nominal"),
			Aside: store.Aside(rapid.IntRange(0, 3).Draw(t, "aside")), Import: rapid.String().Draw(t, "import"),
			ImportUnixMs: rapid.Int64().Draw(t, "imported")}
		if got, err := store.DecodeState(store.AppendState(nil, &st)); err != nil || !reflect.DeepEqual(got, st) {
			t.Fatalf("%+v, want %+v, %v", got, st, err)
		}
	})
}
