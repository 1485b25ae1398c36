package client_test

import (
	"encoding/json"
	"testing"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// TestChunkBytes checks that output that is not JSON is returned as the run emitted it, also if it is text that looks
// like the encoding.
func TestChunkBytes(t *testing.T) {
	for _, data := range []string{`"aGk="`, `{"a":1}`, "hi", "\xff\x00", `"`, ""} {
		b, err := json.Marshal(httpapi.ChunkOf(host.Chunk{Topic: "t", Data: []byte(data)}))
		if err != nil {
			t.Fatal(err)
		}
		var c client.Chunk
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Bytes(); err != nil || string(got) != data {
			t.Errorf("%q comes as %q (%s): %v", data, got, b, err)
		}
	}
}
