package partialwitness

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// codeNetwork is a network with a producer that announces the contracts of a chunk, and with the tracker
// under test, of a validator that does not produce chunks of the shard.
type codeNetwork struct {
	*network
	witness *primitives.ChunkStateWitness
	maker   primitives.AccountID
	node    *Tracker
}

func newCodeNetwork(t *testing.T) *codeNetwork {
	x := &codeNetwork{network: newNetwork(t, 1, 4, 2, 0)}
	x.node = x.nodes[account(3)]
	x.at(4)
	return x
}

// at replaces the chunk by one at height h.
func (x *codeNetwork) at(h primitives.Height) {
	x.head = h - 1
	x.witness = sample()
	x.witness.Header.HeightCreated = h
	p, _ := x.Producer(x.witness.Key())
	x.maker = p.AccountID
}

// tell gives the tracker a list of called contracts, and returns the contracts that it requests and
// the witnesses that it emits. held sets whether the validator tracks the shard.
func (x *codeNetwork) tell(held bool, codes ...[]byte) (asked []primitives.Hash, pending []PendingWitness) {
	x.t.Helper()
	a := &primitives.ContractAccesses{Key: x.witness.Key(), Transition: x.transition}
	for _, c := range codes {
		a.Contracts = append(a.Contracts, primitives.HashBytes(c))
	}
	a.Signature = secret(x.maker).Sign(a.SignedBytes())
	out, err := x.node.Step(Accesses{a, held})
	if err != nil {
		x.t.Fatal(err)
	}
	return x.asks(out), out.Validate
}

func (x *codeNetwork) asks(out Out) []primitives.Hash {
	x.t.Helper()
	for _, s := range out.Send {
		if q, ok := s.Body.(*primitives.ContractCodeRequest); ok {
			if !slices.Equal(s.To, []primitives.AccountID{x.maker}) {
				x.t.Errorf("%v is asked, not the chunk's maker", s.To)
			}
			return q.Contracts
		}
	}
	return nil
}

// give gives the tracker a response with code, and returns the witnesses that it emits.
func (x *codeNetwork) give(codes ...[]byte) (pending []PendingWitness) {
	x.t.Helper()
	r := &primitives.ContractCodeResponse{Key: x.witness.Key(), Responder: x.maker, Compressed: EncodeContracts(codes)}
	r.Signature = secret(x.maker).Sign(r.SignedBytes())
	out, err := x.node.Step(Code{r})
	if err != nil || len(out.Work) != 1 {
		x.t.Fatal(err, out)
	}
	out.Work[0].Run()
	if out, err = x.node.Step(Worked{out.Work[0]}); err != nil {
		x.t.Fatal(err)
	}
	return x.pending(out)
}

// parts gives the tracker all parts of the witness, and returns the witnesses that it emits.
func (x *codeNetwork) parts() []PendingWitness {
	x.t.Helper()
	payload, err := Encode(x.witness)
	if err != nil {
		x.t.Fatal(err)
	}
	list, err := Parts(x.witness.Key(), nil, payload, x.n, secret(x.maker))
	if err != nil {
		x.t.Fatal(err)
	}
	var pending []PendingWitness
	for _, p := range list[:2] {
		out, err := x.node.Step(Part{p, true})
		if err != nil {
			x.t.Fatal(err)
		}
		pending = append(pending, x.pending(out)...)
	}
	return pending
}

// pending returns the witnesses in out, after it has run the work in out.
func (x *codeNetwork) pending(out Out) []PendingWitness {
	x.t.Helper()
	pending := out.Validate
	for _, w := range out.Work {
		w.Run()
		out, err := x.node.Step(Worked{w})
		if err != nil {
			x.t.Fatal(err)
		}
		pending = append(pending, out.Validate...)
	}
	return pending
}

