package sqltx_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/client/sqltx"
)

type order struct {
	Total int `json:"total"`
}

// An order and the run that delivers it are committed together, by database/sql.
func ExampleStart() {
	place := func(ctx context.Context, db *sql.DB, id int, o order) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // it is committed, or lost
		if _, err := tx.ExecContext(ctx, "insert into orders (id, total) values ($1, $2)", id, o.Total); err != nil {
			return err
		}
		_, err = sqltx.Start(ctx, sqltx.SQL(tx), "orders", o, sqltx.StartOptions{
			RunID: fmt.Sprint("order-", id), Timeout: 48 * time.Hour, Attributes: map[string]string{"region": "eu"}})
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = place
}

// A payment and the signal that it was made are committed together, by pgx.
func ExampleSignal() {
	pay := func(ctx context.Context, c *pgx.Conn, id, cents int) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "update orders set paid = paid + $2 where id = $1", id, cents); err != nil {
				return err
			}
			return sqltx.Signal(ctx, sqltx.Pgx(tx), fmt.Sprint("order-", id), "paid", cents, sqltx.SignalOptions{})
		})
	}
	_ = pay
}
