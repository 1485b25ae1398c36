// Command wfhost runs durable workflows: a server, its client, and `wfhost run` for one workflow in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}
