package refmodel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// Scenario is a generated chunk: a world, and the chunk's transactions and incoming receipts. It
// may also have transactions of later chunks.
type Scenario struct {
	World    *World
	Height   primitives.Height
	Txs      []*primitives.SignedTransaction
	Incoming []*primitives.Receipt
	Later    [][]*primitives.SignedTransaction // transactions of the chunks after the first
	Programs map[string]*Program
}

// Play executes the first chunk of a scenario. It changes the scenario's world.
func (s *Scenario) Play() *Chunk {
	c := Begin(s.World, s.Height, s.Programs)
	c.play(s.Txs, s.Incoming)
	return c
}

// LaterTxs returns the transactions of chunk n, where the first chunk is 0. It returns nil for
// chunk 0.
func (s *Scenario) LaterTxs(n int) []*primitives.SignedTransaction {
	if n == 0 || n > len(s.Later) {
		return nil
	}
	return s.Later[n-1]
}

// String describes the inputs of the chunks, one on each line.
func (s *Scenario) String() string {
	var b strings.Builder
	for i, txs := range append([][]*primitives.SignedTransaction{s.Txs}, s.Later...) {
		for _, tx := range txs {
			t := &tx.Transaction
			fmt.Fprintf(&b, "tx of chunk %d, %s -> %s, nonce %+v, mode %d: %s\n", i, t.SignerID, t.ReceiverID, t.Nonce, t.NonceMode, Actions(t.Actions))
		}
	}
	for _, r := range s.Incoming {
		switch body := r.Body.(type) {
		case *primitives.ActionReceipt:
			kind := ""
			if body.Yield {
				kind = "yield "
			} else if len(body.InputDataIDs) > 0 {
				kind = "waiting "
			}
			fmt.Fprintf(&b, "%s%s -> %s: %s", kind, r.PredecessorID, r.ReceiverID, Actions(body.Actions))
			for _, a := range body.Actions {
				if f, ok := a.(*primitives.FunctionCall); ok && strings.HasPrefix(f.Method, "run") {
					fmt.Fprintf(&b, " {%s}", s.Programs[string(f.Args)])
				}
			}
			b.WriteByte('\n')
		case *primitives.GlobalContractDistribution:
			fmt.Fprintf(&b, "distribution %s: version %d, nonce %d\n", globalName(body.ID), versionOf(body.Code), body.Nonce)
		case *primitives.DataReceipt:
			fmt.Fprintf(&b, "data for %s, resume %v\n", r.ReceiverID, body.Resume)
		}
	}
	return b.String()
}

// Accounts in scenarios. The deterministic accounts have the state inits that inits returns.
var (
	// people have a large balance, except poor.near. heavy.near has too much storage to be deleted.
	people  = []primitives.AccountID{"alice.near", "bob.near", "carol.near", "poor.near", "heavy.near", "kid.alice.near"}
	missing = []primitives.AccountID{"new.alice.near", "new.bob.near", "short"} // accounts that a scenario may create
	// eth and hex are implicit accounts, which a transfer creates.
	eth = primitives.AccountID("0x00112233445566778899aabbccddeeff00112233")
	hex = primitives.AccountID(strings.Repeat("5a", 32))
)

