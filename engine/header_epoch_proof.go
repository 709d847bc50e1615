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

// An epoch sync proof has something of every epoch there ever was, and blocks of old epochs are collected. So what it has of one is put aside with the
// first block of the second epoch behind it: the hash of its last block is that epoch's id, on whatever branch.

// provenRow is where it stands what a proof has of an epoch.
func provenRow(id primitives.EpochID) string { return "proven " + string(id[:]) }

// saveProvenEpoch puts aside what a proof has of the epoch two before that which begins with a block. What is not here any more, as
// behind a folder's beginning, is not.
func (e *Engine) saveProvenEpoch(b *storage.Batch, entry, parent *BlockNode) error {
	if entry.Header().EpochID == parent.Header().EpochID {
		return nil
	}
	p, err := e.provenEpoch(primitives.Hash(entry.Header().EpochID))
	if err != nil || p == nil {
		return gone(err)
	}
	putProven(b, p)
	return e.saveProofEnd(b, primitives.Hash(entry.Header().EpochID), p.Final)
}

// proofEnd is where it stands what else a proof has: of the epoch that it leads to, and the one before. Who keeps three epochs, neard's least, has no block of the
// latter any more as soon as the head's epoch has begun.
const proofEnd = "proof end"

// endOf makes what a proof has of the epoch that ends with a block, and of the one before. Final is the former's.
func (e *Engine) endOf(p *headerchain.EpochProof, last primitives.Hash, final *primitives.BlockHeader) error {
	end, err := e.Header(last)
	if err == nil {
		err = e.lastEpoch(&p.Last, primitives.Hash(end.NextEpochID))
	}
	if err == nil {
		err = e.currentEpoch(&p.Current, last, final)
	}
	return err
}

// saveProofEnd puts that aside for EpochProof, if it is here.
func (e *Engine) saveProofEnd(b *storage.Batch, last primitives.Hash, final *primitives.BlockHeader) error {
	p := new(headerchain.EpochProof)
	if err := e.endOf(p, last, final); err != nil {
		return gone(err)
	}
	raw := storage.Raw(p.AppendBorsh(last[:]))
	storage.Misc.Put(b, proofEnd, &raw)
	return nil
}

// savedProofEnd is what saveProofEnd put aside of the same block.
func (e *Engine) savedProofEnd(p *headerchain.EpochProof, last primitives.Hash) error {
	raw, err := storage.Misc.Get(e.store.Reader(), proofEnd)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(raw, last[:]) {
		return fmt.Errorf("the end of a proof: %w", storage.ErrGone)
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

// gone hides that something is not here.
func gone(err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) || errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// provenEpoch makes what a proof has of the epoch of which this is the last block; nil: of the first there is nothing.
func (e *Engine) provenEpoch(last primitives.Hash) (*headerchain.ProvenEpoch, error) {
	end, err := e.Header(last)
	if err != nil || end.EpochID == (primitives.EpochID{}) {
		return nil, err
	}
	second, err := e.Header(end.PrevHash)
	if err != nil {
		return nil, err
	}
	p := &headerchain.ProvenEpoch{Versioned: true} // of all versions that there are here
	if p.Final, err = e.Header(second.PrevHash); err != nil {
		return nil, err
	}
	err = e.Epochs(func(m *epoch.Manager) (err error) {
		p.Producers, err = m.BlockProducersOrdered(end.EpochID)
		return err
	})
	p.Endorsements = make([]primitives.Signature, len(p.Producers)) // they come first among the approvers
	copy(p.Endorsements, second.Approvals)
	return p, err
}

// provenEpochs lists what a proof has of each epoch up to that of which this is the last block.
func (e *Engine) provenEpochs(last primitives.Hash) (out []headerchain.ProvenEpoch, err error) {
	place := map[primitives.EpochID]int{}
	for id := primitives.EpochID(e.genesis.Hash); ; { // what was put aside
		raw, err := storage.Misc.Get(e.store.Reader(), provenRow(id))
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
		end, err := e.Header(at)
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
		p, err := e.provenEpoch(at)
		if err != nil {
			return nil, err
		}
		rest, at = append(rest, *p), primitives.Hash(end.NextEpochID)
	}
	slices.Reverse(rest)
	return append(out, rest...), nil
}

// ProofTarget names the last block of the epoch that EpochProof leads to the first block of: two before the head's.
func (e *Engine) ProofTarget() primitives.Hash { return primitives.Hash(e.Head().Header().EpochID) }

// EpochProof makes the proof that leads to the first block of the epoch two before the head's, as neard has it at that time (nearcore
// chain/epoch-manager/src/epoch_sync.rs). ErrNotYet: the chain is too young; ErrGone: this node does not know what came before. It is as large as the
// chain is old: whoever asks keeps the answer, by ProofTarget. From any goroutine.
func (e *Engine) EpochProof() (*headerchain.EpochProof, error) {
	last := e.ProofTarget()
	p := new(headerchain.EpochProof)
	var err error
	if last.IsZero() {
		return nil, fmt.Errorf("%w: first epoch", ErrNotYet)
	}
	if p.Epochs, err = e.provenEpochs(last); err != nil {
		return nil, fmt.Errorf("engine: epoch sync proof: %w", err)
	}
	if len(p.Epochs) < 2 { // nobody takes those
		return nil, fmt.Errorf("%w: %d epochs behind the first", ErrNotYet, len(p.Epochs))
	}
	if err = e.endOf(p, last, p.Epochs[len(p.Epochs)-1].Final); err != nil && gone(err) == nil {
		err = e.savedProofEnd(p, last)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: epoch sync proof: %w", err)
	}
	return p, nil
}

// lastEpoch tells of the epoch of which this is the last block.
func (e *Engine) lastEpoch(l *headerchain.LastEpoch, last primitives.Hash) error {
	s := epochStore{e}
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

// currentEpoch tells of the first block of the epoch of which this is the last one, below the epoch's final block.
func (e *Engine) currentEpoch(c *headerchain.CurrentEpoch, last primitives.Hash, final *primitives.BlockHeader) error {
	info, err := (epochStore{e}).BlockInfo(last)
	if err == nil && info == nil {
		err = fmt.Errorf("block %v: %w", last, storage.ErrGone)
	}
	if err != nil {
		return err
	}
	if c.First, err = e.Header(info.EpochFirstBlock); err != nil {
		return err
	}
	if c.Prev, err = e.Header(c.First.PrevHash); err != nil {
		return err
	}
	if c.PrevPrev, err = e.Header(c.Prev.PrevHash); err != nil {
		return err
	}
	trees := blockTrees{e}
	if c.Path, err = primitives.BlockMerkleProof(trees, c.First.Hash(), final.Hash()); err != nil {
		return err
	}
	c.Tree, err = trees.BlockMerkleTree(c.First.Hash())
	return err
}

// blockTrees finds the trees that proofs of blocks are made of.
type blockTrees struct{ e *Engine }

func (s blockTrees) BlockMerkleTree(hash primitives.Hash) (*primitives.PartialMerkleTree, error) {
	if at := s.e.BlockNode(hash); at != nil {
		return at.Tree.Clone(), nil
	}
	rec, err := s.e.store.BlockByHash(hash)
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
	ref, err := s.e.store.OrdinalAt(leaf + 1)
	return ref.Hash, err
}
