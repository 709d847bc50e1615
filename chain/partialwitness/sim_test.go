package partialwitness

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// world is a chain with n validators and one shard. The validator with index height mod makers
// produces the chunk. All validators are assigned to all chunks.
type world struct {
	n, makers int
	head      primitives.Height

	anchored bool // EarlyKickout is in force in epoch {1}
	// known blocks by hash, only if there are anchors
	blocks map[primitives.Hash]block
	// replaced are producers that replace the canonical ones, by anchor
	replaced map[primitives.Hash]primitives.AccountID
}

// block is a known block in a world with anchors.
type block struct {
	height primitives.Height
	prev   primitives.Hash
}

func account(i int) primitives.AccountID { return primitives.AccountID(fmt.Sprintf("node%02d", i)) }

func secret(a primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(a))
}

func (w *world) Relevant(k primitives.ChunkKey) bool {
	return k.ShardID == 0 && k.EpochID == primitives.Hash{1} && k.HeightCreated <= w.head+MaxAhead
}

func (w *world) Producer(k primitives.ChunkKey) (primitives.ValidatorStake, error) {
	a := account(int(k.HeightCreated) % w.makers)
	return primitives.ValidatorStake{AccountID: a, PublicKey: secret(a).PublicKey()}, nil
}

func (w *world) Anchored(id primitives.EpochID) (anchored, known bool) {
	return w.anchored && id == (primitives.Hash{1}), id == primitives.Hash{1}
}

func (w *world) Parent(hash primitives.Hash) (primitives.Hash, error) {
	b, ok := w.blocks[hash]
	if !ok {
		return primitives.Hash{}, epoch.ErrMissingBlock
	}
	return b.prev, nil
}

// ProducerAt does the same as anchor.Check for a chain whose epoch does not end.
func (w *world) ProducerAt(k primitives.ChunkKey, at primitives.ChunkAnchor) (v primitives.ValidatorStake, err error) {
	a, known := w.blocks[at.PrevPrevBlock]
	if at.PrevPrevBlock.IsZero() {
		if _, parent := w.blocks[at.PrevBlock]; !parent && k.HeightCreated > 1 || parent && at.PrevBlock != hashAt(0) {
			return v, anchor.ErrWrong
		}
		return w.Producer(k)
	}
	if known {
		if v, err = w.Producer(primitives.ChunkKey{HeightCreated: a.height + 2}); err != nil {
			return v, err
		}
		if by, ok := w.replaced[at.PrevPrevBlock]; ok {
			v = primitives.ValidatorStake{AccountID: by, PublicKey: secret(by).PublicKey()}
		}
	}
	p, parent := w.blocks[at.PrevBlock]
	switch {
	case parent && (p.prev != at.PrevPrevBlock || p.height+1 != k.HeightCreated), known && k.HeightCreated < a.height+2:
		return primitives.ValidatorStake{}, anchor.ErrWrong
	case !known || !parent && k.HeightCreated > a.height+2:
		return v, anchor.ErrEarly
	}
	return v, nil
}

func (w *world) Validators(primitives.ChunkKey) (out []chain.Assigned, err error) {
	for i := range w.n {
		out = append(out, chain.Assigned{AccountID: account(i), PublicKey: secret(account(i)).PublicKey(), Stake: primitives.NEAR(1)})
	}
	return out, nil
}

func (w *world) Producers(primitives.EpochID, primitives.ShardID) (out []primitives.AccountID, err error) {
	for i := range w.makers {
		out = append(out, account(i))
	}
	return out, nil
}

func (w *world) AllValidators(primitives.EpochID) (out []primitives.AccountID, err error) {
	for i := range w.n {
		out = append(out, account(w.n-1-i))
	}
	return out, nil
}

func (w *world) Key(_ primitives.EpochID, a primitives.AccountID) (primitives.PublicKey, error) {
	return secret(a).PublicKey(), nil
}

func (w *world) BlockProducer(_ primitives.EpochID, h primitives.Height) (primitives.AccountID, error) {
	return account(int(h) % w.n), nil
}

func verify(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
	return s.Verify(data, k)
}

