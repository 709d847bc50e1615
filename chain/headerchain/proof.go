package headerchain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ErrProof means that an epoch sync proof is invalid. The sender of the proof is at fault.
var ErrProof = errors.New("header chain: invalid epoch sync proof")

// EpochProof proves that a chain extends from its genesis to the first block of an epoch. For each
// epoch, the proof contains the last final block. The epoch's block producers endorsed this block,
// and the block contains the hash of the next epoch's producers (nearcore
// core/primitives/src/epoch_sync.rs EpochSyncProofV1). Only headers of the current versions are
// supported.
type EpochProof struct {
	// proven epochs, from the second epoch after the genesis to the epoch in which the node starts
	Epochs  []ProvenEpoch
	Last    LastEpoch // the epoch before the epoch in which the node starts
	Current CurrentEpoch
}

// ProvenEpoch is one epoch of a proof. The previous epoch's entry proves the Producers of this
// epoch. These producers endorsed Final, the epoch's last final block.
type ProvenEpoch struct {
	Producers    []primitives.ValidatorStake
	Versioned    bool // the hash of the producers includes a version tag
	Final        *primitives.BlockHeader
	Endorsements []primitives.Signature // endorsements of Final, by producer; empty: no endorsement
}

// LastEpoch contains the data whose hash is the epoch sync data hash in the first header of the
// next epoch.
type LastEpoch struct {
	Info, Next, NextNext      *epoch.EpochInfo
	First, End, BeforeTheLast *epoch.BlockInfo
}

// CurrentEpoch describes the first block of the epoch in which the node starts.
type CurrentEpoch struct {
	First, Prev, PrevPrev *primitives.BlockHeader
	// Path is the Merkle path from First to the block Merkle root in the last final block of the
	// epoch of First.
	Path primitives.MerklePath
	Tree *primitives.PartialMerkleTree
}

// AppendBorsh appends nearcore's encoding.
func (e *ProvenEpoch) AppendBorsh(b []byte) []byte {
	b = borsh.AppendBool(primitives.AppendValidatorStakes(b, e.Producers), e.Versioned)
	return borsh.AppendSlice(e.Final.AppendBorsh(b), e.Endorsements, func(b []byte, s *primitives.Signature) []byte {
		if b = borsh.AppendBool(b, *s != ""); *s != "" {
			b = s.AppendBorsh(b)
		}
		return b
	})
}

// DecodeBorsh reads nearcore's encoding.
func (e *ProvenEpoch) DecodeBorsh(r *borsh.Reader) {
	e.Producers, e.Versioned, e.Final = primitives.ReadValidatorStakes(r), r.Bool(), new(primitives.BlockHeader)
	e.Final.DecodeBorsh(r)
	e.Endorsements = borsh.Slice(r, 1, func(r *borsh.Reader) (s primitives.Signature) {
		if r.Option() {
			s = primitives.ReadSignature(r)
		}
		return s
	})
}

// AppendBorsh appends nearcore's encoding, uncompressed.
func (p *EpochProof) AppendBorsh(b []byte) []byte {
	b = borsh.AppendSlice(append(b, 0), p.Epochs, func(b []byte, e *ProvenEpoch) []byte { return e.AppendBorsh(b) })
	l, c := &p.Last, &p.Current
	b = l.NextNext.AppendBorsh(l.Next.AppendBorsh(l.Info.AppendBorsh(b)))
	b = l.BeforeTheLast.AppendBorsh(l.End.AppendBorsh(l.First.AppendBorsh(b)))
	b = c.PrevPrev.AppendBorsh(c.Prev.AppendBorsh(c.First.AppendBorsh(b)))
	return c.Tree.AppendBorsh(c.Path.AppendBorsh(b))
}

// DecodeBorsh reads nearcore's encoding, uncompressed.
func (p *EpochProof) DecodeBorsh(r *borsh.Reader) {
	header := func() *primitives.BlockHeader {
		h := new(primitives.BlockHeader)
		h.DecodeBorsh(r)
		return h
	}
	info := func() *epoch.EpochInfo {
		v := new(epoch.EpochInfo)
		v.DecodeBorsh(r)
		return v
	}
	block := func() *epoch.BlockInfo {
		v := new(epoch.BlockInfo)
		v.DecodeBorsh(r)
		return v
	}
	if tag := r.Byte(); tag != 0 {
		r.BadTag("EpochSyncProof", tag)
		return
	}
	*p = EpochProof{Epochs: borsh.Slice(r, 64, func(r *borsh.Reader) (e ProvenEpoch) {
		e.DecodeBorsh(r)
		return e
	})}
	p.Last.Info, p.Last.Next, p.Last.NextNext = info(), info(), info()
	p.Last.First, p.Last.End, p.Last.BeforeTheLast = block(), block(), block()
	p.Current.First, p.Current.Prev, p.Current.PrevPrev = header(), header(), header()
	p.Current.Path.DecodeBorsh(r)
	p.Current.Tree = new(primitives.PartialMerkleTree)
	p.Current.Tree.DecodeBorsh(r)
}

