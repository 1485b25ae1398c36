package host

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/archive"
	"github.com/wfhost/wfhost/host/internal/peer"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// Cluster makes a host one of several that share a store. They share its partitions, and take over those of a host that shows
// no life. A host owns partitions from the beginning of Run to its end. It notices runs that crash one host after the other
// only with a Config.Dir, which survives its process.
type Cluster struct {
	// Name is the name of the host, unique among the live ones: 1 to 128 bytes. Default: the name of the machine.
	Name string
	// Address is the URL at which the other hosts reach this host's HTTP API (package httpapi). Without it they do not forward
	// requests to it, and it hears of commands to its runs by polling, once a second.
	Address string
	// Key signs the requests between the hosts: at least 32 random bytes, the same for all of them. Required if Address is set.
	Key []byte
	// Weight is the host's share of the partitions, in proportion to the weights of the others. Default: the number of processors.
	Weight int
	// Lease is how long the others wait after the last sign of life of a host before they take over its runs. The host gives a
	// sign each fifth of it. Default 5 s, from 1 s to 1 min.
	Lease time.Duration
	// Transport sends the requests to other hosts. Default: http.DefaultTransport.
	Transport http.RoundTripper
	// Release is shown to operators.
	Release string
}

const (
	defaultLease = 5 * time.Second
	leastLease   = time.Second
	mostLease    = time.Minute
)

// check sets defaults, and returns ErrInvalid for what cannot be.
func (c *Cluster) check(cfg *Config) error {
	bad := func(format string, args ...any) error {
		return &joined{fmt.Errorf("Config.Cluster: "+format, args...), ErrInvalid}
	}
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return bad("the machine has no name, so Name is needed: %w", err)
		}
		c.Name = name
	}
	c.Weight, c.Lease = cmp.Or(c.Weight, goruntime.GOMAXPROCS(0)), cmp.Or(c.Lease, defaultLease)
	if err := store.CheckMember(&store.Member{Name: c.Name}); err != nil {
		return bad("%w", err)
	}
	switch {
	case cfg.Store == nil:
		return bad("hosts share a Config.Store, and there is none")
	case cfg.Partitions != nil:
		return bad("the hosts of a cluster decide who owns which partitions, so Config.Partitions must be nil")
	case cfg.SkipSleeps:
		return bad("each host would skip sleeps by a clock of its own, so Config.SkipSleeps must be false")
	case c.Lease < leastLease || c.Lease > mostLease:
		return bad("Lease must be from %v to %v, got %v", leastLease, mostLease, c.Lease)
	case c.Weight < 0:
		return bad("Weight must not be negative, got %d", c.Weight)
	case c.Address != "" && len(c.Key) < peer.KeyBytes:
		return bad("Key must have at least %d bytes, got %d", peer.KeyBytes, len(c.Key))
	}
	if u, err := url.Parse(c.Address); c.Address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return bad("Address must be a URL such as http://10.0.0.5:7433, got %q", c.Address)
	}
	return nil
}

// HostInfo describes a live host of a cluster.
type HostInfo struct {
	Name       string `json:"name"`
	Address    string `json:"address,omitempty"`
	Release    string `json:"release,omitempty"`
	Self       bool   `json:"self,omitempty"` // the host that answers
	Weight     int    `json:"weight"`
	Partitions []int  `json:"partitions"` // that it owns, ascending
	// Draining: it takes no partitions, because it is about to end, or an operator has drained it (Drained), or its clock is off.
	Draining bool      `json:"draining,omitempty"`
	Drained  bool      `json:"drained,omitempty"`
	Joined   time.Time `json:"joined"`
	LastBeat time.Time `json:"last_beat,omitzero"` // when it last showed life; zero if its release does not say it
	// SkewMs is how far its clock is ahead of the store's, in milliseconds. Beyond 2,000 either way, the host owns nothing.
	SkewMs int64 `json:"skew_ms"`
}

