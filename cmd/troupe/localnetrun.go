package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/doctor"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/localnet"
	"github.com/troupe-chain/troupe/primitives"
)

const localnetRunLong = `Localnet run starts one process per home folder that localnet created below --home, and shows all
nodes in one screen: height, blocks behind the highest node, shards, peers, the share of its blocks
and chunks that each validator produced in this epoch, blocks and transactions per second over the
last minute, and heights and chunks missed since the start. Keys select a node and stop, start,
kill, pause or resume it, show its log, send transactions, or cut the network in two; the key ?
explains keys and columns. A cut is made through data/control.sock of the nodes, which they serve
only to processes of the same user, and only while they listen for peers on this machine alone.

Each node logs to run.log in its home folder, which is rotated to run.log.1 at 64 MiB. With
--plain, or without a terminal, the command prints one line every 5 seconds (--every) and one per
event.

q, Ctrl-C, SIGTERM or closing the terminal stops all nodes cleanly; a second such signal, or 15
seconds, kills the nodes. On Linux the nodes also end when this command is killed.

--with NODE=PROGRAM runs a home with another program, such as neard: PROGRAM --home DIR run.
Arguments after -- are passed to every node.`

const localnetRunExamples = `  troupe --home /tmp/net localnet run
  troupe --home /tmp/net localnet run --plain --every 10s
  troupe --home /tmp/net localnet run --with node2=neard --with node3=neard
  troupe --home /tmp/net localnet run -- --archive`

func newLocalnetRun(a *app) *cobra.Command {
	var o struct {
		prefix string
		with   []string
		plain  bool
		every  time.Duration
	}
	cmd := &cobra.Command{
		Use: "run [-- FLAGS]", Short: "Run the network that localnet created, in one screen", Long: localnetRunLong, Example: localnetRunExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); len(args) > 0 && n != 0 {
				return usagef("localnet run takes no argument %q; flags for the nodes follow after --", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.every <= 0 {
				return usagef("--every is %v, must be greater than 0", o.every)
			}
			found, err := home.FindLocalnet(a.home, o.prefix)
			if err != nil {
				return err
			}
			nodes, err := localnetNodes(found, o.with, args)
			if err != nil {
				return err
			}
			if err := portsFree(found); err != nil {
				return err
			}
			out := localnet.Options{Nodes: nodes, Accounts: localnetAccounts(found), Every: o.every,
				Say:   func(line string) { say(cmd, "%s %s", time.Now().Format("15:04:05"), line) },
				Title: fmt.Sprintf("%s: %d nodes, logs in NODE/%s", a.home, len(nodes), runLog)}
			signals := make(chan os.Signal, 4) // the second signal kills the nodes
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			out.Signals = signals
			in, ok1 := cmd.InOrStdin().(*os.File)
			screen, ok2 := cmd.OutOrStdout().(*os.File)
			if ok1 && ok2 && !o.plain {
				if t, ok := localnet.OpenTerminal(in, screen); ok {
					defer t.Close()
					out.Draw, out.Size, out.Keys = t.Draw, t.Size, t.Keys
				}
			}
			return localnet.Run(cmd.Context(), out)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.prefix, "prefix", "node", "prefix of the names of the folders")
	f.StringArrayVar(&o.with, "with", nil, "NODE=PROGRAM: run this home with another program, like neard; may be repeated")
	f.BoolVar(&o.plain, "plain", false, "print lines instead of a screen")
	f.DurationVar(&o.every, "every", 5*time.Second, "with --plain: time between two lines")
	return cmd
}

// localnetFiles returns the paths of a home, and the public key of its node.
func localnetFiles(dir string) (p home.Paths, key primitives.PublicKey, err error) {
	c, _, err := home.LoadConfig(dir)
	if err != nil {
		return p, key, err
	}
	p = home.PathsOf(dir, c)
	k, err := home.ReadKeyFile(p.NodeKey)
	if err != nil {
		return p, key, err
	}
	return p, k.PublicKey(), nil
}

// localnetAccounts returns the keys of the accounts that localnet gives to the nodes. It leaves out
// homes without such a key: the nodes of such homes run, but send no load.
func localnetAccounts(found []home.LocalnetNode) (out []*primitives.KeyFile) {
	for _, n := range found {
		p, _, err := localnetFiles(n.Dir)
		if err != nil {
			continue
		}
		if k, err := home.ReadKeyFile(p.ValidatorKey); err == nil {
			out = append(out, k)
		}
	}
	return out
}

// portsFree returns an error if a port of the network is in use. One node that cannot listen would
// keep the remaining nodes from producing blocks.
func portsFree(found []home.LocalnetNode) error {
	for _, n := range found {
		for _, p := range []struct {
			key  string
			addr netip.AddrPort
		}{{"rpc.addr", n.RPC}, {"network.addr", n.Network}} {
			if problem := doctor.PortProblem(p.addr); problem != "" {
				return fmt.Errorf("%s: %s: %s; stop what listens there, change the address in %s, or create another network with --base-port",
					n.Name, p.key, problem, filepath.Join(n.Dir, home.ConfigFile))
			}
		}
	}
	return nil
}

// runLog is the log file of a localnet node, in its home folder.
const runLog = "run.log"

// localnetNodes returns the command and the addresses of each node.
func localnetNodes(found []home.LocalnetNode, with, args []string) (out []localnet.Node, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	programs := map[string]string{}
	for _, w := range with {
		name, program, ok := strings.Cut(w, "=")
		switch {
		case !ok || name == "" || program == "":
			return nil, usagef("--with is %q, must be NODE=PROGRAM", w)
		case !slices.ContainsFunc(found, func(n home.LocalnetNode) bool { return n.Name == name }):
			return nil, usagef("--with %s: there is no home %s", w, name)
		}
		programs[name] = program
	}
	for _, n := range found {
		program, shown := self, ""
		if p, ok := programs[n.Name]; ok {
			program, shown = p, filepath.Base(p)
		}
		paths, key, err := localnetFiles(n.Dir)
		if err != nil {
			return nil, err
		}
		out = append(out, localnet.Node{
			Peer:    key,
			Exclude: func(peers []primitives.PublicKey) error { return daemon.ExcludePeers(paths.Data, peers) },
			Spec:    localnet.Spec{Name: n.Name, Role: string(n.Role), Tracks: n.Tracks, Program: shown, RPC: n.RPC.String()},
			Command: append([]string{program, "--home", n.Dir, "run"}, args...),
			URL:     daemon.URL(n.RPC.String()), Log: filepath.Join(n.Dir, runLog),
		})
	}
	return out, nil
}
