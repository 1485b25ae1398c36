package client

import (
	"context"
	"net/http"
)

// Build describes the program of a server and its formats.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // with a trailing + if it was built with uncommitted changes
	ABI     string `json:"abi"`
	Store   int    `json:"store_format"`
	Journal int    `json:"journal_format"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// Build returns the server's description of itself.
func (c *Client) Build(ctx context.Context) (b Build, err error) {
	err = c.call(ctx, Request{Method: http.MethodGet, Path: "/v1/version"}, &b)
	return b, err
}
