package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

const (
	drainPattern   = "POST /v1/hosts/{host}/drain"
	undrainPattern = "POST /v1/hosts/{host}/undrain"
)

type hostOutput struct{ Body host.HostInfo }

type namedHost struct {
	Host string `path:"host"`
}

func (s *API) registerHosts(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "hosts", Method: http.MethodGet, Path: "/v1/hosts",
		Summary: "List the live hosts of the cluster, with the partitions that each owns; 404 if the server is not one of a cluster"},
		func(context.Context, *struct{}) (*struct{ Body List[host.HostInfo] }, error) {
			list, err := s.h.Hosts()
			return &struct{ Body List[host.HostInfo] }{List[host.HostInfo]{Items: list}}, failed(err)
		})
	huma.Register(api, huma.Operation{OperationID: "drain-host", Method: http.MethodPost, Path: "/v1/hosts/{host}/drain",
		Summary: "Have a host of the cluster give its partitions to the others, and take none until it is restarted or undrained; " +
			"409 if no other host takes partitions"},
		func(ctx context.Context, in *namedHost) (*hostOutput, error) {
			return s.ofThisHost(in.Host, func() error { return s.h.Drain(ctx) })
		})
	huma.Register(api, huma.Operation{OperationID: "undrain-host", Method: http.MethodPost, Path: "/v1/hosts/{host}/undrain",
		Summary: "Have a drained host of the cluster take its share of the partitions again"},
		func(ctx context.Context, in *namedHost) (*hostOutput, error) {
			return s.ofThisHost(in.Host, func() error { return s.h.Undrain(ctx) })
		})
}

// ofThisHost does something with this host, and returns what the host is then. It has the name, unless the host that has passed
// the request on takes it for another one.
func (s *API) ofThisHost(name string, do func() error) (*hostOutput, error) {
	x, err := s.h.HostNamed(name)
	if err == nil && !x.Self {
		err = problem(http.StatusServiceUnavailable, "moved", "another host is at the address of the host %q now; try again", name)
	}
	if err == nil {
		err = do()
	}
	if err == nil {
		x, err = s.h.HostNamed(name)
	}
	return &hostOutput{x}, failed(err)
}
