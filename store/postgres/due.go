package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
)

// dueSQL merges the three indexes of wakes, each read in its own order. own is true for runs of the default namespace, which are
// the last of a millisecond.
const dueSQL = `select kind, ns, id, wake, due from (
	(select wake, (ns = 0) as own, 0::smallint as kind, ns, id, coalesce(due, wake) as due from wfhost.run
		where p = $1 and wake is not null and wake <= $2 and (wake, (ns = 0), ns, id) > ($4, $5, $6, $7)
		order by wake, (ns = 0), ns, id limit $3)
	union all
	(select wake, false, 1::smallint, ns, id, coalesce(due, wake) from wfhost.schedule
		where p = $1 and wake is not null and wake <= $2 and (wake, ns, id) > ($8, $9, $10) order by wake, ns, id limit $3)
	union all
	(select wake, false, kind, ns, id, due from wfhost.wake
		where p = $1 and wake <= $2 and (wake, kind, ns, id) > ($11, $12, $13, $14) order by wake, kind, ns, id limit $3)
) x order by wake, own, kind, ns, id limit $3`

// Due lists wakes.
func (p *partition) Due(ctx context.Context, after store.WakeKey, until int64, limit int) (wakes []store.Wake, err error) {
	if err := p.current(); err != nil {
		return nil, err
	}
	args := append([]any{int16(p.id), until, max(limit, 0)}, dueAfter(after)...)
	err = p.s.read(ctx, func(ctx context.Context) error {
		rows, err := p.s.pool.Query(ctx, dueSQL, args...)
		if err != nil {
			return err
		}
		wakes = wakes[:0]
		var kind int16
		var ns int32
		var id string
		var at, due int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &ns, &id, &at, &due}, func() error {
			key := store.RunKey{Namespace: store.NamespaceID(ns), ID: id}
			wakes = append(wakes, store.Wake{Key: store.WakeKey{UnixMs: at, Kind: store.WakeKind(kind), Key: key}, DueUnixMs: due})
			return nil
		})
		return err
	})
	return wakes, err
}

// dueAfter returns where each index begins for a key: behind it in the order of store.WakeKey.Compare, which is by kind within
// the wakes of a millisecond, except that runs of the default namespace come last.
func dueAfter(k store.WakeKey) []any {
	ms, ns, id, kind := max(k.UnixMs, 0), int32(k.Key.Namespace), k.Key.ID, int16(k.Kind)
	if !legal(id) {
		id = "" // no such key is stored
	}
	const least = math.MinInt32
	own := k.Kind == store.WakeRun && k.Key.Namespace == 0
	start := own && id == "" // before all wakes of the millisecond
	switch {
	case start:
		return []any{ms, false, least, "", ms, least, "", ms, int16(0), least, ""}
	case own:
		return []any{ms, true, ns, id, ms + 1, least, "", ms + 1, int16(0), least, ""}
	case k.Kind == store.WakeRun:
		return []any{ms, false, ns, id, ms, least, "", ms, int16(0), least, ""}
	case k.Kind == store.WakeSchedule:
		return []any{ms, true, least, "", ms, ns, id, ms, int16(0), least, ""}
	}
	return []any{ms, true, least, "", ms + 1, least, "", ms, kind, ns, id}
}