// universals returns state inits of universal accounts. The first soundInits are valid: one key;
// two keys; code; code, data and two keys, one of them post-quantum; so much data that a balance is
// needed; empty; code that never exists. The others are invalid: entries in the wrong order; two
// entries with one key; a public key twice; a data key that is too long; too many entries; too many
// public keys; too many of both; an additional byte; truncated; another version; no bytes.
var universals = sync.OnceValue(func() (list []universal) {
	h := func(name string) primitives.PublicKeyHandle { return key(name).PublicKey().Handle() }
	handles := func(n int) (list []primitives.PublicKeyHandle) {
		for i := range n {
			list = append(list, primitives.PublicKeyHandle(append([]byte{0}, slices.Repeat([]byte{byte(i >> 8), byte(i)}, 16)...)))
		}
		return list
	}
	entries := func(n int) (list []entry) {
		for i := range n {
			list = append(list, entry{fmt.Sprintf("%04d", i), ""})
		}
		return list
	}
	quantum := primitives.SecretKeyFromSeed(primitives.MLDSA65, "quantum").PublicKey().Handle()
	two := []primitives.PublicKeyHandle{h("u1"), h("u2")}
	slices.Sort(two)
	first := primitives.GlobalContractID{Hash: primitives.HashBytes(Code(0))}
	alices := primitives.GlobalContractID{Account: "alice.near"}
	never := primitives.GlobalContractID{Account: "nobody.near"}
	good := (&initState{keys: two[:1]}).bytes()
	add := func(raw primitives.RawStateInit) { list = append(list, universal{raw, universalID(raw)}) }
	for _, s := range []initState{
		{keys: []primitives.PublicKeyHandle{h("u1")}},
		{keys: two},
		{code: &first},
		{code: &alices, data: []entry{{"", "v"}, {"k", ""}}, keys: []primitives.PublicKeyHandle{h("u1"), quantum}},
		{data: []entry{{"large", strings.Repeat("l", 1000)}}, keys: []primitives.PublicKeyHandle{h("u2")}},
		{},
		{code: &never, keys: two[:1]},

		{data: []entry{{"b", "2"}, {"a", "1"}}, keys: two[:1]},
		{data: []entry{{"a", "1"}, {"a", "2"}}, keys: two[:1]},
		{keys: []primitives.PublicKeyHandle{two[1], two[0], two[1]}},
		{data: []entry{{strings.Repeat("k", longestKey+1), ""}}, keys: two[:1]},
		{data: entries(mostEntries + 1), keys: two[:1]},
		{keys: handles(mostKeys + 1)},
		{data: entries(mostEntries + 1), keys: handles(mostKeys + 1)},
	} {
		add(s.bytes())
	}
	add(append(slices.Clone(good), 0))
	add(good[:len(good)-1])
	add(append(primitives.RawStateInit{1}, good[1:]...))
	add(nil)
	return list
})

// universal is a state init and the account id that it determines.
type universal struct {
	raw primitives.RawStateInit
	id  primitives.AccountID
}

// Indexes in universals. The first soundInits state inits are valid. Those from hugeInits to before
// endOfHuge are refused in new transactions and new receipts, but not in incoming receipts.
const soundInits, hugeInits, endOfHuge = 7, 11, 14

// inits returns the state inits of the deterministic accounts. The account of the last one needs a
// balance.
func inits() []primitives.StateInit {
	return []primitives.StateInit{
		{Code: primitives.GlobalContractID{Hash: primitives.HashBytes(Code(0))}},
		{Code: primitives.GlobalContractID{Account: "alice.near"}, Data: []primitives.StateEntry{{Key: []byte("k"), Value: []byte("v")}}},
		{Code: primitives.GlobalContractID{Hash: primitives.HashBytes(Code(1))}, Data: []primitives.StateEntry{{Key: []byte("large"), Value: make([]byte, 1000)}}},
	}
}

// key returns the secret key derived from a name. Scenarios use few names.
func key(name string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, name)
}

var keyNames = []string{"k1", "k2", "k3"}

// generator generates a scenario.
type generator struct {
	*rand.Rand
	s     *Scenario
	rules Rules
	inits []primitives.StateInit
	first []universal
	fresh bool // true: the generated action is for a transaction, so it is validated
	all   []primitives.AccountID
	n     uint64 // counter for unique names and nonces
}

// Generate returns the scenario of a seed under the given rules.
func Generate(seed uint64, rules Rules) *Scenario {
	g := &generator{
		Rand: rand.New(rand.NewPCG(seed, 9)), s: &Scenario{World: NewWorld(rules), Height: 12, Programs: map[string]*Program{}}, rules: rules,
		inits: inits(), first: universals(),
	}
	g.all = append(append(g.all, people...), missing...)
	g.all = append(g.all, eth, hex)
	for i := range g.inits {
		g.all = append(g.all, g.inits[i].DerivedAccount())
	}
	if rules >= 87 {
		for _, u := range g.first[:soundInits] {
			g.all = append(g.all, u.id)
		}
		g.all = append(g.all, g.first[hugeInits+g.IntN(endOfHuge-hugeInits)].id)
		stray := []byte(g.first[0].id) // a universal account's id with one changed character
		stray[g.IntN(len(stray))] = symbols[g.IntN(len(symbols))]
		g.all = append(g.all, primitives.AccountID(stray))
	}
	g.world()
	if g.IntN(3) == 0 {
		for range 1 + g.IntN(3) {
			g.transaction()
		}
	}
	for range 3 + g.IntN(12) {
		g.receipt()
	}
	if rules >= 88 && g.one(3) {
		g.story()
	}
	return g.s
}

