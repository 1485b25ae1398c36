// Command wfhost runs durable workflows: a server, its client, and `wfhost run` for one workflow in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/wfhost/wfhost/host"
)

func main() {
	host.CompilerMain()
	if !goSettings(os.Args[1:]) {
		host.Tune()
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals // the first signal lets work finish, the second does not
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	os.Exit(execute(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
