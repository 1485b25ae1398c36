package main

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"

	"github.com/wfhost/wfhost/host"
)

type openCmd struct {
	RunID string `arg:"" name:"run" help:"Id of the run."`
	Print bool   `help:"Print the address and open nothing."`
}

// opener returns the command that opens a URL on an operating system.
func opener(system string) []string {
	switch system {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"} // start is a shell command, which would interpret & in the URL
	}
	return []string{"xdg-open"}
}

func (c *openCmd) Run(g *globals) error {
	var r host.Run // the browser would show a missing run as a page, which a script cannot detect
	if _, _, err := g.call(http.MethodGet, runPath(c.RunID, ""), nil, nil, &r); err != nil {
		return err
	}
	address := g.address("/runs/" + segment(c.RunID))
	if _, err := fmt.Fprintln(g.io.out, address); err != nil || c.Print || !terminal(g.io.out) {
		return err
	}
	name := opener(runtime.GOOS)
	ctx := context.WithoutCancel(g.ctx) // the browser outlives this command
	if err := exec.CommandContext(ctx, name[0], append(name[1:], address)...).Start(); err != nil {
		_, _ = fmt.Fprintf(g.io.err, "wfhost: no browser was opened (%v): open the address yourself\n", err)
	}
	return nil
}
