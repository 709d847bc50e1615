package partialwitness

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// requestNetwork is a network whose validator 0 produces chunks and gets code requests.
type requestNetwork struct {
	*network
	code    []byte
	derived int
	early   bool
}

func newRequestNetwork(t *testing.T) *requestNetwork {
	x := &requestNetwork{network: newNetwork(t, 1, 6, 1, 0), code: []byte("code")}
	x.head = 200
	return x
}

func (x *requestNetwork) ask(by int, height primitives.Height) (Out, error) {
	q := &primitives.ContractCodeRequest{Requester: account(by), Key: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: height},
		Contracts: []primitives.Hash{primitives.HashBytes(x.code)}, Transition: x.transition}
	q.Signature = secret(account(by)).Sign(q.SignedBytes())
	return x.nodes[account(0)].Step(CodeAsked{q, func(primitives.ChunkKey, primitives.TransitionKey) (map[primitives.Hash][]byte, error) {
		if x.early {
			return nil, ErrEarly
		}
		x.derived++
		return map[primitives.Hash][]byte{primitives.HashBytes(x.code): x.code}, nil
	}})
}

// TestEarlyRequestsDoNotEvictOthers: a validator that sends requests for many chunks on unknown
// blocks does not evict the requests of another validator.
func TestEarlyRequestsDoNotEvictOthers(t *testing.T) {
	t.Parallel()
	x := newRequestNetwork(t)
	x.early = true
	if _, err := x.ask(2, 4); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for h := range primitives.Height(200) {
		if _, err := x.ask(1, h); errors.Is(err, ErrEarly) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 200-maxEarlyOfOne {
		t.Errorf("%d requests refused, want %d", refused, 200-maxEarlyOfOne)
	}
	x.early = false
	out, err := x.nodes[account(0)].Step(BlockArrived{Hash: primitives.Hash{1}})
	to := map[primitives.AccountID]int{}
	for _, s := range out.Send {
		to[s.To[0]]++
	}
	if err != nil || to[account(2)] != 1 || to[account(1)] != maxEarlyOfOne {
		t.Errorf("%v: answers %v", err, to)
	}
}

// TestCodeRequestIsAnsweredOnce: a validator's request is not answered a second time, even after
// requests for many other chunks.
func TestCodeRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	x := newRequestNetwork(t)
	for h := range primitives.Height(100) {
		if out, err := x.ask(1, h); err != nil || len(out.Send) != 1 {
			t.Fatal(err, out)
		}
	}
	if out, err := x.ask(1, 0); !errors.Is(err, ErrKnown) || len(out.Send) > 0 {
		t.Errorf("again: %v, %d answers", err, len(out.Send))
	}
}

// TestEqualCodeRequestsAreComputedOnce: the response to equal requests of a chunk's validators is
// computed and compressed once, until the next block.
func TestEqualCodeRequestsAreComputedOnce(t *testing.T) {
	t.Parallel()
	x := newRequestNetwork(t)
	for by := 1; by < 5; by++ {
		out, err := x.ask(by, 4)
		if err != nil || len(out.Send) != 1 {
			t.Fatal(err, out)
		}
		r := out.Send[0].Body.(*primitives.ContractCodeResponse)
		if got, err := DecodeContracts(r.Compressed, 1); err != nil || !sameCode(got, [][]byte{x.code}) || out.Send[0].To[0] != account(by) {
			t.Errorf("%v, %q", err, got)
		}
	}
	if x.derived != 1 {
		t.Errorf("code computed %d times", x.derived)
	}
	if _, err := x.nodes[account(0)].Step(BlockArrived{Hash: primitives.Hash{1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.ask(5, 4); err != nil || x.derived != 2 {
		t.Errorf("behind a block: %v, code computed %d times", err, x.derived)
	}
}

// TestRepeatedAccessesRequestNoCode: if a producer announces the contracts of a chunk again after
// many other chunks, the code is not requested again.
func TestRepeatedAccessesRequestNoCode(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	one := []byte("one")
	if asked, _ := x.tell(false, one); len(asked) != 1 {
		t.Fatalf("requests %v", asked)
	}
	for h := range primitives.Height(maxAccessLists) {
		x.at(5 + h)
		x.tell(true, one)
	}
	x.at(4)
	a := &primitives.ContractAccesses{Key: x.witness.Key(), Transition: x.transition, Contracts: []primitives.Hash{primitives.HashBytes([]byte("other"))}}
	a.Signature = secret(x.maker).Sign(a.SignedBytes())
	if out, err := x.node.Step(Accesses{a, false}); !errors.Is(err, ErrKnown) || len(out.Send) > 0 {
		t.Errorf("again: %v, %d questions", err, len(out.Send))
	}
}

// TestWrongCodeIsRejected: a response with code other than requested is rejected, and a later
// correct one is accepted.
func TestWrongCodeIsRejected(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	one := []byte("one")
	x.tell(false, one)
	x.parts()
	for _, bad := range [][][]byte{{[]byte("other")}, {}, {one, []byte("other")}} {
		r := &primitives.ContractCodeResponse{Key: x.witness.Key(), Responder: x.maker, Compressed: EncodeContracts(bad)}
		r.Signature = secret(x.maker).Sign(r.SignedBytes())
		out, err := x.node.Step(Code{r})
		if err != nil || len(out.Work) != 1 {
			t.Fatal(err, out)
		}
		out.Work[0].Run()
		if out, err = x.node.Step(Worked{out.Work[0]}); !errors.Is(err, ErrContracts) || len(out.Validate) > 0 {
			t.Errorf("%q: %v, %d to be validated", bad, err, len(out.Validate))
		}
	}
	if pending := x.give(one); len(pending) != 1 || !sameCode(pending[0].Codes, [][]byte{one}) {
		t.Errorf("to be validated: %+v", pending)
	}
}