// Verify verifies a proof for the chain with this genesis. producers are the distinct block
// producers of the second epoch, in order (nearcore chain/client/src/sync/epoch.rs:315). Verify
// does not check that the proof is recent. Errors: ErrProof.
func (p *EpochProof) Verify(genesis primitives.Hash, producers []primitives.ValidatorStake,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if len(p.Epochs) < 2 {
		return fmt.Errorf("%w: the proof has %d epochs, must have at least 2", ErrProof, len(p.Epochs))
	}
	if !slices.Equal(p.Epochs[0].Producers, producers) {
		return fmt.Errorf("%w: the block producers of the second epoch are not those that this chain's genesis determines", ErrProof)
	}
	id := primitives.EpochID(genesis)
	for i := range p.Epochs {
		e := &p.Epochs[i]
		if i > 0 {
			before := p.Epochs[i-1].Final
			hash := primitives.UntaggedBlockProducersHash
			if e.Versioned {
				hash = primitives.BlockProducersHash
			}
			if hash(e.Producers) != before.NextBPHash {
				return fmt.Errorf("%w: the block producers of the proof's epoch %d do not have the hash in the final block of "+
					"epoch %d", ErrProof, i, i-1)
			}
			id = before.NextEpochID
		}
		if e.Final.EpochID != id {
			return fmt.Errorf("%w: epoch %d of the proof has id %v, expected %v", ErrProof, i, e.Final.EpochID, id)
		}
		if err := e.endorsed(verify); err != nil {
			return fmt.Errorf("%w: epoch %d of the proof: %w", ErrProof, i, err)
		}
	}
	if h := p.Current.First.EpochSyncDataHash; h == nil || *h != p.Last.hash() {
		return fmt.Errorf(
			"%w: the data of the previous epoch do not have the hash in the header of the current epoch's first block",
			ErrProof,
		)
	}
	return p.Current.verify(p.Epochs[len(p.Epochs)-1].Final)
}

// endorsed returns an error unless producers with more than two thirds of the stake have endorsed
// Final.
func (e *ProvenEpoch) endorsed(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if len(e.Endorsements) != len(e.Producers) || e.Final.Height+1 == 0 {
		return fmt.Errorf(
			"the final block at height %d has %d endorsements, must have one entry for each of %d block producers",
			e.Final.Height,
			len(e.Endorsements),
			len(e.Producers),
		)
	}
	inner := primitives.ApprovalInner{Endorsement: e.Final.Hash()}
	signed := inner.SignedBytes(e.Final.Height + 1)
	var have, total primitives.Balance
	for i := range e.Producers {
		v := &e.Producers[i]
		total = total.SaturatingAdd(v.Stake)
		if e.Endorsements[i] == "" {
			continue
		}
		if !verify(e.Endorsements[i], signed, v.PublicKey) {
			return fmt.Errorf("the endorsement of %s has an invalid signature", v.AccountID)
		}
		have = have.SaturatingAdd(v.Stake)
	}
	if !chain.OverTwoThirds(have, total) {
		return fmt.Errorf("the final block is endorsed by %s of %s yoctoNEAR of stake, needs more than two thirds", have, total)
	}
	return nil
}

// hash returns the epoch sync data hash.
func (l *LastEpoch) hash() primitives.Hash {
	b := l.End.AppendBorsh(l.BeforeTheLast.AppendBorsh(l.First.AppendBorsh(nil)))
	return primitives.HashBytes(l.NextNext.AppendBorsh(l.Next.AppendBorsh(l.Info.AppendBorsh(b))))
}

func (c *CurrentEpoch) verify(final *primitives.BlockHeader) error {
	switch h := c.First; {
	case h.EpochID != final.EpochID:
		return fmt.Errorf("%w: the current epoch's first block has epoch id %v, expected %v", ErrProof, h.EpochID, final.EpochID)
	case !c.Path.Verify(final.BlockMerkleRoot, h.Hash()):
		return fmt.Errorf("%w: the current epoch's first block is not proven to be an ancestor of the final block", ErrProof)
	case c.Tree.Size()+1 == 0, c.Tree.Size()+1 != h.BlockOrdinal, c.Tree.Root() != h.BlockMerkleRoot:
		return fmt.Errorf(
			"%w: the block Merkle tree does not have the size and root in the header of the current epoch's first block",
			ErrProof,
		)
	case h.PrevHash != c.Prev.Hash(), c.Prev.PrevHash != c.PrevPrev.Hash():
		return fmt.Errorf("%w: the proof's two headers before the first block are not its parent and grandparent", ErrProof)
	}
	return nil
}

