package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// An epoch sync proof contains an entry for every past epoch, but the blocks of old epochs are
// garbage collected. Therefore the engine stores the entry of epoch T when it imports the first
// block of epoch T+2. The id of epoch T+2 is the hash of the last block of epoch T. So all branches
// with the same epoch T+2 have the same epoch T, and the entry is right for all these branches.

// EpochProofs builds epoch sync proofs, and owns their rows in the store. Exported methods are safe
// for concurrent use.
type EpochProofs struct {
	store  *storage.Store
	chain  provenChain
	epochs epoch.Store // of the blocks
}

// provenChain is what EpochProofs reads of the engine. All methods are safe for concurrent use.
type provenChain interface {
	Genesis() *BlockNode
	Head() *BlockNode
	BlockNode(primitives.Hash) *BlockNode
	Header(primitives.Hash) (*primitives.BlockHeader, error)
	Epochs(func(*epoch.Manager) error) error
}

// EpochProofs returns the builder of epoch sync proofs.
func (e *Engine) EpochProofs() *EpochProofs { return e.epochProofs }

// provenRow returns the name of the row that stores the proof entry of epoch id.
func provenRow(id primitives.EpochID) string { return "proven " + string(id[:]) }

// save stores the proof entry of epoch T if entry is the first block of epoch T+2. It
// stores nothing if entry is not the first block of an epoch, or if this node lacks blocks of epoch
// T. A bootstrapped node lacks the blocks of the epochs before its start.
func (q *EpochProofs) save(b *storage.Batch, entry, parent *BlockNode) error {
	if entry.Header().EpochID == parent.Header().EpochID {
		return nil
	}
	p, err := q.entry(primitives.Hash(entry.Header().EpochID))
	if err != nil || p == nil {
		return gone(err)
	}
	putProven(b, p)
	return q.saveEnd(b, primitives.Hash(entry.Header().EpochID), p.Final)
}

// proofEnd is the name of the row that stores the end of a proof: the data of epoch T, to which the
// proof leads, and of epoch T-1. The row is written with the first block of epoch T+2. From then on
// the blocks of epoch T-1 may be garbage collected, because a node may keep only three epochs,
// which is neard's minimum.
const proofEnd = "proof end"

// endOf fills p.Current for the epoch that ends with the block `last`, and p.Last for the epoch
// before it. final is the header Final in the proof entry of the epoch that ends with `last`.
func (q *EpochProofs) endOf(p *headerchain.EpochProof, last primitives.Hash, final *primitives.BlockHeader) error {
	end, err := q.chain.Header(last)
	if err == nil {
		err = q.lastEpoch(&p.Last, primitives.Hash(end.NextEpochID))
	}
	if err == nil {
		err = q.currentEpoch(&p.Current, last, final)
	}
	return err
}

// saveEnd stores the data from endOf for Proof. saveEnd does nothing if this node does not have the
// blocks.
func (q *EpochProofs) saveEnd(b *storage.Batch, last primitives.Hash, final *primitives.BlockHeader) error {
	p := new(headerchain.EpochProof)
	if err := q.endOf(p, last, final); err != nil {
		return gone(err)
	}
	raw := storage.Raw(p.AppendBorsh(last[:]))
	storage.Misc.Put(b, proofEnd, &raw)
	return nil
}

// savedEnd fills p with the data that saveEnd stored for the block `last`. It returns
// storage.ErrGone if the stored data is not for that block.
func (q *EpochProofs) savedEnd(p *headerchain.EpochProof, last primitives.Hash) error {
	raw, err := storage.Misc.Get(q.store.Reader(), proofEnd)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(raw, last[:]) {
		return fmt.Errorf("the data of the last epoch of the proof: %w", storage.ErrGone)
	}
	var end headerchain.EpochProof
	if err := borsh.Unmarshal(raw[len(last):], &end); err != nil {
		return err
	}
	p.Last, p.Current = end.Last, end.Current
	return nil
}

func putProven(b *storage.Batch, p *headerchain.ProvenEpoch) {
	raw := storage.Raw(p.AppendBorsh(nil))
	storage.Misc.Put(b, provenRow(p.Final.EpochID), &raw)
}

// gone returns nil if err means that the node does not have some data (not found, garbage
// collected, unknown), and err otherwise.
func gone(err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) || errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// entry returns the proof entry of the epoch that ends with the block `last`. It returns nil
// for the first epoch, which has no entry.
func (q *EpochProofs) entry(last primitives.Hash) (*headerchain.ProvenEpoch, error) {
	end, err := q.chain.Header(last)
	if err != nil || end.EpochID == (primitives.EpochID{}) {
		return nil, err
	}
	second, err := q.chain.Header(end.PrevHash)
	if err != nil {
		return nil, err
	}
	p := &headerchain.ProvenEpoch{Versioned: true} // format of all protocol versions that this node supports
	if p.Final, err = q.chain.Header(second.PrevHash); err != nil {
		return nil, err
	}
	err = q.chain.Epochs(func(m *epoch.Manager) (err error) {
		p.Producers, err = m.BlockProducersOrdered(end.EpochID)
		return err
	})
	p.Endorsements = make([]primitives.Signature, len(p.Producers)) // the approvals of block producers come first
	copy(p.Endorsements, second.Approvals)
	return p, err
}

