//go:build !wasip1

package fetch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
)

// roundTrip makes the request with http.DefaultTransport, for tests of workflow functions outside of a host.
func roundTrip(r *http.Request, framed []byte) ([]byte, error) {
	n := 4 + binary.LittleEndian.Uint32(framed)
	req := r.Clone(r.Context())
	req.Body = io.NopCloser(bytes.NewReader(framed[n:]))
	req.ContentLength = int64(len(framed)) - int64(n)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // the body has been read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(answer{Status: res.StatusCode, Headers: res.Header})
	if err != nil {
		return nil, err
	}
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...), body...), nil
}
