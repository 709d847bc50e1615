package workload

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// hostile writes transactions of contracts that promise state inits, valid and invalid, to each
// other and to universal accounts that run contracts themselves.
type hostile struct {
	*Generator
	chain *Chain
	inits []primitives.UniversalStateInitV1
	keys  map[primitives.AccountID]primitives.SecretKey
}

// The accounts that run the newest probe, and the universal accounts.
const (
	hostileAccounts = 6
	hostileInits    = 8
)

// hostileCodes are the deployed contracts. The first one imports all host functions.
func hostileCodes() [][]byte {
	return [][]byte{contracts.NewestProbe(), contracts.Version(0), contracts.Version(1)}
}

func newHostile(c *Chain) *hostile {
	h := &hostile{Generator: NewGenerator(c.o.Options), chain: c, keys: map[primitives.AccountID]primitives.SecretKey{}}
	code := primitives.HashBytes(contracts.NewestProbe())
	for i := range hostileInits {
		kind := []primitives.KeyType{primitives.ED25519, primitives.SECP256K1, primitives.ED25519, primitives.MLDSA65}[i%4]
		key := primitives.SecretKeyFromSeed(kind, fmt.Sprint("hostile", i))
		s := primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{key.PublicKey().Handle()}}
		switch i % 3 {
		case 0:
			s.Code = &primitives.GlobalContractID{Hash: code}
		case 1:
			s.Code = &primitives.GlobalContractID{Account: Account(0)}
		}
		if i%2 == 0 {
			s.Data = []primitives.StateEntry{{Key: nil, Value: make([]byte, i*300)}, {Key: []byte("k"), Value: nil}}
		}
		h.inits = append(h.inits, s)
		h.keys[s.DerivedAccount()] = key
	}
	return h
}

// someone draws an account with a contract, a universal account, or an id similar to one.
func (h *hostile) someone() primitives.AccountID {
	switch h.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		return h.inits[h.rng.IntN(len(h.inits))].DerivedAccount()
	case 5: // of another hash, or a name that only looks like one
		id := []byte(h.inits[h.rng.IntN(len(h.inits))].DerivedAccount())
		id[2+h.rng.IntN(52)] = "0123456789abcdefghijklmnopqrstuvwxyz"[h.rng.IntN(36)]
		return primitives.AccountID(id)
	}
	return Account(h.rng.IntN(hostileAccounts))
}

// raw draws a state init, possibly damaged, and returns it with the account id of its bytes.
func (h *hostile) raw() (primitives.RawStateInit, primitives.AccountID) {
	s := h.inits[h.rng.IntN(len(h.inits))]
	switch h.rng.IntN(14) {
	case 0:
		s.Data = slices.Concat(s.Data, s.Data, []primitives.StateEntry{{}})
	case 1:
		s.AccessKeys = append(slices.Clone(s.AccessKeys), s.AccessKeys...)
	case 2:
		s.Data = []primitives.StateEntry{{Key: make([]byte, 2047+h.rng.IntN(3))}}
	case 3:
		s.Data = nil
		for i := range 1490 + h.rng.IntN(20) {
			s.Data = append(s.Data, primitives.StateEntry{Key: fmt.Appendf(nil, "%05d", i)})
		}
	case 4:
		for i := range 20 {
			s.AccessKeys = append(slices.Clone(s.AccessKeys), primitives.PublicKeyHandle(append([]byte{3}, bytes.Repeat([]byte{byte(i)}, 32)...)))
		}
		slices.Sort(s.AccessKeys)
	}
	raw := s.Encode()
	switch h.rng.IntN(12) {
	case 0:
		raw = raw[:h.rng.IntN(len(raw))]
	case 1:
		raw[h.rng.IntN(len(raw))] ^= byte(1 << h.rng.IntN(8))
	}
	return raw, raw.DerivedAccount()
}

