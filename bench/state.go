package bench

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
)

// StateOptions configure RunState.
type StateOptions struct {
	Dir      string `json:"dir"` // folder to create; the folder must not exist yet
	Accounts int    `json:"accounts"`
	// Values is the number of contract storage entries, and ValueBytes the mean length of their
	// values. Seed selects the entries.
	Values     int    `json:"values"`
	ValueBytes int    `json:"value_bytes"`
	Seed       uint64 `json:"seed"`
	// EpochLength is the length of an epoch in blocks. 0: the length that init chooses.
	EpochLength uint64 `json:"epoch_length,omitempty"`
	Memory      uint64 `json:"memory_bytes"` // memory for the tries; 0: the node's default
	Commit      string `json:"-"`
	// Progress is called with the completed share.
	Progress func(part float64, what string) `json:"-"`
}

// StateReport is the result of RunState.
type StateReport struct {
	Command string       `json:"command"`
	Time    string       `json:"time"`
	Commit  string       `json:"commit"`
	Machine Machine      `json:"machine"`
	Options StateOptions `json:"options"`
	Result  StateResult  `json:"result"`
}

// StateResult has the figures of the created state.
type StateResult struct {
	Seconds           float64 `json:"seconds"`
	AccountsPerSecond float64 `json:"accounts_per_second"`
	CPUSeconds        float64 `json:"cpu_seconds"`
	StateBytes        uint64  `json:"state_bytes"` // memory usage of the state as nearcore counts it
	DiskBytes         uint64  `json:"disk_bytes"`
	ResidentBytes     uint64  `json:"resident_bytes"` // resident memory at the end
	// ValueMicros is the processor time to read the value of a random account from the store.
	// LookUpMicros is the part of that time for the lookup in the index.
	ValueMicros  float64 `json:"value_us"`
	LookUpMicros float64 `json:"look_up_us"`
}

// stateFile is a file in the chain's folder with the options of RunState.
const stateFile = "bench.json"

// storedState is the content of stateFile: how the state was created, and which runs have used it.
type storedState struct {
	Accounts, Values, ValueBytes int
	Seed                         uint64
	Runs                         int // number of previous runs that sent transfers on this chain
	Genesis                      primitives.Hash
}

// options returns the options that determine the state.
func (s *storedState) options() StateOptions {
	return StateOptions{Accounts: s.Accounts, Values: s.Values, ValueBytes: s.ValueBytes, Seed: s.Seed}
}

// genesisOf returns the hash of a stored state's first block.
func genesisOf(dir string) (primitives.Hash, error) {
	at, err := readState(dir)
	return at.Genesis, err
}

func (s *storedState) write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, stateFile), raw, 0o644)
}

// someKeys is the number of keys that the accounts of a stored state share. Creating a key takes
// longer than the rest of creating an account.
const someKeys = 1 << 16

func keyOf(i int) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprintf("bench state %d", i%someKeys))
}

// RunState creates a chain of one shard with many accounts, each with a key, and with contract
// storage. The benchmarks node, rpc and shard can run on this chain. Only the entries of the trie's
// frontier stay in memory, some 30 bytes per account.
func RunState(_ context.Context, o StateOptions) (_ *StateReport, err error) {
	if o.Accounts < 2 || o.Accounts > 1<<31-1 {
		return nil, fmt.Errorf("bench: the number of accounts is %d, must be 2 to 2,147,483,647", o.Accounts)
	}
	values, err := newStateValues(&o)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &StateReport{Command: "bench state", Time: time.Now().UTC().Format(time.RFC3339), Commit: o.Commit,
		Machine: ThisMachine(), Options: o}
	defer debug.SetGCPercent(debug.SetGCPercent(daemon.GCPercent))
	at := storedState{Accounts: o.Accounts, Values: o.Values, ValueBytes: o.ValueBytes, Seed: o.Seed}
	start, cpu := time.Now(), cpuTime()
	if err := writeStateHome(o.Dir, &o); err != nil {
		return nil, err
	}
	n, err := openState(o.Dir, &at, o.Memory, "", daemon.Options{Trust: true, Grow: growth(&o, values)})
	if err != nil {
		return nil, err
	}
	r.Result.StateBytes, at.Genesis = n.Engine.StateSize(0), n.base
	if err := n.stop(); err != nil {
		return nil, err
	}
	r.Result.Seconds, r.Result.CPUSeconds = time.Since(start).Seconds(), (cpuTime() - cpu).Seconds()
	r.Result.AccountsPerSecond = float64(o.Accounts) / r.Result.Seconds
	r.Result.ResidentBytes, r.Result.DiskBytes = resident(os.Getpid()), diskBytes(o.Dir)
	if err := at.write(o.Dir); err != nil {
		return nil, err
	}
	// Caches are sized when a store is opened.
	if n, err = openState(o.Dir, &at, o.Memory, "", daemon.Options{}); err != nil {
		return nil, err
	}
	return r, errors.Join(r.Result.look(n), n.stop())
}

