package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/dump"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

func newViewState(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "view-state", Aliases: []string{"view_state"},
		Short: "Look at the state of a chain, whether it runs or not",
		Long: `View-state reads what a chain's state is. A node that runs on the home is asked for it, at a
socket in its data folder that is its user's alone; else the folder itself is read.`,
		Example: "  troupe --home /tmp/chain view-state dump-state",
	}
	// neard's, for which there is nothing here to set.
	c.PersistentFlags().BoolP("read-write", "w", false, "no effect: it is only read")
	c.PersistentFlags().StringP("store-temperature", "t", "hot", "no effect: there is one store")
	for _, name := range []string{"read-write", "store-temperature"} {
		_ = c.PersistentFlags().MarkHidden(name)
	}
	return group(c, newDumpState(a))
}

func newDumpState(a *app) *cobra.Command {
	var o struct {
		height               uint64
		stream               bool
		file                 string
		accounts, validators []string
	}
	c := &cobra.Command{
		Use: "dump-state", Aliases: []string{"dump_state"},
		Short: "Write the state as the genesis of a chain that begins where this one stands",
		Long: `Dump-state writes accounts, keys, code, data and waiting receipts as records of a genesis.json
whose first block follows the head: balances, stakes and the shard layout are those of now.
A file that is there already is replaced when the dump is whole.

What has no record, in neard neither: code that was deployed globally, promise yields, and
receipts on their way between shards.`,
		Example: `  troupe --home /tmp/chain view-state dump-state
  troupe --home /tmp/chain view-state dump-state --stream --file /tmp/copy
  troupe --home /tmp/chain view-state dump-state --account-ids alice.near,bob.near`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := &dump.Request{}
			if cmd.Flags().Changed("height") {
				h := primitives.Height(o.height)
				r.Height = &h
			}
			var err error
			if r.Accounts, err = accountIDs(cmd, "account-ids", o.accounts); err != nil {
				return err
			}
			if r.Validators, err = accountIDs(cmd, "include-validators", o.validators); err != nil {
				return err
			}
			hm, err := home.Load(a.home)
			if err != nil {
				return err
			}
			to := o.file
			if to == "" {
				to = filepath.Join(a.home, "output.json")
				if o.stream {
					to = filepath.Join(a.home, "output")
				}
			}
			var first *genesis.Config
			err = daemon.Dump(hm, r, func(d *dump.Received) error {
				first = d.Genesis
				if o.stream {
					return d.WriteFolder(to, hm)
				}
				return d.WriteFile(to)
			})
			if err != nil {
				return err
			}
			say(cmd, "the state behind block %d is in %s", first.GenesisHeight-1, to)
			return nil
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.height, "height", 0, "of the block whose state is wanted; without it the head")
	f.BoolVar(&o.stream, "stream", false, "write a folder: genesis.json, records.json, config.json and the keys")
	f.StringVar(&o.file, "file", "", "where to; without it output.json in the home, or the folder output with --stream")
	f.StringSliceVar(&o.accounts, "account-ids", nil, "only these accounts, and validators; several separated by commas, or the flag again")
	f.StringSliceVar(&o.validators, "include-validators", nil, "who stays a validator; the others have their stake back")
	return c
}

// accountIDs reads a flag; nil: it was not given.
func accountIDs(cmd *cobra.Command, flag string, list []string) ([]primitives.AccountID, error) {
	if !cmd.Flags().Changed(flag) {
		return nil, nil
	}
	out := []primitives.AccountID{}
	for _, text := range list {
		id, err := primitives.ParseAccountID(text)
		if err != nil {
			return nil, usagef("--%s: %w", flag, fmt.Errorf("%q: %w", text, err))
		}
		out = append(out, id)
	}
	return out, nil
}
