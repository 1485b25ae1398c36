package client_test

import (
	"encoding/json"
	"testing"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/httpapi"
)

// TestChunkBytes: output that is no JSON comes as it was emitted, and is not taken for a text that looks like it.
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
