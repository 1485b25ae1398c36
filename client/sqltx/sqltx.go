// Package sqltx starts, signals and cancels runs in your own transactions, if your tables are in the PostgreSQL database where
// wfhost keeps its data (`wfhost serve --store`). What a transaction asks for happens once if it commits, and never otherwise.
//
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, "insert into orders …")
//	run, err := sqltx.Start(ctx, sqltx.SQL(tx), "orders", order, sqltx.StartOptions{RunID: "order-42"})
//	err = tx.Commit()
//
// The functions record a request. A server takes it some milliseconds after the commit. It takes the requests for one run in
// order. An argument that can never be right, such as a malformed id or an unknown namespace, is an error at once. As after each
// error of a statement, the transaction can then only be rolled back, also to a savepoint. A request that the server refuses, for
// example since its input does not fit the schema of the workflow, is in the view wfhost.requests with the reason.
//
// The package has no dependencies besides the standard library. It calls the functions wfhost.start, wfhost.signal and
// wfhost.cancel of the database; docs/runs/transactions.md names the rights that the role needs.
package sqltx

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Tx is a transaction: see SQL and Pgx.
type Tx struct {
	queryRow func(ctx context.Context, query string, args ...any) row
}

type row interface{ Scan(dest ...any) error }

// SQL returns a transaction of database/sql, with any driver for PostgreSQL.
func SQL(tx *sql.Tx) Tx {
	return Tx{func(ctx context.Context, query string, args ...any) row {
		return tx.QueryRowContext(ctx, query, args...)
	}}
}

// Pgx returns a pgx.Tx, also one of pgxpool, or a nested one.
func Pgx[Row interface{ Scan(dest ...any) error }](tx interface {
	QueryRow(ctx context.Context, query string, args ...any) Row
}) Tx {
	return Tx{func(ctx context.Context, query string, args ...any) row { return tx.QueryRow(ctx, query, args...) }}
}

// StartOptions are the options of a start. The zero value starts a run with a generated id in the namespace "default".
type StartOptions struct {
	// RunID names the run: 1 to 128 of A-Z a-z 0-9 . _ : ~ -. Default: a UUIDv7.
	RunID string
	// Namespace is the namespace of the workflow, which must exist. Default: "default".
	Namespace string
	// Version starts a version other than the latest.
	Version uint32
	// Attributes are searchable: at most 64, with values of at most 1,024 bytes of text.
	Attributes map[string]string
	// Memo is shown with the run. It is encoded as JSON, of at most 2,048 bytes as PostgreSQL writes a jsonb. nil means none.
	Memo any
	// At delays the run's first activation until an instant. Zero or an instant in the past means at once.
	At time.Time
	// Timeout bounds the duration of the run, counted from its start or from At. 0 means no bound. It is rounded up to
	// milliseconds.
	Timeout time.Duration
	// OnConflict says what happens if there is a run of this id when the server starts the run: "existing" takes it for the started
	// one if workflow and input are the same, and refuses otherwise; "fail" refuses; "terminate" terminates and replaces that run;
	// "replace" replaces it if it has ended, and refuses otherwise. Default: "existing".
	OnConflict string
	// Priority is the priority among the runs that wait because of a limit, from -100 to 100.
	Priority int
	// TraceParent is the caller's header traceparent of W3C Trace Context, at most 256 bytes. Empty: the run has a trace of its own.
	TraceParent string
}

// Start asks for a run of a workflow, and returns its id. The input is encoded as JSON, of at most 1 MiB; a json.RawMessage or
// nil is taken as it is. Whether the workflow exists, and takes the input, is found out after the commit.
func Start(ctx context.Context, tx Tx, workflow string, input any, o StartOptions) (runID string, err error) {
	data, err := encode(input)
	if err != nil {
		return "", fmt.Errorf("start of workflow %q: the input: %w", workflow, err)
	}
	var attributes, memo []byte
	if o.Attributes != nil {
		attributes, err = json.Marshal(o.Attributes)
	}
	if o.Memo != nil && err == nil {
		memo, err = json.Marshal(o.Memo)
	}
	if err != nil {
		return "", fmt.Errorf("start of workflow %q: the memo: %w", workflow, err)
	}
	at := ""
	if !o.At.IsZero() {
		at = o.At.UTC().Format(time.RFC3339Nano)
	}
	err = tx.queryRow(ctx, `select wfhost.start($1::text, nullif($2::text, ''), input_bytes => $3::bytea, namespace => $4::text,
		version => nullif($5::bigint, 0)::integer, attributes => nullif($6::text, '')::jsonb, memo => nullif($7::text, '')::jsonb,
		at => greatest(nullif($8::text, '')::timestamptz, 'epoch'), timeout => $9::bigint * interval '1 microsecond',
		on_conflict => $10::text, priority => $11::bigint::integer, traceparent => nullif($12::text, ''))`,
		workflow, o.RunID, data, orDefault(o.Namespace, "default"), int64(o.Version), string(attributes), string(memo), at,
		microseconds(o.Timeout), orDefault(o.OnConflict, "existing"), int64(o.Priority), o.TraceParent).Scan(&runID)
	if err != nil {
		return "", fmt.Errorf("start of workflow %q: %w", workflow, err)
	}
	return runID, nil
}

// SignalOptions are the options of a signal.
type SignalOptions struct {
	// Namespace is the namespace of the run. Default: "default".
	Namespace string
	// IdempotencyKey makes a repeated signal recognizable: the run takes signals with the same name, key and payload once.
	IdempotencyKey string
}

// Signal asks for a signal to a run, which may be started earlier in the same transaction. The payload is encoded as JSON, of at
// most 1 MiB; a json.RawMessage or nil is taken as it is.
func Signal(ctx context.Context, tx Tx, runID, name string, payload any, o SignalOptions) error {
	data, err := encode(payload)
	if err == nil {
		err = tx.queryRow(ctx, `select 1 from wfhost.signal($1::text, $2::text, payload_bytes => $3::bytea, namespace => $4::text,
			idempotency_key => nullif($5::text, ''))`, runID, name, data, orDefault(o.Namespace, "default"),
			o.IdempotencyKey).Scan(new(int))
	}
	if err != nil {
		return fmt.Errorf("signal %q to run %q: %w", name, runID, err)
	}
	return nil
}

// Cancel asks a run to end. A run that has ended meanwhile is left as it is. An empty namespace means "default".
func Cancel(ctx context.Context, tx Tx, runID, namespace string) error {
	err := tx.queryRow(ctx, "select 1 from wfhost.cancel($1::text, namespace => $2::text)", runID,
		orDefault(namespace, "default")).Scan(new(int))
	if err != nil {
		return fmt.Errorf("cancel of run %q: %w", runID, err)
	}
	return nil
}

// encode returns JSON, and no bytes for nil.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return []byte{}, nil
	case json.RawMessage:
		return append([]byte{}, v...), nil
	}
	return json.Marshal(v)
}

// microseconds rounds up, as far from zero as d is.
func microseconds(d time.Duration) int64 {
	us := d.Microseconds()
	if time.Duration(us)*time.Microsecond < d {
		us++
	}
	if us == 0 && d < 0 {
		return -1
	}
	return us
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
