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
