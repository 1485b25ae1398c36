package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wfhost/wfhost/store"
)

// writeTimeout bounds a write. After it, its outcome is unknown.
const writeTimeout = 30 * time.Second

// partition is an ownership of a partition.
type partition struct {
	s     *Store
	id    store.PartitionID
	epoch store.Epoch
	token [16]byte
}

// ID returns the number of the partition.
func (p *partition) ID() store.PartitionID { return p.id }

// Epoch returns the number of this ownership.
func (p *partition) Epoch() store.Epoch { return p.epoch }

func randomToken() (t [16]byte) {
	_, _ = rand.Read(t[:]) // never fails
	return t
}

// Acquire makes the caller the owner of a partition, once all commits in flight have ended.
func (s *Store) Acquire(ctx context.Context, id store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if id >= store.Partitions {
		return nil, fmt.Errorf("partition %d: %w: there are %d", id, store.ErrNotFound, store.Partitions)
	}
	s.acquiring[id].Lock() // so that the last one here is the last one in the database; epochs do not tell, see TABLES.md
	defer s.acquiring[id].Unlock()
	p := &partition{s: s, id: id, token: randomToken()}
	err := s.read(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "select wfhost.acquire($1, $2, $3, $4, $5)", int16(id), p.token, owner, ttl > 0,
			s.mine()).Scan(&p.epoch)
	})
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == codeOwned {
		return nil, fmt.Errorf("partition %d: %w: %s", id, store.ErrOwned, pe.Message)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned[id] = p
	s.cache.drop(id)
	return p, nil
}

// lost forgets that this store owns a partition.
func (s *Store) lost(owned store.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned[owned.ID()] == owned {
		s.owned[owned.ID()] = nil
		s.cache.drop(owned.ID())
	}
}

