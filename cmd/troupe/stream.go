package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/indexer/lake"
	"github.com/troupe-chain/troupe/indexer/node"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// streamFlags holds the flags of troupe stream.
type streamFlags struct {
	from, bootNodes, networkAddr, rpcAddr string
	sync, streaming, finality             string
	shards, accounts                      []string
	cursor, lake, s3Endpoint, s3Region    string
	archive                               bool
	count                                 uint64

	bucket *lake.Writer // writes to an S3 bucket; nil: messages are printed as lines
}

func newStream(a *app) *cobra.Command {
	var o streamFlags
	c := &cobra.Command{
		Use:   "stream",
		Short: "Print each block and its effects, for indexers",
		Long: `Stream prints one line of JSON per block: its chunks, transactions, receipts, outcomes and state
changes, byte for byte as nearcore's indexer framework formats them (StreamerMessage).

Source: with --from URL, a running node, over a WebSocket. Otherwise this process runs the node of
the home folder. With --boot-nodes or --network-addr, or if config.json enables the network, that
node joins the network and produces no blocks. Else it produces the blocks of its chain itself, as
troupe run does. config.json sets which shards this node tracks and whether it keeps all blocks
(tracked_shards_config, archive). --shards and --accounts select the shards that are printed.

Start (--sync-mode):
  LatestSynced        at the newest block
  BlockHeight=17      at the first block of height 17 or above
  FromInterruption    after the last printed line, whose position is in the file --cursor. If that
                      file does not exist yet, at the newest block
  FromInterruption=17 the same, but if the file does not exist yet, at height 17
Timing (--streaming-mode): print at once (StreamWhileSyncing), or only after the node has caught up
with its network (WaitForFullSync).
Finality (--finality): Final; DoomSlug, blocks that stay unless block producers are slashed; None,
every block as it arrives. A DoomSlug or None block may later leave the chain: then a line
{"cursor": ..., "reverted": [...]} lists the void blocks, newest first, and the blocks that
replace them follow. The defaults are those of troupe.stream in config.json; with --from, the
built-in ones.

The cursor is stored after the line is written, so a killed process may print one line twice. For
exactly-once processing, store the block's hash together with your data, in a program of your own
(package indexer, docs/guide/indexer.md). If the reader of the output is slow, stream waits for
it.

With --lake BUCKET, stream prints nothing. It writes the blocks to a bucket of an S3-compatible
store in the layout of NEAR Lake, and continues after the last complete block of the bucket.
Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or the
machine's role. Temporary failures of the store are retried; a request that it rejects ends the
command.`,
		Example: `  troupe stream --from http://127.0.0.1:3030 | jq .block.header.height
  troupe stream --from http://127.0.0.1:3030 --cursor /tmp/c --sync-mode FromInterruption=0
  troupe --home /tmp/node stream --boot-nodes ed25519:7PGseF...@127.0.0.1:24567
  troupe --home /tmp/node stream --finality None --accounts alice.near,token.near
  troupe stream --from http://127.0.0.1:3030 --shards s0.v3,s2.v3 --count 10
  troupe --home /tmp/node stream --lake blocks --s3-endpoint http://127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, done, err := o.config(cmd, a)
			if err != nil {
				return err
			}
			return errors.Join(o.run(cmd, c), done())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.from, "from", "", "URL of a running node's JSON-RPC. If the node requires an API key: URL/KEY")
	f.StringVar(&o.bootNodes, "boot-nodes", "", "nodes to connect to first: node_key@host:port, separated by commas")
	f.StringVar(&o.networkAddr, "network-addr", "", "address that peers may connect to, host:port")
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "also serve JSON-RPC on this address, host:port")
	f.BoolVar(&o.archive, "archive", false, "keep all blocks: no garbage collection")
	f.StringVar(&o.sync, "sync-mode", "", "LatestSynced, FromInterruption, FromInterruption=HEIGHT or BlockHeight=HEIGHT")
	f.StringVar(&o.streaming, "streaming-mode", "", "StreamWhileSyncing or WaitForFullSync")
	f.StringVar(&o.finality, "finality", "", "Final, DoomSlug or None")
	f.StringSliceVar(&o.shards, "shards", nil, "print only these shards, like s0.v3")
	f.StringSliceVar(&o.accounts, "accounts", nil, "print only the shards of these accounts")
	f.StringVar(&o.cursor, "cursor", "", "file that stores the position; makes FromInterruption the default")
	f.Uint64Var(&o.count, "count", 0, "end after this number of blocks; 0: never")
	f.StringVar(&o.lake, "lake", "", "write blocks to this bucket in the layout of NEAR Lake, instead of printing them")
	f.StringVar(&o.s3Endpoint, "s3-endpoint", "https://s3.amazonaws.com", "URL of the store that has the bucket")
	f.StringVar(&o.s3Region, "s3-region", "", "region of the store (default: as the store reports it)")
	return c
}

// config returns the configuration of the stream. done stops the node that config started for the
// stream.
func (o *streamFlags) config(cmd *cobra.Command, a *app) (c indexer.Config, done func() error, err error) {
	done = func() error { return nil }
	flags := cmd.Flags()
	if o.from != "" {
		for _, flag := range []string{"boot-nodes", "network-addr", "rpc-addr", "archive"} {
			if flags.Changed(flag) {
				return c, done, usagef("--from reads from a running node; --%s is for a node that this command starts", flag)
			}
		}
	}
	if o.lake != "" && (o.cursor != "" || o.finality != "" && o.finality != "Final") {
		return c, done, usagef("--lake writes final blocks and continues after the last one in the bucket; leave out --cursor and --finality")
	}
	if c.Shards, err = o.filter(); err != nil {
		return c, done, err
	}
	check := indexer.Config{} // check the flags before a node is started
	if err := o.modes(&check, nil); err != nil {
		return c, done, err
	}
	for flag, addr := range map[string]string{"network-addr": o.networkAddr, "rpc-addr": o.rpcAddr} {
		if flags.Changed(flag) && !config.IsAddress(addr) {
			return c, done, usagef("--%s is %q, must be host:port, like 127.0.0.1:3030", flag, addr)
		}
	}
	if err := config.CheckBootNodes(o.bootNodes); err != nil {
		return c, done, usagef("--boot-nodes must be node_key@host:port, several separated by commas: %w", err)
	}
	log, err := newLog(cmd.ErrOrStderr(), a)
	if err != nil {
		return c, done, err
	}
	shards := c.Shards
	if o.from != "" {
		c.Source = indexer.URL(o.from)
	} else {
		n, err := o.start(a, log)
		if err != nil {
			return c, done, err
		}
		done = n.Close
		if c = n.Config(); n.Resumes() && o.sync == "" && o.cursor == "" && o.lake == "" {
			o.cursor = filepath.Join(a.home, "stream.cursor")
		}
	}
	c.Shards = shards
	c.OnTrouble = func(err error) { log.WithError(err).Warn("the stream is interrupted; retrying") }
	var after *indexer.Cursor
	if o.lake != "" {
		if after, err = o.open(cmd.Context(), log); err != nil {
			return c, done, errors.Join(err, done())
		}
		c.Finality = indexer.Final
	}
	if o.cursor != "" {
		if after, err = indexer.CursorFile(o.cursor).Load(); err != nil {
			return c, done, errors.Join(err, done())
		}
	}
	return c, done, o.modes(&c, after)
}

// modes applies the flags to c. after is the position from which to continue, or nil.
func (o *streamFlags) modes(c *indexer.Config, after *indexer.Cursor) (err error) {
	switch {
	case o.sync != "":
		if c.SyncMode, err = indexer.ParseSyncMode(o.sync, after); err != nil {
			return usagef("--sync-mode: %w", err)
		}
		if strings.HasPrefix(o.sync, "FromInterruption") && o.cursor == "" && o.lake == "" {
			return usagef("--sync-mode FromInterruption needs --cursor, the file that stores the position")
		}
	case after != nil:
		c.SyncMode = indexer.FromInterruption(after)
	}
	if o.streaming != "" {
		if c.StreamingMode, err = indexer.ParseStreamingMode(o.streaming); err != nil {
			return usagef("--streaming-mode: %w", err)
		}
	}
	if o.finality != "" {
		if c.Finality, err = indexer.ParseFinality(o.finality); err != nil {
			return usagef("--finality: %w", err)
		}
	}
	return nil
}

// filter returns the shards that --shards and --accounts select. nil means all shards.
func (o *streamFlags) filter() (*indexer.Shards, error) {
	if o.shards == nil && o.accounts == nil {
		return nil, nil
	}
	f := new(indexer.Shards)
	for _, text := range o.shards {
		uid, err := primitives.ParseShardUID(text)
		if err != nil {
			return nil, usagef("--shards: %q is not a shard like s0.v3: %w", text, err)
		}
		f.Shards = append(f.Shards, uid)
	}
	for _, text := range o.accounts {
		id, err := primitives.ParseAccountID(text)
		if err != nil {
			return nil, usagef("--accounts: %q: %w", text, err)
		}
		f.Accounts = append(f.Accounts, id)
	}
	return f, nil
}

// start starts the node of the home folder.
func (o *streamFlags) start(a *app, log *logrus.Logger) (*node.Node, error) {
	no := node.Options{Home: a.home, BootNodes: o.bootNodes, NetworkAddr: o.networkAddr, RPCAddr: o.rpcAddr, Archive: o.archive}
	hm, err := no.Load()
	if err != nil {
		return nil, err
	}
	for _, w := range hm.Warnings {
		log.Warn(w.String())
	}
	debug.SetGCPercent(daemon.GCPercent)
	info := buildInfo()
	n, err := node.Under(daemon.Options{
		Home: hm, Log: log, Listen: o.rpcAddr, NoRPC: o.rpcAddr == "", Trust: a.fast, Compiler: compilerCommand(),
		Version: view.Version{Version: info.Release, Build: info.Build, Commit: info.Commit, Compiler: info.Go},
	})
	if err == nil && n.Host().Addr != nil {
		log.Infof("chain %s, JSON-RPC on %s", hm.Genesis.ChainID, daemon.URL(n.Host().Addr.String()))
	}
	return n, err
}

// open opens the bucket and returns the position of its last block. The position is nil if the
// bucket is empty.
func (o *streamFlags) open(ctx context.Context, log *logrus.Logger) (after *indexer.Cursor, err error) {
	if o.bucket, err = lake.Open(ctx, lake.Options{Endpoint: o.s3Endpoint, Region: o.s3Region, Bucket: o.lake, OnTrouble: func(err error) {
		log.WithError(err).Warn("the store fails; retrying")
	}}); err != nil {
		return nil, err
	}
	if after, err = o.bucket.Last(ctx); err == nil && after != nil {
		log.Infof("the bucket has blocks up to %v", after)
	}
	return after, err
}

// errCounted is the handler's error after --count messages. This error makes indexer.Run return.
var errCounted = errors.New("the number of blocks given by --count was printed")

// run streams until the command is stopped, --count is reached or the stream fails.
func (o *streamFlags) run(cmd *cobra.Command, c indexer.Config) error {
	handle, told := o.print(cmd.OutOrStdout()), uint64(0)
	if o.bucket != nil {
		handle = o.bucket.Handle
	}
	err := indexer.Run(cmd.Context(), c, func(ctx context.Context, m *indexer.Message) error {
		if err := handle(ctx, m); err != nil {
			return err
		}
		if told++; told == o.count {
			return errCounted
		}
		return nil
	})
	if errors.Is(err, errCounted) || errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
		return nil
	}
	return err
}

// print returns a handler that writes one line per message and then stores the cursor.
func (o *streamFlags) print(out io.Writer) indexer.Handler {
	var line []byte
	return func(_ context.Context, m *indexer.Message) error {
		text, err := m.JSON()
		if err != nil {
			return err
		}
		line = append(append(line[:0], text...), '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("write to stdout: %w", err)
		}
		if o.cursor != "" {
			return indexer.CursorFile(o.cursor).Store(m.Cursor)
		}
		return nil
	}
}
