package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/localnet"
)

const localnetRunLong = `Starts a process for each home that localnet has made below --home, and shows in one screen what
they do: height, how far behind, shards, peers, what validators did of what they had to in this
epoch, blocks and transactions a second over the last minute, and heights and chunks that were
missed since the start. Keys choose a node, stop and start it, kill it, have it stand still and go
on, end all.

What a node says is in run.log of its home (64 MiB, and what was before in run.log.1). Without a
terminal, or with --plain, there is a line every 5 seconds, and one for everything that happens.

Ctrl-C, q, SIGTERM or the end of the terminal (SIGHUP) end all nodes in order; the same again, or
15 seconds, kills them. None is left behind when this command itself is killed (on Linux).

--with NODE=PROGRAM runs a home by another program, for which neard will do: it is called as
PROGRAM --home DIR run. What follows after -- is given to every run.`

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
		Use: "run [-- FLAGS]", Short: "Run the network of a folder, in one screen", Long: localnetRunLong, Example: localnetRunExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); len(args) > 0 && n != 0 {
				return usagef("localnet run takes no argument %q; flags for the nodes follow after --", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.every <= 0 {
				return usagef("--every is %v, must be more than 0", o.every)
			}
			found, err := home.FindLocalnet(a.home, o.prefix)
			if err != nil {
				return err
			}
			nodes, err := localnetNodes(found, o.with, args)
			if err != nil {
				return err
			}
			out := localnet.Options{Nodes: nodes, Every: o.every, Say: func(line string) { say(cmd, "%s %s", time.Now().Format("15:04:05"), line) },
				Title: fmt.Sprintf("%s: %d homes, logs in NODE/%s", a.home, len(nodes), runLog)}
			signals := make(chan os.Signal, 4) // also behind the first, which ends all other commands the second time
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
	f.StringVar(&o.prefix, "prefix", "node", "how names of folders begin")
	f.StringArrayVar(&o.with, "with", nil, "NODE=PROGRAM: run this home by another program, like neard; may be given several times")
	f.BoolVar(&o.plain, "plain", false, "lines instead of a screen")
	f.DurationVar(&o.every, "every", 5*time.Second, "time between two lines")
	return cmd
}

// runLog is where a node of a localnet says what it says.
const runLog = "run.log"

// localnetNodes says how each home is run.
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
		out = append(out, localnet.Node{
			Spec:    localnet.Spec{Name: n.Name, Role: string(n.Role), Tracks: n.Tracks, Program: shown, RPC: n.RPC.String()},
			Command: append([]string{program, "--home", n.Dir, "run"}, args...),
			URL:     daemon.URL(n.RPC.String()), Log: filepath.Join(n.Dir, runLog),
		})
	}
	return out, nil
}
