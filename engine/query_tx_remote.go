package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// What became of a transaction of a shard that is not held, other nodes are asked. They are believed what the headers of chunks bear out.

// ErrAnswer says that what another node tells of a transaction is not so, or can't be by this node's chain.
var ErrAnswer = errors.New("engine: told wrong")

// maxBlocksToNextChunk is how many blocks behind an outcome's the shard's next chunk is looked for, whose header has the outcome's root.
const maxBlocksToNextChunk = 64

// maxOutcomes is how many outcomes are told of a transaction at the most, and maxRemoteChunks in how many chunks: 300 Tgas make fewer.
const (
	maxOutcomes     = 1 << 14
	maxRemoteChunks = 1 << 10
)

// Tell returns what another node is told of a transaction; ErrUntracked where the signer's shard is not held, ErrUnknown if there is nothing to be told.
func (e *Engine) AnswerTxStatus(hash primitives.Hash, signer primitives.AccountID) ([]byte, error) {
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
	src := e.outcomesOf(hash, place, at.Height(), 0)
	all := txstatus.Outcomes(hash, src)
	if src.err != nil || len(all) == 0 || len(all) > maxOutcomes {
		return nil, errors.Join(src.err, fmt.Errorf("%w: outcome %v", ErrUnknown, hash))
	}
	return view.AppendFinalOutcomeBorsh(nil, &view.FinalOutcome{Status: txstatus.Status(all), Transaction: tx, Outcome: all[0], Outcomes: all[1:]})
}

// PartialBodies judges what another node has told of a transaction, and finds how far that has come. Only what the chain bears out is kept: outcomes that hang together, from the
// transaction's on, each in the root that the shard's next chunk has of its block. What is in a block of this chain of which there is no such chunk yet is left away with all
// behind it, and comes with the next answer: a client is told of nothing, not even optimistically, for which another node's word stands alone. Signer and receiver are
// those for whom outcomes say that they were executed. What no root covers is believed: texts of failures, profiles, and of the transaction nonce, actions, key and signature.
// ErrAnswer: the answer is of no use.
func (e *Engine) RemoteStatus(o *view.FinalOutcome, hash primitives.Hash) error {
	if o.Told == nil || o.Told.Hash != hash || o.Outcome.ID != hash || len(o.Outcomes) > maxOutcomes {
		return fmt.Errorf("%w: of another transaction", ErrAnswer)
	}
	told := map[primitives.Hash]*view.OutcomeProof{hash: &o.Outcome}
	for i := range o.Outcomes {
		x := &o.Outcomes[i]
		if told[x.ID] != nil {
			return fmt.Errorf("%w: outcome %v twice", ErrAnswer, x.ID)
		}
		told[x.ID] = x
	}
	whole := remoteSource{e: e, left: maps.Clone(told)}
	if n := len(txstatus.Outcomes(hash, &whole)); n != len(told) {
		return fmt.Errorf("%w: %d outcomes that are not of transaction %v", ErrAnswer, len(told)-n, hash)
	}
	src := &remoteSource{e: e, final: e.view.Load().final.Height, left: told, roots: map[remotePlace]*primitives.Hash{}}
	all := txstatus.Outcomes(hash, src)
	switch {
	case src.err != nil:
		return src.err
	case len(all) == 0:
		return fmt.Errorf("%w: transaction %v, of which no chunk bears out anything yet", ErrAnswer, hash)
	case all[0].ExecutorID != o.Told.Signer:
		return fmt.Errorf("%w: transaction %v is of %s, not of %s", ErrAnswer, hash, all[0].ExecutorID, o.Told.Signer)
	case len(all) > 1 && all[0].Status.Kind == primitives.StatusSuccessReceiptID && all[1].ID == all[0].Status.ReceiptID && all[1].ExecutorID != o.Told.Receiver:
		return fmt.Errorf("%w: transaction %v is for %s, not for %s", ErrAnswer, hash, all[1].ExecutorID, o.Told.Receiver)
	}
	o.Level, o.Status, o.Outcome, o.Outcomes = txstatus.Level(all, src), txstatus.Status(all), all[0], all[1:]
	return nil
}

// remoteSource shows what was told to txstatus, each outcome once: what was told may go around in a circle. With roots it shows what is borne out.
type remoteSource struct {
	e     *Engine
	final primitives.Height
	left  map[primitives.Hash]*view.OutcomeProof
	roots map[remotePlace]*primitives.Hash // that were looked for; nil: none of them matters
	err   error
}

func (s *remoteSource) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	o := s.left[id]
	if o == nil || s.err != nil {
		return view.OutcomeProof{}, false
	}
	delete(s.left, id)
	if s.roots != nil {
		var borne bool
		if borne, s.err = s.isProven(o); !borne {
			return view.OutcomeProof{}, false
		}
	}
	return *o, true
}

// isProven tells whether the chain bears an outcome out; false without an error: it does not say yet.
func (s *remoteSource) isProven(o *view.OutcomeProof) (bool, error) {
	if o.Status.Kind == primitives.StatusUnknown {
		return false, nil
	}
	at, err := s.e.remotePlace(o)
	if err != nil {
		return false, err
	}
	root, known := s.roots[at]
	if !known {
		if len(s.roots) >= maxRemoteChunks {
			return false, fmt.Errorf("%w: outcomes in more than %d chunks", ErrAnswer, maxRemoteChunks)
		}
		if root, err = s.e.outcomeRoot(at, o.ExecutorID); err != nil {
			return false, err
		}
		s.roots[at] = root
	}
	if root != nil && *root != o.Proof.Root(o.LeafHash()) {
		return false, fmt.Errorf("%w: outcome %v is not in what the chain says of shard %d behind block %v", ErrAnswer, o.ID, at.shard, at.block)
	}
	return root != nil, nil
}

// IsRefund is false: whose receipt it is, its shard knows.
func (s *remoteSource) IsRefund(primitives.Hash, *view.OutcomeProof) bool { return false }

func (s *remoteSource) IsFinal(block primitives.Hash) bool {
	ref, err := s.e.Ref(block)
	return err == nil && ref.Height <= s.final && s.e.Canonical(ref)
}

// remotePlace is the chunk in which an outcome is said to be.
type remotePlace struct {
	block primitives.Hash
	shard primitives.ShardID
}

func (e *Engine) remotePlace(o *view.OutcomeProof) (at remotePlace, err error) {
	ref, err := e.Ref(o.BlockHash)
	if err != nil || !e.Canonical(ref) {
		return at, fmt.Errorf("%w: outcome %v is in block %v, which is not on the chain here", ErrAnswer, o.ID, o.BlockHash)
	}
	h, err := e.Header(o.BlockHash)
	if err != nil {
		return at, err
	}
	layout, err := e.layoutOf(h.EpochID)
	return remotePlace{o.BlockHash, layout.ShardOf(o.ExecutorID)}, err
}

// outcomeRoot looks for the next chunk behind a block of the shard that an account is in: its header has the root of the outcomes there, also where that is a child of the
// shard, which inherits it. nil: it is not there yet.
func (e *Engine) outcomeRoot(at remotePlace, of primitives.AccountID) (*primitives.Hash, error) {
	chain, hash := headers{e, e.Head()}, at.block
	for range maxBlocksToNextChunk {
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
		i, err := layout.Index(layout.ShardOf(of))
		if err != nil || int(i) >= len(b.Body.Chunks) {
			return nil, err
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
