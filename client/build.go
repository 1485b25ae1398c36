package client

import (
	"context"
	"net/http"
)

// Build says which program a server is, and which formats it has.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // with + if there were changes that were not committed
	ABI     string `json:"abi"`
	Store   int    `json:"store_format"`
	Journal int    `json:"journal_format"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// Build returns what the server says that it is.
func (c *Client) Build(ctx context.Context) (b Build, err error) {
	err = c.call(ctx, Request{Method: http.MethodGet, Path: "/v1/version"}, &b)
	return b, err
}
