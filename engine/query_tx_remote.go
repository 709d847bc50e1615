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

// Status of transactions in shards that this node does not hold. The status comes from peers. This
// node accepts only outcomes that the chunk headers of its own chain prove.

// ErrAnswer means that a transaction status from a peer is wrong, or contradicts this node's chain.
var ErrAnswer = errors.New("engine: a peer's transaction status does not verify")

// maxBlocksToNextChunk bounds the search for the shard's next chunk, whose header contains the
// outcome root: it covers this many blocks after the outcome's block.
const maxBlocksToNextChunk = 64

// Bounds of one transaction's outcomes in a peer's status, and of the chunks that contain them. No
// transaction reaches these bounds with the maximum gas of 300 Tgas.
const (
	maxOutcomes     = 1 << 14
	maxRemoteChunks = 1 << 10
)

// AnswerTxStatus returns the encoded status of a transaction, as the answer to a peer.
// AnswerTxStatus returns ErrUntracked if this node does not hold the signer's shard. AnswerTxStatus
// returns ErrUnknown if this node has no outcome of the transaction, or more than maxOutcomes
// outcomes.
func (e *Engine) AnswerTxStatus(hash primitives.Hash, signer primitives.AccountID) ([]byte, error) {
	at := e.Head()
	if !e.Holds(at.Layout.ShardOf(signer)) {
		return nil, fmt.Errorf("%w of account %s", ErrUntracked, signer)
	}
	tx, place, err := e.transactions.Transaction(hash)
	if err != nil {
		return nil, err
	}
	if place.Block.Ref().Height > at.Height() {
		return nil, fmt.Errorf("%w: transaction %v", ErrUnknown, hash)
	}
	src := e.transactions.outcomesOf(hash, place, at.Height(), 0)
	all := txstatus.Outcomes(hash, src)
	if src.err != nil || len(all) == 0 || len(all) > maxOutcomes {
		return nil, errors.Join(src.err, fmt.Errorf("%w: outcomes of transaction %v", ErrUnknown, hash))
	}
	return view.AppendFinalOutcomeBorsh(
		nil,
		&view.FinalOutcome{Status: txstatus.Status(all), Transaction: tx, Outcome: all[0], Outcomes: all[1:]},
	)
}

// RemoteStatus validates o, a peer's status of the transaction with this hash, and sets o's level
// of finality. RemoteStatus keeps only outcomes that this node's chain proves. Such an outcome is
// reachable from the transaction's outcome, and is in the outcome root that the header of its
// shard's next chunk contains. If that chunk does not exist yet, RemoteStatus removes the outcome
// and the outcomes that follow from it; the answer to a repeated request can contain them again. So
// a client never sees an outcome for which only a peer vouches, not even at the optimistic level.
// Signer and receiver must be the executors of the first two outcomes.
//
// RemoteStatus accepts some data without a proof, because no root covers it: failure texts, gas
// profiles, and the transaction's nonce, actions, key and signature. RemoteStatus returns ErrAnswer
// if the status is wrong or nothing in it is proven yet.
func (e *Engine) RemoteStatus(o *view.FinalOutcome, hash primitives.Hash) error {
	if o.Remote == nil || o.Remote.Hash != hash || o.Outcome.ID != hash || len(o.Outcomes) > maxOutcomes {
		return fmt.Errorf("%w: the answer is for a transaction that this node did not request", ErrAnswer)
	}
	told := map[primitives.Hash]*view.OutcomeProof{hash: &o.Outcome}
	for i := range o.Outcomes {
		x := &o.Outcomes[i]
		if told[x.ID] != nil {
			return fmt.Errorf("%w: outcome %v occurs twice", ErrAnswer, x.ID)
		}
		told[x.ID] = x
	}
	whole := remoteSource{e: e, left: maps.Clone(told)}
	if n := len(txstatus.Outcomes(hash, &whole)); n != len(told) {
		return fmt.Errorf("%w: %d outcomes do not belong to transaction %v", ErrAnswer, len(told)-n, hash)
	}
	src := &remoteSource{e: e, final: e.view.Load().final.Height, left: told, roots: map[remotePlace]*primitives.Hash{}}
	all := txstatus.Outcomes(hash, src)
	switch {
	case src.err != nil:
		return src.err
	case len(all) == 0:
		return fmt.Errorf("%w: no outcome of transaction %v is proven by a chunk yet", ErrAnswer, hash)
	case all[0].ExecutorID != o.Remote.Signer:
		return fmt.Errorf("%w: the signer of transaction %v is %s, expected %s", ErrAnswer, hash, all[0].ExecutorID, o.Remote.Signer)
	case len(all) > 1 && all[0].Status.Kind == primitives.StatusSuccessReceiptID &&
		all[1].ID == all[0].Status.ReceiptID && all[1].ExecutorID != o.Remote.Receiver:
		return fmt.Errorf("%w: the receiver of transaction %v is %s, expected %s", ErrAnswer, hash, all[1].ExecutorID, o.Remote.Receiver)
	}
	o.Level, o.Status, o.Outcome, o.Outcomes = txstatus.Level(all, src), txstatus.Status(all), all[0], all[1:]
	return nil
}

