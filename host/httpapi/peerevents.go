package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/wfhost/wfhost/host"
)

// source is where a stream of changed runs gets them from: this host, or another one of the cluster. It calls began once it
// misses nothing any more, and take with each run. It returns when ctx is done, or it could miss something.
type source func(ctx context.Context, began func(), take func(host.Run)) error

// sources returns what the stream of the runs of a namespace is made of.
func (s *API) sources(ctx context.Context, workflow string) []source {
	list := []source{func(ctx context.Context, began func(), take func(host.Run)) error {
		for r, err := range namespaceFrom(ctx).FollowRuns(ctx, workflow, began) {
			if err != nil {
				return err
			}
			take(r)
		}
		return ctx.Err()
	}}
	for _, x := range s.others(ctx) {
		list = append(list, func(ctx context.Context, began func(), take func(host.Run)) error {
			err := s.followPeer(ctx, &x, workflow, began, take)
			if ctx.Err() == nil {
				err = fmt.Errorf("%w: changes of runs of the host %q may be missing (%w)", host.ErrBusy, x.Name, err)
			}
			return err
		})
	}
	return list
}

// membersChanged reports whether the cluster has a host that was not there when a stream began.
func (s *API) membersChanged(ctx context.Context, was []host.HostInfo) bool {
	return slices.ContainsFunc(s.others(ctx), func(x host.HostInfo) bool {
		return !slices.ContainsFunc(was, func(y host.HostInfo) bool { return x.Name == y.Name })
	})
}

// followPeer follows the runs that another host owns.
func (s *API) followPeer(ctx context.Context, to *host.HostInfo, workflow string, began func(), take func(host.Run)) error {
	c := callerOf(ctx)
	q := url.Values{}
	if c.in != "" {
		q.Set("namespace", c.in)
	}
	if workflow != "" {
		q.Set("workflow", workflow)
	}
	r, err := s.peerRequest(ctx, to, http.MethodGet, eventsPath, q)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", eventStream)
	answer, err := (&http.Client{Transport: s.h.PeerTransport()}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %d", answer.StatusCode)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxPeerEvent)
	event := ""
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch {
		case string(name) == "event":
			event = string(value)
		case string(name) != "data":
		case event == "begin":
			began()
		case event == "run":
			var run host.Run
			if err := json.Unmarshal(value, &run); err != nil {
				return err
			}
			take(run)
		default:
			return fmt.Errorf("it answers %s: %.200s", event, value)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return errors.New("its answer has ended")
}

// maxPeerEvent bounds an event of another host: a run with the largest attributes, memo and reason.
const maxPeerEvent = 4 << 20
