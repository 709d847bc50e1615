package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// ErrWitness means that a witness does not prove its chunk. The chunk producer has signed the parts
// of the witness, so the producer is at fault.
var ErrWitness = errors.New("engine: the witness does not prove its chunk")

// ErrNoCode means that a witness could not be checked because the code of a called contract is
// missing. The chunk producer is not necessarily at fault.
var ErrNoCode = errors.New("engine: contract code that the witness calls is missing")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrWitness}, args...)...)
}

// WitnessChecker checks witnesses of chunks, and chunks without a witness, before this validator
// endorses them. Its only state is the results of main transitions that the checker has checked.
// Safe for concurrent use.
type WitnessChecker struct {
	chain   witnessChain
	coding  *primitives.ReedSolomon
	results *mainResults
	meter   *ChunkMeter // nil: not measured
}

// witnessChain is what WitnessChecker reads of the engine. All methods are safe for concurrent use.
type witnessChain interface {
	spanChain
	TipFinal() storage.BlockRef
	rulesAfter(parent *BlockNode) (*nextRules, error)
	inputOf(entry *BlockNode, shard primitives.ShardIndex, fresh bool, proposals []primitives.ValidatorStake) (
		in *apply.Input, valid func(primitives.Hash) bool, err error)
	checkByState(prev *BlockNode, layout primitives.ShardLayout, c *primitives.Chunk) (held bool, err error)
}

// newWitnessChecker returns a checker that caches at most mainResults results for each shard
// (Options.MainResults).
func newWitnessChecker(chain witnessChain, coding *primitives.ReedSolomon, mainResults int, meter *ChunkMeter) *WitnessChecker {
	return &WitnessChecker{chain: chain, coding: coding, results: newMainResults(mainResults), meter: meter}
}

// CheckWitness validates a witness without using the shard's state. CheckWitness needs only the
// blocks up to the chunk's parent, which must be known, and the contract code in codes (nearcore
// chunk_validation.rs pre_validate_chunk_state_witness, validate_chunk_state_witness). It returns
// nil if the chunk header is right. The caller must check that this validator is assigned to the
// chunk.
//
// VerdictOf classifies the errors. VerdictInvalid: the witness's producer is at fault.
// VerdictWaiting: a block or code is missing. VerdictLocalFault: this node is at fault. Safe for
// concurrent use.
func (v *WitnessChecker) CheckWitness(w *primitives.ChunkStateWitness, codes [][]byte) error {
	s, receipts, err := v.checkForm(w)
	if err != nil {
		return err
	}
	var lacks missingCode
	err = v.replay(w, s, receipts, codes, &lacks)
	if missed, some := lacks.any(); some && err != nil {
		return fmt.Errorf("%w: code %v; checking without it: %w", ErrNoCode, missed, err)
	}
	return err
}

// CheckHeld does the same as CheckWitness for a validator that holds the shard: CheckHeld compares
// the chunk header with this node's own state, and ignores the state in the witness (nearcore
// chunk_validation_actor.rs:420). If the shard is not held, held is false and the chunk header is
// not checked. whole is the chunk; nil: this node does not have the chunk.
func (v *WitnessChecker) CheckHeld(w *primitives.ChunkStateWitness, whole *primitives.Chunk) (held bool, err error) {
	s, _, err := v.checkForm(w)
	if err != nil {
		return true, err
	}
	c := chunkOf(w)
	if whole != nil && whole.Hash == c.Hash { // use the body of the chunk, which was checked against its header
		c.PrevOutgoingReceipts, c.Whole = whole.PrevOutgoingReceipts, whole.Whole
	}
	return v.chain.checkByState(s.prev, s.layout, c)
}

// CheckChunk does the same as CheckHeld for a chunk without its witness. A witness would only prove
// what follows from the blocks that this node has applied. The caller must have checked the
// producer's signature of the header. held is false if the shard is not held, or if c has only
// receipt proofs.
func (v *WitnessChecker) CheckChunk(c *primitives.Chunk) (held bool, err error) {
	if c.Proofs != nil {
		return false, nil
	}
	prev, rules, err := v.checkPlace(&c.Header)
	if err != nil {
		return true, err
	}
	switch h := &c.Header; {
	// A chunk with a different height may have a different producer, whose signature the caller has
	// not checked. A witness needs no such check, because the signature of its parts covers the
	// height.
	case h.HeightCreated != prev.Height()+1:
		return true, bad("height_created of the chunk is %d, must be %d, one above its parent", h.HeightCreated, prev.Height()+1)
	case h.HeightIncluded != 0:
		return true, bad("height_included of the chunk header is %d, must be 0", h.HeightIncluded)
	}
	for _, tx := range c.Transactions {
		if err := verify.Form(rules.config, tx); err != nil {
			return true, bad("new transaction %v is invalid: %w", tx.Hash(), err)
		}
	}
	return v.chain.checkByState(prev, rules.layout, c)
}

