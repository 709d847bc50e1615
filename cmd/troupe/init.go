package main

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

const initLong = `Makes the files of a chain in the home folder: config.json, genesis.json,
validator_key.json and node_key.json, in the form and with the values of neard's init.

The genesis has two accounts with a billion NEAR each: the validator (test.near, or
--account-id), whose key is in validator_key.json, and "near", whose key is that of
the seed "near". All other accounts are made by transactions, or added to the
records of genesis.json by hand before the first run.

Without --fast, epochs are 43,200 blocks long and a transaction may name a block up
to 86,400 blocks old (neard: 500 and 100), since blocks come as fast as they are
needed. With --fast it is neard's 60 and 100, and shorter delays between blocks.

In a folder that has been initialised, only what is missing is made: files, and keys
of config.json. What is there is kept, and asking for something else is an error.

mainnet and testnet have a genesis of their own, which is given or downloaded; there
a validator key is made only for --account-id. Downloads may be packed with gzip.`

const initExamples = `  troupe --home /tmp/chain init
  troupe --home /tmp/chain init --fast --chain-id localnet --num-shards 4
  troupe --home /tmp/chain init --test-seed alice --account-id alice.near
  troupe --home /tmp/chain init --genesis ./genesis.json
  troupe --home /tmp/chain init --chain-id testnet --download-config=rpc \
      --download-genesis-url https://example.com/genesis.json.gz`

func newInit(a *app) *cobra.Command {
	var (
		o                 = home.InitOptions{Now: time.Now, Random: rand.Reader}
		account, testSeed string
		maxGas            uint64
	)
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Make the files of a chain",
		Long:    initLong,
		Example: initExamples,
		// neard takes `--download-config rpc` beside `--download-config=rpc`.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.Flags().Changed("download-config") && slices.Contains(home.ConfigKinds, args[0]) {
				o.ConfigKind = args[0]
				return nil
			}
			if len(args) > 0 {
				return usagef("init takes no argument %q; what it takes are flags", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			o.Dir = a.home
			o.ConfigKind = strings.ToLower(strings.TrimSpace(o.ConfigKind))
			switch {
			case f.Changed("chain-id") && o.ChainID == "":
				return usagef("--chain-id must not be empty; leave it out for a random one")
			case o.NumShards < 1:
				return usagef("--num-shards is %d, must be from 1 to %d", o.NumShards, home.MaxShards)
			}
			if f.Changed("account-id") {
				id, err := primitives.ParseAccountID(account)
				if err != nil {
					return usagef("--account-id %q: %w", account, err)
				}
				o.AccountID = id
			}
			if f.Changed("test-seed") {
				o.TestSeed = &testSeed
			}
			if f.Changed("max-gas-burnt-view") {
				gas := primitives.Gas(maxGas)
				o.MaxGasBurntView = &gas
			}
			if f.Changed("state-sync-bucket") {
				say(cmd, "note: --state-sync-bucket is ignored: there is no state sync from a bucket")
			}
			o.Downloader = home.NewDownloader()
			o.Downloader.Progress = newProgress(cmd.ErrOrStderr())
			result, err := home.Init(cmd.Context(), o)
			if err != nil {
				return err
			}
			printInit(cmd, a, result)
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.ChainID, "chain-id", "", "id of the chain (default test-chain- and five random characters)")
	f.BoolVar(&o.Fast, "fast", false, "short epochs and short delays between blocks, for tests")
	f.IntVar(&o.NumShards, "num-shards", 1, "number of shards")
	f.StringVar(&account, "account-id", "", "account of the validator (default test.near)")
	f.StringVar(&testSeed, "test-seed", "", "derive the validator's key from this word, for tests")
	f.StringVar(&o.GenesisFile, "genesis", "", "file with the genesis of the chain")
	f.BoolVar(&o.DownloadGenesis, "download-genesis", false, "download the genesis of --chain-id mainnet or testnet")
	f.StringVar(&o.GenesisURL, "download-genesis-url", "", "download the genesis from here")
	f.StringVar(&o.RecordsURL, "download-records-url", "", "download the genesis's records file from here")
	f.StringVar(&o.ConfigKind, "download-config", "", "download config.json of --chain-id mainnet or testnet: validator, rpc or archival")
	f.Lookup("download-config").NoOptDefVal = "validator"
	f.StringVar(&o.ConfigURL, "download-config-url", "", "download config.json from here")
	f.StringVar(&o.BootNodes, "boot-nodes", "", "nodes to connect to first: node_key@host:port, separated by commas")
	f.Uint64Var(&maxGas, "max-gas-burnt-view", 0, "gas that a view call may burn (default: what the protocol allows)")
	f.String("state-sync-bucket", "", "ignored")
	_ = f.MarkHidden("state-sync-bucket") // fails for names that don't exist
	return cmd
}

// printInit tells what was made and what to do next.
func printInit(cmd *cobra.Command, a *app, r *home.InitResult) {
	dir := a.home
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	say(cmd, "chain %s in %s", r.ChainID, dir)
	if len(r.Made) > 0 {
		say(cmd, "made: %s", strings.Join(r.Made, ", "))
	}
	if len(r.Kept) > 0 {
		say(cmd, "kept: %s", strings.Join(r.Kept, ", "))
	}
	if len(r.Completed) > 0 {
		const shown = 8
		list := strings.Join(r.Completed[:min(shown, len(r.Completed))], ", ")
		if more := len(r.Completed) - shown; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		say(cmd, "added to config.json: %s", list)
	}
	if r.Validator != nil {
		say(cmd, "validator: %s %v", r.Validator.AccountID, r.Validator.PublicKey())
	}
	for _, n := range r.Notes {
		say(cmd, "note: %s", n)
	}
	say(cmd, "next: troupe --home %s run", a.home)
}
