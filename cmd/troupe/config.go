package main

import (
	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

func newConfig(*app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Write the JSON schema of configuration files",
		Long:    "Config writes the JSON schema of configuration files. troupe validate-config checks a home folder.",
		Example: "  troupe config schema > config.schema.json",
	}, newConfigSchema())
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [config|genesis]",
		Short: "Write the JSON schema of config.json or genesis.json",
		Long: `Schema writes the JSON schema (draft 2020-12) of config.json, or of genesis.json. An editor that
knows the schema completes keys and shows their meaning, range and default. Name it in the file by
"$schema": "./config.schema.json", which the node ignores.`,
		Example: `  troupe config schema > ~/.near/config.schema.json
  troupe config schema genesis > genesis.schema.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := config.JSONSchema
			if len(args) == 1 {
				switch args[0] {
				case "config":
				case "genesis":
					write = genesis.JSONSchema
				default:
					return usagef("there is no schema of %.80q: config or genesis", args[0])
				}
			}
			text, err := write()
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
}