// chunkOf returns the chunk of a witness, without its receipts.
func chunkOf(w *primitives.ChunkStateWitness) *primitives.Chunk {
	return &primitives.Chunk{
		Hash:      w.Header.ChunkHash(),
		Header:    w.Header,
		ChunkBody: primitives.ChunkBody{Transactions: w.NewTransactions},
	}
}

// checkPlace returns the parent of a chunk and the rules for the parent's children. It returns
// ErrOrphan if the parent is unknown.
func (v *WitnessChecker) checkPlace(h *primitives.ChunkHeader) (prev *BlockNode, next *nextRules, err error) {
	prev, err = v.chain.Block(h.PrevBlockHash)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, nil, fmt.Errorf(
			"%w: %v, the parent of the chunk of shard %d at height %d",
			ErrOrphan,
			h.PrevBlockHash,
			h.ShardID,
			h.HeightCreated,
		)
	case err != nil:
		return nil, nil, err
	// This check comes first, because data of an old block may have been garbage collected.
	case h.HeightCreated != prev.Height()+1 && prev.Height() < v.chain.TipFinal().Height:
		return nil, nil, bad("height_created of the chunk is %d, must be %d, one above its parent", h.HeightCreated, prev.Height()+1)
	}
	if next, err = v.chain.rulesAfter(prev); err != nil {
		return nil, nil, err
	}
	if !next.layout.Has(h.ShardID) {
		return nil, nil, bad("the shard layout after the chunk's parent has no shard %d", h.ShardID)
	}
	return prev, next, nil
}

// checkForm checks everything in a witness that does not require applying a chunk. It returns the
// receipts that the main transition executes. checkForm must not check what neard does not check in
// a witness: the header's signature (which is checked with the block), the header's included
// height, and the block hashes of the transitions. Otherwise a producer could produce chunks that
// only this node does not endorse.
func (v *WitnessChecker) checkForm(w *primitives.ChunkStateWitness) (*span, []*primitives.Receipt, error) {
	h := &w.Header
	prev, next, err := v.checkPlace(h)
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpan(v.chain, prev.Hash, h.ShardID)
	if err != nil {
		return nil, nil, err
	}
	if w.EpochID != s.epoch {
		return nil, nil, bad("the witness states epoch %v, expected the chunk's epoch %v", w.EpochID, s.epoch)
	}
	for _, tx := range w.NewTransactions {
		if err := verify.Form(next.config, tx); err != nil {
			return nil, nil, bad("new transaction %v is invalid: %w", tx.Hash(), err)
		}
	}
	receipts, err := s.receipts(w.Sources)
	if err != nil {
		return nil, nil, err
	}
	if got := receiptsHash(receipts); got != w.AppliedReceipts {
		return nil, nil, bad("the receipts in the witness hash to %v, but the witness states hash %v", got, w.AppliedReceipts)
	}
	if root := chain.TxRoot(w.Transactions); root != s.last.Block.Body.Chunks[s.index].TxRoot {
		return nil, nil, bad("the transactions in the witness have root %v, expected %v as in the previous chunk's header",
			root, s.last.Block.Body.Chunks[s.index].TxRoot)
	}
	return s, receipts, nil
}

// receipts verifies the receipt proofs. There must be one proof for each new chunk in each block of
// s.sources. receipts returns the receipts in the order of execution: newest block first, and
// within a block as in apply.OrderIncoming.
func (s *span) receipts(proofs []primitives.SourceProof) ([]*primitives.Receipt, error) {
	if s.genesis() {
		if len(proofs) > 0 {
			return nil, bad(
				"the witness has %d receipt proofs, must have 0: the shard's previous chunk is that of the genesis",
				len(proofs),
			)
		}
		return nil, nil
	}
	by := make(map[primitives.Hash]*primitives.ReceiptProof, len(proofs))
	for i := range proofs {
		by[proofs[i].Chunk] = &proofs[i].ReceiptProof
	}
	var out []*primitives.Receipt
	wanted := 0
	for _, src := range s.sources {
		var lists [][]*primitives.Receipt
		for _, h := range src.at.Block.Body.Chunks {
			if h.HeightIncluded != src.at.Height() {
				continue
			}
			wanted++
			p := by[h.ChunkHash()]
			switch {
			case p == nil:
				return nil, bad("the witness lacks the receipts of the chunk of shard %d in block %d", h.ShardID, src.at.Height())
			case p.From != h.ShardID || p.To != src.to:
				return nil, bad("a receipt proof is from shard %d to shard %d, expected from %d to %d", p.From, p.To, h.ShardID, src.to)
			case !p.Verify(h.PrevOutgoingReceiptsRoot):
				return nil, bad("the receipts of shard %d in block %d do not match their Merkle proof", h.ShardID, src.at.Height())
			}
			list := p.Receipts
			if src.to != s.shard {
				list = chain.ReceiptsFor(list, s.last.Layout, s.index)
			}
			lists = append(lists, list)
		}
		out = append(out, apply.OrderIncoming(src.at.Header().PrevHash, lists)...)
	}
	if len(proofs) != wanted {
		return nil, bad("the witness has %d receipt proofs, expected %d", len(proofs), wanted)
	}
	return out, nil
}

