package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// changed returns a copy of a block with a changed header. It is signed with key; nil keeps the
// signature.
func changed(b *primitives.Block, key *primitives.SecretKey, change func(*primitives.BlockHeader)) *primitives.Block {
	h := *b.Header
	change(&h)
	c := &primitives.Block{Header: h.Init(), Body: b.Body}
	if key != nil {
		chain.SignBlock(c, *key)
	}
	return c
}

func TestPrecheckWithKnownAndUnknownParents(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	var list []*primitives.Block
	var bodies [][]*primitives.Chunk
	for len(list) < 30 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		list, bodies = append(list, b), append(bodies, chunks)
	}
	at := func(h int) *primitives.Block { return list[h-1] }
	key := func(h int) *primitives.SecretKey {
		k := maker.producer(at(h).Header.PrevHash, primitives.Height(h))
		return &k
	}
	same := func(*primitives.BlockHeader) {}
	other := seedKey("nobody")
	wrongBody := changed(at(3), nil, same)
	wrongBody.Body.VRFValue[0]++
	check := func(name string, b *primitives.Block, want blockpool.Status, wantErr error) {
		t.Helper()
		a, err := n.Precheck(b)
		standing, producer := a.Standing, a.Producer
		if !errors.Is(err, wantErr) || err == nil && standing != want {
			t.Errorf("%s: standing %d, %v; want %d, %v", name, standing, err, want, wantErr)
		}
		if by, _ := maker.BlockProducer(b.Header.PrevHash, b.Header.Height); err == nil && want != blockpool.UnknownEpoch && producer != by.AccountID && maker.Imported(b.Header.PrevHash) != nil {
			t.Errorf("%s: producer %q, want %q", name, producer, by.AccountID)
		}
	}
	check("the next", at(1), blockpool.Follows, nil)
	check("one after it", at(3), blockpool.Orphan, nil)
	check("one of the next epoch", at(13), blockpool.Orphan, nil)
	check("one of the epoch after that", at(25), blockpool.UnknownEpoch, nil)
	check("signed by nobody", changed(at(1), &other, same), 0, chain.InvalidSignature)
	check("an orphan signed by nobody", changed(at(3), &other, same), 0, chain.InvalidSignature)
	check("another height than was signed", changed(at(3), nil, func(h *primitives.BlockHeader) { h.Height = 1 << 40 }), 0, chain.InvalidSignature)
	check("another body", wrongBody, 0, chain.InvalidBodyHash)
	check("an old form", changed(at(3), nil, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV5 - 1 }), 0, chain.InvalidHeaderVersion)
	check("another epoch than the parent's child is in", changed(at(1), key(1), func(h *primitives.BlockHeader) { h.EpochID = primitives.Hash{7} }), 0, chain.InvalidEpochHash)
	check("no higher than its parent", changed(at(1), nil, func(h *primitives.BlockHeader) { h.Height = 0 }), 0, ErrOld)
	check("a mask of other shards", changed(at(3), key(3), func(h *primitives.BlockHeader) { h.ChunkMask = nil }), 0, chain.InvalidNumberOfChunkHeaders)
	check("an orphan on a parent for which nobody has voted", changed(at(3), key(3), func(h *primitives.BlockHeader) { h.PrevHash = primitives.Hash{7} }), 0, chain.NotEnoughApprovals)
	check("an orphan with one vote of three", changed(at(3), key(3), func(h *primitives.BlockHeader) { h.Approvals = h.Approvals[:1] }), 0, chain.NotEnoughApprovals)
	check("an orphan of a height for which nobody has voted", changed(at(5), key(5), func(h *primitives.BlockHeader) { h.PrevHeight = 3 }), 0, chain.NotEnoughApprovals)
	check("the next, without votes", changed(at(1), key(1), func(h *primitives.BlockHeader) { h.Approvals = nil }), 0, chain.NotEnoughApprovals)
	for i, b := range list[:25] {
		n.accept(b, bodies[i])
	}
	check("known", at(25), 0, ErrKnown)
	check("below the final one", changed(at(4), key(4), func(h *primitives.BlockHeader) { h.Timestamp++ }), 0, ErrOld)
	check("on one below the final one", changed(at(26), key(26), func(h *primitives.BlockHeader) { h.PrevHash, h.PrevHeight = at(4).Hash(), 4 }), 0, ErrOld)
	check("no higher than its parent, above the final one", changed(at(26), key(26), func(h *primitives.BlockHeader) { h.Height = 25 }), 0, chain.InvalidBlockHeight)
	check("an orphan of an epoch that is over", changed(at(27), key(27), func(h *primitives.BlockHeader) { h.EpochID = at(2).Header.EpochID }), blockpool.UnknownEpoch, nil)
	check("an orphan", at(27), blockpool.Orphan, nil)
}