// TestCodeIsRequestedOnce: code is requested once, and passed with each witness that calls it.
func TestCodeIsRequestedOnce(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	one, two := []byte("one"), []byte("code two")
	if asked, _ := x.tell(false, one); len(asked) != 1 {
		t.Fatalf("requests %v", asked)
	}
	if pending := x.parts(); len(pending) > 0 {
		t.Fatal("emitted before its code has arrived")
	}
	if pending := x.give(one); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one}) {
		t.Fatalf("to be validated: %+v", pending)
	}
	x.at(5)
	if asked, _ := x.tell(false, one); len(asked) > 0 {
		t.Errorf("requests %v again", asked)
	}
	if pending := x.parts(); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one}) {
		t.Fatalf("to be validated: %+v", pending)
	}
	x.at(6)
	if asked, _ := x.tell(false, two, one); !slices.Equal(asked, []primitives.Hash{primitives.HashBytes(two)}) {
		t.Errorf("requests %v", asked)
	}
	x.parts()
	if pending := x.give(two); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one, two}) {
		t.Fatalf("to be validated: %+v", pending)
	}
}

// TestTrackingValidatorRequestsLackingCode: a validator that tracks the shard requests no code and
// does not wait for code. If validation reports missing code, it requests the code then.
func TestTrackingValidatorRequestsLackingCode(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	one := []byte("one")
	if asked, _ := x.tell(true, one); len(asked) > 0 {
		t.Fatalf("requests %v", asked)
	}
	pending := x.parts()
	if len(pending) != 1 || len(pending[0].Codes) > 0 {
		t.Fatalf("to be validated: %+v", pending)
	}
	out, err := x.node.Step(WitnessValidated{PendingWitness: pending[0], Lacks: true})
	if asked := x.asks(out); err != nil || len(asked) != 1 {
		t.Fatalf("%v, requests %v", err, asked)
	}
	if pending = x.give(one); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one}) {
		t.Fatalf("to be validated: %+v", pending)
	}
	if out, err := x.node.Step(WitnessValidated{PendingWitness: pending[0], Lacks: true}); err != nil ||
		len(out.Send)+len(out.Validate)+len(x.node.codeWaits.order) > 0 {
		t.Errorf("a second time: %v, %+v", err, out)
	}
}

// TestLateAccessesRequestLackingCode: a witness is validated without its code, and the list of
// contracts arrives only after that validation or during it.
func TestLateAccessesRequestLackingCode(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	one := []byte("one")
	for _, validatedFirst := range []bool{true, false} {
		pending := x.parts()
		if len(pending) != 1 {
			t.Fatalf("to be validated: %+v", pending)
		}
		var asked []primitives.Hash
		if validatedFirst {
			if out, err := x.node.Step(WitnessValidated{PendingWitness: pending[0], Lacks: true}); err != nil ||
				len(out.Send)+len(out.Validate) > 0 {
				t.Fatalf("%v, %+v", err, out)
			}
			asked, _ = x.tell(false, one)
		} else {
			if asked, _ = x.tell(false, one); len(asked) > 0 {
				t.Errorf("requests %v while it is pending", asked)
			}
			out, err := x.node.Step(WitnessValidated{PendingWitness: pending[0], Lacks: true})
			// the code was requested and has arrived before validation ended
			if err != nil || len(out.Validate) != 1 || !sameCode(out.Validate[0].Codes, [][]byte{one}) {
				t.Errorf("%v, %+v", err, out)
			}
			return
		}
		if len(asked) != 1 {
			t.Fatalf("requests %v", asked)
		}
		if pending = x.give(one); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one}) {
			t.Fatalf("to be validated: %+v", pending)
		}
		x.at(5)
	}
}

