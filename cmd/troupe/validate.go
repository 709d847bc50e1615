package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
)

func newValidateConfig(a *app) *cobra.Command {
	var archive bool
	c := &cobra.Command{
		Use:   "validate-config",
		Short: "Check config.json, genesis.json and the keys",
		Long: `Validate-config reads all files of the home folder as run does, and prints all errors at once:
values that are not allowed, with the allowed ones; unknown keys of config.json, with the nearest
known key; key files whose two keys do not match; an inconsistent genesis; epoch_configs/. It then
creates the chain in memory, so that it finds every error that run would find in these files.
A node runs in spite of warnings. If there is an error, the exit code is 1.`,
		Example: "  troupe --home /tmp/chain validate-config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := daemon.CheckHome(a.home, archive)
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
				return fmt.Errorf("%s: 1 error, listed above; correct it and run validate-config again", a.home)
			default:
				return fmt.Errorf("%s: %d errors, listed above; correct them and run validate-config again", a.home, n)
			}
		},
	}
	c.Flags().BoolVar(&archive, "archive", false, "check for a node that runs with --archive")
	return c
}