// keep forgets partitions that this store had when it asked the database for owners, and that others own by the answer: this
// store may have been fenced without having heard of it.
func (s *Store) keep(had *[store.Partitions]*partition, owns func(store.PartitionID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []store.PartitionID
	for i, p := range had {
		if id := store.PartitionID(i); p != nil && s.owned[id] == p && !owns(id) {
			s.owned[id] = nil
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.cache.drop(gone...)
	}
}

// has returns the partitions that this store owns, as far as it knows.
func (s *Store) has() [store.Partitions]*partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.owned
}

// current returns store.ErrFenced if another Acquire of this process has come later.
func (p *partition) current() error {
	if err := p.s.usable(); err != nil {
		return err
	}
	p.s.mu.RLock()
	defer p.s.mu.RUnlock()
	if p.s.owned[p.id] != p {
		return fmt.Errorf("partition %d: %w", p.id, store.ErrFenced)
	}
	return nil
}

// ended notes that the database has fenced the partition, if err says so.
func (p *partition) ended(err error) error {
	if code(err) == codeFenced {
		p.s.lost(p)
	}
	return p.s.wrote(err)
}

func (p *partition) fence() []any { return []any{[]int16{int16(p.id)}, [][16]byte{p.token}} }

// Commit makes all commits durable, or none.
func (p *partition) Commit(ctx context.Context, runs []store.RunCommit) error {
	if len(runs) == 0 {
		return p.Renew(ctx)
	}
	return p.s.Commit(ctx, []store.Group{{Partition: p, Runs: runs}})
}

// Commands lists the inbox.
func (p *partition) Commands(ctx context.Context, after store.CommandSeq, limit int) (list []store.Command, err error) {
	if err := p.current(); err != nil {
		return nil, err
	}
	err = p.s.read(ctx, func(ctx context.Context) error {
		rows, err := p.s.pool.Query(ctx, "select seq, command from wfhost.inbox where p = $1 and seq > $2 order by seq limit $3",
			int16(p.id), int64(after), max(limit, 0))
		if err != nil {
			return err
		}
		list = list[:0]
		var seq int64
		var b []byte
		_, err = pgx.ForEachRow(rows, []any{&seq, &b}, func() error {
			c, err := store.DecodeCommand(b)
			if err != nil {
				c = store.Command{}
			}
			c.Seq = store.CommandSeq(seq)
			list = append(list, c)
			return nil
		})
		return err
	})
	return list, err
}

// Discard removes commands from the inbox, and sends answers.
func (p *partition) Discard(ctx context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	if err := p.current(); err != nil {
		return err
	}
	var out outbox
	if err := out.add(answers); err != nil {
		return err
	}
	numbers := make([]int64, len(seqs))
	for i, seq := range seqs {
		numbers[i] = int64(seq)
	}
	args := append(append(p.fence(), numbers), out.args()...)
	return p.ended(p.s.exec(ctx, "select wfhost.discard($1,$2,$3,$4,$5,$6)", args...))
}

// claims bounds how often Claim tries again because another claim came in between. Only the owner of the token's partition
// claims it, so there is hardly ever one.
const claims = 10

// Claim makes a run the holder of a token.
func (p *partition) Claim(ctx context.Context, c store.HookClaim) (h store.HookHolder, err error) {
	if err := p.current(); err != nil {
		return h, err
	}
	if !legal(c.Token) {
		return h, badText("token", c.Token)
	}
	for range claims {
		var args []any
		h, args, err = p.claim(ctx, &c)
		if err != nil { // nothing was written
			return h, err
		}
		err = p.s.exec(ctx, "select wfhost.claim($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)", args...)
		if code(err) != codeChanged {
			break
		}
	}
	return h, p.ended(err)
}

// claim returns the holder after a claim of what the database says now, and the arguments of wfhost.claim.
func (p *partition) claim(ctx context.Context, c *store.HookClaim) (h store.HookHolder, args []any, err error) {
	old, h, err := p.s.holder(ctx, c.Namespace, c.Token)
	if err != nil {
		return h, nil, err
	}
	now := old
	switch {
	case c.Release && old != nil && h == c.Holder:
		now = nil
	case !c.Release && old == nil:
		h = c.Holder
		now = store.AppendHolder(nil, &h)
	}
	var out outbox
	if c.Reply != nil {
		cmd, err := c.Reply(h)
		if err == nil && cmd != nil {
			err = out.add([]store.Command{*cmd})
		}
		if err != nil {
			return h, nil, err
		}
	}
	return h, append(append(p.fence(), int32(c.Namespace), c.Token, old, now, int64(c.Ack)), out.args()...), nil
}

// holder reads the holder of a token, and its record, nil if it has none.
func (s *Store) holder(ctx context.Context, ns store.NamespaceID, token string) (b []byte, h store.HookHolder, err error) {
	if !legal(token) {
		return nil, h, nil
	}
	err = s.read(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, "select holder from wfhost.hook where ns = $1 and token = $2", int32(ns), token).Scan(&b)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, h, nil
	case err != nil:
		return nil, h, err
	}
	h, err = store.DecodeHolder(b)
	return b, h, err
}

// Hook returns the holder of a token.
func (s *Store) Hook(ctx context.Context, ns store.NamespaceID, token string) (store.HookHolder, bool, error) {
	b, h, err := s.holder(ctx, ns, token)
	return h, b != nil && err == nil, err
}

// Renew returns store.ErrFenced if the ownership is lost.
func (p *partition) Renew(ctx context.Context) error {
	if err := p.current(); err != nil {
		return err
	}
	return p.ended(p.s.exec(ctx, "select wfhost.fence($1,$2)", p.fence()...))
}

// Release gives the partition up: it has no owner then.
func (p *partition) Release(ctx context.Context) error {
	if err := p.s.usable(); err != nil {
		return err
	}
	p.s.lost(p)
	return p.s.wrote(p.s.exec(ctx, "update wfhost.partition set owner = '', token = null where p = $1 and token = $2", int16(p.id),
		p.token))
}