// PeerTransport returns how the host sends requests to others of its cluster.
func (h *Host) PeerTransport() http.RoundTripper {
	if c := h.cfg.Cluster; c != nil && c.Transport != nil {
		return c.Transport
	}
	return http.DefaultTransport
}

// Clustered reports whether the host has a Config.Cluster.
func (h *Host) Clustered() bool { return h.member != nil }

// Hosts returns the live hosts of the cluster by name, as of the last beat of this host, at most a fifth of a lease ago.
// ErrNotFound if the host is of no cluster, ErrUnavailable if it has lost the store.
func (h *Host) Hosts() ([]HostInfo, error) {
	if h.member == nil {
		return nil, errAlone
	}
	v := h.member.current()
	if v == nil {
		return nil, errLapsed
	}
	list := make([]HostInfo, 0, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		x := HostInfo{Name: m.Name, Address: m.Address, Release: m.Release, Self: m.Name == h.cfg.Cluster.Name, Weight: m.Weight,
			Partitions: []int{}, Draining: m.Draining, Drained: m.Drained, Joined: abi.TimeOf(m.JoinedUnixMs), SkewMs: m.SkewMs}
		if m.BeatUnixMs != 0 {
			x.LastBeat = abi.TimeOf(m.BeatUnixMs)
		}
		for p, owner := range v.Owners {
			if owner == m.Name {
				x.Partitions = append(x.Partitions, p)
			}
		}
		list = append(list, x)
	}
	return list, nil
}

// Owner returns the host that owns a run, by the namespace and id of the run, which need not exist. ok is false if this host
// owns it, or is of no cluster. ErrFenced if no host owns it at the moment.
func (s *scope) Owner(ctx context.Context, runID string) (owner HostInfo, ok bool, err error) {
	if s.h.member == nil {
		return HostInfo{}, false, nil
	}
	ns, err := s.id(ctx, false)
	if errors.Is(err, store.ErrNotFound) {
		return HostInfo{}, false, nil // so it has no run
	}
	if err != nil {
		return HostInfo{}, false, translate(err)
	}
	return s.h.member.ownerOf(store.RunKey{Namespace: ns, ID: runID}.Partition())
}

// HookOwner is Owner for the run that a hook's token delivers to.
func (s *scope) HookOwner(ctx context.Context, token string) (owner HostInfo, ok bool, err error) {
	if s.h.member == nil {
		return HostInfo{}, false, nil
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return HostInfo{}, false, nil //nolint:nilerr // the delivery reports it
	}
	holder, held, err := s.h.store.Hook(ctx, ns, token)
	if err != nil {
		return HostInfo{}, false, translate(err)
	}
	if id, named := run.RunOfToken(token); !held && named { // only the run's journal has a token that was generated
		holder.Run, held = store.RunKey{Namespace: ns, ID: id}, true
	}
	if !held {
		return HostInfo{}, false, nil
	}
	return s.h.member.ownerOf(holder.Run.Partition())
}

// ImportOwner is Owner for the run of an archive, of which it reads the beginning. ok is false, too, for what is no archive.
func (s *scope) ImportOwner(ctx context.Context, r io.Reader) (owner HostInfo, ok bool, err error) {
	id, err := archive.RunID(r)
	if err != nil {
		return HostInfo{}, false, nil //nolint:nilerr // the import reports it
	}
	return s.Owner(ctx, id)
}

// ownRunID returns a new run id. In a cluster, the run of that id in the namespace belongs to a partition of this host.
func (s *nsRef) ownRunID(ctx context.Context) (string, error) {
	id := newRunID(s.h.cfg.Clock.Now())
	if s.h.member == nil {
		return id, nil
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return id, nil //nolint:nilerr // the start reports it
	}
	owned := map[store.PartitionID]bool{}
	for _, p := range s.h.rt.Partitions.Owned() {
		owned[p] = true
	}
	if len(owned) == 0 {
		return "", &joined{errors.New("this host of the cluster owns no runs at the moment; try again"), ErrFenced}
	}
	for !owned[store.RunKey{Namespace: ns, ID: id}.Partition()] {
		id = newRunID(s.h.cfg.Clock.Now())
	}
	return id, nil
}

