package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/bench"
	"github.com/troupe-chain/troupe/internal/home"
)

func newBenchRPC() *cobra.Command {
	o, b := bench.RPCOptions{}, benchRun{}
	var keyFile string
	c := &cobra.Command{
		Use:   "rpc",
		Short: "Measure a node's JSON-RPC over HTTP",
		Long: `Rpc runs a whole node in this process, on a chain of its own in a temporary folder, and sends it
requests over loopback from keep-alive connections, one scenario after another. While it measures
reads, it also sends a few transfers per second, so that blocks are not empty. The load generator
shares the CPU with the node.
With --url it measures a node that already runs in another process; without --key-file it then
measures reads only.`,
		Example: `  troupe bench rpc
  troupe bench rpc --scenarios view_account,status --connections 256
  troupe bench rpc --url http://127.0.0.1:3030 --key-file ~/.near/validator_key.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keyFile != "" {
				k, err := home.ReadKeyFile(keyFile)
				if err != nil {
					return err
				}
				o.KeyFile = k
			}
			return b.run(cmd, func(progress func(float64, string), profile io.Writer) (report, error) {
				o.Commit, o.Progress, o.CPUProfile = buildInfo().Commit, progress, profile
				return bench.RunRPC(cmd.Context(), o)
			})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Scenarios, "scenarios", nil, "scenarios to run, of "+strings.Join(bench.RPCScenarios(), ", ")+" (default: all)")
	f.IntVar(&o.Connections, "connections", 64, "keep-alive connections, each with one request at a time")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long each scenario lasts")
	f.Float64Var(&o.Background, "background", 20, "transfers per second that are sent while reads are measured, so that blocks are not empty")
	f.IntVar(&o.Accounts, "accounts", 100_000, "accounts in the genesis")
	f.Float64Var(&o.Rate, "rate", 10_000, "transfers per second of the submit scenario; 0: as many as the connections allow")
	f.Float64Var(&o.Signed, "signed", 25_000, "with --rate 0: transfers to sign before the run, per second of the submit scenario")
	f.StringVar(&o.URL, "url", "", "http://host:port of a running node (default: start one)")
	f.StringVar(&keyFile, "key-file", "", "with --url: file with the key that signs transfers")
	f.StringVar(&o.Dir, "dir", "", "where the chain's temporary folder is created (default: the system's temporary folder)")
	f.StringVar(&o.State, "state", "", "folder made by bench state: run on that chain")
	f.Uint64Var(&o.Memory, "memory", 0, "with --state: bytes of memory for the tries; 0: the node's default")
	b.flags(c)
	return c
}