// TestWitnessesWithoutCodeAreBounded: witnesses that wait for code are bounded in number, and
// dropped once they are at or below the final height.
func TestWitnessesWithoutCodeAreBounded(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	for h := range primitives.Height(maxCodeWaits + 2) {
		x.at(4 + h)
		pending := x.parts()
		if _, err := x.node.Step(WitnessValidated{PendingWitness: pending[0], Lacks: true}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.node.codeWaits.order); n != maxCodeWaits {
		t.Errorf("%d are kept", n)
	}
	if _, err := x.node.Step(BlockArrived{Final: 4 + maxCodeWaits + 1}); err != nil || len(x.node.codeWaits.order) > 0 {
		t.Errorf("%v, %d are kept", err, len(x.node.codeWaits.order))
	}
	long := PendingWitness{Key: x.witness.Key(), Witness: x.witness, Size: maxOrphan + 1}
	if _, err := x.node.Step(WitnessValidated{PendingWitness: long, Lacks: true}); err != nil || len(x.node.codeWaits.order) > 0 {
		t.Errorf("%v, a too long witness is kept", err)
	}
}

// TestEarlyCodeRequestIsAnsweredOnce: a request for a chunk on an unknown block is answered once,
// when the block arrives.
func TestEarlyCodeRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 1, 0)
	code, here := []byte("code"), false
	q := &primitives.ContractCodeRequest{Requester: account(2), Key: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 4},
		Contracts: []primitives.Hash{primitives.HashBytes(code)}, Transition: x.transition}
	q.Signature = secret(account(2)).Sign(q.SignedBytes())
	node := x.nodes[account(0)]
	ask := func() (Out, error) {
		return node.Step(CodeAsked{q, func(key primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error) {
			if !here {
				return nil, ErrEarly
			}
			return x.of(map[primitives.Hash][]byte{primitives.HashBytes(code): code})(key, at)
		}})
	}
	if out, err := ask(); err != nil || len(out.Send) > 0 {
		t.Fatalf("%v, %+v", err, out)
	}
	if _, err := ask(); !errors.Is(err, ErrKnown) {
		t.Errorf("again: %v", err)
	}
	for i, want := range []int{0, 1, 0} {
		if here = i > 0; i == 1 {
			if out, err := ask(); !errors.Is(err, ErrKnown) || len(out.Send) > 0 {
				t.Errorf("again: %v, %+v", err, out)
			}
		}
		out, err := node.Step(BlockArrived{Hash: primitives.Hash{byte(i)}})
		if err != nil || len(out.Send) != want {
			t.Errorf("with block %d: %v, %+v, want %d answers", i, err, out.Send, want)
		}
		for _, s := range out.Send {
			r, ok := s.Body.(*primitives.ContractCodeResponse)
			if !ok || !slices.Equal(s.To, []primitives.AccountID{account(2)}) {
				t.Fatalf("%+v", s)
			}
			if got, err := DecodeContracts(r.Compressed, 1); err != nil || !sameCode(got, [][]byte{code}) {
				t.Errorf("%v, %q", err, got)
			}
		}
	}
}

// TestContractCacheKeepsRecentlyUsed: the cache contains the most recently used contracts, bounded
// in bytes and number.
func TestContractCacheKeepsRecentlyUsed(t *testing.T) {
	t.Parallel()
	l := newContractCache(100)
	code := func(i, n int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, n/2) }
	for i := range 10 {
		l.add(contractsOf([][]byte{code(i, 20), code(0, 20)}))
	}
	has := func(i, n int) bool {
		codes, missing := l.split([]primitives.Hash{primitives.HashBytes(code(i, n))})
		return len(codes) == 1 && len(missing) == 0
	}
	if l.bytes != 100 || !has(0, 20) || !has(9, 20) || has(1, 20) {
		t.Errorf("%d bytes, %v", l.bytes, l.kept.order)
	}
	if l.add(contractsOf([][]byte{code(1, 200)})); l.bytes != 100 || has(1, 200) {
		t.Errorf("one that is too long: %d bytes", l.bytes)
	}
	l = newContractCache(1 << 20)
	for i := range maxCodes + 5 {
		l.add(contractsOf([][]byte{code(i, 2)}))
	}
	if n := len(l.kept.order); n != maxCodes || l.bytes != 2*maxCodes || len(l.kept.by) != n {
		t.Errorf("%d contracts, %d bytes", n, l.bytes)
	}
}