func (h *hostile) sum() primitives.Balance {
	switch h.rng.IntN(10) {
	case 0:
		return primitives.Balance{Hi: ^uint64(0), Lo: ^uint64(0) - uint64(h.rng.IntN(2))}
	case 1, 2, 3:
		return primitives.Balance{}
	case 4, 5:
		return primitives.NEAR(uint64(1 + h.rng.IntN(3)))
	}
	return primitives.Yocto(h.rng.Uint64())
}

func (h *hostile) gas() uint64 {
	switch h.rng.IntN(12) {
	case 0:
		return ^uint64(0) - uint64(h.rng.IntN(2))
	case 1:
		return 0
	}
	return h.rng.Uint64N(60_000_000_000_000)
}

// program generates promises whose calls contain programs of depth-1.
func (h *hostile) program(self primitives.AccountID, depth int) *contracts.Program {
	p := new(contracts.Program)
	for range 1 + h.rng.IntN(3) {
		h.step(p, self, depth)
	}
	if h.rng.IntN(12) == 0 {
		p.Trap()
	}
	return p
}

func (h *hostile) step(p *contracts.Program, self primitives.AccountID, depth int) {
	raw, derived := h.raw()
	switch h.rng.IntN(12) {
	case 0:
		p.Call("universal_state_init_to_account_id", []byte(raw), 1)
		return
	case 1:
		p.Call([]string{"sha3_256", "sha3_384", "sha3_512"}[h.rng.IntN(3)], uint64(h.rng.IntN(1<<22)), uint64(h.rng.IntN(2)), 1)
		return
	case 2:
		p.Call("promise_yield_create", "run", h.calls(self, depth), uint64(20_000_000_000_000), 0, 7)
		if h.rng.IntN(2) == 0 {
			p.Call("promise_yield_resume", ^uint64(0), 7, "x")
		}
		return
	case 3:
		p.Call("storage_write", fmt.Sprint("k", h.rng.IntN(5)), make([]byte, h.rng.IntN(300)), 1)
		return
	}
	to := derived
	if h.rng.IntN(3) == 0 {
		to = h.someone()
	}
	if h.rng.IntN(8) == 0 {
		to = self
	}
	b := p.Call("promise_batch_create", string(to))
	if h.rng.IntN(4) == 0 {
		b = p.Call("promise_batch_then", b, string(to))
	}
	for range 1 + h.rng.IntN(4) {
		h.act(p, b, raw, to, depth)
	}
	if h.rng.IntN(6) == 0 {
		p.Call("promise_set_refund_to", b, string(h.someone()))
	}
	if h.rng.IntN(6) == 0 {
		p.Call("promise_return", b)
	}
}

func (h *hostile) calls(self primitives.AccountID, depth int) []byte {
	if depth == 0 {
		return (&contracts.Program{}).Bytes()
	}
	return h.program(self, depth-1).Bytes()
}

func (h *hostile) act(p *contracts.Program, b contracts.Result, raw primitives.RawStateInit, to primitives.AccountID, depth int) {
	const batch = "promise_batch_action_"
	key := []byte(h.Key(Account(h.rng.IntN(3))).PublicKey())
	switch h.rng.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		p.Call(batch+"universal_state_init", b, []byte(raw), contracts.Amount(h.sum()))
	case 6, 7:
		p.Call(batch+"transfer", b, contracts.Amount(h.sum()))
	case 8, 9:
		p.Call(batch+"function_call", b, "run", h.calls(to, depth), contracts.Amount(h.sum()), h.gas())
	case 10:
		p.Call(batch+"function_call_weight", b, "run", h.calls(to, depth), contracts.Amount(primitives.Balance{}), 0, 1)
	case 11:
		p.Call(batch+"create_account", b)
	case 12:
		p.Call(batch+"delete_account", b, string(h.someone()))
	case 13:
		p.Call(batch+"add_key_with_full_access", b, key, 0)
	case 14:
		p.Call(batch+"use_global_contract_by_account_id", b, string(Account(0)))
	case 15:
		p.Call(batch+"stake", b, contracts.Amount(primitives.NEAR(uint64(h.rng.IntN(2)*300_000))), []byte(StakeKey(to).PublicKey()))
	}
}