// inTransit is a message in transit.
type inTransit struct {
	at   int // ms
	to   primitives.AccountID
	from primitives.AccountID
	send Send
}

// versioned returns the encoding of a witness part with its version.
func (f *inTransit) versioned() []byte {
	v := primitives.VersionedPartialWitness{PartialWitness: *f.send.Body.(*primitives.PartialWitness)}
	return v.AppendBorsh(nil)
}

// network is a simulated network of the trackers of all validators. Its random source has a seed.
type network struct {
	*world
	t            *testing.T
	random       *rand.Rand
	loss, double float64
	now          int
	air          []inTransit
	nodes        map[primitives.AccountID]*Tracker
	votes        map[primitives.AccountID]*Endorsements
	pending      map[primitives.AccountID]map[primitives.ChunkKey]int
	compiled     map[primitives.AccountID]int
	calls        map[primitives.ChunkKey]bool
	requests     map[primitives.AccountID]int // code requests
	codes        [][]byte
	transition   primitives.TransitionKey
	raw          map[primitives.ChunkKey][]byte
}

// of returns the function CodeAsked.Codes of a node that has codes for the network's transition.
func (x *network) of(codes map[primitives.Hash][]byte) func(primitives.ChunkKey, primitives.TransitionKey) (map[primitives.Hash][]byte, error) {
	return func(_ primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error) {
		if at != x.transition {
			return nil, ErrContracts
		}
		return codes, nil
	}
}

func newNetwork(t *testing.T, seed uint64, n, makers int, loss float64) *network {
	x := &network{world: &world{n: n, makers: makers}, t: t, random: rand.New(rand.NewPCG(seed, 1)), loss: loss, double: loss,
		nodes: map[primitives.AccountID]*Tracker{}, votes: map[primitives.AccountID]*Endorsements{},
		pending: map[primitives.AccountID]map[primitives.ChunkKey]int{}, compiled: map[primitives.AccountID]int{},
		calls: map[primitives.ChunkKey]bool{}, requests: map[primitives.AccountID]int{},
		codes: [][]byte{[]byte("code one"), bytes.Repeat([]byte("two"), 500)}, transition: primitives.TransitionKey{Block: primitives.Hash{9}}, raw: map[primitives.ChunkKey][]byte{}}
	for i := range n {
		a := account(i)
		x.nodes[a], x.votes[a] = NewTracker(Validator{a, secret(a)}, x, verify), NewEndorsements(x, verify)
		x.pending[a] = map[primitives.ChunkKey]int{}
	}
	return x
}

// do carries out what the tracker of a validator returned.
func (x *network) do(by primitives.AccountID, out Out, err error) {
	if err != nil && !errors.Is(err, ErrKnown) && !errors.Is(err, ErrUnasked) {
		x.t.Fatalf("%s: %v", by, err)
	}
	for _, s := range out.Send {
		if _, asks := s.Body.(*primitives.ContractCodeRequest); asks {
			x.requests[by]++
		}
		for _, to := range s.To {
			if to == by {
				x.deliver(inTransit{to: by, from: by, send: s})
				continue
			}
			for again := true; again; again = x.random.Float64() < x.double {
				if x.random.Float64() >= x.loss {
					x.air = append(x.air, inTransit{x.now + 1 + x.random.IntN(200), to, by, s})
				}
			}
		}
	}
	for _, w := range out.Work {
		if x.random.IntN(2) == 0 || !w.Quick() {
			w.Run()
		}
		out, err := x.nodes[by].Step(Worked{w})
		x.do(by, out, err)
	}
	for _, j := range out.Validate {
		if x.calls[j.Key] && !x.makes(by) && !sameCode(j.Codes, x.codes) {
			out, err := x.nodes[by].Step(WitnessValidated{PendingWitness: j, Lacks: true})
			x.do(by, out, err)
			continue
		}
		if x.pending[by][j.Key]++; x.pending[by][j.Key] > 1 {
			x.t.Errorf("%s validated %+v twice", by, j.Key)
		}
		if !bytes.Equal(j.Witness.AppendBorsh(nil), x.raw[j.Key]) {
			x.t.Errorf("%s judges another witness than was made", by)
		}
		out, err := x.nodes[by].Step(WitnessValidated{PendingWitness: j, Good: true})
		x.do(by, out, err)
	}
	if len(out.Compile) > 0 {
		if x.compiled[by]++; len(out.Compile) != len(x.codes) || !bytes.Equal(out.Compile[1], x.codes[1]) {
			x.t.Errorf("%s compiles other code", by)
		}
	}
}

