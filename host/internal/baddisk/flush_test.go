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

// TestTableFailsWhileAllSleep has the disk refuse a table, which Pebble writes in the background, on a host whose
// runs all sleep: the host reports the failure at once, although it commits nothing.
func TestTableFailsWhileAllSleep(t *testing.T) {
	asked, refuse := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	m := newMachine(t, t.TempDir())
	err := m.open("db", pebblestore.Options{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			once()
			<-refuse
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
		for i := range 1000 {
			_, err := m.Start(t.Context(), "hang", strings.Repeat(fmt.Sprint(i%10), 200_000), host.WithStartIn(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-asked:
				return true
			default:
			}
		}
		return false
	}
	if !fill() {
		t.Fatal("no table was written")
	}
	close(refuse)
	within(t, "what says that the store has failed", nil, func() { <-m.failed })
	if err := m.close(); !errors.Is(err, host.ErrStoreFailed) {
		t.Error(err)
	}
}