// looks is the number of random accounts whose values look reads.
const looks = 50_000

// look measures the reading of values and, alternately, of index rows of random accounts.
func (x *StateResult) look(n *fullNode) error {
	s, head, rng := n.Engine.Store(), n.Engine.Head(), rand.New(rand.NewPCG(5, 6))
	at, shard := storage.BlockRef{Height: head.Height(), Hash: head.Hash}, head.Shards[0].ID
	ways := [...]func(key []byte) error{
		func(key []byte) error { _, err := s.ValueAt(at, shard, key); return err },
		func(key []byte) error { return s.LookUp(shard, key) },
	}
	var took [len(ways)]time.Duration
	const turns = 10
	for turn := range turns * len(ways) {
		begun := cpuTime()
		for range looks / turns {
			if err := ways[turn%len(ways)](primitives.AppendAccountKey(nil, n.account(rng.Uint64()))); err != nil {
				return err
			}
		}
		took[turn%len(ways)] += cpuTime() - begun
	}
	x.ValueMicros, x.LookUpMicros = took[0].Seconds()*1e6/looks, took[1].Seconds()*1e6/looks
	return nil
}

// runNonces is the maximum number of nonces of a key that one run uses.
const runNonces = 200_000

// growth returns the function that adds the state to the genesis.
func growth(o *StateOptions, values *stateValues) func(*engine.GenesisState) {
	return func(s *engine.GenesisState) { s.Add(0, statePairs(o, values)) }
}

// writeStateHome writes the files of a home except the data folder. The genesis has no records of
// the state. It identifies the chain, so `troupe run` can run the home once its data folder exists.
func writeStateHome(dir string, o *StateOptions) error {
	epoch := cmp.Or(o.EpochLength, epochLength)
	g, err := workload.Genesis(workload.Options{Accounts: o.Accounts, Shards: 1},
		workload.Rules{EpochLength: epoch, Validity: min(validity, 2*epoch), Balance: accountBalance})
	if err != nil {
		return err
	}
	g.GenesisTime = genesis.Time(time.Now().UnixNano())
	own, err := genesis.Localnet(genesis.LocalnetOptions{Accounts: []primitives.AccountID{workload.Validator}, Validators: 1, Shards: 1})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := genesis.Write(&text, g, slices.Values(own.Records)); err != nil {
		return err
	}
	c, _, err := config.Parse("", []byte("{}"))
	if err != nil {
		return err
	}
	p := home.PathsOf(dir, c)
	return errors.Join(
		os.WriteFile(p.Genesis, text.Bytes(), 0o644),
		home.WriteKeyFile(p.ValidatorKey, &primitives.KeyFile{AccountID: workload.Validator, SecretKey: workload.StakeKey(workload.Validator)}),
		writeNodeKey(p.NodeKey),
		os.WriteFile(p.Config, []byte("{}"), 0o644))
}

// writeNodeKey writes a random node key.
func writeNodeKey(path string) error {
	key, err := primitives.GenerateSecretKey(primitives.ED25519, crand.Reader)
	if err != nil {
		return err
	}
	return home.WriteKeyFile(path, &primitives.KeyFile{AccountID: "node", SecretKey: key})
}

// openState runs the node of a stored state.
func openState(dir string, at *storedState, memory uint64, rpc string, o daemon.Options) (*fullNode, error) {
	n := &fullNode{accounts: at.Accounts, keys: make([]primitives.SecretKey, min(someKeys, at.Accounts)),
		first: primitives.Nonce(at.Runs) * runNonces}
	spread(len(n.keys), func(i int) { n.keys[i] = keyOf(i) })
	h, err := home.Load(dir)
	if err != nil {
		return nil, err
	}
	return n, n.run(h, memory, rpc, o)
}

