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

const initLong = `Init creates the files of a chain in the home folder: config.json, genesis.json,
validator_key.json and node_key.json, in the format and with the values of neard's init.

The genesis has two accounts with a billion NEAR each: the validator (test.near, or
--account-id), whose key is in validator_key.json, and "near", whose key is derived from
the seed "near". Create other accounts by transactions, or add them to the records in
genesis.json before the first run.

Without --fast, an epoch has 43,200 blocks (neard init: 500) and a transaction is valid
for 86,400 heights after the block that it refers to (neard init: 100), because blocks are
produced on demand. With --fast an epoch has 60 blocks and a transaction is valid for 100
heights, as with neard init --fast, and block delays are shorter.

In a folder that is already initialised, init creates only missing files and missing keys
of config.json. It changes nothing that exists: an option that contradicts an
existing file is an error.

mainnet and testnet have a fixed genesis. That of mainnet is built in; give that of testnet
with --genesis, or download it. For these chains init creates a validator key only with
--account-id. Downloads may be compressed with gzip or xz.`

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
		Short:   "Create the files of a chain",
		Long:    initLong,
		Example: initExamples,
		// As in neard, `--download-config rpc` means the same as `--download-config=rpc`.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && cmd.Flags().Changed("download-config") && slices.Contains(home.ConfigKinds, args[0]) {
				o.ConfigKind = args[0]
				return nil
			}
			if len(args) > 0 {
				return usagef("init takes no argument %q, only flags", args[0])
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
				say(cmd, "note: --state-sync-bucket is ignored: this node syncs state from peers, not from a bucket")
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
	f.StringVar(&o.ChainID, "chain-id", "", "id of the chain (default: test-chain- and five random characters)")
	f.BoolVar(&o.Fast, "fast", false, "short epochs and short delays between blocks, for tests")
	f.IntVar(&o.NumShards, "num-shards", 1, "number of shards")
	f.StringVar(&account, "account-id", "", "account of the validator (default: test.near)")
	f.StringVar(&testSeed, "test-seed", "", "derive the validator's key from this word; for tests only")
	f.StringVar(&o.GenesisFile, "genesis", "", "use this genesis file")
	f.BoolVar(&o.DownloadGenesis, "download-genesis", false, "download the genesis of --chain-id mainnet or testnet")
	f.StringVar(&o.GenesisURL, "download-genesis-url", "", "download the genesis from this URL")
	f.StringVar(&o.RecordsURL, "download-records-url", "", "download the genesis records from this URL")
	f.StringVar(&o.ConfigKind, "download-config", "", "download config.json of --chain-id mainnet or testnet: validator, rpc or archival")
	f.Lookup("download-config").NoOptDefVal = "validator"
	f.StringVar(&o.ConfigURL, "download-config-url", "", "download config.json from this URL")
	f.StringVar(&o.BootNodes, "boot-nodes", "", "nodes to connect to first: node_key@host:port, separated by commas")
	f.Uint64Var(&maxGas, "max-gas-burnt-view", 0, "gas limit of a view call (default: the protocol's limit)")
	f.String("state-sync-bucket", "", "ignored")
	_ = f.MarkHidden("state-sync-bucket") // fails for names that don't exist
	return cmd
}

// printInit prints the files that init created and the next command.
func printInit(cmd *cobra.Command, a *app, r *home.InitResult) {
	dir := a.home
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	say(cmd, "chain %s in %s", r.ChainID, dir)
	if len(r.Made) > 0 {
		say(cmd, "created: %s", strings.Join(r.Made, ", "))
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
	say(cmd, "next: %s --home %s run", program(), a.home)
}
