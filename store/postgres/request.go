package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wfhost/wfhost/store"
)

var _ store.Requesting = (*Store)(nil)

// requestBytes bounds the inputs and payloads that Requests returns: the request that passes it is the last.
const requestBytes = 4 << 20

// Requests implements store.Requesting.
func (s *Store) Requests(ctx context.Context, partitions []store.PartitionID, skip []store.RunKey, limit int,
) (list []store.Request, err error) {
	var ps []int16 // nil = all
	for _, p := range partitions {
		ps = append(ps, int16(p))
	}
	ns, runs := make([]int32, len(skip)), make([]string, len(skip))
	for i, k := range skip {
		ns[i], runs[i] = int32(k.Namespace), k.ID
	}
	err = s.read(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `select id, kind, token, ns, run, name, data, options, attempts
			from wfhost.take_requests($1, $2, $3, $4, $5)`, ps, ns, runs, limit, requestBytes)
		if err != nil {
			return err
		}
		list = nil
		var r store.Request
		var namespace int32
		var kind int16
		var options []byte
		_, err = pgx.ForEachRow(rows, []any{&r.ID, &kind, (*[16]byte)(&r.Token), &namespace, &r.Run.ID, &r.Name, &r.Data, &options,
			&r.Attempts}, func() error {
			r.Kind, r.Run.Namespace, r.RequestOptions = store.RequestKind(kind), store.NamespaceID(namespace), store.RequestOptions{}
			if err := json.Unmarshal(options, &r.RequestOptions); err != nil {
				return fmt.Errorf("options of request %d: %w", r.ID, err)
			}
			list = append(list, r)
			return nil
		})
		return err
	})
	return list, err
}

// maxReasonBytes bounds the reason that is kept with a request.
const maxReasonBytes = 2000

// EndRequests implements store.Requesting.
func (s *Store) EndRequests(ctx context.Context, results []store.RequestResult) error {
	var done, later, laterMs, refused []int64
	var laterWhy, refusedWhy []string
	for _, r := range results {
		why := strings.ReplaceAll(strings.ToValidUTF8(r.Reason, "\uFFFD"), "\x00", "\uFFFD")
		if len(why) > maxReasonBytes {
			why = strings.ToValidUTF8(why[:maxReasonBytes], "") + "…"
		}
		switch {
		case r.Reason == "":
			done = append(done, r.ID)
		case r.AgainMs > 0:
			later, laterMs, laterWhy = append(later, r.ID), append(laterMs, r.AgainMs), append(laterWhy, why)
		default:
			refused, refusedWhy = append(refused, r.ID), append(refusedWhy, why)
		}
	}
	return s.wrote(s.write(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "select wfhost.end_requests($1, $2, $3, $4, $5, $6)", done, later, laterMs, laterWhy, refused, refusedWhy)
		return err
	}))
}

// listenAgain is how long Listen waits before it connects again.
const listenAgain = time.Second

// Listen implements store.Requesting, on a connection of its own. A pooler in transaction mode notifies of nothing.
func (s *Store) Listen(ctx context.Context, arrived func()) {
	for ctx.Err() == nil && s.usable() == nil {
		_ = s.listen(ctx, arrived) // the connection was lost: the host asks by itself
		wait(ctx, listenAgain)
	}
}

func (s *Store) listen(ctx context.Context, arrived func()) error {
	cfg := s.pool.Config().ConnConfig // a copy
	prepareConn(cfg)
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		defer cancel()
		_ = c.Close(closing) // the server ends the session anyway
	}()
	if _, err := c.Exec(ctx, "listen wfhost_request"); err != nil {
		return err
	}
	for {
		arrived()
		if _, err := c.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