// one returns true with probability 1/n.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

func (g *generator) version() byte {
	if g.one(12) {
		return Broken
	}
	if g.rules >= 87 && g.one(4) {
		return Newest
	}
	return byte(g.IntN(Versions))
}

// global returns an id of global code, mostly of code that exists.
func (g *generator) global() primitives.GlobalContractID {
	if g.one(2) {
		return primitives.GlobalContractID{Hash: primitives.HashBytes(Code(byte(g.IntN(4))))}
	}
	return primitives.GlobalContractID{Account: people[g.IntN(3)]}
}

func (g *generator) world() {
	w := g.s.World
	for range g.IntN(6) {
		id, v := g.global(), g.version()
		if id.Account == "" {
			for v = 0; primitives.HashBytes(Code(v)) != id.Hash; v++ {
			}
		}
		w.Global[id], w.Nonces[id] = Code(v), 1+g.Uint64N(2)
	}
	for _, id := range people {
		amount := primitives.NEAR(1000)
		if id == "poor.near" {
			amount = primitives.Yocto(1_000_000_000_000_000_000 * uint64(g.IntN(18)))
		}
		if id == "kid.alice.near" && g.one(3) {
			continue
		}
		a := w.Add(id, amount, key(string(id)).PublicKey())
		if id == "heavy.near" {
			a.Usage = 20_000
		}
		g.contract(a)
		for range g.IntN(3) {
			g.addKey(a)
		}
		for i := range g.IntN(3) {
			k, v := fmt.Sprintf("k%d", i), strings.Repeat("v", g.IntN(9))
			a.Data[k] = v
			a.Usage += uint64(len(k)+len(v)) + bytesOfRecord
		}
	}
	for _, id := range g.all[len(people)+len(missing)+1:] { // implicit accounts that earlier transfers have created
		if g.one(4) && !named0u(id) {
			a := newAccount()
			a.Amount = primitives.NEAR(uint64(g.IntN(3)))
			w.Accounts[id] = a
		}
	}
	if g.rules >= 88 {
		for _, u := range g.first[:soundInits] {
			g.universal(u)
		}
	}
}

// universal may create the account of a state init, with or without the account's state.
func (g *generator) universal(u universal) {
	s, a := readInit(u.raw), newAccount()
	a.Amount = primitives.Yocto(1_000_000_000_000_000_000 * g.Uint64N(18)).SaturatingAdd(primitives.NEAR(uint64(g.IntN(3))))
	switch g.IntN(4) {
	case 0: // the account does not exist
		return
	case 1:
		if s.code != nil && g.s.World.Global[*s.code] == nil {
			return
		}
		for _, h := range s.keys {
			a.put(h, &Key{AccessKey: primitives.AccessKey{Nonce: 5_000_000}})
		}
		for _, e := range s.data {
			a.write(e.key, e.value)
		}
		if s.code != nil {
			a.set(primitives.GlobalContract(*s.code), nil)
		}
		if a.lacks() != (primitives.Balance{}) {
			a.Amount = primitives.NEAR(3)
		}
	default:
		a.Bare, a.Nonce = true, 4_000_000
		if g.one(8) {
			a.Nonce = primitives.Nonce(g.s.Height)*noncesOfABlock - 1 - g.small(3)
		}
	}
	g.s.World.Accounts[u.id] = a
}

// contract draws whether an account gets a contract, and which one.
func (g *generator) contract(a *Account) {
	if g.rules >= 87 && g.one(3) {
		a.set(local(Code(Newest)), Code(Newest))
		return
	}
	switch g.IntN(4) {
	case 0:
		code := Code(g.version())
		a.set(local(code), code)
	case 1, 2:
		if id := g.global(); g.s.World.Global[id] != nil {
			a.set(primitives.GlobalContract(id), nil)
		}
	}
}

func (g *generator) addKey(a *Account) {
	pk := key(pick(g, keyNames)).PublicKey()
	if a.key(pk) != nil {
		return
	}
	k := &Key{AccessKey: g.accessKey()}
	if k.GasKey != nil {
		k.GasKey.Balance = primitives.Yocto(400_000_000_000_000_000_0).SaturatingAdd(primitives.NEAR(uint64(g.IntN(2))))
		for range k.GasKey.NumNonces {
			k.Rows = append(k.Rows, 5)
		}
	}
	a.put(pk.Handle(), k)
}

