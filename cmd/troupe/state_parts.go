package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/stateprobe"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

const statePartsLong = `State-parts asks peers for the state of a shard, as a new node does, and prints which peer gives
which part, how long it takes and how large the part is. It starts no node and stores nothing: it
connects as a peer with a new key, and leaves when the answers are in. Each header and part is
verified: a header must prove its chunk against the block before the sync block, and a part must
belong to the state root in that chunk. The exit code is 1 if no peer gives a valid part.

The chain is that of --home, or --chain-id and --genesis-hash. The peers are those of --peer, or
the boot nodes in config.json. Without --sync-hash the sync block is that of the newest epoch
whose state the peers announce; if they differ, most peers decide.

By default each peer is asked on its connection. With --routed, all hosts that announce the state
are asked by routed messages and answer over connections that they open, as neard's nodes do; for
that they must reach --listen, which --public-addr names if it is behind a NAT.

Verdicts: valid; wrong (contradicts its proof); unavailable, busy, failed (the peer says so);
silent (no answer within --timeout; after three of them the peer is asked no more); disconnected;
skipped. neard answers at most 30 requests of all its peers in 30 seconds and ignores the rest,
so a larger number of parts needs an --interval of a second or more.`

// statePartsOptions are the flags of state-parts.
type statePartsOptions struct {
	peers                      []string
	shard, sample              uint64
	sync, chain, genesis, part string
	listen, public             string
	routed, json               bool
	connect, wait, interval    time.Duration
}