// remoteSource passes a peer's outcomes to package txstatus. A remoteSource returns each outcome
// only once, because a malicious peer's ids could form a cycle. If roots is set, it returns only
// proven outcomes.
type remoteSource struct {
	e     *Engine
	final primitives.Height
	left  map[primitives.Hash]*view.OutcomeProof // outcomes that were not returned yet, by id
	roots map[remotePlace]*primitives.Hash       // outcome roots found so far; nil: the outcomes need no proof
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

// isProven returns whether the chain proves an outcome. It returns false without an error if the
// chain does not prove the outcome yet, and ErrAnswer if the chain contradicts it.
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
			return false, fmt.Errorf("%w: the outcomes are in more than %d chunks, the limit", ErrAnswer, maxRemoteChunks)
		}
		if root, err = s.e.outcomeRoot(at, o.ExecutorID); err != nil {
			return false, err
		}
		s.roots[at] = root
	}
	if root != nil && *root != o.Proof.Root(o.LeafHash()) {
		return false, fmt.Errorf(
			"%w: outcome %v is not in the outcome root of shard %d after block %v",
			ErrAnswer,
			o.ID,
			at.shard,
			at.block,
		)
	}
	return root != nil, nil
}

// IsRefund implements txstatus.Source. It returns false, because only a node that holds the
// receipt's shard knows the predecessor.
func (s *remoteSource) IsRefund(primitives.Hash, *view.OutcomeProof) bool { return false }

func (s *remoteSource) IsFinal(block primitives.Hash) bool {
	ref, err := s.e.Ref(block)
	return err == nil && ref.Height <= s.final && s.e.Canonical(ref)
}

// remotePlace is the chunk that contains an outcome according to the peer: its block and its shard.
type remotePlace struct {
	block primitives.Hash
	shard primitives.ShardID
}

// remotePlace returns the chunk that contains an outcome. It returns ErrAnswer if the block of the
// chunk is not on the canonical chain.
func (e *Engine) remotePlace(o *view.OutcomeProof) (at remotePlace, err error) {
	ref, err := e.Ref(o.BlockHash)
	if err != nil || !e.Canonical(ref) {
		return at, fmt.Errorf("%w: outcome %v is in block %v, which is not on this chain", ErrAnswer, o.ID, o.BlockHash)
	}
	h, err := e.Header(o.BlockHash)
	if err != nil {
		return at, err
	}
	layout, err := e.layoutOf(h.EpochID)
	return remotePlace{o.BlockHash, layout.ShardOf(o.ExecutorID)}, err
}

// outcomeRoot returns the outcome root from the header of the shard's next chunk after the block
// `at`. `of` is the account that executed the outcome. If the shard was split after the block, the
// root is in the chunk of the child shard with that account. The result is nil without an error if
// there is no such chunk yet.
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
