package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/cmd/wfhost/bench"
	"github.com/wfhost/wfhost/host"
)

// stdio is the input, output and clock of a command. Only tests set the clock.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer

	clock  host.Clock       // clock of the command and of the hosts that it opens; nil = the machine's
	opened func(*host.Host) // if not nil, called with the host of serve before it runs
	self   func() []string  // command line of serve's compiler; nil = host.SelfCompiler
}

// globals are the flags of every command and the state that commands share.
type globals struct {
	Env       string `name:"env" help:"Named environment, with a server and how to call it." env:"WFHOST_ENV" placeholder:"NAME"`
	Server    string `help:"Address of the server." env:"WFHOST_SERVER" default:"http://127.0.0.1:7777"`
	Namespace string `help:"Namespace of the workflows and runs." env:"WFHOST_NAMESPACE" default:"default" type:"namespace"`

	Token      string `help:"Token; without it, WFHOST_TOKEN, or that of the server on this machine." placeholder:"TOKEN"`
	TokenFile  string `help:"File with a token; without it, WFHOST_TOKEN_FILE." type:"path" placeholder:"FILE"`
	CA         string `name:"ca" help:"File with the authority of its certificate." env:"WFHOST_CA"  type:"path"`
	ClientCert string `help:"File with the client's certificate." env:"WFHOST_CLIENT_CERT" type:"path" placeholder:"FILE"`
	ClientKey  string `help:"File with its key." env:"WFHOST_CLIENT_KEY" type:"path" placeholder:"FILE"`

	Format string `enum:"table,json,ids" default:"table" help:"Form of the output: table, json or ids."`
	UTC    bool   `name:"utc" help:"Show instants in UTC, and not in the zone of this machine; JSON always has UTC."`

	ctx    context.Context
	io     stdio
	client *client.Client // created with the first request
	pinned string         // file with the only certificate to accept, whatever its name and issuer; "" = see --ca

	answered bool // the server has answered a command that follows a run
}

// now returns the time that commands use for --since and for expiry.
func (g *globals) now() time.Time {
	if g.io.clock != nil {
		return g.io.clock.Now()
	}
	return time.Now()
}

