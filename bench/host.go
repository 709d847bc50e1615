package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/workload"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// fullNode is a whole node in this process, as `troupe run` assembles it, on a chain of its own
// with accounts of known keys.
type fullNode struct {
	*daemon.Daemon
	accounts int
	base     primitives.Hash        // the genesis, which transactions refer to
	keys     []primitives.SecretKey // of the accounts, in turn
	first    primitives.Nonce       // the last one that earlier runs may have taken
}

// What a plain init writes: epochs and validity so long that blocks made at once do not outrun the
// load.
const (
	epochLength = 43_200
	validity    = 86_400
)

// accountBalance is what each account begins with.
var accountBalance = primitives.NEAR(1_000_000)

// startNode makes a chain in dir and runs it. rpc is where JSON-RPC listens, empty: nowhere; if
// somewhere, there is a token too, of which all accounts hold as much.
func startNode(dir string, accounts, shards int, rpc string, observe func(*messages.BlockAccepted)) (*fullNode, error) {
	n := &fullNode{accounts: accounts, keys: make([]primitives.SecretKey, accounts)}
	spread(accounts, func(i int) {
		n.keys[i] = primitives.SecretKeyFromSeed(primitives.ED25519, string(n.name(i)))
	})
	o := workload.Options{Accounts: accounts, Shards: shards}
	if rpc != "" {
		o.Names = []primitives.AccountID{n.token(), n.plain(), n.hog()}
	}
	return n, n.start(dir, o, time.Now(), 0, rpc, observe, nil)
}

// name returns an account's.
func (n *fullNode) name(i int) primitives.AccountID { return workload.Account(i) }

// start runs the node in dir. With grow the records are those of no account: what grow adds, when
// the chain begins, has them.
func (n *fullNode) start(dir string, o workload.Options, at time.Time, memory uint64, rpc string, observe func(*messages.BlockAccepted), grow func(*engine.GenesisState)) error {
	g, err := workload.Genesis(o, workload.Rules{EpochLength: epochLength, Validity: validity, Balance: accountBalance})
	if err != nil {
		return err
	}
	g.GenesisTime = genesis.Time(at.UnixNano())
	c, _, err := config.Parse("", []byte("{}"))
	if err != nil {
		return err
	}
	c.StateMemory = memory
	c.Archive = true // what is measured is written, not collected
	if c.RPC.Addr = rpc; rpc == "" {
		c.RPC = nil
	}
	h := &home.Home{Config: c, Genesis: g, Paths: home.PathsOf(dir, c), Numbering: primitives.NumberingRelease,
		ValidatorKey: &primitives.KeyFile{AccountID: workload.Validator, SecretKey: workload.StakeKey(workload.Validator)}}
	h.Paths.Records = filepath.Join(dir, "records.json")
	h.Paths.Genesis = h.Paths.Records
	if _, err := os.Stat(h.Paths.Records); errors.Is(err, os.ErrNotExist) {
		accounts := n.accounts
		if grow != nil {
			accounts = 0
		}
		if err := n.writeRecords(h.Paths.Records, accounts, len(o.Names) > 0); err != nil {
			return err
		}
	}
	if n.Daemon, err = daemon.Start(daemon.Options{Home: h, Observe: observe, Grow: grow, Trust: grow != nil}); err != nil {
		return err
	}
	n.base = n.Engine.Genesis().Hash
	return nil
}

