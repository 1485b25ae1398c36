package baddisk

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// TestTableFailsWhileAllSleep has the disk refuse a table, which is written behind the back of everybody, in a host whose runs all
// sleep: the host says so at once, though it commits nothing.
func TestTableFailsWhileAllSleep(t *testing.T) {
	refused := make(chan struct{})
	once := sync.OnceFunc(func() { close(refused) })
	m := newMachine(t, t.TempDir())
	err := m.open("db", pebblestore.Options{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			once()
			return errorfs.ErrInjected
		}
		return nil
	}))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.UploadAll(t.Context(), "", guest(t), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	fill := func() bool {
		for i := range 100 {
			_, err := m.Start(t.Context(), "count", strings.Repeat(fmt.Sprint(i%10), 1<<19), host.WithStartIn(time.Hour))
			select {
			case <-refused:
				return true
			default:
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return false
	}
	if !fill() {
		t.Fatal("no table was written")
	}
	within(t, "the host does not say that the store has failed", func() { <-m.failed })
	if err := m.close(); !errors.Is(err, host.ErrStoreFailed) {
		t.Error(err)
	}
}