// makes returns whether a validator produces chunks of the shard, and so has its code.
func (x *network) makes(a primitives.AccountID) bool {
	list, _ := x.Producers(primitives.EpochID{}, 0)
	return slices.Contains(list, a)
}

// sameCode compares two lists of code, ignoring their order.
func sameCode(a, b [][]byte) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	return slices.EqualFunc(a, b, bytes.Equal)
}

// deliver encodes a message, decodes it, and gives it to the receiver's tracker.
func (x *network) deliver(f inTransit) {
	t, raw := x.nodes[f.to], f.send.Body.AppendBorsh(nil)
	read := func(v borsh.Decoder) {
		if err := borsh.Unmarshal(raw, v); err != nil {
			x.t.Fatal(err)
		}
	}
	var ev Event
	switch f.send.Body.(type) {
	case *primitives.PartialWitness:
		p := new(primitives.PartialWitness)
		if x.anchored {
			raw = f.versioned()
			v := new(primitives.VersionedPartialWitness)
			read(v)
			p = &v.PartialWitness
		} else {
			read(p)
		}
		ev = Part{p, f.send.Forward}
	case *primitives.ContractAccesses:
		a := new(primitives.ContractAccesses)
		read(a)
		ev = Accesses{a, false}
	case *primitives.ContractCodeRequest:
		q := new(primitives.ContractCodeRequest)
		read(q)
		by := map[primitives.Hash][]byte{}
		for _, c := range x.codes {
			by[primitives.HashBytes(c)] = c
		}
		ev = CodeAsked{q, x.of(by)}
	case *primitives.ContractCodeResponse:
		a := new(primitives.ContractCodeResponse)
		read(a)
		ev = Code{a}
	case *primitives.PartialContractDeploys:
		p := new(primitives.PartialContractDeploys)
		read(p)
		ev = Deploys{p}
	case *primitives.ChunkEndorsement:
		e := new(primitives.ChunkEndorsement)
		read(e)
		if err := x.votes[f.to].Add(e); err != nil && !errors.Is(err, ErrKnown) {
			x.t.Error(err)
		}
		return
	case *primitives.WitnessAck:
		return
	default:
		x.t.Fatalf("a message of type %T", f.send.Body)
	}
	out, err := t.Step(ev)
	x.do(f.to, out, err)
}

// run delivers messages until none is in transit.
func (x *network) run() {
	for len(x.air) > 0 {
		next := 0
		for i := range x.air {
			if x.air[i].at < x.air[next].at {
				next = i
			}
		}
		f := x.air[next]
		x.air = slices.Delete(x.air, next, next+1)
		x.now = f.at
		x.deliver(f)
	}
}

// make makes a validator produce a chunk at a height, and returns the chunk's key and hash. calls
// sets whether the chunk calls contracts.
func (x *network) make(h primitives.Height, calls bool) (primitives.ChunkKey, primitives.Hash) {
	w := sample()
	w.Header.HeightCreated = h
	if x.anchored {
		w.Header.PrevBlockHash = x.grow(h - 1)
	}
	w.Main.Base = append(w.Main.Base, bytes.Repeat([]byte{byte(h)}, 1+int(h)*17%900))
	x.raw[w.Key()] = w.AppendBorsh(nil)
	m := Made{Witness: w, Transition: x.transition}
	if calls {
		x.calls[w.Key()] = true
		m.Accesses, m.Deploys = []primitives.Hash{primitives.HashBytes(x.codes[1]), primitives.HashBytes(x.codes[0])}, x.codes
	}
	p, _ := x.Producer(w.Key())
	if x.anchored {
		p, _ = x.ProducerAt(w.Key(), primitives.ChunkAnchor{PrevBlock: w.Header.PrevBlockHash, PrevPrevBlock: x.blocks[w.Header.PrevBlockHash].prev})
	}
	out, err := x.nodes[p.AccountID].Step(m)
	x.do(p.AccountID, out, err)
	return w.Key(), w.Header.ChunkHash()
}

