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

	"github.com/troupe-chain/troupe/internal/home"
)

const localnetLong = `Makes the homes of a network on this machine: node0, node1, ... below --home, validators first,
then archival nodes, RPC nodes and others. The flags and the files are those of neard's localnet,
and so neard can run any of the homes, beside or instead of troupe.

Keys are derived from the nodes' names: of node0 the account node0, its validator key and its node
key are all of the seed "node0", as everybody knows. Each account has a billion NEAR, of which a
validator stakes 50 million; the account near is the treasury. Epochs have 60 blocks, and blocks
come every 600 ms to 2 s. Who is not node0 has node0 as boot node.

Ports are drawn and free at the moment; with --base-port N node i listens for other nodes at N+i
and for JSON-RPC at N+100+i. Where the machine has no IPv6 the nodes listen on 127.0.0.1, not on
[::1].

No file is replaced: a folder of that name which has something in it is an error.`

const localnetExamples = `  troupe --home /tmp/net localnet -v 4 -s 4
  troupe --home /tmp/net localnet -v 1 --non-validators-rpc 2 --base-port 24600
  troupe --home /tmp/net localnet -v 4 -s 4 --tracked-shards none --epoch-length 300
  troupe --home /tmp/net localnet run`

func newLocalnet(a *app) *cobra.Command {
	var host string
	o := home.LocalnetOptions{Now: time.Now, Random: rand.Reader, Free: home.PortFree}
	cmd := &cobra.Command{
		Use: "localnet", Short: "Make a network on this machine", Long: localnetLong, Example: localnetExamples,
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
				return usagef("--epoch-length is 0, must be 1 at least")
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
	f.IntVarP(&o.NonValidators, "non-validators", "n", 0, "number of other nodes, which track --tracked-shards")
	f.IntVar(&o.RPC, "non-validators-rpc", 0, "number of nodes that track all shards and serve JSON-RPC")
	f.IntVar(&o.Archival, "non-validators-archival", 0, "number of nodes that track all shards and keep everything")
	f.StringVar(&o.Prefix, "prefix", "node", "how names of folders and accounts begin")
	f.StringVar(&o.TrackedShards, "tracked-shards", "all", "what validators and other nodes track: all, none (but what they are assigned), or ids")
	f.StringVar(&o.ChainID, "chain-id", "", "id of the chain (default test-chain- and five random characters)")
	f.Uint64Var(&o.EpochLength, "epoch-length", 60, "blocks of an epoch")
	f.Uint16Var(&o.BasePort, "base-port", 0, "first of the ports (default: they are drawn)")
	f.StringVar(&host, "host", "", "IP address of all nodes (default ::1, or 127.0.0.1 without IPv6)")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // neard takes these, too
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

// printLocalnet tells what was made and what to do next.
func printLocalnet(cmd *cobra.Command, a *app, o *home.LocalnetOptions, r *home.LocalnetResult) {
	dir := a.home
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	say(cmd, "chain %s in %s", r.ChainID, dir)
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, n := range r.Nodes {
		_, _ = fmt.Fprintf(w, "%s\t%s\tJSON-RPC %v\tother nodes %v\n", n.Name, n.Role, n.RPC, n.Network)
	}
	_ = w.Flush()
	for _, n := range r.Notes {
		say(cmd, "note: %s", n)
	}
	next := "localnet run"
	if o.Prefix != "node" {
		next += " --prefix " + o.Prefix
	}
	say(cmd, "next: troupe --home %s %s", a.home, next)
}
