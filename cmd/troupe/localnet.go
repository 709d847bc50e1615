package main

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
)

const localnetLong = `Localnet creates the home folders of a network on this machine: node0, node1, ... below --home,
first the validators, then archival nodes, RPC nodes and other nodes. Flags and files are those of
neard's localnet, so neard can run any of these homes, together with troupe or instead of it.
Start all of them with 'troupe localnet run', or each with 'troupe --home DIR/nodeN run'.
config.json also switches on the console at /console/ of each node (troupe.rpc.console); neard
ignores this key.

All keys are derived from the folder names, so anyone can sign for them: use them for tests only.
Each account has a billion NEAR; a validator stakes 50 million of it; the account near is the
treasury. An epoch has 60 blocks, and a block takes 600 ms to 2 s. node0 is the boot node of all
other nodes.

Node i listens for peers on port --base-port + i and for JSON-RPC on port --base-port + 100 + i; a
port that is in use is an error. With --base-port 0, free ports between 20000 and 32767 are drawn.
Without IPv6, the nodes listen on 127.0.0.1 instead of [::1].

An existing node folder that is not empty is an error: localnet overwrites no files.`

const localnetExamples = `  troupe --home /tmp/net localnet -v 4 -s 4
  troupe --home /tmp/net localnet -v 1 --non-validators-rpc 2 --base-port 25000
  troupe --home /tmp/net localnet -v 4 -s 4 --tracked-shards none --epoch-length 300
  troupe --home /tmp/net localnet run`

// defaultBasePort is the default of --base-port. The ports from there on are not neard's default
// ports (3030, 24567), and not in the ephemeral range.
const defaultBasePort = 24600

func newLocalnet(a *app) *cobra.Command {
	var host string
	o := home.LocalnetOptions{Now: time.Now, Random: rand.Reader, Free: home.PortFree,
		Adjust: func(_ []home.LocalnetNode, _ int, doc *config.Document) {
			doc.Set("troupe.rpc.console", true) // safe, because all keys are public anyway
		}}
	cmd := &cobra.Command{
		Use: "localnet", Short: "Create a network of nodes on this machine", Long: localnetLong, Example: localnetExamples,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Dir = a.home
			if host != "" {
				var err error
				if o.Host, err = netip.ParseAddr(host); err != nil {
					return usagef("--host is %q, must be an IP address", host)
				}
			}
			if cmd.Flags().Changed("epoch-length") && o.EpochLength == 0 {
				return usagef("--epoch-length is 0, must be at least 1")
			}
			r, err := home.Localnet(o)
			if err != nil {
				return err
			}
			printLocalnet(cmd, a, &o, r)
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVarP(&o.Validators, "validators", "v", 4, "number of validators")
	f.IntVarP(&o.Shards, "shards", "s", 1, "number of shards")
	f.IntVarP(&o.NonValidators, "non-validators", "n", 0, "number of other nodes; they track --tracked-shards")
	f.IntVar(&o.RPC, "non-validators-rpc", 0, "number of nodes that track all shards and serve JSON-RPC")
	f.IntVar(&o.Archival, "non-validators-archival", 0, "number of archival nodes; they track all shards and keep all blocks")
	f.StringVar(&o.Prefix, "prefix", "node", "prefix of the names of folders and accounts")
	f.StringVar(&o.TrackedShards, "tracked-shards", "all", "shards of validators and other nodes: all, none (only assigned shards), or shard ids")
	f.StringVar(&o.ChainID, "chain-id", "", "id of the chain (default: test-chain- and five random characters)")
	f.Uint64Var(&o.EpochLength, "epoch-length", 60, "blocks per epoch")
	f.Uint16Var(&o.BasePort, "base-port", defaultBasePort, "first port; 0: draw free ports")
	f.StringVar(&host, "host", "", "IP address of all nodes (default: ::1, or 127.0.0.1 without IPv6)")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // neard's long names of -v and -n
		case "v":
			name = "validators"
		case "n":
			name = "non-validators"
		}
		return pflag.NormalizedName(name)
	})
	cmd.AddCommand(newLocalnetRun(a))
	return cmd
}

// printLocalnet prints the nodes that localnet created and the next command.
func printLocalnet(cmd *cobra.Command, a *app, o *home.LocalnetOptions, r *home.LocalnetResult) {
	dir := a.home
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	say(cmd, "chain %s in %s", r.ChainID, dir)
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, n := range r.Nodes {
		_, _ = fmt.Fprintf(w, "%s\t%s\tJSON-RPC %v\tpeers %v\n", n.Name, n.Role, n.RPC, n.Network)
	}
	_ = w.Flush()
	for _, n := range r.Notes {
		say(cmd, "note: %s", n)
	}
	say(cmd, "console: http://%v/console/ and that of each other node", r.Nodes[0].RPC)
	next := "localnet run"
	if o.Prefix != "node" {
		next += " --prefix " + o.Prefix
	}
	say(cmd, "next: %s --home %s %s", program(), a.home, next)
}
