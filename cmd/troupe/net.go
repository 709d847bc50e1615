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
		Short: "Record and decode the traffic between nodes, ask peers for states",
		Long: `Traffic between nodes is not encrypted. The command capture records it to a file. The command
decode prints a recording as text: handshakes, edges, blocks, approvals, chunk parts, state
witnesses, state parts. The command conflicts searches recordings for contradicting messages of
one validator. The command state-parts asks peers for parts of a state.`,
		Example: `  troupe net capture --listen 127.0.0.1:24600 --to 127.0.0.1:24567 /tmp/frames.jsonl.gz
  troupe net decode /tmp/frames.jsonl.gz`,
	}, newCapture(), newDecode(a), newConflicts(a), newStateParts(a))
}

const captureLong = `Capture is a TCP proxy in front of a node. It forwards connections from --listen to --to unchanged
and records every frame of both directions to FILE, one JSON object per line, compressed with gzip
if the name ends in .gz. SIGINT or SIGTERM ends the recording and the connections.

To be recorded, a peer connects to --listen instead of the node: in its boot nodes, replace
KEY@127.0.0.1:24567 with KEY@127.0.0.1:24600. Connections that the node itself opens do not pass
the proxy. To record all connections of a troupe node, use 'troupe run --capture FILE' instead.

After --max-mib the recording ends, and the proxy forwards without recording. A frame above 64 MiB
is listed without its contents. The proxy forwards at most 256 connections at a time.`

func newCapture() *cobra.Command {
	var listen, to string
	var mib int64
	cmd := &cobra.Command{
		Use: "capture FILE", Short: "Record the traffic of a node through a proxy", Long: captureLong,
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
				return usagef("--max-mib is %d, must be at least 1", mib)
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
	f.StringVar(&listen, "listen", "", "address that peers connect to, host:port")
	f.StringVar(&to, "to", "", "address of the node to forward to, host:port")
	f.Int64Var(&mib, "max-mib", 1024, "size limit of the recording in MiB, before compression")
	return cmd
}

// openRecording creates a recording of at most mib MiB. The file must not exist. done closes it and
// returns an error if a write failed or the limit was reached.
func openRecording(path string, mib int64) (r *capture.Recorder, done func() error, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("%w: remove it, or choose another name for the recording", err)
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
			err = fmt.Errorf("%s reached its limit of %d MiB and is not complete; allow more with --max-mib (net capture) or --capture-max-mib (run)", path, mib)
		}
		return err
	}, nil
}

const decodeLong = `Decode prints a recording as text, one line per frame: seconds since the start of the recording,
the connection, sender and receiver, the kind of the message, and its contents. Keys and hashes
are shortened. A message that cannot be decoded is marked as refused, as a node would refuse it.

FILE is a recording of net capture or run --capture, compressed or not; - reads standard input.
Nodes have names if the recording, or the localnet in --home, names their keys.

--kind selects kinds of messages, including those that routed messages carry: block_response,
routed, BlockApproval, PartialEncodedStateWitness. --summary lists the kinds in a recording.`

func newDecode(a *app) *cobra.Command {
	f := capture.Filter{}
	var summary bool
	cmd := &cobra.Command{
		Use: "decode FILE", Short: "Print a recording as text", Long: decodeLong,
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
	fs.StringSliceVar(&f.Kinds, "kind", nil, "only these kinds of messages, separated by commas")
	fs.StringVar(&f.Node, "node", "", "only messages from or to this node: its name, or the beginning of its key as printed")
	fs.IntVar(&f.Conn, "conn", -1, "only this connection (default: all)")
	fs.Float64Var(&f.From, "from", 0, "only frames from this second on")
	fs.Float64Var(&f.Until, "until", 0, "only frames up to this second (default: the end)")
	fs.BoolVar(&summary, "summary", false, "print the number of frames and bytes per kind instead of the frames")
	return cmd
}

const conflictsLong = `Conflicts searches recordings of one network for pairs of messages that a validator must never
sign: two blocks of one height, two chunks of one height and shard, approvals for two blocks of
one height, or an approval for a block and one that skips its height. It prints one line per
conflict, and exits with code 1 if there is any. Only messages signed with the key of a known
validator count: those of the localnet in --home (*/validator_key.json), of --genesis, and those
that the recordings name.`

func newConflicts(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "conflicts FILE...", Short: "Find contradicting blocks, chunks and approvals in recordings", Long: conflictsLong,
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
				return errors.New("no message is signed by a known validator: name the genesis with --genesis, or the localnet with --home")
			}
			say(cmd, "%d blocks, %d chunks and %d approvals; %d signed with unknown keys", s.Blocks, s.Chunks, s.Votes, s.Unsigned)
			for i := range s.Conflicts {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), &s.Conflicts[i]); err != nil {
					return err
				}
			}
			if n := len(s.Conflicts); n > 0 {
				return fmt.Errorf("%d conflicts found", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "genesis", "", "genesis file with the validators' keys")
	return cmd
}

// localValidators returns the validators' keys of the localnet in --home, empty without one.
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

// genesisConfig reads the configuration of a genesis file.
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

// localNames returns the node names of the localnet in --home, empty without one.
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
