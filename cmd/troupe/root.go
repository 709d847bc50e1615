package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/txtext"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// commands lists all commands in the order of the help text.
var commands = []func(*app) *cobra.Command{
	newInit,
	newRun,
	newDev,
	newLocalnet,
	newKeys,
	newAccount,
	newView,
	newCall,
	newSend,
	newDeploy,
	newTx,
	newBlock,
	newRPC,
	newConfig,
	newValidateConfig,
	newDoctor,
	newVerify,
	newSim,
	newTrace,
	newTop,
	newHistory,
	newNet,
	newStream,
	newViewState,
	newSnapshot,
	newCheck,
	newBench,
	newVersion,
	newCompiler,
}

// app contains the global flags and the state of the command.
type app struct {
	home string
	// homeGiven means that --home or NEAR_HOME is set.
	homeGiven bool
	verbose   string // part to log in detail, or "all"; empty: none
	fast      bool   // --unsafe-fast-startup: skip the checks of a new chain's genesis
	color     string
	logFormat string // format of run's log: text or json
	logLevel  string // description of the log's level
	closeLog  func() // writes the queued log lines; nil: there is no queue
	started   bool
}

// usageError means that the command line is invalid. The exit code is 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// execute runs a command line and returns the exit code.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// A command's cmd.Context() ends at SIGINT and SIGTERM; the command then stops cleanly.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process at once
	a := &app{}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if a.closeLog != nil {
		a.closeLog()
	}
	if err == nil {
		return exitOK
	}
	// Escaped, because the text may come from a server.
	_, _ = fmt.Fprintf(stderr, "troupe: %s\n", txtext.Lines(err.Error()))
	var usage *usageError
	// Errors before the command has started concern its flags and arguments.
	if !a.started || errors.As(err, &usage) || errors.Is(err, home.ErrUsage) {
		_, _ = fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailure
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "A NEAR chain on one machine",
		Long: `Troupe is a node of the NEAR protocol. Alone, it is a complete chain for tests and
development: one validator, any number of shards, and the JSON-RPC API that wallets and
SDKs use. With boot nodes, it follows their network.

The home folder (--home) holds everything of a chain: config.json, genesis.json,
validator_key.json, node_key.json, and data/ after the first run.

'troupe completion bash' (or zsh, fish) prints a script that completes commands and flags:
source <(troupe completion bash). 'troupe completion zsh --help' shows where zsh keeps it.`,
		Example: `  troupe dev                             a new chain until Ctrl-C, with funded accounts
  troupe --home /tmp/chain init          create the files of a new chain
  troupe --home /tmp/chain run           run it; JSON-RPC on port 3030
  curl -s localhost:3030/status          ask for its status`,
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
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version") // neard has the same short flag
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.home, "home", home.DefaultDir(), "home folder with configuration and data; NEAR_HOME sets the default")
	f.StringVar(&a.verbose, "verbose", "", "log debug output of all parts, or of one: --verbose=rpc; RUST_LOG sets levels too")
	f.Lookup("verbose").NoOptDefVal = "all"
	f.StringVar(&a.color, "color", "auto", "color the log: auto, always or never")
	f.BoolVar(&a.fast, "unsafe-fast-startup", false, "skip the validation of genesis.json when a chain starts for the first time")
	// These flags of neard have no effect here. The command accepts these flags so that scripts
	// written for neard work.
	f.String("opentelemetry", "off", "no effect")
	f.Bool("log-span-events", false, "no effect")
	f.String("record-io-trace", "", "no effect")
	for _, name := range []string{"opentelemetry", "log-span-events", "record-io-trace"} {
		_ = f.MarkHidden(name) // fails for names that don't exist
	}
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	addUnsupported(root)
	return root
}

// flagError replaces pflag's error text for an invalid number, which names Go functions.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	want := "a whole number"
	switch {
	case number.Err == strconv.ErrRange:
		want = "a smaller number"
		if strings.HasPrefix(number.Num, "-") {
			want = "a larger number"
		}
	case number.Func == "ParseUint":
		want = "a whole number that is not negative"
	case number.Func == "ParseFloat":
		want = "a number"
	case number.Func == "ParseBool":
		want = "true or false"
	}
	return usagef("--%s is %q, must be %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// group returns cmd as a command that only has subcommands.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs // cobra's own error for an unknown subcommand does not list the known subcommands
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return usagef("%s has no command %q; its commands are %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
	return cmd
}

// program is how the caller named this program. Commands to run next begin with it, so that these
// commands work where troupe is not in PATH.
func program() string {
	if name := os.Args[0]; filepath.Base(name) == "troupe" && strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return "troupe"
}

// say prints one line of a result. A closed stdout is no error.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
}
