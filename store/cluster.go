package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrOwned: a live member owns the partition.
var ErrOwned = errors.New("partition is owned by a live host")

// Shared is implemented by stores that several hosts can use at a time. Each host joins as a member, and shows with beats that
// it is alive. The store knows only who is alive and who owns what; the members decide who should own what.
//
// Acquire with a ttl greater than 0 takes a partition only if its owner is no live member, or has the name that is given as the
// owner; ErrOwned otherwise. The ownership then lasts as long as the membership of that name.
type Shared interface {
	Store
	// Join makes a host a member for ttl, by the store's clock. ErrExists if a live member has the name, ErrLocked if a process has
	// the store alone. m.Name has 1 to MaxMemberName bytes.
	Join(ctx context.Context, m Member, ttl time.Duration) (Membership, View, error)
}

// Membership is the membership of one host.
type Membership interface {
	// Beat prolongs the membership by its ttl, replaces what the member says of itself, except its name, and returns a view.
	// ErrFenced if the membership had ended and others have noticed: the host has lost its partitions, and may join again.
	Beat(ctx context.Context, m Member) (View, error)
	// Leave ends the membership. Its partitions are free at once.
	Leave(ctx context.Context) error
}

// MaxMemberName bounds the name of a member in bytes.
const MaxMemberName = 128

// Member is what a member says of itself. As JSON it may have fields of a newer release, which an older one ignores.
type Member struct {
	Name    string `json:"name"`
	Address string `json:"address"` // the URL of its API for other members; empty = none
	Release string `json:"release"`
	// Weight is its share of the partitions, in proportion to the weights of the others. Below 1 counts as 1.
	Weight int `json:"weight"`
	// Draining: it wants to own no partitions.
	Draining bool `json:"draining"`
	// Drained: it is Draining because an operator wants that.
	Drained bool `json:"drained,omitempty"`
	// Settings is the newest generation of settings that it has applied.
	Settings uint64 `json:"settings"`
	// Deleting: it wants to delete a version of a workflow. Holds: it lets no run begin, because a member wants that.
	Deleting     bool  `json:"deleting,omitempty"`
	Holds        bool  `json:"holds,omitempty"`
	JoinedUnixMs int64 `json:"joined_unix_ms"` // by the store's clock
	SkewMs       int64 `json:"skew_ms"`        // its clock minus the store's
	// BeatUnixMs is when it has said this, by the store's clock as far as it knows it. 0 from a release that does not say it.
	BeatUnixMs int64 `json:"beat_unix_ms,omitempty"`
}

// CheckMember returns an error for a name that no member can have.
func CheckMember(m *Member) error {
	if n := len(m.Name); n == 0 || n > MaxMemberName || !utf8.ValidString(m.Name) || strings.ContainsRune(m.Name, 0) {
		return fmt.Errorf("the name of a host must be UTF-8 of 1 to %d bytes without NUL, got %q", MaxMemberName, m.Name)
	}
	return nil
}

// View is what a store knows at one instant of its clock.
type View struct {
	NowUnixMs int64
	// Settings is the generation of settings: it rises with each change of namespaces, quotas, retentions, limits, tokens, keys and
	// versions.
	Settings uint64
	Members  []Member           // live ones, by name
	Owners   [Partitions]string // names of live members; "" if the owner is none
}

// Member returns the member with a name, nil if none is live.
func (v *View) Member(name string) *Member {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i]
		}
	}
	return nil
}
