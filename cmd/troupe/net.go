package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/capture"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

func newNet(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "net",
		Short: "Listen to what nodes say to each other",
		Long: `What nodes say to each other is not encrypted. capture records it, decode puts a recording into
words: handshakes, edges, blocks, votes, parts of chunks and witnesses, states. conflicts looks
for what a validator must never sign.`,
		Example: `  troupe net capture --listen 127.0.0.1:24600 --to 127.0.0.1:24567 /tmp/frames.jsonl.gz
  troupe net decode /tmp/frames.jsonl.gz`,
	}, newCapture(), newDecode(a), newConflicts(a))
}

const captureLong = `Listens in the place of a node, passes connections on to it as they are, and records every frame of
both sides to FILE: an object of JSON a line, packed with gzip where the name ends in .gz. It ends
with SIGINT or SIGTERM, and so do the connections.

Who is to be heard has --listen for the node's address: as a boot node, KEY@127.0.0.1:24600 for
KEY@127.0.0.1:24567. The node's own connections to others do not come by here; a troupe records
those and all others when it is run with --capture FILE.

After --max-mib the recording ends, and connections are passed on without one. A frame above 64 MiB
is noted and not kept. At most 256 connections are passed on at once.`

func newCapture() *cobra.Command {
	var listen, to string
	var mib int64
	cmd := &cobra.Command{
		Use: "capture FILE", Short: "Record what a node and others say to each other", Long: captureLong,
		Example: `  troupe net capture --listen 127.0.0.1:24600 --to 127.0.0.1:24567 /tmp/frames.jsonl.gz
  troupe --home /tmp/b run --boot-nodes ed25519:7PGseF...@127.0.0.1:24600`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, f := range [2][2]string{{"listen", listen}, {"to", to}} {
				if !config.IsAddress(f[1]) {
					return usagef("--%s is %q, must be host:port, like 127.0.0.1:24600", f[0], f[1])
				}
			}
			if mib < 1 {
				return usagef("--max-mib is %d, must be 1 at least", mib)
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			r, done, err := openRecording(args[0], mib)
			if err != nil {
				_ = l.Close()
				return err
			}
			say(cmd, "listening on %v for %s; recording to %s", l.Addr(), to, args[0])
			p := capture.Proxy{To: to, Recorder: r}
			return errors.Join(p.Run(cmd.Context(), l), done())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&listen, "listen", "", "where others connect, host:port")
	f.StringVar(&to, "to", "", "the node that they mean, host:port")
	f.Int64Var(&mib, "max-mib", 1024, "most of the recording, before it is packed")
	return cmd
}

// openRecording makes a new file for a recording; done ends it, and says what was wrong.
func openRecording(path string, mib int64) (r *capture.Recorder, done func() error, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("%w: a recording is a new file; remove that one, or choose another name", err)
	}
	if err != nil {
		return nil, nil, err
	}
	var out io.Writer = f
	end := f.Close
	if strings.HasSuffix(path, ".gz") {
		z := gzip.NewWriter(f)
		out, end = z, func() error { return errors.Join(z.Close(), f.Close()) }
	}
	r = capture.NewRecorder(out, mib<<20, time.Now)
	written := r.Later()
	return r, func() error {
		full, err := r.State()
		if err = errors.Join(err, written(), end()); err == nil && full {
			err = fmt.Errorf("%s was full at %d MiB: not all is in it", path, mib)
		}
		return err
	}, nil
}

const decodeLong = `Puts a recording into words, a line for each frame: seconds since the recording began, the
connection, who speaks to whom, the kind of message, and what it says. Keys and hashes are cut
short; what can't be decoded is said to be refused, as a node would.

FILE is what net capture or run --capture has written, packed or not; - is the standard input.
Nodes are named where the recording names them, and those of the localnet in --home.

--kind takes kinds of messages, and of what routed ones carry: block_response, routed,
BlockApproval, PartialEncodedStateWitness; --summary lists those that there are.`