// Start is the initial state of a header chain that starts from an epoch sync proof.
type Start struct {
	// The last two headers of an epoch, and the first of the next epoch, which becomes the head.
	Rows   [3]*Row
	Epochs [3]struct {
		ID   primitives.EpochID
		Info *epoch.EpochInfo
	} // the epoch before the head's, the head's, and the next
	// info of the first block of the epoch before the head's epoch; that block's header is unknown
	Before *epoch.BlockInfo
}

// Jump verifies a proof and restarts the chain from it. On an error the Chain is unchanged. Errors:
// ErrOld if the chain is beyond the proof; ErrProof; ErrVersion.
func (c *Chain) Jump(p *EpochProof) error {
	verify, err := c.Proving(p)
	if err == nil {
		err = verify()
	}
	if err != nil {
		return err
	}
	return c.Take(p)
}

// Proving returns a function that verifies a proof. The function checks thousands of signatures.
// The function does not use the Chain, so the function may run concurrently with methods of the
// Chain. Errors: ErrOld.
func (c *Chain) Proving(p *EpochProof) (verify func() error, err error) {
	if err := c.isOld(p); err != nil {
		return nil, err
	}
	genesis, check := c.o.Genesis.Hash(), c.o.Verify
	producers, err := c.epochs.BlockProducersOrdered(primitives.EpochID(genesis))
	return func() error { return p.Verify(genesis, producers, check) }, err
}

// isOld returns ErrOld if this node cannot use a proof although the proof may be valid. For
// example, a neard early in its chain's fourth epoch sends a proof of only one epoch. neard does
// not accept such a proof either.
func (c *Chain) isOld(p *EpochProof) error {
	if len(p.Epochs) < 2 || p.Current.First.Height <= c.head.Header.Height {
		return fmt.Errorf(
			"%w: the epoch sync proof has %d epochs, must have at least 2, and begins at height %d, must be above %d",
			ErrOld,
			len(p.Epochs),
			p.Current.First.Height,
			c.head.Header.Height,
		)
	}
	return nil
}

// Take restarts the chain from a verified proof: the first block of the proof's current epoch
// becomes the head, and is final. Errors: ErrOld, ErrProof, ErrVersion.
func (c *Chain) Take(p *EpochProof) error {
	if err := c.isOld(p); err != nil {
		return err
	}
	s, err := p.Start()
	if err != nil {
		return err
	}
	for _, x := range s.Epochs {
		if err := c.checkVersion(x.ID, x.Info.ProtocolVersion); err != nil {
			return err
		}
	}
	if err := c.o.Store.Begin(s); err != nil {
		return err
	}
	c.head = s.Rows[2]
	c.epochs.StartAt(c.head.Info.Height)
	c.final = Ref{c.head.Info.Hash, c.head.Info.Height}
	c.heights, c.unfinal = map[primitives.Height][]primitives.Hash{}, 0
	return nil
}

// Start returns the initial state of a header chain according to a verified proof.
func (p *EpochProof) Start() (*Start, error) {
	cur, last := &p.Current, &p.Last
	known := map[primitives.Hash]primitives.Height{cur.Prev.Hash(): cur.Prev.Height, cur.PrevPrev.Hash(): cur.PrevPrev.Height}
	for _, e := range p.Epochs {
		known[e.Final.Hash()] = e.Final.Height
	}
	final, ok := known[cur.First.LastFinalBlock]
	if !ok {
		return nil, fmt.Errorf("%w: the proof lacks the header of block %v, the last final block at the current epoch's "+
			"first block", ErrProof, cur.First.LastFinalBlock)
	}
	s := &Start{Before: last.First}
	info := epoch.BlockInfoFromHeader(cur.First, final)
	info.EpochID, info.EpochFirstBlock = cur.First.EpochID, info.Hash
	if err := info.SetFirstChunkProducers(last.Next); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	// stays empty in these two rows: no header is added to the trees of these rows
	none := new(primitives.PartialMerkleTree)
	s.Rows[0] = &Row{Header: cur.PrevPrev, Info: last.BeforeTheLast, Tree: none, Final: last.BeforeTheLast.LastFinalizedHeight}
	s.Rows[1] = &Row{Header: cur.Prev, Info: last.End, Tree: none, Final: last.End.LastFinalizedHeight}
	s.Rows[2] = &Row{Header: cur.First, Info: info, Tree: cur.Tree, Final: final}
	for i, id := range [...]primitives.EpochID{last.End.EpochID, cur.First.EpochID, cur.First.NextEpochID} {
		s.Epochs[i].ID, s.Epochs[i].Info = id, [...]*epoch.EpochInfo{last.Info, last.Next, last.NextNext}[i]
	}
	for _, r := range s.Rows {
		if r.Info.Hash != r.Header.Hash() || r.Info.Height != r.Header.Height {
			return nil, fmt.Errorf("%w: the proof pairs the BlockInfo of block %v with the header of block %v", ErrProof,
				r.Info.Hash, r.Header.Hash())
		}
	}
	return s, nil
}
