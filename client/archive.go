package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Export returns a run with its module and journal as a tar archive for Import. The caller closes it. The archive is complete
// only if reading it ends with io.EOF.
func (c *Client) Export(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.export(ctx, id, nil)
}

// ExportNewest is like Export, but includes only the journal of the newest iteration.
func (c *Client) ExportNewest(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.export(ctx, id, url.Values{"newest_iteration": {"true"}})
}

func (c *Client) export(ctx context.Context, id string, q url.Values) (io.ReadCloser, error) {
	res, err := c.Do(ctx, Request{Method: http.MethodGet, Path: runPath(id, "/export"), Query: q})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// ImportOptions are options of Import. Without Adopt, the imported run is a copy for inspection.
type ImportOptions struct {
	Adopt  bool  // the run continues on this server
	Paused bool  // with Adopt: the run stays paused until Unpause
	Force  bool  // adopt the run even if its origin did not move it away, so it may continue there as well
	Length int64 // bytes of the archive; 0 if unknown
}

// Import stores an exported run. The request is not retried. Importing the same archive again is allowed and sets
// Run.Existed.
func (c *Client) Import(ctx context.Context, archive io.Reader, o ImportOptions) (Run, error) {
	v := url.Values{}
	for name, on := range map[string]bool{"adopt": o.Adopt, "paused": o.Paused, "force": o.Force} {
		if on {
			v.Set(name, "true")
		}
	}
	return send[Run](ctx, c, Request{Method: http.MethodPost, Path: "/v1/runs:import", Query: v,
		Header: http.Header{"Content-Type": {"application/x-tar"}}, Reader: archive, Length: o.Length}, nil)
}
