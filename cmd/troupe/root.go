package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/home"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// commands are all there are, in the order that help lists them.
var commands = []func(*app) *cobra.Command{
	newInit,
	newRun,
	newLocalnet,
	newKeys,
	newValidateConfig,
	newVerify,
	newSim,
	newTrace,
	newTop,
	newNet,
	newStream,
	newViewState,
	newSnapshot,
	newCheck,
	newBench,
	newVersion,
	newCompiler,
}

// app is what commands share: the global flags, and whether the command itself was reached.
type app struct {
	home string
	// homeGiven: --home or NEAR_HOME said so.
	homeGiven bool
	verbose   string // empty: no more than usual; "all", or a part of the node
	fast      bool   // --unsafe-fast-startup: the sense of a new chain's genesis is not checked
	color     string
	logFormat string // of run: text or json
	logged    string // how much is logged, in words
	started   bool
}

// usageError is a command line that cannot be meant so: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// execute runs a command line and returns the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// A command's cmd.Context() is done at SIGINT and SIGTERM; it then ends in its own time.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second one ends the process at once
	a := &app{}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "troupe: %v\n", err)
	var usage *usageError
	// Until the command has started, all that can be wrong is how it was called.
	if !a.started || errors.As(err, &usage) || errors.Is(err, home.ErrUsage) {
		_, _ = fmt.Fprintf(stderr, "Run '%s --help' to see what is possible.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "A NEAR chain on one machine",
		Long: `Troupe is a node of the NEAR protocol. By itself it is a whole chain for tests and
development: one validator, any number of shards, and the JSON-RPC that wallets and
SDKs expect of a node. With boot nodes it follows their network.

All that a chain is lies in its home folder (--home): config.json, genesis.json,
validator_key.json, node_key.json, and data/ once it has run.`,
		Example: `  troupe --home /tmp/chain init          make the files of a new chain
  troupe --home /tmp/chain run           run it; JSON-RPC on port 3030
  curl -s localhost:3030/status          ask how it is`,
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"auto", "always", "never"}, a.color) {
				return usagef("--color is %q, must be auto, always or never", a.color)
			}
			a.homeGiven = cmd.Flags().Changed("home") || os.Getenv("NEAR_HOME") != ""
			if _, _, err := newFilter("", false, a.verbose); err != nil {
				return err
			}
			a.started = true
			return nil
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version") // neard's letter
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.home, "home", home.DefaultDir(), "folder of config and data; NEAR_HOME sets the default")
	f.StringVar(&a.verbose, "verbose", "", "log what helps debugging, of everything or of a part: --verbose=rpc; RUST_LOG does the same")
	f.Lookup("verbose").NoOptDefVal = "all"
	f.StringVar(&a.color, "color", "auto", "color the log: auto, always or never")
	f.BoolVar(&a.fast, "unsafe-fast-startup", false, "do not check the sense of genesis.json before a chain begins from it")
	// neard's, for which there is nothing here to set. They are taken, so that scripts written for
	// it work.
	f.String("opentelemetry", "off", "no effect")
	f.Bool("log-span-events", false, "no effect")
	f.String("record-io-trace", "", "no effect")
	for _, name := range []string{"opentelemetry", "log-span-events", "record-io-trace"} {
		_ = f.MarkHidden(name) // fails for names that don't exist
	}
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	addAbsent(root)
	return root
}

// group is a command that only has others below it.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs // else cobra's own words for a wrong one, which name no others
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return usagef("%s has no %q; it has %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
	return cmd
}

// say prints a line of result. A reader that has gone away is no failure of the command.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}
