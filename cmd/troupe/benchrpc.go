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
		Long: `Rpc runs a whole node in this process, on a chain of its own in a temporary folder, and asks it
over loopback from keep-alive connections, one scenario after another, while a few transfers a
second make blocks. The load takes its part of the same processor.

With --url the node is one that runs already, and the load is another process. Without --key-file
only reads are measured then.`,
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
	f.StringSliceVar(&o.Scenarios, "scenarios", nil, "which of "+strings.Join(bench.RPCScenarios(), ", ")+"; all by default")
	f.IntVar(&o.Connections, "connections", 64, "keep-alive connections, each with one request at a time")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long each scenario lasts")
	f.Float64Var(&o.Background, "background", 20, "transfers a second that make blocks while reads are measured")
	f.IntVar(&o.Accounts, "accounts", 100_000, "accounts in the genesis")
	f.Float64Var(&o.Rate, "rate", 10_000, "transfers a second that submit sends; 0: as many as the connections let through")
	f.Float64Var(&o.Signed, "signed", 25_000, "without --rate: transfers to sign beforehand for each second of submit")
	f.StringVar(&o.URL, "url", "", "http://host:port of a node that runs; by default one is started")
	f.StringVar(&keyFile, "key-file", "", "with --url: the key that signs transfers")
	f.StringVar(&o.Dir, "dir", "", "where the chain's folder is made and removed; the system's temporary folder by default")
	f.StringVar(&o.State, "state", "", "a chain that bench state made: run on it")
	f.Uint64Var(&o.Memory, "memory", 0, "bytes for the tries of that chain; 0: the node's own choice")
	b.flags(c)
	return c
}