// entries returns the proof entries of all epochs, in order, up to the epoch that ends with the
// block `last`.
func (q *EpochProofs) entries(last primitives.Hash) (out []headerchain.ProvenEpoch, err error) {
	place := map[primitives.EpochID]int{}
	for id := primitives.EpochID(q.chain.Genesis().Hash); ; { // read the stored entries
		raw, err := storage.Misc.Get(q.store.Reader(), provenRow(id))
		if err != nil {
			if absent(err) != nil {
				return nil, err
			}
			break
		}
		var p headerchain.ProvenEpoch
		if err := borsh.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		if _, twice := place[id]; twice {
			break
		}
		place[id] = len(out)
		out = append(out, p)
		id = p.Final.NextEpochID
	}
	var rest []headerchain.ProvenEpoch
	for at := last; ; {
		end, err := q.chain.Header(at)
		if err != nil {
			return nil, err
		}
		if end.EpochID == (primitives.EpochID{}) {
			out = out[:0]
			break
		}
		if i, known := place[end.EpochID]; known {
			out = out[:i+1]
			break
		}
		p, err := q.entry(at)
		if err != nil {
			return nil, err
		}
		rest, at = append(rest, *p), primitives.Hash(end.NextEpochID)
	}
	slices.Reverse(rest)
	return append(out, rest...), nil
}

// Target returns the hash that identifies the current epoch sync proof: the last block of the
// epoch to which Proof leads. That epoch is two epochs before the head's epoch.
func (q *EpochProofs) Target() primitives.Hash {
	return primitives.Hash(q.chain.Head().Header().EpochID)
}

// Proof builds an epoch sync proof that leads to the first block of the epoch two before the head's
// epoch, as neard does (nearcore chain/epoch-manager/src/epoch_sync.rs). It returns ErrNotYet if
// the chain has too few epochs, and storage.ErrGone if this node lacks data of the epochs before. A
// proof grows with the chain, so callers should cache it by Target. Safe for concurrent use.
func (q *EpochProofs) Proof() (*headerchain.EpochProof, error) {
	last := q.Target()
	p := new(headerchain.EpochProof)
	var err error
	if last.IsZero() {
		return nil, fmt.Errorf("%w: epoch sync proof: the chain is in its first epoch", ErrNotYet)
	}
	if p.Epochs, err = q.entries(last); err != nil {
		return nil, fmt.Errorf("engine: epoch sync proof: %w", err)
	}
	if len(p.Epochs) < 2 { // no node accepts such a proof
		return nil, fmt.Errorf("%w: epoch sync proof: the chain has only %d full epochs after the first", ErrNotYet, len(p.Epochs))
	}
	if err = q.endOf(p, last, p.Epochs[len(p.Epochs)-1].Final); err != nil && gone(err) == nil {
		err = q.savedEnd(p, last)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: epoch sync proof: %w", err)
	}
	return p, nil
}

// lastEpoch fills l for the epoch that ends with the block `last`.
func (q *EpochProofs) lastEpoch(l *headerchain.LastEpoch, last primitives.Hash) error {
	s := q.epochs
	for _, x := range []struct {
		into *(*epoch.BlockInfo)
		hash func() primitives.Hash
	}{
		{&l.End, func() primitives.Hash { return last }},
		{&l.BeforeTheLast, func() primitives.Hash { return l.End.PrevHash }},
		{&l.First, func() primitives.Hash { return l.End.EpochFirstBlock }},
	} {
		b, err := s.BlockInfo(x.hash())
		if err == nil && b == nil {
			err = fmt.Errorf("block %v: %w", x.hash(), storage.ErrGone)
		}
		if err != nil {
			return err
		}
		*x.into = b
	}
	for _, x := range []struct {
		into *(*epoch.EpochInfo)
		id   primitives.EpochID
	}{{&l.Info, l.End.EpochID}, {&l.Next, primitives.EpochID(l.First.PrevHash)}, {&l.NextNext, primitives.EpochID(last)}} {
		v, err := s.EpochInfo(x.id)
		if err == nil && v == nil {
			err = fmt.Errorf("epoch %v: %w", x.id, storage.ErrGone)
		}
		if err != nil {
			return err
		}
		*x.into = v
	}
	return nil
}

// currentEpoch fills c for the epoch that ends with the block `last`: the epoch's first block, the
// two blocks before the first block, and the proof that the first block is in the block Merkle tree
// of final.
func (q *EpochProofs) currentEpoch(c *headerchain.CurrentEpoch, last primitives.Hash, final *primitives.BlockHeader) error {
	info, err := q.epochs.BlockInfo(last)
	if err == nil && info == nil {
		err = fmt.Errorf("block %v: %w", last, storage.ErrGone)
	}
	if err != nil {
		return err
	}
	if c.First, err = q.chain.Header(info.EpochFirstBlock); err != nil {
		return err
	}
	if c.Prev, err = q.chain.Header(c.First.PrevHash); err != nil {
		return err
	}
	if c.PrevPrev, err = q.chain.Header(c.Prev.PrevHash); err != nil {
		return err
	}
	trees := blockTrees{q}
	if c.Path, err = primitives.BlockMerkleProof(trees, c.First.Hash(), final.Hash()); err != nil {
		return err
	}
	c.Tree, err = trees.BlockMerkleTree(c.First.Hash())
	return err
}

// blockTrees implements the lookups that primitives.BlockMerkleProof needs.
type blockTrees struct{ q *EpochProofs }

func (s blockTrees) BlockMerkleTree(hash primitives.Hash) (*primitives.PartialMerkleTree, error) {
	if at := s.q.chain.BlockNode(hash); at != nil {
		return at.Tree.Clone(), nil
	}
	rec, err := s.q.store.BlockByHash(hash)
	if err != nil {
		return nil, err
	}
	raw, err := rec.MerkleTree()
	if err != nil {
		return nil, err
	}
	t := new(primitives.PartialMerkleTree)
	return t, borsh.Unmarshal(raw, t)
}

func (s blockTrees) BlockAtLeaf(leaf uint64) (primitives.Hash, error) {
	ref, err := s.q.store.OrdinalAt(leaf + 1)
	return ref.Hash, err
}