// hashAt returns the hash of the block at a height in a world without forks.
func hashAt(h primitives.Height) primitives.Hash {
	return primitives.HashBytes([]byte{byte(h), byte(h >> 8)})
}

// grow adds the blocks up to a height to a world with anchors, and returns the hash of the last
// one.
func (w *world) grow(h primitives.Height) primitives.Hash {
	if w.blocks == nil {
		w.blocks = map[primitives.Hash]block{hashAt(0): {}}
	}
	for i := range h {
		w.blocks[hashAt(i+1)] = block{i + 1, hashAt(i)}
	}
	return hashAt(h)
}

// TestEveryValidatorValidatesOnce: if no message is lost, in any order, every validator validates
// each witness of other producers once, with its code, which it requests at most once. The
// producers of the next five blocks get all endorsements, and all validators except the shard's
// producers compile deployed code.
func TestEveryValidatorValidatesOnce(t *testing.T) {
	t.Parallel()
	t.Run("before EarlyKickout", func(t *testing.T) { testEveryValidatorValidatesOnce(t, false) })
	t.Run("with anchors", func(t *testing.T) { testEveryValidatorValidatesOnce(t, true) })
}

func testEveryValidatorValidatesOnce(t *testing.T, anchored bool) {
	for n := 1; n <= 7; n++ {
		x := newNetwork(t, uint64(n), n, (n+1)/2, 0)
		x.anchored = anchored
		for h := primitives.Height(1); h <= 12; h++ {
			x.head = h - 1
			key, chunk := x.make(h, h%3 == 0)
			x.run()
			for i := range min(n, 5) {
				by := account((int(h) + i) % n)
				sigs, enough, err := x.votes[by].Of(key, chunk)
				if err != nil || !enough || slices.Contains(sigs, "") {
					t.Errorf("%d validators, height %d: %s has %d endorsements, %v, %v", n, h, by, len(sigs), enough, err)
				}
			}
		}
		for i := range n {
			want := 12
			// a producer gets only one part of its own witness, and does not need the witness
			if data, _ := primitives.WitnessPartCounts(n); data > 1 && i < x.makers {
				for h := 1; h <= 12; h++ {
					if h%x.makers == i {
						want--
					}
				}
			}
			if got := len(x.pending[account(i)]); got != want {
				t.Errorf("%d validators: %s validated %d of %d", n, account(i), got, want)
			}
			if compiled := x.compiled[account(i)]; (compiled == 4) != (i >= x.makers) {
				t.Errorf("%d validators: %s has compiled %d times", n, account(i), compiled)
			}
			if asked := x.requests[account(i)]; asked > 1 || i < x.makers && asked > 0 {
				t.Errorf("%d validators: %s has asked %d times for the same code", n, account(i), asked)
			}
		}
	}
}

// TestLossyNetworkEndorsesMostChunks: with a tenth of the messages lost and a tenth duplicated,
// four validators send enough endorsements for nearly every chunk. No validator validates a witness
// twice, or without the code that it requested.
func TestLossyNetworkEndorsesMostChunks(t *testing.T) {
	t.Parallel()
	chunks, enough := 0, 0
	for seed := range uint64(16) {
		x := newNetwork(t, seed, 4, 1, 0.1)
		for h := primitives.Height(1); h <= 10; h++ {
			x.head = h - 1
			key, chunk := x.make(h, h%5 == 0)
			x.run()
			_, ok, err := x.votes[account(int(h)%4)].Of(key, chunk)
			if err != nil {
				t.Fatal(err)
			}
			if chunks++; ok {
				enough++
			}
		}
	}
	t.Logf("%d of %d chunks are endorsed", enough, chunks)
	if enough < chunks*90/100 {
		t.Errorf("%d of %d chunks are endorsed", enough, chunks)
	}
}

