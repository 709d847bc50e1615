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
		Short: "Read the chain of a home folder, also while its node runs",
		Long: `View-state reads blocks, epochs and states of the chain of a home folder. It asks the running node,
over a socket in the data folder that only the same user can open; without a running node it reads
the folder itself.`,
		Example: `  troupe --home /tmp/chain view-state dump-state
  troupe --home /tmp/chain view-state epoch-info current`,
	}
	// flags of neard that have no effect here
	c.PersistentFlags().BoolP("read-write", "w", false, "ignored: the store is only read")
	c.PersistentFlags().StringP("store-temperature", "t", "hot", "ignored: there is only one store")
	for _, name := range []string{"read-write", "store-temperature"} {
		_ = c.PersistentFlags().MarkHidden(name)
	}
	return group(c, newDumpState(a), newViewChain(a), newEpochInfo(a), newApplyRange(a), newCheckHistory(a))
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
		Short: "Write the state as the genesis of a new chain",
		Long: `Dump-state writes accounts, keys, code, data and delayed receipts as the records of a genesis.json.
The first block of the new chain follows the head of this chain, and has the balances, stakes and
shard layout of this chain. An existing output file is replaced when the dump is complete.
As in neard, some state has no record and is left out: global contract code, promise yields, and
receipts in transit between shards.`,
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
			say(cmd, "the state after block %d is in %s", first.GenesisHeight-1, to)
			return nil
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.height, "height", 0, "height of the block whose state is written (default: the head)")
	f.BoolVar(&o.stream, "stream", false, "write a folder: genesis.json, records.json, config.json and the keys")
	f.StringVar(&o.file, "file", "", "output file, or folder with --stream (default: output.json, or output, in the home folder)")
	f.StringSliceVar(&o.accounts, "account-ids", nil, "write only these accounts, and the validators; separated by commas, may be repeated")
	f.StringSliceVar(&o.validators, "include-validators", nil, "accounts that stay validators; all others get their stake back")
	return c
}

// accountIDs parses the values of a flag; nil: the flag was not given.
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
