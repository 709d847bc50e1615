package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/txlog"
	"github.com/troupe-chain/troupe/internal/txtext"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

const (
	devPort     = 3030
	devPorts    = 100 // maximum number of ports that are tried
	devAccounts = 100 // maximum number of accounts
	// devValidator is the account of the validator, and the seed of the validator's key.
	devValidator = "test.near"
)

// devFlags are the flags of dev.
type devFlags struct {
	rpcAddr, balance, fork string
	port                   uint16
	accounts, shards       int
	exitWithStdin          bool
	transactions           txLogFlags
}

func newDev(a *app) *cobra.Command {
	var o devFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a new chain with funded accounts until Ctrl-C, and show its transactions",
		Long: `Dev runs a chain for development: it creates a chain in a new temporary folder, gives NEAR to ten
accounts (dev0.near to dev9.near), prints their keys, and then prints each transaction when it has
executed, with the logs and failures of its receipts. Ctrl-C, or closing the terminal, ends the
chain and removes the folder. 'troupe run' keeps a chain in --home instead.

A block is produced as soon as a transaction waits. JSON-RPC listens on 127.0.0.1:3030, or on the
next free port. The key of each account is derived from its name, so that 'troupe send', 'troupe
call' and 'troupe deploy' find it by themselves. Anybody can derive these keys: never use them on
another chain.

With --fork URL, the chain continues another chain, as for 'troupe run'. Dev adds the funded
accounts to the fork. An account that exists on the other chain gets the balance and the key.`,
		Example: `  troupe dev
  troupe dev --accounts 3 --balance 1000000 --port 4040
  troupe dev --log-transactions=failed --log-accounts app.dev0.near
  troupe dev --fork https://rpc.mainnet.near.org
  troupe send dev1.near 2.5 --as dev0.near`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, a) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.accounts, "accounts", 10, "number of funded accounts")
	f.StringVar(&o.balance, "balance", "10000", "balance of each funded account, in NEAR")
	f.StringVar(&o.rpcAddr, "rpc-addr", "", "address that JSON-RPC listens on, host:port (default: 127.0.0.1:3030, or the next free port)")
	f.Uint16Var(&o.port, "port", 0, "port on 127.0.0.1, in place of --rpc-addr; 0: a free one")
	f.IntVar(&o.shards, "shards", 1, "number of shards, over which the accounts are spread")
	f.StringVar(&o.fork, "fork", "", "continue another chain: URL[@height|@hash|@tx:HASH] of a node's JSON-RPC")
	f.StringVar(&o.transactions.level, "log-transactions", "all", "which transactions are printed: all, or failed")
	o.transactions.addAccounts(f)
	addExitWithStdin(c, &o.exitWithStdin)
	return c
}

