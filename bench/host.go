package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/host"
	"github.com/troupe-chain/troupe/internal/workload"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// fullNode is a whole node in this process, as `troupe run` assembles it, on a chain of its own with accounts of known keys.
type fullNode struct {
	*host.Host
	accounts int
	base     primitives.Hash // the genesis, which transactions refer to
	keys     []primitives.SecretKey
	names    []primitives.AccountID
}

// What a plain init writes: epochs and validity so long that blocks made at once do not outrun the load.
const (
	epochLength = 43_200
	validity    = 86_400
)

// accountBalance is what each account begins with.
var accountBalance = primitives.NEAR(1_000_000)

// startNode makes a chain in dir and runs it. rpc is where JSON-RPC listens, empty: nowhere.
func startNode(dir string, accounts, shards int, rpc string, observe func(*messages.BlockAccepted)) (*fullNode, error) {
	n := &fullNode{accounts: accounts, keys: make([]primitives.SecretKey, accounts), names: make([]primitives.AccountID, accounts)}
	spread(accounts, func(i int) {
		n.names[i] = workload.Account(i)
		n.keys[i] = primitives.SecretKeyFromSeed(primitives.ED25519, string(n.names[i]))
	})
	rules := workload.Rules{EpochLength: epochLength, Validity: validity, Balance: accountBalance}
	g, err := workload.Genesis(workload.Options{Accounts: accounts, Shards: shards}, rules)
	if err != nil {
		return nil, err
	}
	g.GenesisTime = genesis.Time(time.Now().UnixNano())
	c, _, err := config.Parse("", []byte("{}"))
	if err != nil {
		return nil, err
	}
	c.Archive = true // what is measured is written, not collected
	if c.RPC.Addr = rpc; rpc == "" {
		c.RPC = nil
	}
	h := &home.Home{Config: c, Genesis: g, Paths: home.PathsOf(dir, c),
		ValidatorKey: &primitives.KeyFile{AccountID: workload.Validator, SecretKey: workload.StakeKey(workload.Validator)}}
	h.Paths.Records = filepath.Join(dir, "records.json")
	h.Paths.Genesis = h.Paths.Records
	if err := n.writeRecords(h.Paths.Records); err != nil {
		return nil, err
	}
	if n.Host, err = host.Start(host.Options{Home: h, Observe: observe}); err != nil {
		return nil, err
	}
	n.base = n.Engine.Genesis().Hash
	return n, nil
}

// writeRecords writes the genesis's records: the validator, the treasury, each account with its key.
func (n *fullNode) writeRecords(path string) (err error) {
	g, err := genesis.Localnet(genesis.LocalnetOptions{Accounts: []primitives.AccountID{workload.Validator}, Validators: 1, Shards: 1})
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20) // its first error sticks and comes out of Flush
	sep := byte('[')
	put := func(r genesis.Record) {
		_, _ = out.Write(genesis.AppendRecord([]byte{sep}, r))
		sep = ','
	}
	for _, r := range g.Records {
		put(r)
	}
	account := genesis.AccountRecord{Account: primitives.Account{Version: primitives.AccountV1, Amount: accountBalance}}
	for i := range n.accounts {
		account.AccountID = n.names[i]
		put(&account)
		put(&genesis.AccessKeyRecord{AccountID: account.AccountID, PublicKey: n.keys[i].PublicKey().Handle()})
	}
	_ = out.WriteByte(']')
	return out.Flush()
}

// stop ends the node; what it does not manage in time is an error.
func (n *fullNode) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.Stop(ctx)
}

// spread calls do for 0 ... n-1 on all cores.
func spread(n int, do func(i int)) {
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		wg.Go(func() {
			for i := c; i < n; i += cores {
				do(i)
			}
		})
	}
	wg.Wait()
}

// transfers are signed transfers of 1 yoctoNEAR in their encoding, one after another: without pointers, so that they cost
// the collector nothing. Transfer i is signed by account i modulo signers with nonce i/signers + 1, so that a signer's
// transfers stand in the order of their nonces.
type transfers struct {
	bytes   []byte
	ends    []uint64
	signers int
}

// sign makes transfers from ... from+n-1 of the endless list, each to another account.
func (n *fullNode) sign(from, count, signers int, progress func(part float64)) (*transfers, error) {
	t := &transfers{ends: make([]uint64, count), signers: signers}
	const slab = 1 << 14 // transfers that are signed at once
	made := make([][]byte, slab)
	var done int
	for done < count {
		part := min(slab, count-done)
		spread(part, func(k int) { made[k] = n.transfer(from+done+k, signers).AppendBorsh(made[k][:0]) })
		for k := range part {
			t.bytes = append(t.bytes, made[k]...)
			t.ends[done+k] = uint64(len(t.bytes))
		}
		done += part
		progress(float64(done) / float64(count))
	}
	return t, nil
}

// transfer makes transfer i of the endless list.
func (n *fullNode) transfer(i, signers int) *primitives.SignedTransaction {
	from := i % signers
	key := n.keys[from]
	t := primitives.Transaction{
		SignerID: n.names[from], PublicKey: key.PublicKey(),
		Nonce:      primitives.TransactionNonce{Nonce: primitives.Nonce(i/signers + 1)},
		ReceiverID: n.account(scatter(uint64(i))), BlockHash: n.base,
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}},
	}
	hash := t.Hash()
	return primitives.NewSignedTransaction(t, key.Sign(hash[:]))
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): equal runs have equal receivers.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at is the encoding of transfer i.
func (t *transfers) at(i int) []byte {
	from := uint64(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.bytes[from:t.ends[i]]
}

func (t *transfers) len() int { return len(t.ends) }

// resident returns the process's resident memory in bytes, 0 where the system does not tell.
func resident(pid int) uint64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// account returns one of the accounts for any number.
func (n *fullNode) account(i uint64) primitives.AccountID { return n.names[i%uint64(len(n.names))] }