// TestInvalidMessageChangesNothing: the message gives an error.
func TestInvalidMessageChangesNothing(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 1, 0)
	x.head = 4
	w := sample()
	w.Header.HeightCreated = 4
	payload, err := Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(w.Key(), nil, payload, 4, secret(account(0)))
	if err != nil {
		t.Fatal(err)
	}
	me := account(2)
	node := x.nodes[me]
	part := func(change func(*primitives.PartialWitness), key primitives.SecretKey) *primitives.PartialWitness {
		p := *parts[1]
		change(&p)
		p.Signature = key.Sign(p.SignedBytes())
		return &p
	}
	producer, other := secret(account(0)), secret(account(1))
	for name, c := range map[string]struct {
		ev   Event
		want error
	}{
		"a part by another":       {Part{part(func(*primitives.PartialWitness) {}, other), true}, ErrSigner},
		"a part too far ahead":    {Part{part(func(p *primitives.PartialWitness) { p.HeightCreated = 10 }, producer), true}, ErrIrrelevant},
		"a part of another epoch": {Part{part(func(p *primitives.PartialWitness) { p.EpochID = primitives.Hash{} }, producer), true}, ErrIrrelevant},
		"a number too many":       {Part{part(func(p *primitives.PartialWitness) { p.Ord = 4 }, producer), true}, ErrPart},
		"a long part":             {Part{part(func(p *primitives.PartialWitness) { p.Part = make([]byte, MaxEncoded/2+1) }, producer), true}, ErrPart},
		"a long witness":          {Part{part(func(p *primitives.PartialWitness) { p.EncodedLength = MaxEncoded + 1 }, producer), true}, ErrPart},
		"code that nobody wants":  {Code{&primitives.ContractCodeResponse{Key: w.Key(), Responder: account(0)}}, ErrSigner},
		"code of nobody":          {Code{&primitives.ContractCodeResponse{Key: w.Key()}}, ErrSigner},
		"accesses by another":     {Accesses{&primitives.ContractAccesses{Key: w.Key(), Contracts: []primitives.Hash{{1}}, Signature: primitives.ZeroED25519Signature}, false}, ErrSigner},
		"an orphan far ahead":     {WitnessValidated{PendingWitness: PendingWitness{Key: w.Key(), Witness: w}, Early: true, Head: 30}, ErrIrrelevant},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := node.Step(c.ev); !errors.Is(err, c.want) || len(out.Send)+len(out.Validate) > 0 {
				t.Errorf("got %v, %+v, want %v", err, out, c.want)
			}
		})
	}
	if _, err := node.Step(Part{parts[1], true}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Step(Part{parts[1], true}); !errors.Is(err, ErrKnown) {
		t.Errorf("a part again: %v", err)
	}
	longer := part(func(p *primitives.PartialWitness) { p.Ord, p.EncodedLength = 3, p.EncodedLength+1 }, producer)
	if _, err := node.Step(Part{longer, true}); !errors.Is(err, ErrPart) {
		t.Errorf("of another length: %v", err)
	}
	out, err := node.Step(Part{parts[2], false}) // the part that the validator owns
	if err != nil || len(out.Work) != 1 || len(out.Send) != 1 || !slices.Equal(out.Send[0].To, []primitives.AccountID{account(1), account(3)}) {
		t.Fatalf("the last part: %v, %+v", err, out)
	}
	if !out.Work[0].Quick() {
		t.Error("a short witness takes a job")
	}
	out, err = node.Step(Worked{out.Work[0]})
	if err != nil || len(out.Validate) != 1 || len(out.Send) != 1 || !slices.Equal(out.Send[0].To, []primitives.AccountID{account(0)}) {
		t.Fatalf("put together: %v, %+v", err, out)
	}
	if _, err := node.Step(Part{parts[0], true}); !errors.Is(err, ErrKnown) {
		t.Errorf("behind the last part: %v", err)
	}

	orphan := WitnessValidated{PendingWitness: out.Validate[0], Early: true, Head: 2}
	if out, err := node.Step(orphan); err != nil || len(out.Send) > 0 {
		t.Errorf("an orphan: %v, %+v", err, out)
	}
	if out, _ := node.Step(BlockArrived{Hash: primitives.Hash{77}, Final: 3}); len(out.Validate) != 0 {
		t.Error("pending on another block")
	}
	if out, _ := node.Step(BlockArrived{Hash: w.Header.PrevBlockHash, Final: 3}); len(out.Validate) != 1 {
		t.Error("not pending on its block")
	}
	if _, err := node.Step(orphan); err != nil {
		t.Error(err)
	}
	if node.Step(BlockArrived{Hash: primitives.Hash{77}, Final: 4}); len(node.orphans.order) != 0 {
		t.Error("an orphan below the final block is kept")
	}
}

