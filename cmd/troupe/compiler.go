package main

import (
	"fmt"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
)

// compilerName is the command that a running node starts to have contracts compiled.
const compilerName = "contract-compiler"

func newCompiler(*app) *cobra.Command {
	return &cobra.Command{
		Use:   compilerName,
		Short: "Compile contracts for the node that started this process",
		Long: `Contract-compiler is started by a running node, not by hand: it reads modules from descriptor 3 and
writes machine code to descriptor 4. What hurts a compiler then hurts only such a process.`,
		Example: "  troupe " + compilerName + "    ends at once, as nobody has opened descriptors 3 and 4",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			signal.Reset() // it ends when it is told to: there is nothing to finish
			if code := vm.ServeCompiler(nil); code != 0 {
				return fmt.Errorf("exit code %d", code)
			}
			return nil
		},
	}
}

// compilerCommand starts this binary so.
func compilerCommand() compiler.Command {
	return compiler.Command{Path: compiler.Self, Args: []string{compilerName}}
}