// replay applies all transitions of the witness to its state proofs, and compares the result with
// the chunk header.
func (v *WitnessChecker) replay(
	w *primitives.ChunkStateWitness,
	s *span,
	receipts []*primitives.Receipt,
	codes [][]byte,
	lacks *missingCode,
) error {
	key := mainKey{s.layout.UID(w.Header.ShardID), s.last.Hash}
	extra, outgoing, known := v.results.get(key)
	if !known {
		var err error
		if extra, outgoing, err = v.replayMain(w, s, receipts, codes, lacks); err != nil {
			return fmt.Errorf("replay the main transition: %w", err)
		}
	}
	if extra.StateRoot != w.Main.PostState {
		return bad("applying the main transition gives state root %v, but the witness states %v", extra.StateRoot, w.Main.PostState)
	}
	// If code is missing, the call of that code fails here. From version 87 on the failed call may
	// still lead to the right state, because the contract gets no share of the gas. Only the
	// comparison with the chunk header then shows that the result is wrong. So do not cache such a
	// result.
	if _, guessed := lacks.any(); !guessed && !s.genesis() {
		v.results.put(key, extra, outgoing, s.layout, v.chain.TipFinal().Height)
	}
	if len(w.Implicit) != len(s.steps) {
		return bad("the witness has %d implicit transitions, expected %d", len(w.Implicit), len(s.steps))
	}
	var err error
	for i := range s.steps {
		step := &s.steps[i]
		if step.split {
			outgoing, err = v.replaySplit(w.Implicit[i].Base, step, i+1 == len(s.steps), s, extra, outgoing)
		} else {
			err = v.replayMissing(w.Implicit[i].Base, step, extra)
		}
		if err != nil {
			return fmt.Errorf("replay implicit transition %d: %w", i, err)
		}
		if extra.StateRoot != w.Implicit[i].PostState {
			return bad("applying implicit transition %d gives state root %v, but the witness states %v", i, extra.StateRoot, w.Implicit[i].PostState)
		}
	}
	return v.compare(w, s, extra, outgoing)
}

// compare validates the chunk header against the result of the transitions.
func (v *WitnessChecker) compare(
	w *primitives.ChunkStateWitness,
	s *span,
	extra *chain.ChunkExtra,
	outgoing []*primitives.Receipt,
) error {
	if err := v.meter.validate(chunkOf(w), extra, outgoing, s.layout, v.coding); err != nil {
		return fmt.Errorf("%w: %w", ErrWitness, err)
	}
	return nil
}

// replayMain applies the shard's newest chunk to the state proof of the main transition. A genesis
// chunk is not applied, and replayMain ignores the proof of a genesis chunk (nearcore
// chunk_validation.rs MainTransition::Genesis).
func (v *WitnessChecker) replayMain(
	w *primitives.ChunkStateWitness,
	s *span,
	receipts []*primitives.Receipt,
	codes [][]byte,
	lacks *missingCode,
) (*chain.ChunkExtra, []*primitives.Receipt, error) {
	header := s.last.Block.Body.Chunks[s.index]
	if s.genesis() {
		return &chain.ChunkExtra{
			StateRoot:      header.PrevStateRoot,
			GasLimit:       header.GasLimit,
			CongestionInfo: header.CongestionInfo,
		}, nil, nil
	}
	in, valid, err := v.chain.inputOf(s.last, s.index, true, nil)
	if err != nil {
		return nil, nil, err
	}
	strings := append(w.Main.Base[:len(w.Main.Base):len(w.Main.Base)], codes...)
	if in.Trie, err = lacks.proof(strings, header.PrevStateRoot); err != nil {
		return nil, nil, witnessFault(err)
	}
	in.Incoming, in.Block.Validates = receipts, true
	in.Transactions = make([]apply.Transaction, len(w.Transactions))
	for i, tx := range w.Transactions {
		in.Transactions[i] = apply.Transaction{SignedTransaction: tx, Valid: valid(tx.BlockHash)}
	}
	r, err := v.applyOnProof(in)
	if err != nil {
		return nil, nil, err
	}
	return &chain.ChunkExtra{
		StateRoot: r.Trie.Root(), OutcomeRoot: r.OutcomeRoot, Proposals: r.Proposals, GasUsed: r.GasUsed,
		GasLimit: in.GasLimit, BalanceBurnt: r.BalanceBurnt, CongestionInfo: r.Congestion,
		BandwidthRequests: r.BandwidthRequests, ProposedSplit: r.ProposedSplit,
	}, r.Outgoing, nil
}

