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

// streamFlags are those of troupe stream.
type streamFlags struct {
	from, bootNodes, networkAddr, rpcAddr string
	sync, streaming, finality             string
	shards, accounts                      []string
	cursor, lake, s3Endpoint, s3Region    string
	archive                               bool
	count                                 uint64

	bucket *lake.Writer // nil: lines are printed
}

func newStream(a *app) *cobra.Command {
	var o streamFlags
	c := &cobra.Command{
		Use:   "stream",
		Short: "Print each block with all that it did, for indexers",
		Long: `Stream prints a line for each block: JSON with its chunks, transactions, receipts, outcomes and
state changes, byte for byte as nearcore's indexer framework has it (StreamerMessage).

The blocks come from a running node by its URL (--from), over a WebSocket, or from a node of its
own in this process: that of the home folder, which joins the network of --boot-nodes, or of
network.boot_nodes in config.json, without making blocks. Without a network it is the chain of the
home folder that runs. Which shards such a node follows, and whether it keeps the past, config.json
says (tracked_shards_config, archive). What this command shows of them --shards and --accounts say.

Where it begins (--sync-mode):
  LatestSynced        with the last block that there is
  BlockHeight=17      with the first block at height 17 or above
  FromInterruption    behind the last line that was printed: --cursor names the file that holds it;
                      where there is none yet it begins as LatestSynced, or with
                      FromInterruption=17 at that height
When (--streaming-mode): at once (StreamWhileSyncing), or when the node has caught up with its
network (WaitForFullSync). How final a block must be (--finality): Final; DoomSlug, a block that
stays unless block producers are slashed; None, each block as it comes. Of the last two a block
may turn out to be no part of the chain: then a line {"cursor": ..., "reverted": [...]} names those
that are void, the last one first, and those in their place follow. The defaults of all three are
what troupe.stream says in config.json, of --from those of Troupe.

The cursor is stored when the line is written. Who is killed between prints one line twice; who
must not stores the block's hash with what he makes of it, as a program of his own does (package
indexer, docs/guide/indexer.md). A reader of this output that is slow is waited for.

With --lake nothing is printed: the blocks go into a bucket of an S3-compatible store, in the
layout of NEAR Lake, which near-lake-framework reads. It goes on behind the last whole block that
is in the bucket. The keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from
~/.aws/credentials, or are the machine's role. While the store fails it is tried again; what it
refuses ends the command.`,
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
	f.StringVar(&o.from, "from", "", "a running node: the URL of its JSON-RPC, with an API key as its path")
	f.StringVar(&o.bootNodes, "boot-nodes", "", "nodes to connect to: node_key@host:port, several separated by commas")
	f.StringVar(&o.networkAddr, "network-addr", "", "where other nodes may connect, host:port")
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "where this node also serves JSON-RPC, host:port")
	f.BoolVar(&o.archive, "archive", false, "keep everything: no garbage collection")
	f.StringVar(&o.sync, "sync-mode", "", "LatestSynced, FromInterruption, FromInterruption=HEIGHT or BlockHeight=HEIGHT")
	f.StringVar(&o.streaming, "streaming-mode", "", "StreamWhileSyncing or WaitForFullSync")
	f.StringVar(&o.finality, "finality", "", "Final, DoomSlug or None")
	f.StringSliceVar(&o.shards, "shards", nil, "show these shards, like s0.v3")
	f.StringSliceVar(&o.accounts, "accounts", nil, "show the shards that hold these accounts")
	f.StringVar(&o.cursor, "cursor", "", "the file that holds where to go on; with it FromInterruption is the default")
	f.Uint64Var(&o.count, "count", 0, "end after so many lines")
	f.StringVar(&o.lake, "lake", "", "a bucket to write to in the layout of NEAR Lake, in place of lines")
	f.StringVar(&o.s3Endpoint, "s3-endpoint", "https://s3.amazonaws.com", "the store that has the bucket: a URL")
	f.StringVar(&o.s3Region, "s3-region", "", "its region; what it says itself by default")
	return c
}

// config says what is streamed; done ends the node that has been started for it.
func (o *streamFlags) config(cmd *cobra.Command, a *app) (c indexer.Config, done func() error, err error) {
	done = func() error { return nil }
	flags := cmd.Flags()
	if o.from != "" {
		for _, flag := range []string{"boot-nodes", "network-addr", "rpc-addr", "archive"} {
			if flags.Changed(flag) {
				return c, done, usagef("--from reads a node that runs; --%s is for one that this command starts", flag)
			}
		}
	}
	if o.lake != "" && (o.cursor != "" || o.finality != "" && o.finality != "Final") {
		return c, done, usagef("--lake holds final blocks and goes on behind the last of them: neither --cursor nor another --finality goes with it")
	}
	if c.Shards, err = o.filter(); err != nil {
		return c, done, err
	}
	check := indexer.Config{} // before a node is started
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
	c.OnTrouble = func(err error) { log.WithError(err).Warn("the stream is interrupted, and tried again") }
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

// modes sets what the flags say.
func (o *streamFlags) modes(c *indexer.Config, after *indexer.Cursor) (err error) {
	switch {
	case o.sync != "":
		if c.SyncMode, err = indexer.ParseSyncMode(o.sync, after); err != nil {
			return usagef("--sync-mode: %w", err)
		}
		if strings.HasPrefix(o.sync, "FromInterruption") && o.cursor == "" && o.lake == "" {
			return usagef("--sync-mode FromInterruption goes on where --cursor says: name that file")
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

// filter is what --shards and --accounts say; nil: nothing.
func (o *streamFlags) filter() (*indexer.Shards, error) {
	if o.shards == nil && o.accounts == nil {
		return nil, nil
	}
	f := new(indexer.Shards)
	for _, text := range o.shards {
		uid, err := primitives.ParseShardUID(text)
		if err != nil {
			return nil, usagef("--shards: %q is no shard, one is like s0.v3: %w", text, err)
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

// start begins the node of the home folder.
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

// open opens the bucket, and finds the last block that it has.
func (o *streamFlags) open(ctx context.Context, log *logrus.Logger) (after *indexer.Cursor, err error) {
	if o.bucket, err = lake.Open(ctx, lake.Options{Endpoint: o.s3Endpoint, Region: o.s3Region, Bucket: o.lake, OnTrouble: func(err error) {
		log.WithError(err).Warn("the store fails, and is tried again")
	}}); err != nil {
		return nil, err
	}
	if after, err = o.bucket.Last(ctx); err == nil && after != nil {
		log.Infof("the bucket has blocks up to %v", after)
	}
	return after, err
}

// errCounted ends a stream that has as many messages as were asked for.
var errCounted = errors.New("that is all")

// run streams until it is told to end.
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

// print writes a line for each message, and the cursor.
func (o *streamFlags) print(out io.Writer) indexer.Handler {
	var line []byte
	return func(_ context.Context, m *indexer.Message) error {
		text, err := m.JSON()
		if err != nil {
			return err
		}
		line = append(append(line[:0], text...), '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("who reads this has gone: %w", err)
		}
		if o.cursor != "" {
			return indexer.CursorFile(o.cursor).Store(m.Cursor)
		}
		return nil
	}
}