// run checks the flags, creates the chain, runs the chain, and removes it at the end.
func (o *devFlags) run(cmd *cobra.Command, a *app) (err error) {
	flags := cmd.Flags()
	balance, err := amount("--balance", o.balance)
	if err != nil {
		return err
	}
	var spec fork.Spec
	switch {
	case flags.Changed("home"):
		return usagef("dev runs in a new temporary folder; --home is for 'troupe init' and 'troupe run', which keep a chain")
	case o.accounts < 0 || o.accounts > devAccounts:
		return usagef("--accounts is %d, must be from 0 to %d", o.accounts, devAccounts)
	case o.shards < 1 || o.shards > home.MaxShards:
		return usagef("--shards is %d, must be from 1 to %d", o.shards, home.MaxShards)
	case flags.Changed("fork") && flags.Changed("shards"):
		return usagef("--fork and --shards exclude each other: a fork has one shard")
	case flags.Changed("port") && flags.Changed("rpc-addr"):
		return usagef("--port and --rpc-addr exclude each other")
	case flags.Changed("rpc-addr") && !config.IsAddress(o.rpcAddr):
		return usagef("--rpc-addr is %q, must be host:port, like 127.0.0.1:3030", o.rpcAddr)
	case flags.Changed("fork"):
		if spec, err = fork.ParseSpec(o.fork); err != nil {
			return usagef("--fork: %w", err)
		}
	}
	survivePipes()
	out := cmd.OutOrStdout()
	flags.Lookup("log-transactions").Changed = true // mark as set, because dev always logs transactions
	transactions, err := o.transactions.options(flags, out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	transactions.Failed = cancel         // called when the reader of the output has disconnected
	if !signal.Ignored(syscall.SIGHUP) { // under nohup, SIGHUP stays ignored
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	if o.exitWithStdin {
		var release func()
		ctx, release = untilEnd(ctx, cmd.InOrStdin())
		defer release()
	}
	dir, remove, err := makeDevHome(os.TempDir())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	a.home = dir
	log, err := newLog(cmd.ErrOrStderr(), a)
	if err != nil {
		return err
	}
	if _, set := os.LookupEnv("RUST_LOG"); !set && a.verbose == "" {
		log.SetLevel(logrus.WarnLevel)
	}
	hm, err := o.makeChain(ctx, dir, spec)
	if err != nil {
		return err
	}
	l := txlog.New(*transactions)
	defer l.Close()
	note, runs := "", false
	started := func(h *daemon.Daemon) error {
		runs = true
		go removeDevHomes(os.TempDir())
		accounts := devNames(o.accounts)
		if err := fund(ctx, h, accounts, balance); err != nil {
			return err
		}
		_, err := io.WriteString(out, devGreeting(daemon.URL(h.Addr.String()), o.fork, note, accounts, balance))
		return err
	}
	hm.Config.RPC.PrometheusAddr = ""
	search := !flags.Changed("rpc-addr") && !flags.Changed("port")
	for tries := 0; ; tries++ {
		listen := o.rpcAddr
		switch {
		case search:
			listen, note = devListen()
		case flags.Changed("port"):
			listen = devAddr(o.port)
		}
		hm.Config.RPC.Addr = listen
		err := run(ctx, daemon.Options{Home: hm, Log: log, Listen: listen, Trust: true, Compiler: compilerCommand(),
			Observe: l.Observe}, events{ready: started})
		// Try the next port if another process took the current port after devListen had found that
		// port free.
		if runs || !search || tries == devPorts || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

// makeChain writes the files of the new chain into dir and loads these files.
func (o *devFlags) makeChain(ctx context.Context, dir string, spec fork.Spec) (*home.Home, error) {
	if spec.URL != "" {
		if _, err := fork.Make(ctx, dir, spec, fork.Options{URL: spec.URL}); err != nil {
			return nil, err
		}
	} else {
		seed := devValidator
		if _, err := home.Init(ctx, home.InitOptions{
			Dir: dir, ChainID: "sandbox", AccountID: devValidator, TestSeed: &seed, NumShards: o.shards,
			Boundaries: devBoundaries(o.accounts, o.shards),
			Random:     rand.Reader, Now: time.Now, Downloader: home.NewDownloader(),
		}); err != nil {
			return nil, err
		}
	}
	hm, err := home.Load(dir)
	if err == nil && hm.Config.RPC == nil {
		err = hm.Config.AddRPC()
	}
	return hm, err
}

// devListen returns the address with the first free port from devPort on. If that port is not
// devPort, note explains why.
func devListen() (addr, note string) {
	for port := uint16(devPort); port < devPort+devPorts; port++ {
		l, err := tcp.Bind(devAddr(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err == nil {
			_ = l.Close()
		}
		if port != devPort {
			note = fmt.Sprintf("Port %d is in use; this chain has port %d.\n", devPort, port)
		}
		return devAddr(port), note // starting the server reports this error
	}
	return devAddr(devPort), "" // starting the server reports that the port is in use
}

func devAddr(port uint16) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

func devNames(n int) (out []primitives.AccountID) {
	for i := range n {
		out = append(out, primitives.AccountID(fmt.Sprintf("dev%d.near", i)))
	}
	return out
}

// devBoundaries returns boundaries between shards that spread the accounts evenly. devBoundaries
// returns nil if there are more shards than accounts.
func devBoundaries(accounts, shards int) []primitives.AccountID {
	if shards > accounts {
		return nil
	}
	names := devNames(accounts)
	slices.Sort(names)
	boundaries := make([]primitives.AccountID, shards-1)
	for i := range boundaries {
		boundaries[i] = names[(i+1)*accounts/shards]
	}
	return boundaries
}

// fund creates accounts with a balance and the key of primitives.TestKey. An account that exists in a fork keeps
// its contract, data and keys.
func fund(ctx context.Context, h *daemon.Daemon, accounts []primitives.AccountID, balance primitives.Balance) error {
	var records []genesis.Record
	for _, id := range accounts {
		account := primitives.Account{StorageUsage: primitives.AccountStorage + primitives.FullAccessKeyStorage}
		key := primitives.TestKey(id).PublicKey().Handle()
		s, err := h.Backend().State(view.BlockRef{Kind: view.RefOptimistic}, id)
		if err != nil {
			return err
		}
		exists, err := s.Account(id, &account)
		var hasKey bool
		if err == nil && exists {
			hasKey, err = s.AccessKey(id, key, new(primitives.AccessKey))
		}
		s.Release()
		if err != nil {
			return fmt.Errorf("account %s: %w", id, err)
		}
		if exists && !hasKey {
			account.StorageUsage += primitives.FullAccessKeyStorage
		}
		account.Amount = balance
		records = append(records, &genesis.AccountRecord{AccountID: id, Account: account})
		if !hasKey { // replacing an existing key would decrease its nonce
			records = append(records, &genesis.AccessKeyRecord{AccountID: id, PublicKey: key})
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := h.Backend().PatchState(ctx, records); err != nil {
		return fmt.Errorf("fund the accounts: %w", err)
	}
	return nil
}

// devGreeting returns what dev prints before the transactions.
func devGreeting(url, forked, note string, accounts []primitives.AccountID, balance primitives.Balance) string {
	var b strings.Builder
	if len(accounts) > 0 {
		fmt.Fprintf(&b, "Accounts, with %s each, and their secret keys:\n", txtext.NEAR(balance))
	}
	width := 0
	for _, id := range accounts {
		width = max(width, len(id))
	}
	for _, id := range accounts {
		fmt.Fprintf(&b, "  %-*s  %v\n", width, id, primitives.TestKey(id))
	}
	if len(accounts) > 0 {
		b.WriteString("The keys are derived from the names, so anybody knows them: never use them on another chain.\n")
	}
	fmt.Fprintf(&b, "\nJSON-RPC  %s\nConsole   %[1]s/console\n%s", url, note)
	if forked != "" {
		fmt.Fprintf(&b, "Fork of   %s\n", txtext.Line(forked, 200))
	}
	at := ""
	if url != "http://"+devAddr(devPort) {
		at = " --url " + url
	}
	first, second := "near", devValidator
	if len(accounts) > 0 {
		first = string(accounts[0])
	}
	if len(accounts) > 1 {
		second = string(accounts[1])
	}
	fmt.Fprintf(&b, "\nTry in another terminal:\n  %[4]s send %[2]s 2.5 --as %[1]s%[3]s\n  %[4]s account create app.%[1]s --as %[1]s --amount 100%[3]s\n", first, second, at, program())
	fmt.Fprintf(&b, "  %[4]s deploy app.%[1]s CONTRACT.wasm%[3]s\n  %[4]s call app.%[1]s METHOD '{}' --as %[2]s%[3]s\n", first, second, at, program())
	b.WriteString("\nCtrl-C ends the chain and removes it. Transactions:\n")
	return b.String()
}

// A temporary home of dev is named by devPrefix, the process id and a random number. While the
// process runs, it holds a lock on the file devLock in that home. The process id alone does not
// show whether the process runs, because the same id may belong to another process in another
// container.
const (
	devPrefix = "troupe-dev-"
	devLock   = "dev.lock"
)

// makeDevHome creates a home in the folder temp. remove removes the home.
func makeDevHome(temp string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(temp, devPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, devLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		err := os.RemoveAll(dir)
		if err != nil { // a node that stops late may have written a file meanwhile, so try again
			err = os.RemoveAll(dir)
		}
		return errors.Join(err, f.Close())
	}, nil
}

// removeDevHomes removes homes in temp whose process has ended without removing its home.
// removeDevHomes ignores errors, because homes of other users cannot be removed.
func removeDevHomes(temp string) {
	entries, err := os.ReadDir(temp)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), devPrefix)
		number, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(number)
		if !ok || err != nil || pid <= 0 || !e.IsDir() || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		dir := filepath.Join(temp, e.Name())
		f, err := os.OpenFile(filepath.Join(dir, devLock), os.O_RDWR|syscall.O_NOFOLLOW|os.O_CREATE, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}
