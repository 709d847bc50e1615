package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// What became of a transaction of a shard that is not held, other nodes are asked. They are believed what the headers of chunks bear out.

// ErrAnswer says that what another node tells of a transaction is not so, or can't be by this node's chain.
var ErrAnswer = errors.New("engine: told wrong")

// mostAhead is how many blocks behind an outcome's the shard's next chunk is looked for, whose header has the outcome's root.
const mostAhead = 64

// maxOutcomes is how many outcomes are told of a transaction at the most, and maxPlaces in how many chunks: 300 Tgas make fewer.
const (
	maxOutcomes = 1 << 14
	maxPlaces   = 1 << 10
)

// Tell returns what another node is told of a transaction; ErrUntracked where the signer's shard is not held, ErrUnknown if there is nothing to be told.
func (e *Engine) Tell(hash primitives.Hash, signer primitives.AccountID) ([]byte, error) {
	at := e.Head()
	if !e.Holds(at.Layout.ShardOf(signer)) {
		return nil, fmt.Errorf("%w: that of %s", ErrUntracked, signer)
	}
	tx, place, err := e.Transaction(hash)
	if err != nil {
		return nil, err
	}
	if place.Block.Ref().Height > at.Height() {
		return nil, fmt.Errorf("%w: transaction %v", ErrUnknown, hash)
	}
	src := &source{e: e, head: at.Height()}
	all := txstatus.Outcomes(hash, src)
	if src.err != nil || len(all) == 0 || len(all) > maxOutcomes {
		return nil, errors.Join(src.err, fmt.Errorf("%w: outcome %v", ErrUnknown, hash))
	}
	return view.AppendFinalOutcomeBorsh(nil, &view.FinalOutcome{Status: txstatus.Status(all), Transaction: tx, Outcome: all[0], Outcomes: all[1:]})
}

// Told judges what another node has told of a transaction, and finds how far that has come. All that is kept of it is what hangs together: the outcomes of
// the transaction and of its receipts, in their order; each in a block of this chain. An outcome is as good as final when its block is final and the shard's next chunk
// bears it out; one that is contradicted there is wrong. ErrAnswer: the answer is of no use.
func (e *Engine) Told(o *view.FinalOutcome, hash primitives.Hash, signer primitives.AccountID) error {
	if o.Told == nil || o.Told.Hash != hash || o.Told.Signer != signer || o.Outcome.ID != hash || len(o.Outcomes) > maxOutcomes {
		return fmt.Errorf("%w: of another transaction", ErrAnswer)
	}
	v := e.view.Load()
	src := &toldSource{e: e, final: v.final.Height, left: map[primitives.Hash]*view.OutcomeProof{}, proven: map[primitives.Hash]bool{}}
	src.left[hash] = &o.Outcome
	for i := range o.Outcomes {
		x := &o.Outcomes[i]
		if src.left[x.ID] != nil {
			return fmt.Errorf("%w: outcome %v twice", ErrAnswer, x.ID)
		}
		src.left[x.ID] = x
	}
	count := len(src.left)
	all := txstatus.Outcomes(hash, src)
	if len(all) != count {
		return fmt.Errorf("%w: %d outcomes that are not of transaction %v", ErrAnswer, count-len(all), hash)
	}
	roots := map[toldPlace]*primitives.Hash{}
	for i := range all {
		x := &all[i]
		if x.Status.Kind == primitives.StatusUnknown {
			continue
		}
		at, err := e.toldPlace(x)
		if err != nil {
			return err
		}
		root, ok := roots[at]
		if !ok {
			if len(roots) >= maxPlaces {
				return fmt.Errorf("%w: transaction %v in more than %d chunks", ErrAnswer, hash, maxPlaces)
			}
			if root, err = e.outcomeRoot(at); err != nil {
				return err
			}
			roots[at] = root
		}
		if root != nil && *root != x.Proof.Root(x.LeafHash()) {
			return fmt.Errorf("%w: outcome %v is not in what the chain says of shard %d behind block %v", ErrAnswer, x.ID, at.shard, at.block)
		}
		if was, ok := src.proven[at.block]; !ok || was {
			src.proven[at.block] = root != nil
		}
	}
	o.Level, o.Status, o.Outcome, o.Outcomes = txstatus.Level(all, src), txstatus.Status(all), all[0], all[1:]
	return nil
}

// toldSource shows what was told to txstatus, each outcome once: what was told may go around in a circle.
type toldSource struct {
	e      *Engine
	final  primitives.Height
	left   map[primitives.Hash]*view.OutcomeProof
	proven map[primitives.Hash]bool // of a block: all that was told of it
}

func (s *toldSource) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	o := s.left[id]
	if o == nil {
		return view.OutcomeProof{}, false
	}
	delete(s.left, id)
	return *o, true
}

// IsRefund is false: whose receipt it is, its shard knows.
func (s *toldSource) IsRefund(primitives.Hash, *view.OutcomeProof) bool { return false }

func (s *toldSource) IsFinal(block primitives.Hash) bool {
	ref, err := s.e.Ref(block)
	return err == nil && ref.Height <= s.final && s.e.Canonical(ref) && s.proven[block]
}

// toldPlace is the chunk in which an outcome is said to be.
type toldPlace struct {
	block primitives.Hash
	shard primitives.ShardID
}

func (e *Engine) toldPlace(o *view.OutcomeProof) (at toldPlace, err error) {
	ref, err := e.Ref(o.BlockHash)
	if err != nil || !e.Canonical(ref) {
		return at, fmt.Errorf("%w: outcome %v is in block %v, which is not on the chain here", ErrAnswer, o.ID, o.BlockHash)
	}
	h, err := e.Header(o.BlockHash)
	if err != nil {
		return at, err
	}
	layout, err := e.layoutOf(h.EpochID)
	return toldPlace{o.BlockHash, layout.ShardOf(o.ExecutorID)}, err
}

// outcomeRoot looks for the next chunk of a shard behind a block: its header has the root of the outcomes there. nil: it is not there yet. Of a shard that was
// split no later header says anything: nil, too.
func (e *Engine) outcomeRoot(at toldPlace) (*primitives.Hash, error) {
	chain, hash := headers{e, e.Head()}, at.block
	for range mostAhead {
		var err error
		if hash, err = chain.NextHash(hash); err != nil {
			return nil, nil
		}
		b, err := e.WholeBlock(hash)
		if err != nil {
			return nil, err
		}
		layout, err := e.layoutOf(b.Header.EpochID)
		if err != nil {
			return nil, err
		}
		i, err := layout.Index(at.shard)
		if err != nil || int(i) >= len(b.Body.Chunks) {
			return nil, nil
		}
		if c := b.Body.Chunks[i]; c.HeightIncluded == b.Header.Height {
			return &c.PrevOutcomeRoot, nil
		}
	}
	return nil, nil
}

func (e *Engine) layoutOf(id primitives.EpochID) (layout primitives.ShardLayout, err error) {
	err = e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayout(id)
		return err
	})
	return layout, err
}