// writeRecords writes the genesis's records: the validator, the treasury, each account with its
// key.
func (n *fullNode) writeRecords(path string, accounts int, contracts bool) (err error) {
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
	for i := range accounts {
		account.AccountID = n.name(i)
		put(&account)
		put(&genesis.AccessKeyRecord{AccountID: account.AccountID, PublicKey: n.keys[i].PublicKey().Handle()})
	}
	if contracts {
		for _, t := range []*token{newToken(n.token(), n.accounts, accountBalance), newPlain(n.plain(), accountBalance), newHog(n.hog(), accountBalance)} {
			put(&genesis.AccountRecord{AccountID: t.id, Account: t.account})
			put(&genesis.ContractRecord{AccountID: t.id, Code: t.code})
			for _, d := range t.data {
				put(&genesis.DataRecord{AccountID: t.id, Key: d.key, Value: d.value})
			}
		}
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

// plan holds the transfers: transfer i goes from account from[i] to account to[i] with nonce[i].
// A signer's transfers stand in the order of their nonces.
type plan struct {
	from, to []int32
	nonce    []int32
	of       [][]int32 // by signer: its transfers; if there are many signers
	some     map[int32][]int32
	first    primitives.Nonce // comes before all nonces
}

// newPlan draws n transfers among accounts, of which the first signers send; popular accounts are
// chosen as 1/rank^skew.
func newPlan(n, accounts, signers int, skew float64) *plan {
	rng := rand.New(rand.NewPCG(1, 1))
	p := &plan{from: make([]int32, n), to: make([]int32, n), nonce: make([]int32, n)}
	if signers <= manySigners {
		p.of = make([][]int32, signers)
	} else {
		p.some = map[int32][]int32{}
	}
	receivers, senders := workload.NewZipf(rng, accounts, skew), workload.NewZipf(rng, signers, skew)
	for i := range n {
		p.from[i], p.to[i] = int32(senders.Draw(rng)), int32(receivers.Draw(rng))
		list := append(p.sent(p.from[i]), int32(i))
		if p.of != nil {
			p.of[p.from[i]] = list
		} else {
			p.some[p.from[i]] = list
		}
		p.nonce[i] = int32(len(list))
	}
	return p
}

// manySigners is from where on only those are noted that send.
const manySigners = 2_000_000

// sent returns a signer's transfers.
func (p *plan) sent(signer int32) []int32 {
	if p.of == nil {
		return p.some[signer]
	}
	return p.of[signer]
}

// find returns the number of a signer's transfer.
func (p *plan) find(signer int, nonce primitives.Nonce) (int, bool) {
	if signer < 0 || p.of != nil && signer >= len(p.of) || signer > math.MaxInt32 {
		return 0, false
	}
	list := p.sent(int32(signer))
	if nonce <= p.first {
		return 0, false
	}
	if nonce -= p.first; nonce > primitives.Nonce(len(list)) {
		return 0, false
	}
	return int(list[nonce-1]), true
}

// bytes is about what it holds.
func (p *plan) bytes() uint64 { return uint64(16*len(p.from) + 24*len(p.of) + 64*len(p.some)) }

// transfers are signed transfers of 1 yoctoNEAR in their encoding, one after another: without
// pointers, so that they cost the collector nothing.
type transfers struct {
	bytes []byte
	ends  []uint64
}

// sign makes all transfers of a plan.
func (n *fullNode) sign(p *plan, progress func(part float64)) *transfers {
	count := len(p.from)
	t := &transfers{ends: make([]uint64, count)}
	const slab = 1 << 14 // transfers that are signed at once
	made := make([][]byte, slab)
	for done := 0; done < count; {
		part := min(slab, count-done)
		spread(part, func(k int) {
			i := done + k
			tx := n.transfer(int(p.from[i]), int(p.to[i]), primitives.Nonce(p.nonce[i]))
			made[k] = tx.AppendBorsh(made[k][:0])
		})
		for k := range part {
			t.bytes = append(t.bytes, made[k]...)
			t.ends[done+k] = uint64(len(t.bytes))
		}
		done += part
		progress(float64(done) / float64(count))
	}
	return t
}

// transfer signs a transfer.
func (n *fullNode) transfer(from, to int, nonce primitives.Nonce) *primitives.SignedTransaction {
	key := n.keys[from%len(n.keys)]
	t := primitives.Transaction{
		SignerID: n.name(from), PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: n.first + nonce},
		ReceiverID: n.name(to), BlockHash: n.base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}},
	}
	hash := t.Hash()
	return primitives.NewSignedTransaction(t, key.Sign(hash[:]))
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): equal runs have equal
// receivers.
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

// plain is the account of a contract with methods that do next to nothing.
func (n *fullNode) plain() primitives.AccountID { return n.name(0)[:1] + "plain.w" }

// hog is the account of a contract that fills storage.
func (n *fullNode) hog() primitives.AccountID { return n.name(0)[:1] + "hog.w" }

// token is the account of the token.
func (n *fullNode) token() primitives.AccountID { return tokenOf(n.name(0), 0) }

// account returns one of the accounts for any number.
func (n *fullNode) account(i uint64) primitives.AccountID { return n.name(int(i % uint64(n.accounts))) }
