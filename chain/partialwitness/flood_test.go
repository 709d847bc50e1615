package partialwitness

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestOwnPartIsForwardedOnce: if a producer signs several parts for one witness, a validator
// forwards its own part once. Forwarding costs a message for each validator.
func TestOwnPartIsForwardedOnce(t *testing.T) {
	t.Parallel()
	const validators, me = 10, 7
	x := newNetwork(t, 1, validators, 1, 0)
	x.head = 4
	w := sample()
	w.Header.HeightCreated = 5
	payload, err := Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(w.Key(), nil, payload, validators, secret(account(0)))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(p *primitives.PartialWitness) {
		p.Signed(func(b []byte) { p.Signature = secret(account(0)).Sign(b) })
	}
	other := func(ord, salt int) *primitives.PartialWitness {
		p := *parts[ord]
		p.Part = append([]byte{byte(salt), byte(salt >> 8)}, p.Part...)
		sign(&p)
		return &p
	}
	node, sent := x.nodes[account(me)], 0
	take := func(p *primitives.PartialWitness) {
		out, err := node.Step(Part{p, false})
		if err != nil && !errors.Is(err, ErrKnown) {
			t.Fatal(err)
		}
		for _, s := range out.Send {
			if s.Forward {
				sent += len(s.To)
			}
		}
	}
	take(parts[me])
	if sent != validators-2 {
		t.Fatalf("it passes its own part on %d times", sent)
	}
	for i := range 100 {
		take(parts[me])
		take(other(me, i))
		take(other(i%validators, i))
	}
	if sent != validators-2 {
		t.Errorf("of 301 parts it has passed on %d, %d messages", sent/(validators-2), sent)
	}
	for h := range primitives.Height(3 * maxForwarded) { // the final height stays far below the head
		x.head = h
		p := other(3, 0)
		p.HeightCreated = h
		sign(p)
		if _, err := x.nodes[account(3)].Step(Part{p, false}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.nodes[account(3)].forwarded.order); n != maxForwarded {
		t.Errorf("%d chunks are remembered", n)
	}
}

// TestFloodOfDeploysIsBoundedInBytes: the incomplete parts of deployed code that producers sign are
// bounded in bytes, no part exceeds the maximum length, and a small set is not dropped.
func TestFloodOfDeploysIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 10, 2, 0)
	x.head = 4
	node := x.nodes[account(9)]
	send := func(h primitives.Height, ord, size int) error {
		p := &primitives.PartialContractDeploys{Key: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: h}, Ord: uint64(ord), Part: make([]byte, size), EncodedLength: MaxEncoded}
		p.Signature = secret(account(int(h) % 2)).Sign(p.SignedBytes())
		_, err := node.Step(Deploys{p})
		return err
	}
	c, err := DeploysCoder(8)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(1, 0, c.MaxPart()+1); !errors.Is(err, ErrPart) {
		t.Errorf("a part that is too long: %v", err)
	}
	if err := send(9, 1, 100); err != nil {
		t.Fatal(err)
	}
	for h := primitives.Height(0); h < 8; h += 2 { // all signed by one producer
		for ord := range c.DataParts() - 1 {
			if err := send(h, ord, c.MaxPart()); err != nil && !errors.Is(err, ErrPart) {
				t.Fatal(err)
			}
		}
	}
	held := 0
	for _, g := range node.deploys.by {
		held += g.size()
	}
	if held > maxDeployBytes || node.deploys.by[chunkID{ChunkKey: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 9}}] == nil {
		t.Errorf("%d MiB of code wait, and another maker's %v", held>>20, node.deploys.by[chunkID{ChunkKey: primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 9}}])
	}
}

// TestLongAccessesAreNotHashed: a list of too many contracts is rejected before its signature is
// verified, which takes time in proportion to its length. Any peer can send one.
func TestLongAccessesAreNotHashed(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	verified := 0
	node := NewTracker(Validator{account(me), secret(account(me))}, w, func(primitives.Signature, []byte, primitives.PublicKey) bool {
		verified++
		return false
	})
	list := make([]primitives.Hash, MaxRequested+1)
	for name, ev := range map[string]Event{
		"accesses":       Accesses{&primitives.ContractAccesses{Key: keyAt(21), Contracts: list, Anchor: anchorAt(21)}, false},
		"early accesses": Accesses{&primitives.ContractAccesses{Key: keyAt(23), Contracts: list, Anchor: &primitives.ChunkAnchor{PrevBlock: primitives.Hash{50}, PrevPrevBlock: hashAt(20)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := node.Step(ev); !errors.Is(err, ErrContracts) || verified > 0 {
				t.Errorf("got %v, %d signatures verified", err, verified)
			}
		})
	}
}

// TestInventedChunksEvictNoEndorsements: one validator that endorses chunks that do not exist, at
// all heights at which a block may still include a chunk, does not evict the endorsements that
// others gave to a real chunk.
func TestInventedChunksEvictNoEndorsements(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 6, 1, 0)
	x.head = 4 * MaxChunks // no block is final for long
	votes := NewEndorsements(x, verify)
	key := func(h primitives.Height) primitives.ChunkKey {
		return primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: h}
	}
	real, invented := primitives.Hash{5}, primitives.Hash{6}
	for i := range 5 {
		if err := votes.Add(Endorse(key(x.head+1), real, account(i), secret(account(i)))); err != nil {
			t.Fatal(err)
		}
	}
	for h := range primitives.Height(3 * MaxChunks) {
		_ = votes.Add(Endorse(key(1+h), invented, account(5), secret(account(5))))
	}
	if _, enough, err := votes.Of(key(x.head+1), real); err != nil || !enough {
		t.Errorf("the chunk's endorsements were evicted: %v", err)
	}
	if n := len(votes.chunks.by); n > MaxChunks || len(votes.chunks.order) != n {
		t.Errorf("%d chunks are kept", n)
	}
}
