package client

import (
	"context"
	"net/http"
	"time"
)

// Host is a live server of a cluster.
type Host struct {
	Name       string    `json:"name"`
	Address    string    `json:"address,omitempty"` // at which the other servers reach it
	Release    string    `json:"release,omitempty"`
	Self       bool      `json:"self,omitempty"` // it has answered, or done what was asked
	Weight     int       `json:"weight"`         // its share of the partitions, in proportion to the others
	Partitions []int     `json:"partitions"`     // that it owns, from 0 to 63, ascending
	Draining   bool      `json:"draining,omitempty"`
	Drained    bool      `json:"drained,omitempty"` // it is draining because an operator wants that
	Joined     time.Time `json:"joined"`
	LastBeat   time.Time `json:"last_beat,omitzero"` // when it last showed life
	SkewMs     int64     `json:"skew_ms"`            // its clock minus the database's
}

// Hosts lists the live servers of the cluster by name. ErrNotFound if the server is not one of a cluster.
func (c *Client) Hosts(ctx context.Context) ([]Host, error) {
	return items[Host](ctx, c, "/v1/hosts", nil)
}

// DrainHost has a server of the cluster give its partitions to the others, and take none until it is restarted or undrained. It
// returns when the database knows it, with the partitions that are left: Hosts shows when there are none. ErrConflict if no other
// server takes partitions, ErrNotFound if there is no live one of the name.
func (c *Client) DrainHost(ctx context.Context, name string) (Host, error) {
	return c.actOnHost(ctx, name, "drain")
}

// UndrainHost has a drained server of the cluster take its share of the partitions again. ErrNotFound if there is no live one of
// the name.
func (c *Client) UndrainHost(ctx context.Context, name string) (Host, error) {
	return c.actOnHost(ctx, name, "undrain")
}

func (c *Client) actOnHost(ctx context.Context, name, action string) (Host, error) {
	r := Request{Method: http.MethodPost, Path: "/v1/hosts/" + Segment(name) + "/" + action, Repeatable: true}
	return send[Host](ctx, c, r, nil)
}