func (g *generator) accessKey() (k primitives.AccessKey) {
	if g.one(3) {
		k.FunctionCall = &primitives.FunctionCallPermission{ReceiverID: string(pick(g, people))}
		if g.one(2) {
			k.FunctionCall.MethodNames = []string{"which"}
		}
	}
	if g.one(2) {
		k.GasKey = &primitives.GasKeyInfo{NumNonces: uint16(1 + g.IntN(3))}
	} else if k.FunctionCall != nil && g.one(2) {
		some := primitives.NEAR(1)
		k.FunctionCall.Allowance = &some
	}
	return k
}

func (g *generator) name() (h primitives.Hash) {
	g.n++
	return primitives.HashBytes(littleEndian(g.n))
}

func (g *generator) amount() primitives.Balance {
	switch g.IntN(4) {
	case 0:
		return primitives.Balance{}
	case 1:
		return primitives.NEAR(uint64(g.IntN(3)))
	}
	return primitives.Yocto(2 + g.Uint64N(1<<62))
}

// transaction generates a transaction. Half of the transactions are from an account with a large
// balance to itself. The others may be invalid in any way.
func (g *generator) transaction() {
	g.fresh = true
	defer func() { g.fresh = false }()
	if g.rules >= 88 && g.one(2) {
		g.byUniversal()
		return
	}
	id := people[g.IntN(3)]
	sk, to := key(string(id)), id
	g.n++
	tx := primitives.Transaction{Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(g.s.Height-2)*noncesOfABlock + primitives.Nonce(g.n)}}
	if g.one(2) {
		switch id = pick(g, people); g.IntN(10) {
		case 0:
			id = pick(g, g.all)
		case 1, 2, 3:
			id = "poor.near"
		}
		if to = pick(g, people); g.one(3) {
			to = id
		}
		sk = g.signer(id)
		g.nonce(&tx, sk.PublicKey(), id)
	}
	tx.SignerID, tx.ReceiverID, tx.PublicKey = id, to, sk.PublicKey()
	if tx.Actions = g.actions(to); g.one(3) { // one action that a function call key may allow
		tx.Actions = []primitives.Action{g.call(to, inDelegate)}
	}
	if g.one(20) { // a list of actions that no transaction may contain
		tx.Actions = append([]primitives.Action{&primitives.DeleteAccount{Beneficiary: to}}, tx.Actions...)
	}
	hash := tx.Hash()
	sig := sk.Sign(hash[:])
	if g.one(20) {
		sig = key("nobody").Sign(hash[:])
	}
	g.s.Txs = append(g.s.Txs, primitives.NewSignedTransaction(tx, sig))
}

// byUniversal generates a transaction of a universal account. Usually it is the transaction that
// the account may send before it has a key. Sometimes a second one with the next nonce follows.
func (g *generator) byUniversal() {
	at := g.IntN(len(g.first))
	if !g.one(4) {
		at = g.IntN(soundInits)
	}
	raw, id := g.first[at].raw, g.first[at].id
	nonce := primitives.Nonce(4_000_000)
	if a := g.s.World.Accounts[id]; a != nil && a.Bare {
		nonce = a.Nonce
	} else if a != nil {
		nonce = 5_000_000
	}
	for range 1 + g.IntN(2) {
		sk := key(pick(g, []string{"u1", "u2"}))
		switch g.IntN(20) {
		case 0:
			sk = key("nobody")
		case 1:
			sk = primitives.SecretKeyFromSeed(primitives.MLDSA65, "quantum")
		}
		nonce++
		tx := primitives.Transaction{SignerID: id, ReceiverID: id, PublicKey: sk.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}}
		switch g.IntN(12) {
		case 0:
			tx.Nonce.Nonce += g.small(3) - 1
		case 1:
			tx.Nonce.Nonce = primitives.Nonce(g.s.Height)*noncesOfABlock - g.small(2)
		case 2:
			tx.ReceiverID = pick(g, g.all)
		}
		if g.one(4) {
			tx.Version, tx.NonceMode, tx.Nonce.HasIndex = primitives.TransactionV1, primitives.NonceMode(g.IntN(2)), g.one(4)
		}
		tx.Actions = []primitives.Action{&primitives.UniversalStateInit{Init: raw, Deposit: g.amount()}}
		if g.one(3) {
			tx.Actions = append(tx.Actions, g.actions(tx.ReceiverID)...)
		} else if g.one(6) {
			tx.Actions = slices.Insert(g.actions(tx.ReceiverID), 0, tx.Actions...)
			tx.Actions[0], tx.Actions[1] = tx.Actions[1], tx.Actions[0]
		} else if g.one(8) {
			tx.Actions = g.actions(tx.ReceiverID)
		}
		g.s.Txs = append(g.s.Txs, signed(tx, sk))
	}
}

