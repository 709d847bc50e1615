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

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// fullNode is a complete node in this process, assembled as by `troupe run`, on a new chain whose
// accounts have known keys.
type fullNode struct {
	*daemon.Daemon
	accounts int
	base     primitives.Hash        // genesis hash, used as block hash in the transactions
	keys     []primitives.SecretKey // account i has the key with index i modulo len(keys)
	first    primitives.Nonce       // the highest nonce that a previous run on this state may have used
}

// The values that init writes. Even if blocks are produced as fast as possible, epochs and validity
// last longer than a run.
const (
	epochLength = 43_200
	validity    = 86_400
)

// accountBalance is the balance of each account in the genesis.
var accountBalance = primitives.NEAR(1_000_000)

// startNode creates a chain in dir and runs its node. rpc is the address of the JSON-RPC; empty
// means none. With an RPC, the chain also has a token that all accounts hold in equal amounts.
func startNode(dir string, accounts, shards int, rpc string, observe func(*messages.BlockAccepted)) (*fullNode, error) {
	n := &fullNode{accounts: accounts, keys: make([]primitives.SecretKey, accounts)}
	spread(accounts, func(i int) {
		n.keys[i] = primitives.TestKey(n.name(i))
	})
	o := workload.Options{Accounts: accounts, Shards: shards}
	if rpc != "" {
		o.Names = []primitives.AccountID{n.token(), n.plain(), n.hog()}
	}
	return n, n.start(dir, o, rpc, observe)
}

// name returns the name of account i.
func (n *fullNode) name(i int) primitives.AccountID { return workload.Account(i) }

// start runs the node of a new chain in dir.
func (n *fullNode) start(dir string, o workload.Options, rpc string, observe func(*messages.BlockAccepted)) error {
	g, err := workload.Genesis(o, workload.Rules{EpochLength: epochLength, Validity: validity, Balance: accountBalance})
	if err != nil {
		return err
	}
	g.GenesisTime = genesis.Time(time.Now().UnixNano())
	c, _, err := config.Parse("", []byte("{}"))
	if err != nil {
		return err
	}
	h := &home.Home{Config: c, Genesis: g, Paths: home.PathsOf(dir, c), Numbering: primitives.NumberingRelease,
		ValidatorKey: &primitives.KeyFile{AccountID: workload.Validator, SecretKey: workload.StakeKey(workload.Validator)}}
	h.Paths.Records = filepath.Join(dir, "records.json")
	h.Paths.Genesis = h.Paths.Records
	if err := n.writeRecords(h.Paths.Records, n.accounts, len(o.Names) > 0); err != nil {
		return err
	}
	return n.run(h, 0, rpc, daemon.Options{Observe: observe})
}

// run runs the node of a home.
func (n *fullNode) run(h *home.Home, memory uint64, rpc string, o daemon.Options) (err error) {
	c := h.Config
	c.StateMemory = memory
	c.Archive = true // the measurement must not include garbage collection
	if c.RPC.Addr = rpc; rpc == "" {
		c.RPC = nil
	}
	o.Home = h
	if n.Daemon, err = daemon.Start(o); err != nil {
		return err
	}
	n.base = n.Engine.Genesis().Hash
	return nil
}

// writeRecords writes the genesis records: the validator, the treasury, and each account with the
// account's key.
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
	out := bufio.NewWriterSize(f, 1<<20) // Flush returns the first write error
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
		for _, t := range []*token{newToken(n.token(), n.accounts, accountBalance), newPlain(n.plain(), accountBalance),
			newHog(n.hog(), accountBalance)} {
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

// stop stops the node. stop returns an error if that takes too long.
func (n *fullNode) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.Stop(ctx)
}

// spread calls do for 0 to n-1 on all cores.
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

// plan contains the transfers of a run. Transfer i goes from account from[i] to account to[i] with
// nonce nonce[i]. The nonces of a signer's transfers are consecutive.
type plan struct {
	from, to []int32
	nonce    []int32
	// transfer indexes by signer; nil if there are more than manySigners signers, and some is used
	of    [][]int32
	some  map[int32][]int32
	first primitives.Nonce // number that is added to all nonces
}

// newPlan draws n transfers between accounts. The first `signers` accounts are the signers. The
// account of rank r is drawn with a probability proportional to 1/r^skew.
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

// manySigners is the maximum number of signers for a list by signer. With more signers, a map is
// used that contains only signers with transfers.
const manySigners = 2_000_000

// sent returns the indexes in the plan of a signer's transfers.
func (p *plan) sent(signer int32) []int32 {
	if p.of == nil {
		return p.some[signer]
	}
	return p.of[signer]
}

// find returns the index of the signer's transfer with the given nonce.
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

// bytes estimates the memory that the plan uses, in bytes.
func (p *plan) bytes() uint64 { return uint64(16*len(p.from) + 24*len(p.of) + 64*len(p.some)) }

// transfers contains encoded signed transfers of 1 yoctoNEAR in one buffer. The buffer has no
// pointers, so the garbage collector need not scan it.
type transfers struct {
	bytes []byte
	ends  []uint64
}

// sign signs all transfers of a plan, on all cores.
func (n *fullNode) sign(p *plan, progress func(part float64)) *transfers {
	count := len(p.from)
	t := &transfers{ends: make([]uint64, count)}
	const slab = 1 << 14 // number of transfers that are signed in one batch
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

// transfer returns a signed transfer.
func (n *fullNode) transfer(from, to int, nonce primitives.Nonce) *primitives.SignedTransaction {
	key := n.keys[from%len(n.keys)]
	t := primitives.Transaction{
		SignerID: n.name(from), PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: n.first + nonce},
		ReceiverID: n.name(to), BlockHash: n.base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}},
	}
	hash := t.Hash()
	return primitives.NewSignedTransaction(t, key.Sign(hash[:]))
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014). With this function instead of a
// random source, equal runs have equal receivers.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at returns the borsh encoding of transfer i.
func (t *transfers) at(i int) []byte {
	from := uint64(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.bytes[from:t.ends[i]]
}

func (t *transfers) len() int { return len(t.ends) }

// resident returns the resident memory of a process in bytes. resident returns 0 if the system does
// not report that memory.
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

// plain returns the account of the contract whose methods do almost nothing.
func (n *fullNode) plain() primitives.AccountID { return n.name(0)[:1] + "plain.w" }

// hog returns the account of the contract that writes storage.
func (n *fullNode) hog() primitives.AccountID { return n.name(0)[:1] + "hog.w" }

// token returns the account of the token contract.
func (n *fullNode) token() primitives.AccountID { return tokenOf(n.name(0), 0) }

// account returns account i modulo the number of accounts.
func (n *fullNode) account(i uint64) primitives.AccountID { return n.name(int(i % uint64(n.accounts))) }