// TestPrecheckBodyNeedsImportedPrevBlock: the producer of a chunk is known once the chunk's
// previous block is imported.
func TestPrecheckBodyNeedsImportedPrevBlock(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	_, first := maker.make(maker.Head().Hash, 1, false)
	maker.accept(maker.make(maker.Head().Hash, 1, false))
	_, second := maker.make(maker.Head().Hash, 2, false)
	forged, odd, far := *first[0], *first[0], *first[0]
	forged.Header.Signature = primitives.ZeroED25519Signature
	odd.Header.ShardID = 77
	odd.Hash = odd.Header.ChunkHash()
	far.Header.HeightCreated = 9
	far.Hash = far.Header.ChunkHash()
	for name, tt := range map[string]struct {
		c    *primitives.Chunk
		want bool
	}{"of the next block": {first[0], true}, "of another shard": {first[1], true}, "of the block after that": {second[0], false},
		"with an invalid signature": {&forged, false}, "of no shard": {&odd, false}, "of another height": {&far, false}} {
		t.Run(name, func(t *testing.T) {
			if got, _, err := n.PrecheckBody(tt.c); got != tt.want || err != nil {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// TestBlockWithoutBodiesIsValidatedOnce: a block without chunk bodies is validated. Its import with
// the bodies does not verify its signatures again, except the block's own.
func TestBlockWithoutBodiesIsValidatedOnce(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb", "cc"))
	b, chunks := n.make(n.Head().Hash, 1, false)
	before := n.state()
	for _, given := range [][]*primitives.Chunk{nil, chunks[:1], {chunks[1], chunks[0]}} {
		if _, err := n.BeginImport(b, given, false); !errors.Is(err, ErrMissing) || VerdictOf(err) != VerdictWaiting {
			t.Errorf("with %d bodies: %v", len(given), err)
		}
	}
	bad := changed(b, nil, func(h *primitives.BlockHeader) { h.Approvals = nil })
	chain.SignBlock(bad, n.producer(n.Head().Hash, 1))
	if _, err := n.BeginImport(bad, nil, false); !errors.Is(err, chain.NotEnoughApprovals) {
		t.Errorf("an invalid block without bodies: %v", err)
	}
	other := seedKey("nobody")
	if _, err := n.BeginImport(changed(b, &other, func(*primitives.BlockHeader) {}), chunks, false); !errors.Is(err, chain.InvalidSignature) {
		t.Errorf("a copy with an invalid signature: %v", err)
	}
	if n.state() != before {
		t.Errorf("the engine was %v and is %v", before, n.state())
	}
	if a := n.accept(b, chunks); !a.IsHead {
		t.Error("the block with its bodies is not the head")
	}
}

// TestPeersChunksInOwnBlockAreChecked: an engine checks the chunks of other producers in its own
// block. If it cannot apply its own chunk, that is its own fault.
func TestPeersChunksInOwnBlockAreChecked(t *testing.T) {
	g := testGenesis(t, "aa")
	maker, n := openNode(t, g), openNode(t, g)
	b, chunks := maker.make(maker.Head().Hash, 1, false)
	wrong := *chunks[0]
	wrong.Transactions = []*primitives.SignedTransaction{transfer(n.Genesis().Hash, 1)}
	if _, err := n.BeginImport(b, []*primitives.Chunk{&wrong, chunks[1]}, true); !errors.Is(err, ErrChunk) || VerdictOf(err) != VerdictInvalid {
		t.Errorf("a peer's chunk with other transactions: %v", err)
	}
	for _, tt := range []struct {
		n    *node
		want Verdict
	}{{n, VerdictInvalid}, {maker, VerdictLocalFault}} {
		p, err := tt.n.BeginImport(b, chunks, true)
		if err != nil {
			t.Fatal(err)
		}
		p.jobs[0].Run()
		p.jobs[1].err = fmt.Errorf("balance: %w", primitives.ErrOverflow)
		if _, err = tt.n.FinishImport(p, nil); VerdictOf(err) != tt.want || !errors.As(err, new(*ApplyFailure)) {
			t.Errorf("verdict %d of %v, want %d", VerdictOf(err), err, tt.want)
		}
		p.Drop()
	}
}

// TestOutcomeMismatchIsFaultOnlyIfEndorsed: if a chunk with enough endorsements claims another
// result than this node's, the peer is not at fault. The node cannot continue, and the error has
// the input of its own result. Without endorsements the block is invalid. If only the body is
// wrong, the chunk is invalid.
func TestOutcomeMismatchIsFaultOnlyIfEndorsed(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	for range 3 {
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false, transfer(maker.Genesis().Hash, primitives.Nonce(maker.Head().Height()+1)))
		maker.accept(b, chunks)
		n.accept(b, chunks)
	}
	head := maker.Head()
	lie := func(change func(*chain.ChunkExtra)) func() {
		s := &head.Shards[0]
		was, other := s.Extra, *s.Extra
		change(&other)
		s.Extra = &other
		return func() { s.Extra = was }
	}
	for name, change := range map[string]func(*chain.ChunkExtra){
		"state root":   func(x *chain.ChunkExtra) { x.StateRoot = primitives.Hash{9} },
		"outcome root": func(x *chain.ChunkExtra) { x.OutcomeRoot = primitives.Hash{9} },
		"gas used":     func(x *chain.ChunkExtra) { x.GasUsed++ },
	} {
		t.Run(name, func(t *testing.T) {
			honest := lie(change)
			b, chunks := maker.make(head.Hash, head.Height()+1, false)
			honest()
			before := n.state()
			_, err := n.BeginImport(b, chunks, false)
			var f *ApplyFailure
			var d *OutcomeMismatch
			if VerdictOf(err) != VerdictLocalFault || !errors.As(err, &f) || !errors.As(err, &d) || errors.Is(err, ErrChunk) {
				t.Fatalf("got %v", err)
			}
			if f.Block != n.Head().Hash || f.Shard != head.Shards[0].ID || d.Block != b.Hash() || d.Chunk != chunks[0].Hash || !f.HasInput() {
				t.Errorf("%+v of %+v", f, d)
			}
			in := f.Input()
			in.Recording = new(recording)
			r, err := apply.Apply(&in)
			if err != nil || r.Trie.Root() != n.Head().Shards[0].Extra.StateRoot {
				t.Errorf("applying the failed input again: %v", err)
			}
			release(r.Trie)
			f.Release()
			if n.state() != before {
				t.Errorf("the engine was %v and is %v", before, n.state())
			}
			few := changed(b, nil, func(*primitives.BlockHeader) {})
			few.Body.ChunkEndorsements = [][]primitives.Signature{make([]primitives.Signature,
				len(b.Body.ChunkEndorsements[0])), b.Body.ChunkEndorsements[1]}
			few.Header.ChunkEndorsements = chain.EndorsementBitmaps(few.Body.ChunkEndorsements)
			few.Header.BlockBodyHash = few.Body.Hash()
			few.Header.Init()
			chain.SignBlock(few, n.producer(head.Hash, few.Header.Height))
			if _, err := n.BeginImport(few, chunks, false); VerdictOf(err) != VerdictInvalid || errors.As(err, new(*OutcomeMismatch)) {
				t.Errorf("without endorsements: %v", err)
			}
		})
	}
	b, chunks := maker.make(head.Hash, head.Height()+1, false)
	wrong := *chunks[0]
	wrong.Transactions = []*primitives.SignedTransaction{transfer(n.Genesis().Hash, 77)}
	if _, err := n.BeginImport(b, []*primitives.Chunk{&wrong, chunks[1]}, false); !errors.Is(err, ErrChunk) || VerdictOf(err) != VerdictInvalid {
		t.Errorf("another body: %v", err)
	}
	n.accept(b, chunks)
}

func TestErrorWithoutBlockFaultIsLocalFault(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Verdict
	}{
		{ErrKnown, VerdictStale}, {ErrOld, VerdictStale}, {ErrOrphan, VerdictWaiting}, {ErrMissing, VerdictWaiting}, {chain.InvalidBlockFutureTime, VerdictEarly},
		{chain.InvalidBlockHeight, VerdictInvalid}, {fmt.Errorf("%w: %w", chain.InvalidBlockHeight, chain.ErrHeightAhead), VerdictEarly}, {chain.NotEnoughApprovals, VerdictInvalid}, {fmt.Errorf("%w: x", ErrChunk), VerdictInvalid}, {&ApplyFailure{bad: true}, VerdictInvalid},
		{&ApplyFailure{Err: storage.ErrDamaged}, VerdictLocalFault}, {ErrReshard, VerdictLocalFault}, {storage.ErrFull, VerdictLocalFault}, {errors.New("anything"), VerdictLocalFault}, {nil, VerdictLocalFault},
	} {
		if tt.err != nil {
			tt.err = fmt.Errorf("wrapped: %w", tt.err)
		}
		if got := VerdictOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestDescendsFromFinalTakesOneStep: whether a block descends from the final block is found in one
// step from its parent, on any branch, also after another block has become final.
func TestDescendsFromFinalTakesOneStep(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	fork := n.accept(n.make(n.Genesis().Hash, 1, false)).Entry
	a := n.accept(n.make(n.Genesis().Hash, 2, false)).Entry
	for range 20 { // with skipped heights nothing becomes final
		a = n.accept(n.make(a.Hash, a.Height()+2, false)).Entry
	}
	final := n.TipFinal()
	if !n.descendsFromFinal(a) || !n.descendsFromFinal(fork) || final.Hash != n.Genesis().Hash {
		t.Fatal("a block does not descend from the genesis block")
	}
	for x := a; x.Hash != final.Hash; x = n.Imported(x.Header().PrevHash) {
		if x.descendsFrom != final.Hash {
			t.Fatalf("block %d has no cached final ancestor", x.Height())
		}
	}
	for range 3 {
		a = n.accept(n.make(a.Hash, a.Height()+1, false)).Entry
	}
	if n.TipFinal().Hash == final.Hash || !n.descendsFromFinal(a) || n.descendsFromFinal(fork) {
		t.Errorf("final %d: head descends %v, the fork %v", n.TipFinal().Height, n.descendsFromFinal(a), n.descendsFromFinal(fork))
	}
}