func newDecode(a *app) *cobra.Command {
	f := capture.Filter{}
	var summary bool
	cmd := &cobra.Command{
		Use: "decode FILE", Short: "Put a recording into words", Long: decodeLong,
		Example: `  troupe net decode /tmp/frames.jsonl.gz
  troupe net decode /tmp/frames.jsonl.gz --summary
  troupe net decode /tmp/frames.jsonl.gz --kind BlockApproval,block_response --node node2
  troupe --home /tmp/net net decode /tmp/frames.jsonl.gz --conn 3 --from 10 --until 12.5`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				in = file
			}
			show := capture.Write
			if summary {
				show = capture.Summarize
			}
			if err := show(cmd.OutOrStdout(), in, f, a.localNames()); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&f.Kinds, "kind", nil, "only these kinds, separated by commas")
	fs.StringVar(&f.Node, "node", "", "only what this node says or hears: a name, or the beginning of its key as it is shown")
	fs.IntVar(&f.Conn, "conn", -1, "only this connection (default: all)")
	fs.Float64Var(&f.From, "from", 0, "only from this second on")
	fs.Float64Var(&f.Until, "until", 0, "only up to this second (default: the end)")
	fs.BoolVar(&summary, "summary", false, "count frames and bytes by kind instead")
	return cmd
}

const conflictsLong = `Looks in recordings of one network for what a validator must never sign: two blocks of a height,
two chunks of a height and shard, votes for two blocks of a height, or for a block and to skip its
height. Each is a line; where there is one, it ends with code 1.

Only what is signed with a validator's key counts. Keys are those of the localnet in --home
(*/validator_key.json), of --genesis, and of the recordings that name them.`

func newConflicts(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "conflicts FILE...", Short: "Look for blocks, chunks and votes that contradict each other", Long: conflictsLong,
		Example: `  troupe --home /tmp/net net conflicts /tmp/a.jsonl.gz /tmp/b.jsonl.gz
  troupe net conflicts --genesis genesis.json /tmp/frames.jsonl.gz`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := a.localValidators()
			if path != "" {
				c, err := genesisConfig(path)
				if err != nil {
					return err
				}
				for _, v := range c.Validators {
					keys[v.AccountID] = v.PublicKey
				}
			}
			s := capture.NewSearch(keys)
			for _, arg := range args {
				f, err := os.Open(arg)
				if err != nil {
					return err
				}
				err = s.Read(f)
				_ = f.Close()
				if err != nil {
					return fmt.Errorf("%s: %w", arg, err)
				}
			}
			if s.Blocks+s.Chunks+s.Votes == 0 {
				return errors.New("nothing that a known validator signed: name the genesis with --genesis, or the localnet with --home")
			}
			say(cmd, "%d blocks, %d chunks and %d votes; %d not signed with a known key", s.Blocks, s.Chunks, s.Votes, s.Unsigned)
			for i := range s.Conflicts {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), &s.Conflicts[i]); err != nil {
					return err
				}
			}
			if n := len(s.Conflicts); n > 0 {
				return fmt.Errorf("%d conflicts", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "genesis", "", "a genesis whose validators' keys count")
	return cmd
}

// localValidators are the keys of the validators of the localnet in --home, if there is one.
func (a *app) localValidators() map[primitives.AccountID]primitives.PublicKey {
	keys := map[primitives.AccountID]primitives.PublicKey{}
	files, _ := filepath.Glob(filepath.Join(a.home, "*", "validator_key.json"))
	for _, path := range files {
		if in, err := os.ReadFile(path); err == nil {
			if k, err := primitives.ParseKeyFile(in); err == nil {
				keys[k.AccountID] = k.PublicKey()
			}
		}
	}
	return keys
}

// genesisConfig reads the configuration of a genesis.
func genesisConfig(path string) (*genesis.Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	c, _, err := genesis.ReadConfig(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// localNames are the names of the nodes of the localnet in --home, if there is one.
func (a *app) localNames() capture.Names {
	names := capture.Names{}
	dirs, _ := filepath.Glob(filepath.Join(a.home, "*", "node_key.json"))
	for _, path := range dirs {
		if in, err := os.ReadFile(path); err == nil {
			if k, err := home.ParseNodeKey(in); err == nil {
				names[k.PublicKey()] = filepath.Base(filepath.Dir(path))
			}
		}
	}
	return names
}