// TestCodeRequestIsLimitedToCalledCode: each validator of the chunk gets code once, and only
// contracts that the transition called.
func TestCodeRequestIsLimitedToCalledCode(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 1, 0)
	key := primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 4}
	code := []byte("code")
	ask := func(by int, at primitives.TransitionKey, hashes ...primitives.Hash) (Out, error) {
		q := &primitives.ContractCodeRequest{Requester: account(by), Key: key, Contracts: hashes, Transition: at}
		q.Signature = secret(account(by)).Sign(q.SignedBytes())
		return x.nodes[account(0)].Step(CodeAsked{q, x.of(map[primitives.Hash][]byte{primitives.HashBytes(code): code})})
	}
	if out, err := ask(1, x.transition, primitives.HashBytes(code)); err != nil || len(out.Send) != 1 {
		t.Errorf("%v, %+v", err, out)
	}
	for by, c := range map[int]struct {
		at     primitives.TransitionKey
		hashes []primitives.Hash
		want   error
	}{
		1: {x.transition, []primitives.Hash{primitives.HashBytes(code)}, ErrKnown},
		2: {primitives.TransitionKey{}, []primitives.Hash{primitives.HashBytes(code)}, ErrContracts},
		3: {x.transition, []primitives.Hash{{1}}, ErrContracts},
		9: {x.transition, []primitives.Hash{primitives.HashBytes(code)}, ErrAssigned},
	} {
		if out, err := ask(by, c.at, c.hashes...); !errors.Is(err, c.want) || len(out.Send) > 0 {
			t.Errorf("by %d: %v, want %v", by, err, c.want)
		}
	}
	x.n = 6
	if _, err := ask(4, x.transition, make([]primitives.Hash, MaxRequested+1)...); !errors.Is(err, ErrContracts) {
		t.Errorf("too many: %v", err)
	}
}

// TestCodeIsComputedForValidRequestsOnly: code is computed once, and only for an assigned validator
// with a valid signature.
func TestCodeIsComputedForValidRequestsOnly(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 1, 0)
	derived := 0
	ask := func(by int, height primitives.Height, signer primitives.AccountID, hashes int) error {
		q := &primitives.ContractCodeRequest{Requester: account(by), Key: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: height},
			Contracts: make([]primitives.Hash, hashes), Transition: x.transition}
		q.Signature = secret(signer).Sign(q.SignedBytes())
		_, err := x.nodes[account(0)].Step(CodeAsked{q, func(primitives.ChunkKey, primitives.TransitionKey) (map[primitives.Hash][]byte, error) {
			derived++
			return nil, nil
		}})
		return err
	}
	for name, c := range map[string]struct {
		err, want error
	}{
		"of an unassigned account": {ask(9, 4, account(9), 0), ErrAssigned},
		"of another":               {ask(1, 4, account(2), 0), ErrSigner},
		"of an old chunk":          {ask(1, 400, account(1), 0), ErrIrrelevant},
		"of too many":              {ask(3, 4, account(3), MaxRequested+1), ErrContracts},
		"of one afterwards":        {ask(3, 4, account(3), 1), ErrKnown},
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(c.err, c.want) || derived > 0 {
				t.Errorf("got %v, want %v; code computed %d times", c.err, c.want, derived)
			}
		})
	}
	for range 3 {
		if err := ask(1, 4, account(1), 0); derived != 1 || err != nil && !errors.Is(err, ErrKnown) {
			t.Errorf("derived %d times, %v", derived, err)
		}
	}
}