// replayMissing applies a block in which the shard has no new chunk to the state proof base, and
// sets the new root in extra.
func (v *WitnessChecker) replayMissing(base [][]byte, step *spanStep, extra *chain.ChunkExtra) error {
	index, err := step.at.Layout.Index(step.shard)
	if err != nil {
		return err
	}
	in, _, err := v.chain.inputOf(step.at, index, false, extra.Proposals)
	if err != nil {
		return err
	}
	if in.Trie, err = ProofTrie(base, extra.StateRoot); err != nil {
		return witnessFault(err)
	}
	r, err := v.applyOnProof(in)
	if err == nil {
		extra.StateRoot = r.Trie.Root()
	}
	return err
}

// replaySplit computes the state root and chunk extra of one child of a split from a state proof,
// as makeChild computes them from the state. replaySplit returns the outgoing receipts that the
// child inherits.
func (v *WitnessChecker) replaySplit(
	base [][]byte,
	step *spanStep,
	last bool,
	s *span,
	extra *chain.ChunkExtra,
	outgoing []*primitives.Receipt,
) ([]*primitives.Receipt, error) {
	layout := s.layout
	if !last { // the steps after the split are blocks of the new layout
		var err error
		if layout, err = v.layoutAfter(step.at); err != nil {
			return nil, err
		}
	}
	from, keep, err := parentAndIntervals(layout, step.shard)
	if err != nil {
		return nil, err
	}
	family, _ := layout.Children(from)
	index, err := layout.Index(step.shard)
	if err != nil {
		return nil, err
	}
	p, err := trie.NewPartial(base, extra.StateRoot)
	if err != nil {
		return nil, witnessFault(unproven(err))
	}
	if family[0] != step.shard {
		if err := dropBuffered(extra, proofTrie{p}, step.at.Layout); err != nil {
			return nil, witnessFault(err)
		}
	}
	extra.CongestionInfo.AllowedShard = childAllowedShard(layout, index)
	if p, err = p.RetainIntervals(keep, nil); err != nil {
		return nil, witnessFault(unproven(err))
	}
	extra.StateRoot = p.Root()
	if step.shard != min(family[0], family[1]) { // the child with the lower id inherits the outgoing receipts
		outgoing = nil
	}
	return outgoing, nil
}

// layoutAfter returns the layout of the children of the block `at`.
func (v *WitnessChecker) layoutAfter(at *BlockNode) (primitives.ShardLayout, error) {
	next, err := v.chain.rulesAfter(at)
	if err != nil {
		return primitives.ShardLayout{}, err
	}
	return next.layout, nil
}

// applyOnProof applies one shard of a block to a state proof.
func (v *WitnessChecker) applyOnProof(in *apply.Input) (r *apply.Result, err error) {
	began := time.Now()
	in.Clock = stopwatch(began)
	err = Catch(func() (err error) {
		if r, err = apply.Apply(in); err == nil {
			v.meter.applied(validateChunk, in, r, time.Since(began))
		}
		return err
	})
	return r, witnessFault(err)
}

// witnessFault adds ErrWitness to an error that is the producer's fault: the proof lacks nodes, or
// contains a string that is not a node. Any other contradiction is in data that the chain's hashes
// cover, so this node or the chain is at fault.
func witnessFault(err error) error {
	if errors.Is(err, state.ErrMissing) || errors.Is(err, trie.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrWitness, err)
	}
	return err
}

// missingCode collects the hashes of called code that is not in the proof. Safe for concurrent use.
type missingCode struct {
	mu   sync.Mutex
	list []primitives.Hash
}

func (l *missingCode) any() ([]primitives.Hash, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list, len(l.list) > 0
}

// proof returns a ProofTrie that adds the hashes of missing code to l.
func (l *missingCode) proof(strings [][]byte, root primitives.Hash) (state.Trie, error) {
	t, err := ProofTrie(strings, root)
	if err != nil {
		return nil, err
	}
	return &codeTrie{t, l}, nil
}

// codeTrie is a state.Proven that adds the hashes of missing code to lacks.
type codeTrie struct {
	state.Proven
	lacks *missingCode
}

func (t *codeTrie) CodeOf(hash primitives.Hash) []byte {
	code := t.Proven.CodeOf(hash)
	if code == nil {
		t.lacks.mu.Lock()
		defer t.lacks.mu.Unlock()
		if !slices.Contains(t.lacks.list, hash) {
			t.lacks.list = append(t.lacks.list, hash)
		}
	}
	return code
}
