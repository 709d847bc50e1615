package main

import (
	"fmt"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// compilerName is the command with which a running node starts a child process that compiles
// contracts.
const compilerName = "contract-compiler"

func newCompiler(*app) *cobra.Command {
	return &cobra.Command{
		Use:   compilerName,
		Short: "Compile contracts for the node that started this process",
		Long: `Contract-compiler is started by a running node, not by hand. It reads wasm modules from file
descriptor 3 and writes machine code to file descriptor 4. A contract that crashes the compiler
crashes only this process.`,
		Example: "  troupe " + compilerName + "    exits at once, because descriptors 3 and 4 are not open",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signal.Reset() // a signal may end the process at any time
			if code := vm.ServeCompiler(nil); code != 0 {
				return fmt.Errorf("contract compiler: exit code %d", code)
			}
			return nil
		},
	}
}

// compilerCommand starts this binary as a contract compiler.
func compilerCommand() compiler.Command {
	return compiler.Command{Path: compiler.Self, Args: []string{compilerName}}
}