// reopenState starts a node on a state that an earlier benchmark has stored in dir, and counts the
// run in that state, because the transfers of the run change the state.
func reopenState(dir string, memory uint64, rpc string, observe func(*messages.BlockAccepted)) (*fullNode, error) {
	at, err := readState(dir)
	if err != nil {
		return nil, err
	}
	n, err := openState(dir, &at, memory, rpc, daemon.Options{Observe: observe})
	if err != nil {
		return nil, err
	}
	at.Runs++
	return n, at.write(dir)
}

// readState reads the options with which RunState created a folder.
func readState(dir string) (at storedState, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return at, err
	}
	return at, json.Unmarshal(raw, &at)
}

// sorted calls yield for all accounts in ascending order of their names. This order is by first
// letter and then by the text of the number.
func sorted(accounts int, yield func(i int) bool) {
	for letter := range 26 {
		var walk func(n int) bool
		walk = func(n int) bool {
			if n%26 == letter && !yield(n) {
				return false
			}
			if n == 0 {
				return true
			}
			for d := range 10 {
				if m := 10*n + d; m < accounts && !walk(m) {
					return false
				}
			}
			return true
		}
		for first := range 10 {
			if first < accounts && !walk(first) {
				return
			}
		}
	}
}

// statePairs yields the trie entries: all accounts, their keys, then contract storage, in trie
// order.
func statePairs(o *StateOptions, values *stateValues) iter.Seq2[[]byte, []byte] {
	accounts, all := o.Accounts, 2*o.Accounts+o.Values
	account := primitives.Account{Amount: accountBalance,
		StorageUsage: primitives.AccountStorage + primitives.FullAccessKeyStorage, Version: primitives.AccountV1}
	accountValue, keyValue := account.AppendBorsh(nil), (&primitives.AccessKey{}).AppendBorsh(nil)
	handles := make([]primitives.PublicKeyHandle, min(someKeys, accounts))
	spread(len(handles), func(i int) { handles[i] = keyOf(i).PublicKey().Handle() })
	pass := 0
	return func(yield func(k, v []byte) bool) {
		pass++
		what := "hashing"
		if pass > 1 {
			what = "writing"
		}
		start, n := time.Now(), 0
		told := func() {
			if n++; n%(1<<16) == 0 {
				o.Progress(float64(n)/float64(all), fmt.Sprintf("%s, %.0f entries/s", what, float64(n)/time.Since(start).Seconds()))
			}
		}
		var key []byte
		more := true
		sorted(accounts, func(i int) bool {
			told()
			key = primitives.AppendAccountKey(key[:0], workload.Account(i))
			value := accountValue
			if i < len(values.usage) && values.usage[i] > 0 {
				holder := account
				holder.StorageUsage += values.usage[i]
				value = holder.AppendBorsh(nil)
			}
			more = yield(bytes.Clone(key), value)
			return more
		})
		sorted(accounts, func(i int) bool {
			if !more {
				return false
			}
			told()
			key = primitives.AppendAccessKeyKey(key[:0], workload.Account(i), handles[i%someKeys])
			more = yield(bytes.Clone(key), keyValue)
			return more
		})
		if more {
			values.all(func(k, v []byte) bool {
				told()
				return yield(k, v)
			})
		}
	}
}

// diskBytes returns the size of all files of a folder.
func diskBytes(dir string) (sum uint64) {
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			sum += uint64(info.Size())
		}
		return nil
	})
	return sum
}

// WriteJSON writes the report.
func (r *StateReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as text.
func (r *StateReport) WriteText(w io.Writer) error {
	x := &r.Result
	_, err := fmt.Fprintf(w, "%s\n%d accounts with a key each and %d contract storage entries in %s: %.0f accounts/s, "+
		"%.1f s, of processor time %.1f s\nstate %.2f GB as nearcore counts it, %.2f GB on disk, resident at the end %.2f GB\na value of an account drawn uniformly %.1f us of processor, the index's own look for its row %.1f us\n",
		r.Time, r.Options.Accounts, r.Options.Values, r.Options.Dir, x.AccountsPerSecond, x.Seconds, x.CPUSeconds,
		float64(x.StateBytes)/1e9, float64(x.DiskBytes)/1e9, float64(x.ResidentBytes)/1e9, x.ValueMicros, x.LookUpMicros)
	return errors.Join(err)
}
