package postgres

import (
	"cmp"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// outbox is a number of commands.
type outbox struct {
	p       []int16
	command [][]byte
}

func (x *outbox) add(list []store.Command) error {
	for i := range list {
		if !legal(list[i].To.ID) {
			return badText("receiver of a command", list[i].To.ID)
		}
		b := store.AppendCommand(nil, &list[i])
		if err := store.CheckRecord("command", b); err != nil {
			return err
		}
		x.p, x.command = append(x.p, int16(list[i].To.Partition())), append(x.command, b)
	}
	return nil
}

// args returns the arguments of wfhost.send: the receivers, ascending, how many commands each gets, and the commands.
func (x *outbox) args() []any {
	order := make([]int, len(x.p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x.p[a], x.p[b]) })
	ps, ns, commands := []int16{}, []int32{}, make([][]byte, 0, len(order))
	for _, i := range order {
		if n := len(ps); n == 0 || ps[n-1] != x.p[i] {
			ps, ns = append(ps, x.p[i]), append(ns, 0)
		}
		ns[len(ns)-1]++
		commands = append(commands, x.command[i])
	}
	return []any{ps, ns, commands}
}

// plain reports whether wfhost.commit can make the change.
func (c *change) plain() bool {
	x := &c.rest
	return len(x.d.id)+len(x.l.id)+len(x.o.id)+len(x.k.id)+len(x.a.id)+len(x.w.id)+len(x.i.p)+len(x.q.queue)+len(x.y.queue)+
		len(x.s.id)+len(x.out.p) == 0
}

// args returns the arguments of wfhost.commit.
func (c *change) args(lane int16) []any {
	r, k := &c.r, &c.c
	keys := make([]counted, 0, len(c.counts))
	for key, n := range c.counts {
		if n != 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, counted.compare)
	var ns, version []int32
	var workflow []string
	var status []int16
	var n []int64
	for _, key := range keys {
		ns, workflow, version = append(ns, int32(key.ns)), append(workflow, key.workflow), append(version, int32(key.version))
		status, n = append(status, int16(key.status)), append(n, c.counts[key])
	}
	return []any{c.ps, c.tokens, r.ns, r.id, r.p, r.rev, r.iteration, r.status, r.listed, r.deleted, r.workflow, r.version,
		r.created, r.wake, r.due, r.ended, r.attributes, r.tailFirst, r.tail, r.flush, r.state,
		k.ns, k.id, k.iteration, k.first, k.data, lane, ns, workflow, version, status, n}
}

// allArgs returns the arguments of wfhost.commit_all.
func (c *change) allArgs(lane int16) []any {
	x := &c.rest
	args := append(c.args(lane), x.d.ns, x.d.id, x.d.rev, x.l.ns, x.l.id, x.l.n, x.l.data, x.o.ns, x.o.id, x.o.n, x.o.data,
		x.k.ns, x.k.id, x.k.from, x.k.to, x.a.ns, x.a.key, x.a.value, x.a.created, x.a.id, x.a.set,
		x.w.p, x.w.kind, x.w.ns, x.w.id, x.w.wake, x.w.due, x.i.p, x.i.seq,
		x.q.ns, x.q.queue, x.q.key, x.q.value, x.y.ns, x.y.queue, x.y.key, x.y.value, x.y.expired,
		x.s.ns, x.s.id, x.s.p, x.s.revision, x.s.wake, x.s.due, x.s.data)
	return append(args, x.out.args()...)
}