// DerivedKey returns 32 bytes that the hosts of the cluster share for a purpose, nil if the host is of no cluster or has no Key.
func (h *Host) DerivedKey(purpose string) []byte {
	if h.member == nil || len(h.cfg.Cluster.Key) == 0 {
		return nil
	}
	m := hmac.New(sha256.New, h.cfg.Cluster.Key)
	_, _ = io.WriteString(m, "wfhost "+purpose)
	return m.Sum(nil)
}

// SignPeer signs a request to another host of the cluster. caller, as JSON, says who has called this one.
func (h *Host) SignPeer(r *http.Request, caller any) error {
	c := h.cfg.Cluster
	return peer.Key(c.Key).Sign(r, h.cfg.Clock.Now(), c.Name, caller)
}

// DirectPeer sends a request that was signed, and whose URL has only the path and query, to the host at an address.
func DirectPeer(r *http.Request, address string) error { return peer.Direct(r, address) }

// VerifyPeer checks a request that another host of the cluster has signed, and decodes what it says of the caller into caller.
// It returns an error if the host is of no cluster, or the request was not signed with its key within the last minute.
func (h *Host) VerifyPeer(r *http.Request, caller any) (from string, err error) {
	if h.cfg.Cluster == nil {
		return "", peer.ErrUnsigned
	}
	return peer.Key(h.cfg.Cluster.Key).Verify(r, h.cfg.Clock.Now(), caller)
}

// PeerHeader is the header of requests between the hosts of a cluster.
const PeerHeader = peer.Header

// PeerPath is the path at which hosts tell each other things.
const PeerPath = peer.Path

// PeerNotice is the body of a request to PeerPath.
type PeerNotice = peer.Notice

// Noticed handles a notice of another host.
func (h *Host) Noticed(n PeerNotice) {
	if h.member == nil {
		return
	}
	for _, p := range n.Inboxes {
		if p < store.Partitions && h.member.owns(p) { // not passed on if it has moved: the new owner reads its inbox
			h.rt.Partitions.Kick(p)
		}
	}
	for _, o := range n.Offers {
		h.member.offered(o)
	}
	h.member.noteGiven(n.Given)
	if n.Beat {
		h.member.beatNow()
	}
}

// leaseOf returns the lease of an attempt as a worker gets it. In a cluster it begins with the partition of the run, whose
// owner has the attempt.
func (h *Host) leaseOf(run store.RunKey, lease string) string {
	if h.member == nil {
		return lease
	}
	return strconv.Itoa(int(run.Partition())) + leaseSeparator + lease
}

const leaseSeparator = "."

// ownLease returns the lease without the partition.
func ownLease(lease string) string { return lease[strings.Index(lease, leaseSeparator)+1:] }

// LeaseOwner is Owner for the run of an attempt that a worker has taken.
func (h *Host) LeaseOwner(lease string) (owner HostInfo, ok bool, err error) {
	text, _, found := strings.Cut(lease, leaseSeparator)
	p, err := strconv.ParseUint(text, 10, 16)
	if h.member == nil || !found || err != nil || p >= store.Partitions {
		return HostInfo{}, false, nil //nolint:nilerr // no host has such a lease
	}
	return h.member.ownerOf(store.PartitionID(p))
}

// Offers returns a channel that is closed when another host has attempts of a handler for which no worker asks there.
func (s Attempts) Offers(ctx context.Context, handler string) <-chan struct{} {
	ns, err := s.id(ctx, false)
	if _, known := s.h.remotes.Load(handler); s.h.member == nil || err != nil || !known {
		return nil
	}
	return s.h.member.offers(peer.Offer{Namespace: ns, Handler: handler})
}