// TestTwoThirdsOfStakeEndorseChunk: only the first endorsement of each assigned validator is used,
// and more than two thirds of the stake suffice.
func TestTwoThirdsOfStakeEndorseChunk(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 6, 1, 0)
	votes, key := NewEndorsements(x, verify), primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 4}
	add := func(i int, chunk primitives.Hash) error {
		return votes.Add(Endorse(key, chunk, account(i), secret(account(i))))
	}
	for i, want := range []bool{false, false, false, false, true, true} {
		if err := add(i, primitives.Hash{5}); err != nil {
			t.Fatal(err)
		}
		sigs, enough, err := votes.Of(key, primitives.Hash{5})
		if err != nil || enough != want || sigs[i] == "" {
			t.Errorf("with %d: %v, %v", i+1, enough, err)
		}
	}
	if err := add(0, primitives.Hash{6}); !errors.Is(err, ErrKnown) {
		t.Errorf("a second endorsement: %v", err)
	}
	if _, enough, _ := votes.Of(key, primitives.Hash{6}); enough {
		t.Error("another chunk is endorsed")
	}
	if err := add(7, primitives.Hash{5}); !errors.Is(err, ErrAssigned) {
		t.Errorf("an unassigned account: %v", err)
	}
	late := Endorse(primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 50}, primitives.Hash{5}, account(0), secret(account(0)))
	if err := votes.Add(late); !errors.Is(err, ErrIrrelevant) {
		t.Errorf("far ahead: %v", err)
	}
	x.head = 1000
	for h := range primitives.Height(150) {
		k := primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 6 + h}
		if err := votes.Add(Endorse(k, primitives.Hash{5}, account(0), secret(account(0)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(votes.chunks.by); n != MaxChunks || len(votes.chunks.order) != n {
		t.Errorf("%d chunks are kept", n)
	}
}

// TestForgedChunksEvictNoSignedOnes: unsigned endorsements of more than MaxChunks chunks evict no
// signed ones, and each costs two signature checks. While all stored chunks are irrelevant, no
// signature is checked.
func TestForgedChunksEvictNoSignedOnes(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 6, 1, 0)
	x.head = 1000
	verified := 0
	votes := NewEndorsements(x, func(sig primitives.Signature, data []byte, key primitives.PublicKey) bool {
		verified++
		return verify(sig, data, key)
	})
	key := func(h primitives.Height) primitives.ChunkKey {
		return primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: h}
	}
	forge := func(h primitives.Height, as int) error {
		return votes.Add(Endorse(key(h), primitives.Hash{6}, account(as), secret(account(5))))
	}
	for h := range primitives.Height(20) {
		for a := range 5 {
			if err := votes.Add(Endorse(key(100+h), primitives.Hash{5}, account(a), secret(account(a)))); err != nil {
				t.Fatal(err)
			}
		}
		for k := range primitives.Height(2*MaxChunks) * (h % 4 / 3) {
			_, _ = forge(200+k, int(h)%5), forge(200+k, int(h)%5)
		}
	}
	for h := range primitives.Height(20) {
		if _, enough, err := votes.Of(key(100+h), primitives.Hash{5}); err != nil || !enough {
			t.Errorf("chunk %d is driven out: %v", h, err)
		}
	}
	if n := len(votes.chunks.by); n > MaxChunks || len(votes.chunks.order) != n {
		t.Errorf("%d chunks are kept", n)
	}
	if most := 2 * (20*5 + 5*4*MaxChunks); verified > most {
		t.Errorf("%d verified, not %d", verified, most)
	}
	verified = 0
	votes = NewEndorsements(old{x.world}, votes.verify)
	for h := range primitives.Height(3 * MaxChunks) {
		if x.head = 100 + h; votes.Add(Endorse(key(x.head), primitives.Hash{5}, account(0), secret(account(0)))) != nil || verified > 0 {
			t.Fatalf("%d verified at height %d", verified, x.head)
		}
	}
}

// old is a world in which a chunk four heights below the head is irrelevant.
type old struct{ *world }

func (o old) Relevant(k primitives.ChunkKey) bool {
	return o.world.Relevant(k) && k.HeightCreated+4 > o.head
}

