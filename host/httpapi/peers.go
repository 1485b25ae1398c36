package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// others returns the other hosts of the cluster that can be asked, none for a request of another host.
func (s *API) others(ctx context.Context) (list []host.HostInfo) {
	if p, _ := ctx.Value(passedKey{}).(*passed); p != nil || !s.h.Clustered() {
		return nil
	}
	return s.otherHosts()
}

// otherHosts returns the other hosts of the cluster that have an address. Each call begins with another one.
func (s *API) otherHosts() (list []host.HostInfo) {
	all, err := s.h.Hosts()
	if err != nil { // it can answer for itself
		return nil
	}
	for _, x := range all {
		if !x.Self && x.Address != "" {
			list = append(list, x)
		}
	}
	if n := len(list); n > 1 {
		first := int(s.turn.Add(1) % uint32(n))
		list = append(list[first:], list[:first]...)
	}
	return list
}

// peerTime bounds a request to another host that needs no waiting there.
const peerTime = 5 * time.Second

// maxPeerAnswer bounds what another host answers: some batches of attempts with the largest inputs.
const maxPeerAnswer = 256 << 20

// askPeer makes a request of the caller of ctx to another host, and decodes its answer into out, unless out is nil.
func (s *API) askPeer(ctx context.Context, to *host.HostInfo, method, path string, query url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	r, err := s.peerRequest(ctx, to, method, path, query)
	if err != nil {
		return err
	}
	return s.doPeer(r, to, out)
}

// doPeer makes a request of peerRequest, and decodes its answer into out, unless out is nil.
func (s *API) doPeer(r *http.Request, to *host.HostInfo, out any) error {
	answer, err := (&http.Client{Transport: s.h.PeerTransport()}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxPeerAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode >= http.StatusMultipleChoices:
		p := &Problem{}
		if json.Unmarshal(b, p) == nil && p.Code != "" {
			return p
		}
		return fmt.Errorf("host %q answers %d: %.200s", to.Name, answer.StatusCode, b)
	case out == nil:
		return nil
	}
	return decodeAnswer(b, out)
}

// decodeAnswer decodes JSON, or JSON Lines into a jsonLinesOf.
func decodeAnswer(b []byte, out any) error {
	if l, ok := out.(interface{ read(b []byte) error }); ok {
		return l.read(b)
	}
	return json.Unmarshal(b, out)
}

type jsonLinesOf[T any] []T

func (l *jsonLinesOf[T]) read(b []byte) error {
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var x T
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		*l = append(*l, x)
	}
}

// peerRequest returns a request of the caller of ctx to another host.
func (s *API) peerRequest(ctx context.Context, to *host.HostInfo, method, path string, query url.Values) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, path, nil)
	if err != nil {
		return nil, err
	}
	r.URL.RawQuery = query.Encode()
	c := callerOf(ctx)
	if err := s.h.SignPeer(r, passed{Token: c.Token, Name: c.name, Address: c.address, Exempt: c.exempt, Last: true}); err != nil {
		return nil, err
	}
	return r, host.DirectPeer(r, to.Address)
}

// takeAgain is how often a worker's request looks at the other hosts, besides when they say that they have something.
const takeAgain = time.Second

// takeAnywhere takes attempts of this host, or else of another one. A run's attempts are at the host that owns it, and workers
// do not know which one that is.
func (s *API) takeAnywhere(ctx context.Context, name string, o host.TakeOptions) ([]Attempt, error) {
	attempts := namespaceFrom(ctx).Attempts()
	for ends := clock.System().Now().Add(o.Wait); ; {
		now := o
		now.Wait = 0
		offers := attempts.Offers(ctx, name) // from before it looks
		list, err := s.takeOwn(ctx, name, now)
		if err != nil || len(list) > 0 {
			return list, err
		}
		list = s.takeOfOthers(ctx, name, now)
		left := ends.Sub(clock.System().Now())
		if len(list) > 0 || left <= 0 || ctx.Err() != nil {
			return list, nil
		}
		now.Wait = min(left, takeAgain)
		waiting, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() {
			select {
			case <-offers:
				cancel()
			case <-stop:
			}
		}()
		list, err = s.takeOwn(waiting, name, now)
		close(stop)
		cancel()
		if err != nil || len(list) > 0 {
			return list, err
		}
	}
}

// takeOwn takes attempts of this host.
func (s *API) takeOwn(ctx context.Context, name string, o host.TakeOptions) ([]Attempt, error) {
	list, err := namespaceFrom(ctx).Attempts().Take(ctx, name, o)
	if err != nil {
		return nil, err
	}
	out := []Attempt{}
	for _, a := range list {
		out = append(out, attemptOf(&a))
	}
	return out, nil
}