// bootstrapNonce returns the nonce of an uninitialized account at the head.
func (h *hostile) bootstrapNonce(id primitives.AccountID) (nonce primitives.Nonce, ok bool) {
	s, err := h.chain.Engine.StateAt(h.chain.Engine.Head().Hash)
	if err != nil {
		panic(err)
	}
	defer s.Release()
	i, err := s.Layout.Index(s.Layout.ShardOf(id))
	if err != nil {
		panic(err)
	}
	raw, err := s.Trie(i).Get(primitives.AppendAccountKey(nil, id), nil)
	if err != nil {
		panic(err)
	}
	var a primitives.Account
	if raw == nil {
		return 0, false
	}
	if err := borsh.Unmarshal(raw, &a); err != nil {
		panic(err)
	}
	return a.BootstrapNonce, !a.IsInitialized()
}

func (h *hostile) call(to primitives.AccountID) primitives.Action {
	return &primitives.FunctionCall{
		Method: "run", Args: h.program(to, 2).Bytes(), Gas: primitives.Gas(60_000_000_000_000 + h.rng.Uint64N(120_000_000_000_000)),
		Deposit: primitives.NEAR(uint64(h.rng.IntN(2))),
	}
}

func (h *hostile) tx(at Base) *primitives.SignedTransaction {
	s := &h.inits[h.rng.IntN(len(h.inits))]
	id := s.DerivedAccount()
	from := Account(h.rng.IntN(hostileAccounts))
	init := &primitives.UniversalStateInit{Init: s.Encode(), Deposit: primitives.NEAR(uint64(h.rng.IntN(3)))}
	switch h.rng.IntN(11) {
	case 10: // other code for accounts that use Account(0)'s, or use it by its hash
		list := hostileCodes()
		mode := []primitives.GlobalDeployMode{primitives.GlobalByAccountID, primitives.GlobalByCodeHash}[h.rng.IntN(2)]
		return h.draft(at, Account(0), Account(0), &primitives.DeployGlobalContract{Code: list[h.rng.IntN(3)], Mode: mode}, h.call(id)).sign()
	case 0, 1:
		return h.draft(at, from, id, &primitives.Transfer{Deposit: primitives.NEAR(uint64(1 + h.rng.IntN(20)))}).sign()
	case 2, 3: // the account by itself, mostly with a valid nonce
		nonce, _ := h.bootstrapNonce(id)
		var actions []primitives.Action
		for _, a := range []primitives.Action{init, h.call(id), h.call(id), &primitives.DeleteAccount{Beneficiary: h.someone()}} {
			if a == primitives.Action(init) || h.rng.IntN(3) == 0 {
				actions = append(actions, a)
			}
		}
		d := h.draftBy(at, h.keys[id], id, id, actions...)
		d.Nonce.Nonce = nonce + 1 + primitives.Nonce(h.rng.IntN(8)/6)
		return d.sign()
	case 4: // one of its keys
		to := h.someone()
		return h.draftBy(at, h.keys[id], id, to, h.call(to)).sign()
	case 5:
		return h.draft(at, from, id, init, h.call(id)).sign()
	}
	to := h.someone()
	return h.draft(at, from, to, h.call(to)).sign()
}

// TestContractsPromiseStateInits: contracts promise universal state inits of all kinds to accounts
// of all kinds. All tokens remain, parallel and serial execution with restarts agree, and every
// chunk is valid by its witness alone.
func TestContractsPromiseStateInits(t *testing.T) {
	n, blocks := 2, 30
	if full() {
		n = 40
	}
	if testing.Short() || testutil.Racing {
		n, blocks = 2, 15
	}
	v, err := theVM()
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{}
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 0))
		o := ChainOptions{Options: Options{Seed: 5000 + seed, Accounts: hostileAccounts, Shards: []int{1, 4}[seed%2]}, VM: v}
		o.EpochLength = 7 + seed%20
		o.Validity = 2 * o.EpochLength
		o.GasLimit = []primitives.Gas{1_000_000_000_000_000, 300_000_000_000_000}[rng.IntN(2)]
		hostileRun(t, o, blocks, statuses)
	}
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		t.Logf("%7d %s", statuses[name], name)
	}
	for _, name := range []string{"ok *primitives.UniversalStateInit", "ActionError.AccountNotInitialized", "witnesses"} {
		if statuses[name] == 0 {
			t.Errorf("no %s", name)
		}
	}
}

