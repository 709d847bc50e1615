package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/localnet"
	"github.com/troupe-chain/troupe/primitives"
)

// clusterEpoch is the epoch length of a cluster in blocks. This length is so large that usual runs
// end within the first epoch.
const clusterEpoch = 5_000

// clusterStart is the maximum time until a cluster has produced its first blocks.
const clusterStart = 2 * time.Minute

// openCluster creates homes, starts a process for each, and connects to the first node.
func openCluster(ctx context.Context, o *LoadOptions, w load.Workload) (_ *loaded, err error) {
	program := o.Program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(o.Dir, "troupe-bench-*")
	if err != nil {
		return nil, err
	}
	lo := home.LocalnetOptions{Dir: dir, Prefix: "node", Shards: o.Shards, Validators: o.Nodes, TrackedShards: "all",
		EpochLength: clusterEpoch, Now: time.Now, Random: rand.Reader, Free: home.PortFree}
	if o.Transport == Bridge {
		lo.NonValidators = 1
	}
	lo.Adjust = o.adjust(freePort)
	made, err := home.Localnet(lo)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var nodes []localnet.Node
	for _, n := range made.Nodes {
		nodes = append(nodes, localnet.Node{Spec: localnet.Spec{Name: n.Name, Role: string(n.Role), Tracks: n.Tracks},
			Command: []string{program, "--home", n.Dir, "run"},
			URL:     daemon.URL(n.RPC.String()), Log: filepath.Join(n.Dir, "run.log")})
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- localnet.Run(running, localnet.Options{Nodes: nodes, Every: time.Hour, Say: func(string) {}})
	}()
	end := func() error {
		stop()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	o.URL = nodes[0].URL
	if o.KeyFile, err = home.ReadKeyFile(filepath.Join(made.Nodes[0].Dir, "validator_key.json")); err != nil {
		return nil, errors.Join(err, end())
	}
	o.Progress(0, "starting nodes")
	if err := awaitBlocks(ctx, o.URL, ended); err != nil {
		return nil, errors.Join(err, end())
	}
	name := fmt.Sprintf("%d validators of %s on this machine, %d shards, all tracked by all, asked at the first, over "+
		"%s, pace %s", o.Nodes, filepath.Base(program), o.Shards,
		cmp.Or(o.Transport, config.Near), cmp.Or(o.Pace, string(config.Delays)))
	return openChain(ctx, o, w, load.Subject{Kind: "cluster", Name: name}, end)
}

// Bridge is the transport of a cluster in which half of the nodes use nearcore's protocol and the
// other half libp2p. An additional node relays between them. This node uses the two transports and
// is no validator.
const Bridge = "bridge"

// Transports lists the transports of a cluster.
var Transports = []string{config.Near, config.OverLibp2p, Bridge}

// adjust returns the function that changes the config.json of the cluster's nodes.
func (o *LoadOptions) adjust(port func(of string) (string, error)) func([]home.LocalnetNode, int, *config.Document) {
	var second string // libp2p address of the node that relays between the two transports
	return func(nodes []home.LocalnetNode, i int, doc *config.Document) {
		if o.Pace != "" {
			doc.Set("troupe.network.pace", o.Pace)
		}
		key := func(n *home.LocalnetNode) string {
			return primitives.SecretKeyFromSeed(primitives.ED25519, n.Name).PublicKey().String()
		}
		switch o.Transport {
		case config.OverLibp2p:
			doc.Set("network.transport", config.OverLibp2p)
		case Bridge:
			last := &nodes[len(nodes)-1]
			if second == "" {
				// The bridge uses the same host as the other nodes. It announces each node at the
				// address from which the node connected. If another process takes the port before
				// the bridge listens, the bridge fails to listen.
				second, _ = port(last.Network.Addr().String())
			}
			switch {
			case i == len(nodes)-1:
				doc.Set("network.transport", config.Both)
				doc.Set("network.libp2p.addr", second)
				doc.Set("network.boot_nodes", "")
				doc.Set("tracked_shards_config", "NoShards") // this node executes nothing and only relays messages
			case i < (len(nodes)-1)/2:
				doc.Set("network.boot_nodes", key(last)+"@"+last.Network.String())
			default:
				doc.Set("network.transport", config.OverLibp2p)
				doc.Set("network.boot_nodes", key(last)+"@"+second)
			}
		}
	}
}

// awaitBlocks waits until the chain of a node has grown by some blocks.
func awaitBlocks(ctx context.Context, url string, ended chan error) error {
	c, err := load.NewClient(url, 1, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	for {
		s, err := c.Status(ctx)
		if err == nil && s.Sync.Height >= 3 && !s.Sync.Syncing {
			return nil
		}
		select {
		case err := <-ended:
			ended <- nil
			return fmt.Errorf("bench: the cluster ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("bench: the cluster has produced no blocks after %v: %w", clusterStart, errors.Join(err, context.Cause(ctx)))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