type cli struct {
	globals `embed:""`

	Run        runCmd        `cmd:"" help:"Run a workflow in this process, show what happens, print its result."`
	Serve      serveCmd      `cmd:"" help:"Run the server."`
	EnvCmd     envCmd        `cmd:"" name:"env" help:"Name servers, to call them with --env."`
	Config     configCmd     `cmd:"" help:"Check the file of serve --config, or show what serve would have."`
	Doctor     doctorCmd     `cmd:"" help:"Check the machine, a folder of data and the server, and say what to do."`
	Build      buildCmd      `cmd:"" help:"Compile a workflow to .wasm and check it."`
	Define     defineCmd     `cmd:"" help:"Build a workflow from a JSON or YAML definition, and upload it."`
	Hosts      hostsCmd      `cmd:"" help:"List the servers of a cluster, with what each owns."`
	Namespaces namespacesCmd `cmd:"" help:"List the namespaces."`
	Token      tokenCmd      `cmd:"" help:"Print the token of the server, for curl."`
	Tokens     tokensCmd     `cmd:"" help:"Create, list and revoke tokens."`
	Audit      auditCmd      `cmd:"" help:"Show who has changed what on the server."`
	Upload     uploadCmd     `cmd:"" help:"Upload a workflow to the server."`
	Check      checkCmd      `cmd:"" help:"Replay live runs against a module that is not uploaded, and say which it fits."`
	Migrate    migrateCmd    `cmd:"" help:"Move live runs to another version that they fit."`
	Workflows  workflowsCmd  `cmd:"" help:"List the versions of all workflows."`
	Workflow   workflowCmd   `cmd:"" help:"List a workflow's versions and their live runs, or delete one."`
	Start      startCmd      `cmd:"" help:"Start a run."`
	Runs       runsCmd       `cmd:"" help:"List runs."`
	Count      countCmd      `cmd:"" help:"Count runs by status."`
	Show       showCmd       `cmd:"" help:"Show a run."`
	Journal    journalCmd    `cmd:"" help:"Show a run's journal."`
	Export     exportCmd     `cmd:"" help:"Write a run with its module and journal as one file."`
	Import     importCmd     `cmd:"" help:"Store an exported run, as a copy or to go on."`
	Replay     replayCmd     `cmd:"" help:"Replay an exported run in memory, and show what its workflow asks and gets."`
	Result     resultCmd     `cmd:"" help:"Print a run's result."`
	Logs       logsCmd       `cmd:"" help:"Show a run's log."`
	Open       openCmd       `cmd:"" help:"Open the page of a run in a browser."`
	Watch      watchCmd      `cmd:"" help:"Show runs live as they change."`
	Top        topCmd        `cmd:"" help:"Show live what the server does."`
	Timers     timersCmd     `cmd:"" help:"List what wakes when."`
	OutputOf   outputCmd     `cmd:"" name:"output" help:"Show a run's output."`
	Signal     signalCmd     `cmd:"" help:"Send a signal to a run."`
	Deliver    deliverCmd    `cmd:"" help:"Deliver to a hook by its token."`
	Query      queryCmd      `cmd:"" help:"Ask a run a question that its workflow offers."`
	Update     updateCmd     `cmd:"" help:"Ask a run to do something, and print its answer."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel runs."`
	Terminate  terminateCmd  `cmd:"" help:"Terminate runs."`
	Pause      pauseCmd      `cmd:"" help:"Stop runs where they wait next, until unpause."`
	Unpause    unpauseCmd    `cmd:"" help:"Resume paused runs."`
	Retry      retryCmd      `cmd:"" help:"Resume failed or stuck runs where they failed."`
	Restart    restartCmd    `cmd:"" help:"Start a new run like another one, from a step on."`
	Delete     deleteCmd     `cmd:"" help:"Delete ended runs."`
	Bulk       bulkCmd       `cmd:"" help:"Do one thing to all runs that a filter selects."`
	Retention  retentionCmd  `cmd:"" help:"Say how long ended runs are kept."`
	Limits     limitsCmd     `cmd:"" help:"Say how many runs of a workflow go on at a time, or begin within a window."`
	Schedule   scheduleCmd   `cmd:"" help:"Start runs by a calendar or at intervals."`
	Wake       wakeCmd       `cmd:"" help:"End sleeps of runs before their time, or begin delayed runs."`
	Backup     backupCmd     `cmd:"" help:"Copy the data of a server, or of a folder, to a place of backups."`
	Restore    restoreCmd    `cmd:"" help:"Restore a backup into a new folder."`
	Copy       copyCmd       `cmd:"" help:"Say whether a server's data is a copy in which nothing runs, or release it."`
	Verify     verifyCmd     `cmd:"" help:"Check a folder of data that no server has open, or a backup."`
	Store      storeCmd      `cmd:"" help:"Prepare and check a PostgreSQL database for the data of a server."`
	Keys       keysCmd       `cmd:"" help:"Make a key that encrypts payloads, and say which keys data needs."`
	Upgrade    upgradeCmd    `cmd:"" name:"upgrade-store" help:"Raise a folder's database to the newest format of this release."`
	Bench      benchCmd      `cmd:"" help:"Measure the host on this machine."`
	Conform    conformCmd    `cmd:"" name:"conformance" help:"Check an SDK by its story workflows."`
	New        newCmd        `cmd:"" help:"Write a new workflow with its test, in Go, TypeScript, Rust, C, C++ or AssemblyScript."`
	Version    versionCmd    `cmd:"" help:"Print the version, and those of what it understands."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Complete   completeCmd   `cmd:"" hidden:"true" help:"Print what may come next, for a completion script."`
}

// exitCode is an error with an exit code.
type exitCode struct {
	code int
	err  error
}

func (e *exitCode) Error() string { return e.err.Error() }
func (e *exitCode) Unwrap() error { return e.err }

// programHelp lists the programs that can be built.
const programHelp = "A folder with a Go main package, a program in C, C++, Rust or AssemblyScript, a package.json or an " +
	"index.ts, a .ts or .js file, a definition (.json, .yaml), or a .wasm file."

// newParser returns a parser of the command line and the struct that it fills. --help calls exit.
func newParser(std stdio, exit func(int)) (*kong.Kong, *cli, error) {
	c := new(cli)
	p, err := kong.New(c, append(flagTypes(), kong.Name("wfhost"), kong.UsageOnError(),
		kong.Vars{"program": programHelp,
			"statuses": strings.Join(runStatuses(), ", "), "actions": "cancel,terminate,pause,unpause,retry,delete",
			"overlaps": "skip (default), buffer-one, buffer-all, allow, cancel-other, terminate-other"}, kong.Writers(std.out, std.err),
		kong.Description("Durable workflows as WebAssembly modules: they sleep, crash and resume."),
		kong.Exit(exit), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(help), kong.PostBuild(environ))...)
	return p, c, err
}

// environ lets each flag of serve be set by the environment variable WFHOST_ plus its name, for containers. --config is
// excluded, since it is read before the other flags.
func environ(parser *kong.Kong) error {
	for _, f := range (*cli)(nil).serve(parser).Flags {
		if len(f.Envs) == 0 && f.Name != "config" && f.Name != "help" {
			f.Envs = []string{"WFHOST_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))}
			f.Tag.Envs = f.Envs
		}
	}
	return nil
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, std stdio) int {
	code := -1
	p, c, err := newParser(std, func(n int) { code = n })
	if err != nil {
		_, _ = fmt.Fprintln(std.err, "wfhost:", err)
		return exitError
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // of one command, or of all
		args = append(args[1:len(args):len(args)], "--help")
	}
	k, err := p.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err == nil {
		err = refuseEmpty(k)
	}
	if err != nil {
		_, _ = fmt.Fprintf(std.err, "wfhost: %s\n", indented(err.Error()))
		return exitUsage
	}
	c.ctx, c.io = ctx, std
	inUTC.Store(c.UTC)
	if err := c.useEnvironment(k); err != nil {
		_, _ = fmt.Fprintf(std.err, "wfhost: %s\n", indented(err.Error()))
		return exitUsage
	}
	c.Server, err = withScheme(c.Server)
	if err != nil {
		_, _ = fmt.Fprintf(std.err, "wfhost: %s\n", indented(err.Error()))
		return exitUsage
	}
	if err := k.Run(&c.globals, c.bench(), p, k); err != nil {
		code, said := codeOf(ctx, err), indented(err.Error())
		if code == exitInterrupted && errors.Is(err, context.Canceled) { // a request was cancelled, or a command that follows
			said = "interrupted"
		}
		_, _ = fmt.Fprintf(std.err, "wfhost: %s\n", said)
		return code
	}
	return exitOK
}

// help prints the help of a command. After the general help it prints the exit statuses.
func help(o kong.HelpOptions, k *kong.Context) error {
	err := kong.DefaultHelpPrinter(o, k)
	if err == nil && k.Selected() == nil {
		err = printExits(k.Stdout)
	}
	return err
}

// codeOf returns the exit code of an error.
func codeOf(ctx context.Context, err error) int {
	var e *exitCode
	var run *host.RunError
	code, answered := exitOf(err)
	switch {
	case errors.As(err, &e):
		return e.code
	case answered:
		return code
	case errors.Is(err, bench.ErrUsage):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &run):
		return exitRunFailed
	case errors.Is(err, host.ErrNotFound):
		return exitNotFound
	case errors.Is(err, host.ErrConflict), errors.Is(err, host.ErrTerminal), errors.Is(err, host.ErrCopy):
		return exitConflict
	case errors.Is(err, host.ErrMismatch):
		return exitMismatch
	}
	return exitError
}