func hostileRun(t *testing.T, o ChainOptions, blocks int, statuses map[string]int) {
	serial, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer serial.Close()
	other := o
	other.Par, other.Disk = Goroutines, nil
	par, err := OpenChain(other)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { par.Close() }()
	h := newHostile(serial)
	g := serial.Engine.Genesis()
	entries := map[primitives.Hash]*engine.BlockNode{g.Hash: g}
	find := func(h primitives.Hash) *engine.BlockNode { return entries[h] }
	codes := map[primitives.Hash][]byte{}
	for _, code := range hostileCodes() {
		codes[primitives.HashBytes(code)] = code
	}
	var old []*primitives.SignedTransaction
	for n := range blocks {
		head := serial.Engine.Head()
		at := serial.Base()
		var txs []*primitives.SignedTransaction
		if n == 0 {
			for i := range hostileAccounts {
				txs = append(txs, h.draft(at, Account(i), Account(i), &primitives.DeployContract{Code: contracts.NewestProbe()}).sign())
			}
			for _, mode := range []primitives.GlobalDeployMode{primitives.GlobalByCodeHash, primitives.GlobalByAccountID} {
				txs = append(txs, h.draft(at, Account(0), Account(0), &primitives.DeployGlobalContract{Code: contracts.NewestProbe(), Mode: mode}).sign())
			}
		}
		if n > 2 {
			for range 2 + h.rng.IntN(40) {
				tx := h.tx(at)
				txs = append(txs, tx)
				old = append(old, tx)
			}
			for range h.rng.IntN(4) { // replays
				txs = append(txs, old[h.rng.IntN(len(old))])
			}
		}
		missing := h.rng.IntN(40)
		b, chunks, err := serial.Make(&Plan{
			Parent: head.Hash, Height: head.Height() + 1 + primitives.Height(h.rng.IntN(8)/7), Transactions: txs,
			Missing: func(i primitives.ShardIndex) bool { return int(i) == missing },
		})
		if err != nil {
			t.Fatalf("seed %d block %d: %v", o.Seed, n, err)
		}
		for _, c := range chunks {
			if c == nil {
				continue
			}
			w, err := serial.Engine.Witness(c)
			if err != nil {
				t.Fatalf("seed %d block %d: witness: %v", o.Seed, n, err)
			}
			var accessed [][]byte
			for _, hash := range w.Accesses {
				accessed = append(accessed, codes[hash])
			}
			if err := serial.Engine.Witnesses().CheckWitness(w.ChunkStateWitness, accessed); err != nil {
				t.Fatalf("seed %d block %d: witness of shard %d: %v", o.Seed, n, c.Header.ShardID, err)
			}
			statuses["witnesses"]++
		}
		a, err := serial.Accept(b, chunks, true)
		if err != nil {
			t.Fatalf("seed %d block %d: %v", o.Seed, n, err)
		}
		entries[a.Entry.Hash] = a.Entry
		count(statuses, a.Entry)
		checkSupply(t, serial, a.Entry, find)
		again, err := par.Accept(b, chunks, false)
		if err != nil {
			t.Fatalf("seed %d block %d in parallel: %v", o.Seed, n, err)
		}
		for k := range again.Entry.Shards {
			stats := &again.Entry.Shards[k].Result.Stats
			statuses["ran in parallel"] += stats.RanInParallel
			statuses["ran again"] += stats.RanAgain
		}
		if Fingerprint(again.Entry) != Fingerprint(a.Entry) {
			t.Fatalf("seed %d block %d: other results in parallel", o.Seed, n)
		}
		if n%5 == 4 {
			if err := par.Restart(); err != nil {
				t.Fatalf("seed %d block %d: restart: %v", o.Seed, n, err)
			}
		}
	}
}
