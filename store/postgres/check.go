package postgres

import (
	"context"
	"fmt"
)

// Report says what a database is like as a store.
type Report struct {
	Place    string   `json:"database"`           // the database and its server
	Server   string   `json:"server"`             // version of PostgreSQL
	Schema   int      `json:"schema"`             // number of the newest migration, 0 without a schema
	Wants    int      `json:"wants"`              // number that this release has
	Problems []string `json:"problems,omitempty"` // why a host refuses it, or what it lacks; an old schema comes last
	Warnings []string `json:"warnings,omitempty"` // what may lose data in a failover, or be slow
}

// Check looks at a database, and changes nothing.
func Check(ctx context.Context, url string) (r Report, err error) {
	pool, err := connect(ctx, url, nil)
	if err != nil {
		return r, err
	}
	s := &Store{pool: pool, failing: make(chan struct{})}
	defer pool.Close()
	list, err := migrations()
	if err != nil {
		return r, err
	}
	r.Place, r.Wants = s.Place(), len(list)
	if err := pool.QueryRow(ctx, "select current_setting('server_version')").Scan(&r.Server); err != nil {
		return r, s.failed(err)
	}
	problem := func(err error) {
		if err != nil {
			r.Problems = append(r.Problems, err.Error())
		}
	}
	set, err := readServer(ctx, pool)
	if err != nil {
		return r, s.failed(err)
	}
	problem(checkServer(set, false))
	x, err := readSchema(ctx, pool)
	problem(s.failed(err))
	r.Schema = x.newest
	if err == nil && x.newest >= r.Wants {
		problem(s.refuse(ctx))
	}
	if err == nil {
		problem(s.migrate(ctx, false))
	}
	r.Warnings, err = warnings(ctx, pool)
	return r, s.failed(err)
}

// warnings tells what is no reason to refuse a server.
func warnings(ctx context.Context, q queryer) (list []string, err error) {
	var names string
	var standbys, used, most int
	err = q.QueryRow(ctx, `select current_setting('synchronous_standby_names'), (select count(*) from pg_stat_replication),
		(select count(*) from pg_stat_activity where backend_type = 'client backend'),
		current_setting('max_connections')::integer`).Scan(&names, &standbys, &used, &most)
	if err != nil {
		return nil, err
	}
	list = judge(names, standbys, used, most)
	refused, err := refusedRequests(ctx, q)
	if err == nil && refused > 0 {
		list = append(list, fmt.Sprintf("%d requests of transactions were refused: see the view wfhost.requests", refused))
	}
	return list, err
}

// refusedRequests returns how many requests are kept because they were refused.
func refusedRequests(ctx context.Context, q queryer) (n int, err error) {
	var there bool // not in the schema of an earlier release
	err = q.QueryRow(ctx, "select to_regclass('wfhost.request') is not null").Scan(&there)
	if err == nil && there {
		err = q.QueryRow(ctx, "select count(*) from wfhost.request where refused is not null").Scan(&n)
	}
	return n, err
}

// judge returns the warnings about a database with these synchronous standbys, connected standbys, and connections.
func judge(synchronous string, standbys, used, most int) (list []string) {
	if synchronous == "" && standbys > 0 {
		list = append(list, fmt.Sprintf("no standby is synchronous (%d follow): a failover of this database may lose what was "+
			"acknowledged", standbys))
	}
	if used*5 > most*4 {
		list = append(list, fmt.Sprintf("%d of %d connections are in use", used, most))
	}
	return list
}

// Init creates the schema, or raises it to this release. The role must have the right to create it.
func Init(ctx context.Context, url string) (Report, error) {
	s, err := Open(ctx, url, Options{Migrate: true, Unsafe: true, Shared: true, migrating: true})
	if err != nil {
		return Report{}, err
	}
	if err := s.Close(); err != nil {
		return Report{}, err
	}
	return Check(ctx, url)
}