// TestForgedEndorsementIsNeverUsed: a forged endorsement is never used and never displaces a valid
// one, whichever arrives first. A signature is verified once.
func TestForgedEndorsementIsNeverUsed(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 6, 1, 0)
	right, wrong := primitives.Hash{5}, primitives.Hash{6}
	for i, c := range []struct {
		forged primitives.Hash
		by     int // signer
		spoil  bool
	}{{right, 1, false}, {wrong, 1, false}, {right, 0, true}} {
		for order := range 4 {
			verified := 0
			votes := NewEndorsements(x, func(sig primitives.Signature, data []byte, key primitives.PublicKey) bool {
				verified++
				return verify(sig, data, key)
			})
			key := primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 4}
			forged, own := Endorse(key, c.forged, account(0), secret(account(c.by))), Endorse(key, right, account(0), secret(account(0)))
			if c.spoil {
				forged.MetadataSignature = Endorse(key, right, account(0), secret(account(1))).MetadataSignature
			}
			of := func() primitives.Signature {
				sigs, enough, err := votes.Of(key, right)
				if err != nil || enough {
					t.Fatal(enough, err)
				}
				return sigs[0]
			}
			list := [][]*primitives.ChunkEndorsement{{forged, own}, {own, forged}, {forged, forged, own}, {forged, nil, own, forged, forged}}[order]
			for _, e := range list {
				if e == nil {
					// the signature of the chunk hash is valid whatever the metadata is
					if got := of(); got != "" && !c.spoil || c.spoil && got != own.Signature {
						t.Errorf("case %d, order %d: what is forged counts", i, order)
					}
					continue
				}
				if err := votes.Add(e); err != nil && e == own && !(c.spoil && errors.Is(err, ErrKnown)) {
					t.Errorf("case %d, order %d: %v", i, order, err)
				}
			}
			if of() != own.Signature {
				t.Errorf("case %d, order %d: the right one does not count", i, order)
			}
			before := verified
			if of(); verified != before {
				t.Errorf("case %d, order %d: a signature is looked at twice", i, order)
			}
			if sigs, _, _ := votes.Of(key, wrong); sigs[0] != "" {
				t.Errorf("case %d, order %d: what is forged counts for its chunk", i, order)
			}
			if err := votes.Add(Endorse(key, wrong, account(0), secret(account(0)))); !errors.Is(err, ErrKnown) {
				t.Errorf("case %d, order %d: a second endorsement: %v", i, order, err)
			}
		}
	}
	verified := 0
	votes := NewEndorsements(x, func(primitives.Signature, []byte, primitives.PublicKey) bool { verified++; return true })
	for h := range primitives.Height(5) {
		for a := range 6 {
			_ = votes.Add(Endorse(primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 1 + h}, right, account(a), secret(account(a))))
		}
	}
	if verified > 0 {
		t.Errorf("who makes no block verified at %d signatures", verified)
	}
}

// TestCodeOfOtherProducerIsRefused: code is accepted only from the producer from which it was
// requested, even if others produce chunks of the shard.
func TestCodeOfOtherProducerIsRefused(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 2, 0)
	x.head = 3
	w := sample()
	w.Header.HeightCreated = 4
	code := []byte("code")
	maker, err := x.Producer(w.Key())
	if err != nil {
		t.Fatal(err)
	}
	node := x.nodes[account(3)]
	a := &primitives.ContractAccesses{Key: w.Key(), Contracts: []primitives.Hash{primitives.HashBytes(code)}, Transition: x.transition}
	a.Signature = secret(maker.AccountID).Sign(a.SignedBytes())
	out, err := node.Step(Accesses{a, false})
	if err != nil || len(out.Send) != 1 || !slices.Equal(out.Send[0].To, []primitives.AccountID{maker.AccountID}) {
		t.Fatalf("%v, %+v", err, out)
	}
	give := func(by int) (Out, error) {
		r := &primitives.ContractCodeResponse{Key: w.Key(), Responder: account(by), Compressed: EncodeContracts([][]byte{code})}
		r.Signature = secret(account(by)).Sign(r.SignedBytes())
		return node.Step(Code{r})
	}
	if out, err := give(1); !errors.Is(err, ErrUnasked) || len(out.Work) > 0 {
		t.Errorf("of another: %v, %+v", err, out)
	}
	if out, err := give(0); err != nil || len(out.Work) != 1 {
		t.Errorf("of whom it was asked: %v, %+v", err, out)
	}
}
