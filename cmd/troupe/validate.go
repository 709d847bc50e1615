package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
)

func newValidateConfig(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate-config",
		Short: "Check config.json, genesis.json and the keys",
		Long: `Reads all files of the home folder as run would, and tells everything that is wrong
with them at once: values that are not allowed, with what would be; keys of
config.json that nobody knows, with the nearest that is known; key files whose two
keys do not belong together; a genesis that makes no sense; epoch_configs/. Then it
begins the chain in memory, so that it refuses what run refuses of these files.

Warnings do not keep a node from running. With an error the exit code is 1.`,
		Example: "  troupe --home /tmp/chain validate-config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := daemon.CheckHome(a.home)
			for _, path := range r.Files {
				say(cmd, "ok: %s", path)
			}
			for _, text := range r.Warnings {
				say(cmd, "warning: %s", text)
			}
			for _, text := range r.Errors {
				say(cmd, "error: %s", text)
			}
			switch n := len(r.Errors); n {
			case 0:
				return nil
			case 1:
				return fmt.Errorf("%s: one error, listed above; correct it and run validate-config again", a.home)
			default:
				return fmt.Errorf("%s: %d errors, listed above; correct them and run validate-config again", a.home, n)
			}
		},
	}
}
