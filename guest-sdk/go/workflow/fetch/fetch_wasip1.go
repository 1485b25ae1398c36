package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unsafe"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

//go:wasmimport workflow_v1 fetch
func hostFetch(req string, out unsafe.Pointer, n uint32) int64

//go:wasmimport workflow_v1 last
func hostLast(out unsafe.Pointer, n uint32) int64

// last returns the host's newest answer, which has n bytes.
func last(n int64) []byte {
	b := make([]byte, max(n, 1))
	return b[:hostLast(unsafe.Pointer(&b[0]), uint32(len(b)))]
}

func roundTrip(_ *http.Request, framed []byte) ([]byte, error) {
	b := make([]byte, 4096)
	n := hostFetch(string(framed), unsafe.Pointer(&b[0]), uint32(len(b)))
	switch {
	case n > int64(len(b)):
		return last(n), nil
	case n >= 0:
		return b[:n], nil
	}
	var e struct{ Code, Message string }
	if err := json.Unmarshal(last(hostLast(unsafe.Pointer(&b[0]), 0)), &e); err != nil {
		return nil, err
	}
	if e.Code == "DENIED" {
		return nil, workflow.Fatal(fmt.Errorf("%w: %s", ErrDenied, e.Message)) // another attempt would be denied, too
	}
	return nil, errors.New(e.Message)
}
