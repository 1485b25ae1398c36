package memstore_test

import (
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Open {
		data := memstore.New()
		return func(*testing.T) store.Store { return data.Open() }
	})
}

func TestShared(t *testing.T) {
	storetest.Shared(t, func(*testing.T) (storetest.Open, func(string)) {
		data := memstore.New()
		data.NowMs = func() int64 { return 1_000_000 }
		return func(*testing.T) store.Store { return data.Open() }, data.Expire
	})
}