// takeOfOthers takes attempts of the first of the other hosts that has some. A host that cannot be asked, or where the handler
// is not for workers, has none.
func (s *API) takeOfOthers(ctx context.Context, name string, o host.TakeOptions) []Attempt {
	q := url.Values{"max": {strconv.Itoa(o.Max)}, "lease": {o.Lease.String()}, "worker": {o.Worker}}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	for _, x := range s.others(ctx) {
		var list List[Attempt]
		// It must not be broken off, or attempts that it has leased would wait for the end of their lease.
		err := s.askPeer(context.WithoutCancel(ctx), &x, http.MethodGet, "/v1/handlers/"+url.PathEscape(name)+"/attempts", q, &list)
		if err == nil && len(list.Items) > 0 {
			return list.Items
		}
	}
	return nil
}

// release gives attempts back, whichever host has them.
func (s *API) release(ctx context.Context, name string, list []Attempt) {
	ctx = context.WithoutCancel(ctx)
	q := url.Values{}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	for _, a := range list {
		owner, other, err := s.h.LeaseOwner(a.Lease)
		switch { // an error means that the lease has ended
		case err != nil:
		case other:
			path := "/v1/handlers/" + url.PathEscape(name) + "/attempts/" + url.PathEscape(a.Lease) + "/release"
			_ = s.askPeer(ctx, &owner, http.MethodPost, path, q, nil)
		default:
			_ = namespaceFrom(ctx).Attempts().Release(ctx, name, a.Lease)
		}
	}
}

// passAgain makes a POST of the caller of ctx at another host, and decodes its answer into out. The request has come to the right
// host by its path and id, which has found out that the other one must perform it. ok is false if it was passed on in this way
// before.
func (s *API) passAgain(ctx context.Context, to *host.HostInfo, path string, query url.Values, body []byte, trace string,
	out any) (ok bool, err error) {
	if p, _ := ctx.Value(passedKey{}).(*passed); p != nil && p.Last {
		return false, nil
	}
	if ns := callerOf(ctx).in; ns != "" {
		query.Set("namespace", ns)
	}
	timed, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	r, err := s.peerRequest(timed, to, http.MethodPost, path, query)
	if err != nil {
		return true, err
	}
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	if trace != "" {
		r.Header.Set("Traceparent", trace)
	}
	err = s.doPeer(r, to, out)
	if _, told := errors.AsType[*Problem](err); err != nil && !told {
		err = unanswered(ctx, to, err)
	}
	return true, err
}

// actAnywhere is act for a run that another host may own.
func (s *API) actAnywhere(ctx context.Context, action, id string) (bool, error) {
	owner, other, err := namespaceFrom(ctx).Owner(ctx, id)
	if err != nil || !other {
		if err == nil {
			return s.act(ctx, action, id)
		}
		return false, err
	}
	q := url.Values{}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	path := "/v1/runs/" + url.PathEscape(id)
	if action == "delete" {
		return true, s.askPeer(ctx, &owner, http.MethodDelete, path, q, nil)
	}
	var c Changed
	err = s.askPeer(ctx, &owner, http.MethodPost, path+"/"+action, q, &c)
	return c.Count > 0, err
}

// handlers lists the handlers for workers, with what waits for them at all hosts.
func (s *API) handlers(ctx context.Context) ([]host.RemoteHandler, error) {
	list, err := namespaceFrom(ctx).Attempts().Handlers(ctx)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	if ns := callerOf(ctx).in; ns != "" {
		q.Set("namespace", ns)
	}
	for _, other := range fromAll[List[host.RemoteHandler]](ctx, s, "/v1/handlers", q) {
		for _, x := range other.Items {
			i := slices.IndexFunc(list, func(h host.RemoteHandler) bool { return h.Name == x.Name })
			if i < 0 {
				list = append(list, x)
				continue
			}
			h := &list[i]
			if !x.Oldest.IsZero() && (h.Oldest.IsZero() || x.Oldest.Before(h.Oldest)) {
				h.Oldest = x.Oldest
			}
			h.Waiting, h.Leased, h.Asking = h.Waiting+x.Waiting, h.Leased+x.Leased, h.Asking+x.Asking
			for _, w := range x.Workers {
				if !slices.Contains(h.Workers, w) {
					h.Workers = append(h.Workers, w)
				}
			}
			slices.Sort(h.Workers)
		}
	}
	slices.SortFunc(list, func(a, b host.RemoteHandler) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// fromAll asks all other hosts for something at the same time. Those that do not answer are left out.
func fromAll[T any](ctx context.Context, s *API, path string, q url.Values) (answers []T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, x := range s.others(ctx) {
		wg.Go(func() {
			var a T
			if s.askPeer(ctx, &x, http.MethodGet, path, q, &a) == nil {
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, a)
			}
		})
	}
	wg.Wait()
	return answers
}