func newStateParts(a *app) *cobra.Command {
	o := new(statePartsOptions)
	c := &cobra.Command{
		Use: "state-parts --shard-id N", Aliases: []string{"state_parts"},
		Short: "Ask peers for parts of a state, and verify them", Long: statePartsLong,
		Example: `  troupe --home /tmp/chain net state-parts --shard-id 0
  troupe net state-parts --shard-id 0 --peer ed25519:7PGseF...@127.0.0.1:24567 --part all
  troupe net state-parts --chain-id mainnet --shard-id 3 --part 0-9 --json \
    --genesis-hash EPnLgE7iEq9s7yTkos96M3cWymH5avBAPm3qx3NXqR8H \
    --peer ed25519:7PGseF...@192.0.2.1:24567`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			probe, err := o.probe(a, cmd)
			if err != nil {
				return err
			}
			bar := statePartsBar(cmd.ErrOrStderr())
			if bar != nil {
				probe.Progress = func(done, all int) {
					bar.ChangeMax(all)
					_ = bar.Set(done)
				}
			}
			r, err := stateprobe.Run(cmd.Context(), *probe)
			if bar != nil {
				_ = bar.Finish()
			}
			if r == nil {
				return err
			}
			show := r.Write
			if o.json {
				show = func(w io.Writer) error {
					e := json.NewEncoder(w)
					e.SetIndent("", "  ")
					return e.Encode(r)
				}
			}
			return errors.Join(show(cmd.OutOrStdout()), err)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Uint64Var(&o.shard, "shard-id", 0, "shard whose state is requested")
	f.StringSliceVar(&o.peers, "peer", nil, "peer KEY@HOST:PORT; separated by commas, may be repeated (default: the boot nodes)")
	f.StringVar(&o.sync, "sync-hash", "", "hash of the sync block (default: the newest one that the peers announce)")
	f.StringVar(&o.part, "part", "", "parts to request: all, or numbers and ranges as in 0,7,20-29 (default: a sample)")
	f.Uint64Var(&o.sample, "sample", stateprobe.DefaultSample, "number of parts to request without --part, from the first to the last")
	f.BoolVar(&o.routed, "routed", false, "ask all hosts that announce the state, by routed messages")
	f.StringVar(&o.listen, "listen", "0.0.0.0:0", "address to listen on; hosts connect to it with --routed")
	f.StringVar(&o.public, "public-addr", "", "IP:PORT under which hosts reach --listen (default: what a peer reports)")
	f.StringVar(&o.chain, "chain-id", "", "chain of the peers (default: that of --home)")
	f.StringVar(&o.genesis, "genesis-hash", "", "hash of the chain's genesis block (default: that of --home)")
	f.DurationVar(&o.connect, "connect-timeout", 10*time.Second, "time limit for connecting, and for finding hosts and routes")
	f.DurationVar(&o.wait, "timeout", 30*time.Second, "time limit of a request")
	f.DurationVar(&o.interval, "interval", 0, "pause between two requests to a peer")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	return c
}

// statePartsBar returns a progress bar, or nil if w is not a terminal.
func statePartsBar(w io.Writer) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return progressbar.NewOptions(1, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("requests"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
}

// probe returns the probe that the flags describe.
func (o *statePartsOptions) probe(a *app, cmd *cobra.Command) (*stateprobe.Options, error) {
	out := &stateprobe.Options{Shard: primitives.ShardID(o.shard), Routed: o.routed, Connect: o.connect, Wait: o.wait, Interval: o.interval,
		Version: uint32(parameters.Newest(primitives.NumberingRelease)), Oldest: daemon.OldestPeer}
	if !cmd.Flags().Changed("shard-id") {
		return nil, usagef("--shard-id is missing: name the shard whose state is requested")
	}
	if min(o.connect, o.wait) <= 0 || o.interval < 0 || o.sample == 0 {
		return nil, usagef("--connect-timeout, --timeout and --sample must be above 0, --interval must not be negative")
	}
	for _, x := range []struct {
		flag, text string
		to         *primitives.Hash
	}{{"sync-hash", o.sync, &out.Sync}, {"genesis-hash", o.genesis, &out.Chain.Hash}} {
		if x.text == "" {
			continue
		}
		hash, err := primitives.ParseHash(x.text)
		if err != nil {
			return nil, usagef("--%s: %w", x.flag, err)
		}
		*x.to = hash
	}
	if out.Parts.Sample = o.sample; o.part != "" {
		var err error
		if out.Parts, err = stateprobe.ParseParts(o.part); err != nil {
			return nil, usagef("--part: %w", err)
		}
	}
	for _, x := range []struct {
		flag, text string
		to         *netip.AddrPort
	}{{"listen", o.listen, &out.Listen}, {"public-addr", o.public, &out.Public}} {
		if x.text == "" {
			continue
		}
		at, err := netip.ParseAddrPort(x.text)
		if err != nil {
			return nil, usagef("--%s is %q, must be IP:PORT, like 192.0.2.1:24567", x.flag, x.text)
		}
		*x.to = at
	}
	out.Key = primitives.SecretKeyFromSeed(primitives.ED25519, rand.Text())
	return out, o.chainAndPeers(a, cmd, out)
}

// chainAndPeers sets the chain and the peers, from the flags or from the home folder.
func (o *statePartsOptions) chainAndPeers(a *app, cmd *cobra.Command, out *stateprobe.Options) (err error) {
	if (o.chain == "") != (o.genesis == "") {
		return usagef("--chain-id and --genesis-hash must be given together")
	}
	for _, p := range o.peers {
		if _, err := config.Peers(p); err != nil {
			return usagef("--peer: %w", err)
		}
		list, err := daemon.Peers("--peer", p)
		if err != nil {
			return err
		}
		out.Peers = append(out.Peers, list...)
	}
	out.Chain.ChainID = o.chain
	if o.chain != "" && len(out.Peers) > 0 {
		return nil
	}
	hm, err := home.LoadChain(a.home)
	if err != nil {
		return err
	}
	out.Version = uint32(parameters.Newest(hm.Numbering))
	if len(out.Peers) == 0 {
		if out.Peers, err = daemon.Peers("network.boot_nodes", hm.Config.Network.BootNodes); err != nil {
			return err
		}
		if len(out.Peers) == 0 {
			return usagef("%s has no network.boot_nodes: name peers with --peer KEY@HOST:PORT", hm.Paths.Config)
		}
		out.Peers = distinct(out.Peers)
	}
	if o.chain == "" {
		out.Chain, err = daemon.GenesisID(hm)
	}
	return err
}

// distinct returns the first stateprobe.MaxPeers different peers.
func distinct(list []wire.PeerInfo) (out []wire.PeerInfo) {
	seen := map[wire.PeerID]bool{}
	for _, p := range list {
		if !seen[p.ID] && len(out) < stateprobe.MaxPeers {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	return out
}