func signed(tx primitives.Transaction, sk primitives.SecretKey) *primitives.SignedTransaction {
	hash := tx.Hash()
	return primitives.NewSignedTransaction(tx, sk.Sign(hash[:]))
}

// story generates transactions of a universal account over several chunks. The account receives a
// transfer, initializes its state, is deleted by its key, and receives a transfer again.
// Transactions that it has signed are repeated at random times.
func (g *generator) story() {
	u := g.first[g.IntN(2)]
	sk := key("u1")
	from := people[0]
	payer := key(string(from))
	height := g.s.Height
	bare := primitives.Nonce(4_000_000)
	if a := g.s.World.Accounts[u.id]; a != nil && a.Bare {
		bare = a.Nonce
	}
	var said []*primitives.SignedTransaction
	for range 4 + g.IntN(4) {
		height++
		var txs []*primitives.SignedTransaction
		for range 1 + g.IntN(2) {
			tx := primitives.Transaction{SignerID: u.id, ReceiverID: u.id, PublicKey: sk.PublicKey()}
			g.n++
			switch g.IntN(6) {
			case 0, 1: // a transfer to the account
				tx = primitives.Transaction{SignerID: from, ReceiverID: u.id, PublicKey: payer.PublicKey(), Actions: []primitives.Action{
					&primitives.Transfer{Deposit: primitives.NEAR(uint64(g.IntN(2)))},
				}}
				tx.Nonce.Nonce = primitives.Nonce(height-1)*noncesOfABlock + primitives.Nonce(g.n)
				txs = append(txs, signed(tx, payer))
				// The nonce that the account gets if the transfer creates it in the next chunk.
				bare = primitives.Nonce(height) * noncesOfABlock
				continue
			case 2, 3: // the account initializes its state
				bare++
				tx.Nonce.Nonce = bare
				tx.Actions = []primitives.Action{&primitives.UniversalStateInit{Init: u.raw, Deposit: g.amount()}}
				if g.one(3) {
					tx.Actions = append(tx.Actions, &primitives.DeleteAccount{Beneficiary: pick(g, g.all)})
				}
			case 4: // the account is deleted
				tx.Nonce.Nonce = primitives.Nonce(height-1)*noncesOfABlock + primitives.Nonce(g.n)
				tx.Actions = []primitives.Action{&primitives.DeleteAccount{Beneficiary: pick(g, g.all)}}
			case 5:
				if len(said) > 0 {
					txs = append(txs, pick(g, said))
				}
				continue
			}
			said = append(said, signed(tx, sk))
			txs = append(txs, said[len(said)-1])
		}
		g.s.Later = append(g.s.Later, txs)
	}
}

// universalAction may return a universal state init for an account: usually the account's own,
// sometimes another. nil: it returns none.
func (g *generator) universalAction(to primitives.AccountID, in int) primitives.Action {
	if g.rules < 87 || in == inPromise {
		return nil
	}
	if g.fresh && g.one(80) {
		return &primitives.UniversalStateInit{Init: pick(g, g.first).raw, Deposit: g.amount()}
	}
	for _, u := range g.first {
		if u.id == to && (g.fresh || g.rules >= 88) && g.one(2) {
			return &primitives.UniversalStateInit{Init: u.raw, Deposit: g.amount()}
		}
	}
	return nil
}

// signer returns the key that signs a transaction, mostly a key of the account, but not its first.
func (g *generator) signer(id primitives.AccountID) primitives.SecretKey {
	sk := key(pick(g, keyNames))
	for range 4 {
		if a := g.s.World.Accounts[id]; a != nil && a.key(sk.PublicKey()) != nil {
			return sk
		}
		sk = key(pick(g, keyNames))
	}
	if g.one(2) {
		return sk
	}
	return key(string(id))
}

