package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections of the pool, unless the URL has pool_max_conns: for each processor, four commits at a time and some reads. More
// than maxConns would not give more commits at a time, see lanesOf.
const (
	connsPerProcessor = 5
	minConns          = 12
	maxConns          = 44
)

// connectTimeout bounds one attempt to connect, unless the URL has connect_timeout.
const connectTimeout = 10 * time.Second

// connect returns a pool for a URL, after it has reached the server. connected checks each new connection; nil for no check.
func connect(ctx context.Context, url string, connected func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("address of the database: %w", err)
	}
	if c := cfg.ConnConfig; strings.ContainsAny(c.Host, "@:") && net.ParseIP(c.Host) == nil && !strings.HasPrefix(c.Host, "/") ||
		strings.ContainsAny(c.Database, "@/") { // then a part of the password may be in it
		return nil, errors.New("address of the database: percent-encode the password, so that @ is %40, / is %2F and : is %3A")
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = int32(min(max(connsPerProcessor*runtime.GOMAXPROCS(0), minConns), maxConns))
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		// A named statement lives in a session, and pgbouncer in transaction mode may run each transaction in another one. This
		// mode parses each statement anew and keeps only its description, on our side.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		// A standby may show transactions in another order than its primary.
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	cfg.ConnConfig.OnNotice = noteWarning
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		prepareConn(c)
		return nil
	}
	cfg.AfterConnect = connected
	cfg.PingTimeout = pingTimeout
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, cannotConnect(cfg.ConnConfig, err)
	}
	return pool, nil
}

// Times after which the system gives up a connection to a machine that is gone: with something sent, and with nothing to send.
const (
	pingTimeout   = 5 * time.Second
	unackedTime   = 10 * time.Second
	keepAliveTime = 5 * time.Second // until the first probe of an idle connection
	keepAliveGap  = 2 * time.Second
	keepAlives    = 3
)

// errNoCancel refuses the connection with which pgx asks the server to cancel a statement, when a call was cancelled or the
// connection is lost. A commit that waits for a synchronous standby would become visible without being there.
var errNoCancel = errors.New("statements are not cancelled")

// prepareConn sets how one connection is made, after which the configuration connects no more.
func prepareConn(c *pgx.ConnConfig) {
	d := net.Dialer{Timeout: c.ConnectTimeout, Control: limitUnacked,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveTime, Interval: keepAliveGap, Count: keepAlives}}
	var connected atomic.Bool
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return d.DialContext(ctx, network, address)
	}
	c.Config.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
}

// warning is the key of a connection's last warning.
const warning = "wfhost.warning"

func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warning] = n.Message
	}
}

// place names the database for messages, without the password.
func place(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q on %s as %q", c.Database, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.User)
}

func cannotConnect(c *pgx.ConnConfig, err error) error {
	if bad, ok := errors.AsType[unfit](err); ok {
		return bad.error
	}
	switch code(err) {
	case "28P01", "28000", "42501":
		return fmt.Errorf("%w: connect to %s: %w", ErrRights, place(c), err)
	}
	return fmt.Errorf("connect to %s: %w", place(c), err)
}

// connected checks the server of a new connection: its settings may have changed, and it may be another server.
func (s *Store) connected(ctx context.Context, c *pgx.Conn) error {
	set, err := readServer(ctx, c)
	if err != nil {
		return err
	}
	if err := checkServer(set, s.unsafe); err != nil {
		return unfit{err}
	}
	return s.follow(set[timelineName])
}

// unfit is the error of a server that must not be used.
type unfit struct{ error }

func (e unfit) Unwrap() error { return e.error }

// checked are the settings that must have certain values.
var checked = []string{"server_version_num", "server_encoding", "fsync", "full_page_writes", "synchronous_commit",
	"synchronous_standby_names", "default_transaction_isolation"}

const (
	oldestServer = 150000
	timelineName = "timeline"
)

// readServer reads settings of the server, and its timeline.
func readServer(ctx context.Context, q rowsQueryer) (map[string]string, error) {
	// The schema may not be there yet, so this is what wfhost.timeline returns.
	rows, err := q.Query(ctx, `select name, setting from pg_catalog.pg_settings where name = any($1)
		union all select $2, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`, checked, timelineName)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		set[name] = value
		return nil
	})
	return set, err
}

// checkServer refuses servers that are too old, have another encoding, or lose data.
func checkServer(set map[string]string, unsafe bool) error {
	if v, _ := strconv.Atoi(set["server_version_num"]); v < oldestServer { // 0 if it is no number
		return fmt.Errorf("the server is PostgreSQL %d, wfhost needs 15 or newer", v/10000)
	}
	if set["server_encoding"] != "UTF8" {
		return fmt.Errorf("the encoding of the database is %s, wfhost needs UTF8: "+
			"create it with `createdb --encoding UTF8 --template template0`", set["server_encoding"])
	}
	if v := set["default_transaction_isolation"]; v != "read committed" {
		return fmt.Errorf("default_transaction_isolation is %s, wfhost needs read committed: "+
			"set it for this role, with `alter role NAME set default_transaction_isolation = 'read committed'`", v)
	}
	if unsafe {
		return nil
	}
	return losesData(set)
}

// losesData returns ErrUnsafe if one of the settings lets a crash of the server lose acknowledged commits.
func losesData(set map[string]string) error {
	for _, name := range []string{"fsync", "full_page_writes"} {
		if set[name] == "off" {
			return fmt.Errorf("%w: %s is off; set it to on, or say that this data may be lost", ErrUnsafe, name)
		}
	}
	switch v := set["synchronous_commit"]; {
	case v == "off":
		return fmt.Errorf("%w: synchronous_commit is off; set it to on for this role, or say that this data may be lost", ErrUnsafe)
	case v == "local" && set["synchronous_standby_names"] != "":
		return fmt.Errorf("%w: synchronous_commit is local, so a failover to the standby %q loses commits; "+
			"set it to on for this role, or say that this data may be lost", ErrUnsafe, set["synchronous_standby_names"])
	}
	return nil
}
