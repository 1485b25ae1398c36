package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Export returns a run with its module and its journal as one file, which the caller closes: a tar archive that Import
// takes. One that ends without io.EOF is not whole.
func (c *Client) Export(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.export(ctx, id, nil)
}

// ExportNewest is Export without the journals of the iterations before the newest one, of a run that has continued as new.
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

// ImportOptions are options of Import. Without Adopt the run is a copy, to be looked at.
type ImportOptions struct {
	Adopt  bool  // the run continues here
	Paused bool  // once it is unpaused
	Force  bool  // though it was not moved away where it came from, so that it may continue there, too
	Length int64 // bytes of the archive; 0 if that is not known
}

// Import stores an exported run. The request is made once; the same archive may be imported again, and then Run.Existed
// says so.
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