// nonce sets the nonce of tx. It may have the index of a gas key, be too small or too large, or be
// the next nonce of a new key.
func (g *generator) nonce(tx *primitives.Transaction, pk primitives.PublicKey, id primitives.AccountID) {
	switch g.IntN(8) {
	case 0:
		tx.Nonce.Nonce = g.small(8)
	case 1:
		tx.Nonce.Nonce = primitives.Nonce(g.s.Height)*noncesOfABlock - 1 + g.small(3)
	}
	gas := false
	if a := g.s.World.Accounts[id]; a != nil && a.key(pk) != nil {
		gas = a.key(pk).GasKey != nil
	}
	if gas != g.one(6) { // a gas key is rarely used as an ordinary key, and vice versa
		tx.Nonce.HasIndex, tx.Nonce.Index = true, uint16(g.IntN(3))
	}
	if tx.Nonce.HasIndex || g.one(2) {
		tx.Version = primitives.TransactionV1
	}
	if tx.Version == primitives.TransactionV1 && g.one(4) {
		tx.NonceMode, tx.Nonce.Nonce = primitives.NonceStrict, 1+5*g.small(2)
	}
}

// small returns a nonce below n.
func (g *generator) small(n uint64) primitives.Nonce { return primitives.Nonce(g.Uint64N(n)) }

// receipt draws an incoming receipt and adds it to the chunk.
func (g *generator) receipt() {
	switch g.IntN(10) {
	case 0, 1:
		id, v := g.global(), g.version()
		if id.Account == "" {
			for v = 0; primitives.HashBytes(Code(v)) != id.Hash; v++ {
			}
		}
		nonce := g.s.World.Nonces[id] + g.Uint64N(3)
		g.add(primitives.SystemAccount, people[0], &primitives.GlobalContractDistribution{ID: id, Code: Code(v), V2: true, Nonce: nonce - min(nonce, uint64(g.IntN(2)))})
		if g.one(2) { // use the code in the chunk that distributes it
			to := pick(g, people)
			g.add(to, to, &primitives.ActionReceipt{SignerID: to, SignerPublicKey: key(string(to)).PublicKey(), Actions: []primitives.Action{
				&primitives.UseGlobalContract{ID: id}, g.call(to, 0),
			}})
		}
	case 2:
		g.waiting()
	default:
		g.add(g.actionReceipt())
	}
}

func (g *generator) add(to, from primitives.AccountID, body primitives.ReceiptBody) *primitives.Receipt {
	r := &primitives.Receipt{PredecessorID: from, ReceiverID: to, ID: g.name(), Body: body}
	g.s.Incoming = append(g.s.Incoming, r)
	return r
}

func (g *generator) actionReceipt() (to, from primitives.AccountID, body *primitives.ActionReceipt) {
	to, from = pick(g, people), pick(g, people)
	if g.one(6) {
		to = pick(g, g.all)
	}
	if !g.one(4) {
		from = to
	}
	signer := pick(g, people)
	body = &primitives.ActionReceipt{SignerID: signer, SignerPublicKey: key(pick(g, keyNames)).PublicKey(), V2: g.one(2)}
	if g.one(12) { // a refund of tokens or of gas
		if g.one(2) {
			body.SignerID = to
		}
		body.Actions = []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}
		body.V2 = false
		return to, primitives.SystemAccount, body
	}
	body.Actions = g.actions(to)
	if body.V2 && g.one(3) {
		body.RefundTo = pick(g, people)
	}
	if g.one(8) {
		body.OutputDataReceivers = []primitives.DataReceiver{{DataID: g.name(), ReceiverID: pick(g, people)}}
	}
	return to, from, body
}

// waiting adds a receipt that waits for data, or a promise yield. It adds the data after or before
// that receipt.
func (g *generator) waiting() {
	to, from, body := g.actionReceipt()
	if from == primitives.SystemAccount {
		from = to
	}
	id := g.name()
	body.InputDataIDs = []primitives.Hash{id}
	data := &primitives.DataReceipt{DataID: id, Data: []byte("data"), Resume: g.one(2)}
	if g.one(4) {
		data.Data = nil
	}
	if data.Resume {
		body.Yield, body.V2, body.OutputDataReceivers = true, true, nil
		from = to
	}
	if g.one(4) && !data.Resume {
		g.add(to, from, data)
		g.add(to, from, body)
		return
	}
	g.add(to, from, body)
	for range g.IntN(3) {
		g.receipt()
	}
	g.add(to, from, data)
}

