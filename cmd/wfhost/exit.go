package main

import (
	"fmt"
	"io"
	"strings"
)

// Exit statuses. exits describes them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitDenied      = 3
	exitNotFound    = 4
	exitRunFailed   = 5
	exitConflict    = 6
	exitMismatch    = 7
	exitLive        = 8
	exitWarning     = 9
	exitInterrupted = 130
)

// exits lists all exit statuses, for `wfhost --help` and docs/interfaces/cli.md.
var exits = []struct {
	code int
	says string
}{
	{exitOK, "it is done"},
	{exitError, "anything else went wrong: no server, a full disk, a refused request"},
	{exitUsage, "the command line is wrong"},
	{exitDenied, "the token is missing, or may not do this"},
	{exitNotFound, "there is no such run, workflow, schedule or file"},
	{exitRunFailed, "the run has failed, or was cancelled or terminated"},
	{exitConflict, "the run or workflow is not in a state in which this can be done"},
	{exitMismatch, "the workflow differs from the journal"},
	{exitLive, "the run has not ended, and there is no result yet"},
	{exitWarning, "doctor: no check failed, and some warn"},
	{exitInterrupted, "interrupted, by Ctrl-C or a signal; watch, and top without -n, end in this way with 0"},
}

// printExits writes the table of exit statuses.
func printExits(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\nExit status:\n")
	for _, x := range exits {
		fmt.Fprintf(&b, "  %3d  %s\n", x.code, x.says)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