// actions returns actions for an account. Their order is valid for a receipt.
func (g *generator) actions(to primitives.AccountID) (list []primitives.Action) {
	delegated := false
	for range 1 + g.IntN(4) {
		a := g.action(to, 0)
		switch a.(type) {
		case *primitives.Delegate, *primitives.DelegateV2:
			if delegated {
				continue
			}
			delegated = true
		case *primitives.DeleteAccount:
			return append(list, a)
		default: // the other actions may be at any position
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		list = append(list, &primitives.CreateAccount{})
	}
	return list
}

// beneficiary returns the beneficiary of a DeleteAccount: an account that usually exists.
func (g *generator) beneficiary() primitives.AccountID {
	if g.rules >= 87 && g.one(4) {
		return pick(g, g.all)
	}
	return pick(g, people)
}

// Contexts of nested actions. Each excludes some kinds of actions.
const (
	inDelegate = 1 + iota
	inPromise
)

func (g *generator) action(to primitives.AccountID, in int) primitives.Action {
	pk := key(pick(g, keyNames)).PublicKey()
	if in == 0 && g.one(8) {
		pk = key(string(to)).PublicKey()
	}
	for i := range g.inits {
		if g.inits[i].DerivedAccount() == to && g.one(3) || in == inPromise && g.one(60) {
			return &primitives.DeterministicStateInit{Init: g.inits[i], Deposit: g.amount()}
		}
	}
	if a := g.universalAction(to, in); a != nil {
		return a
	}
	switch g.IntN(22) {
	case 0, 1:
		return &primitives.DeployContract{Code: Code(g.version())}
	case 2:
		return &primitives.DeployGlobalContract{Code: Code(g.version()), Mode: primitives.GlobalDeployMode(g.IntN(2))}
	case 3, 4, 5:
		return &primitives.UseGlobalContract{ID: g.global()}
	case 6:
		return &primitives.CreateAccount{}
	case 7:
		return &primitives.DeleteAccount{Beneficiary: g.beneficiary()}
	case 8:
		if in == inPromise {
			k := primitives.AccessKey{}
			if g.one(2) {
				k.GasKey = &primitives.GasKeyInfo{NumNonces: 2}
			}
			return &primitives.AddKey{PublicKey: pk, AccessKey: k}
		}
		return &primitives.AddKey{PublicKey: pk, AccessKey: g.accessKey()}
	case 9:
		return &primitives.DeleteKey{PublicKey: pk}
	case 10:
		return &primitives.TransferToGasKey{PublicKey: pk, Deposit: g.amount()}
	case 11:
		if in != inPromise {
			return &primitives.WithdrawFromGasKey{PublicKey: pk, Amount: g.amount()}
		}
	case 12:
		if in != inPromise {
			return &primitives.Stake{PublicKey: pk, Stake: primitives.NEAR(uint64(g.IntN(30)))}
		}
	case 13:
		if in == 0 {
			return g.delegate(to)
		}
	case 14, 15:
		return &primitives.Transfer{Deposit: g.amount()}
	}
	return g.call(to, in)
}

func (g *generator) call(to primitives.AccountID, in int) primitives.Action {
	f := &primitives.FunctionCall{Method: "which", Gas: 10_000_000_000_000, Deposit: g.amount()}
	n := g.IntN(8)
	if n > 2 && in == 0 && g.rules >= 87 && g.runsNewest(to) {
		n = 1
	}
	switch n {
	case 0:
		f.Method = pick(g, []string{"", "noop", "div0", "nowhere"})
	case 1, 2:
		if in == 0 {
			newest := g.rules >= 87 && (g.runsNewest(to) || g.one(4))
			if f.Method, f.Gas = "run", 150_000_000_000_000; newest {
				f.Method, f.Gas = "run88", 250_000_000_000_000
			}
			p := g.program(to, newest)
			f.Args = p.Bytes()
			g.s.Programs[string(f.Args)] = p
		}
	case 3:
		if in == inPromise && g.one(4) {
			f.Gas = 0
		}
	}
	if in == inPromise {
		f.Gas = min(f.Gas, 1_000_000_000_000)
	}
	return f
}

// runsNewest returns whether an account's contract is Newest at the start of the chunk.
func (g *generator) runsNewest(id primitives.AccountID) bool {
	a := g.s.World.Accounts[id]
	if a == nil {
		return false
	}
	hash := primitives.HashBytes(Code(Newest))
	return a.Contract.Hash == hash || primitives.HashBytes(g.s.World.Global[primitives.GlobalContractID{Account: a.Contract.Account}]) == hash
}

// program returns a program for the contract of the account self. newest allows host functions of
// 88.
func (g *generator) program(self primitives.AccountID, newest bool) *Program {
	p := &Program{Trap: g.one(8)}
	for range 1 + g.IntN(3) {
		if newest && g.one(2) {
			p.Steps = append(p.Steps, g.promisedInit())
			continue
		}
		if g.one(3) {
			p.Steps = append(p.Steps, Step{Key: fmt.Sprintf("k%d", g.IntN(4)), Value: strings.Repeat("w", g.IntN(300))})
			continue
		}
		s := Step{To: pick(g, g.all)}
		if g.one(3) {
			s.To = self
		}
		if g.one(4) { // a promise to delete the account executes in this chunk
			s.Actions = append(s.Actions, &primitives.DeleteAccount{Beneficiary: pick(g, people)})
		} else {
			for range 1 + g.IntN(2) {
				s.Actions = append(s.Actions, g.action(s.To, inPromise))
			}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// promisedInit returns a promise with a universal state init. Rarely its receiver is another
// account than that of the state init, or its bytes are not a state init. Other actions may follow.
// State inits with too many entries or keys are not used, because they cost more gas than a call
// may have.
func (g *generator) promisedInit() Step {
	all := append(slices.Clone(g.first[:hugeInits]), g.first[endOfHuge:]...)
	u := pick(g, all)
	if !g.one(4) {
		u = g.first[g.IntN(soundInits)]
	}
	s := Step{To: u.id, Derived: g.one(2), Actions: []primitives.Action{&primitives.UniversalStateInit{Init: u.raw, Deposit: g.amount()}}}
	if g.one(8) {
		s.To, s.Derived = pick(g, g.all), false
	}
	for range g.IntN(3) {
		s.Actions = append(s.Actions, g.action(s.To, inPromise))
	}
	if g.one(6) {
		s.Actions = append(s.Actions, s.Actions[0])
	}
	return s
}

// delegate returns a delegate action of sender. It may be invalid in any way.
func (g *generator) delegate(sender primitives.AccountID) primitives.Action {
	name := string(sender)
	if g.one(2) {
		name = pick(g, keyNames)
	}
	sk := key(name)
	d := primitives.DelegateActionV2{SenderID: sender, ReceiverID: pick(g, people), MaxBlockHeight: 100, PublicKey: sk.PublicKey()}
	g.n++
	d.Nonce.Nonce = primitives.Nonce(g.s.Height-1)*noncesOfABlock + primitives.Nonce(g.n)
	switch g.IntN(16) {
	case 0:
		d.SenderID = pick(g, people)
	case 1:
		d.MaxBlockHeight = 3
	case 2:
		d.Nonce.Nonce = 0
	case 3:
		d.Nonce.Nonce *= 2
	}
	delegated := 1 + g.IntN(2)
	for range delegated {
		a := g.action(d.ReceiverID, inDelegate)
		d.Actions = append(d.Actions, a)
		if a.Tag() == primitives.TagDeleteAccount {
			break
		}
	}
	spoil := g.one(12)
	if g.one(2) {
		v1 := primitives.DelegateAction{
			SenderID: d.SenderID, ReceiverID: d.ReceiverID, Actions: d.Actions, Nonce: d.Nonce.Nonce, MaxBlockHeight: d.MaxBlockHeight, PublicKey: d.PublicKey,
		}
		hash := v1.SignedHash()
		if spoil {
			hash[0]++
		}
		return &primitives.Delegate{Action: v1, Signature: sk.Sign(hash[:])}
	}
	if g.one(2) {
		d.Nonce.HasIndex, d.Nonce.Index = true, uint16(g.IntN(3))
	}
	hash := d.SignedHash()
	if spoil {
		hash[0]++
	}
	return &primitives.DelegateV2{Action: d, Signature: sk.Sign(hash[:])}
}
