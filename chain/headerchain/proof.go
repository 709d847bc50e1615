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

// ErrProof says that an epoch sync proof does not prove what it should: its sender's fault.
var ErrProof = errors.New("headers: invalid epoch sync proof")

// EpochProof shows that a chain came from its genesis to the first block of an epoch, by what each epoch's block producers have signed of
// the last final block (nearcore core/primitives/src/epoch_sync.rs EpochSyncProofV1). Its headers are those of today's version.
type EpochProof struct {
	Epochs  []ProvenEpoch // from the second behind the genesis's on, to that which is begun with
	Last    LastEpoch     // the one before that
	Current CurrentEpoch
}

// ProvenEpoch is one epoch of a proof: the one before it tells its producers, and they its last final block.
type ProvenEpoch struct {
	Producers    []primitives.ValidatorStake
	Versioned    bool // how they are hashed
	Final        *primitives.BlockHeader
	Endorsements []primitives.Signature // of Final, one a producer; empty: none
}

// LastEpoch is what the epoch sync data hash in the first header of the epoch behind is made of.
type LastEpoch struct {
	Info, Next, NextNext      *epoch.EpochInfo
	First, End, BeforeTheLast *epoch.BlockInfo
}

// CurrentEpoch is where a node begins.
type CurrentEpoch struct {
	First, Prev, PrevPrev *primitives.BlockHeader
	Path                  primitives.MerklePath // of First, below the Merkle root of its epoch's last final block
	Tree                  *primitives.PartialMerkleTree
}

// AppendBorsh appends what is said of one epoch.
func (e *ProvenEpoch) AppendBorsh(b []byte) []byte {
	b = borsh.AppendBool(primitives.AppendValidatorStakes(b, e.Producers), e.Versioned)
	return borsh.AppendSlice(e.Final.AppendBorsh(b), e.Endorsements, func(b []byte, s *primitives.Signature) []byte {
		if b = borsh.AppendBool(b, *s != ""); *s != "" {
			b = s.AppendBorsh(b)
		}
		return b
	})
}

// DecodeBorsh reads it.
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

// AppendBorsh appends the proof as nearcore has it before compression.
func (p *EpochProof) AppendBorsh(b []byte) []byte {
	b = borsh.AppendSlice(append(b, 0), p.Epochs, func(b []byte, e *ProvenEpoch) []byte { return e.AppendBorsh(b) })
	l, c := &p.Last, &p.Current
	b = l.NextNext.AppendBorsh(l.Next.AppendBorsh(l.Info.AppendBorsh(b)))
	b = l.BeforeTheLast.AppendBorsh(l.End.AppendBorsh(l.First.AppendBorsh(b)))
	b = c.PrevPrev.AppendBorsh(c.Prev.AppendBorsh(c.First.AppendBorsh(b)))
	return c.Tree.AppendBorsh(c.Path.AppendBorsh(b))
}

// DecodeBorsh reads it.
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

// Verify judges a proof for the chain of a genesis, of whose second epoch these are the block producers, without repeats (nearcore
// chain/client/src/sync/epoch.rs:315). Whether it is recent enough is its user's question.
func (p *EpochProof) Verify(genesis primitives.Hash, producers []primitives.ValidatorStake, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if len(p.Epochs) < 2 {
		return fmt.Errorf("%w: %d epochs", ErrProof, len(p.Epochs))
	}
	if !slices.Equal(p.Epochs[0].Producers, producers) {
		return fmt.Errorf("%w: other producers behind the genesis", ErrProof)
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
				return fmt.Errorf("%w: other producers of epoch %d", ErrProof, i)
			}
			id = before.NextEpochID
		}
		if e.Final.EpochID != id {
			return fmt.Errorf("%w: epoch %d is %v, not %v", ErrProof, i, e.Final.EpochID, id)
		}
		if err := e.endorsed(verify); err != nil {
			return fmt.Errorf("%w: epoch %d: %w", ErrProof, i, err)
		}
	}
	if h := p.Current.First.EpochSyncDataHash; h == nil || *h != p.Last.hash() {
		return fmt.Errorf("%w: other data of the epoch before", ErrProof)
	}
	return p.Current.verify(p.Epochs[len(p.Epochs)-1].Final)
}

// endorsed says why the last final block of an epoch is not known to be one.
func (e *ProvenEpoch) endorsed(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if len(e.Endorsements) != len(e.Producers) || e.Final.Height+1 == 0 {
		return fmt.Errorf("%d endorsements of %d producers at height %d", len(e.Endorsements), len(e.Producers), e.Final.Height)
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
			return fmt.Errorf("endorsement of %s does not verify", v.AccountID)
		}
		have = have.SaturatingAdd(v.Stake)
	}
	if !chain.OverTwoThirds(have, total) {
		return fmt.Errorf("%s of %s stake", have, total)
	}
	return nil
}

// hash is the epoch sync data hash.
func (l *LastEpoch) hash() primitives.Hash {
	b := l.End.AppendBorsh(l.BeforeTheLast.AppendBorsh(l.First.AppendBorsh(nil)))
	return primitives.HashBytes(l.NextNext.AppendBorsh(l.Next.AppendBorsh(l.Info.AppendBorsh(b))))
}

func (c *CurrentEpoch) verify(final *primitives.BlockHeader) error {
	switch h := c.First; {
	case h.EpochID != final.EpochID:
		return fmt.Errorf("%w: its first block is of another epoch", ErrProof)
	case !c.Path.Verify(final.BlockMerkleRoot, h.Hash()):
		return fmt.Errorf("%w: its first block is not below the final one", ErrProof)
	case c.Tree.Size()+1 == 0, c.Tree.Size()+1 != h.BlockOrdinal, c.Tree.Root() != h.BlockMerkleRoot:
		return fmt.Errorf("%w: the tree is not that before its first block", ErrProof)
	case h.PrevHash != c.Prev.Hash(), c.Prev.PrevHash != c.PrevPrev.Hash():
		return fmt.Errorf("%w: the headers before its first block do not lead to it", ErrProof)
	}
	return nil
}

// Start is what a chain of headers begins with that a proof has shown.
type Start struct {
	Rows   [3]*Row // the last two headers of an epoch and the first of the next, which is the head
	Epochs [3]struct {
		ID   primitives.EpochID
		Info *epoch.EpochInfo
	} // the epoch before, that of the head, and the next one
	Before *epoch.BlockInfo // of the first block of the epoch before, of which there is no header
}

// Jump verifies a proof and takes it. After an error nothing has changed. ErrOld: the chain is beyond that.
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

// Proving returns what verifies a proof. That has thousands of signatures to check and needs nothing of the chain any more: it may run beside it.
func (c *Chain) Proving(p *EpochProof) (verify func() error, err error) {
	if err := c.isOld(p); err != nil {
		return nil, err
	}
	genesis, check := c.o.Genesis.Hash(), c.o.Verify
	producers, err := c.epochs.BlockProducersOrdered(primitives.EpochID(genesis))
	return func() error { return p.Verify(genesis, producers, check) }, err
}

// isOld says why a proof is of no use, without any fault of its sender: a neard early in its chain's fourth epoch sends one of a single epoch, which no
// neard takes either.
func (c *Chain) isOld(p *EpochProof) error {
	if len(p.Epochs) < 2 || p.Current.First.Height <= c.head.Header.Height {
		return fmt.Errorf("%w: a proof of %d epochs", ErrOld, len(p.Epochs))
	}
	return nil
}

// Take takes a proof that was verified: the head is the first block of its epoch then, and final.
func (c *Chain) Take(p *EpochProof) error {
	if err := c.isOld(p); err != nil {
		return err
	}
	s, err := p.Start()
	if err != nil {
		return err
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

// Start gathers what a proof that was found right begins with.
func (p *EpochProof) Start() (*Start, error) {
	cur, last := &p.Current, &p.Last
	known := map[primitives.Hash]primitives.Height{cur.Prev.Hash(): cur.Prev.Height, cur.PrevPrev.Hash(): cur.PrevPrev.Height}
	for _, e := range p.Epochs {
		known[e.Final.Hash()] = e.Final.Height
	}
	final, ok := known[cur.First.LastFinalBlock]
	if !ok {
		return nil, fmt.Errorf("%w: the final block before its first one is not there", ErrProof)
	}
	s := &Start{Before: last.First}
	info := epoch.BlockInfoFromHeader(cur.First, final)
	info.EpochID, info.EpochFirstBlock = cur.First.EpochID, info.Hash
	none := new(primitives.PartialMerkleTree) // nothing is added to these two any more
	s.Rows[0] = &Row{Header: cur.PrevPrev, Info: last.BeforeTheLast, Tree: none, Final: last.BeforeTheLast.LastFinalizedHeight}
	s.Rows[1] = &Row{Header: cur.Prev, Info: last.End, Tree: none, Final: last.End.LastFinalizedHeight}
	s.Rows[2] = &Row{Header: cur.First, Info: info, Tree: cur.Tree, Final: final}
	for i, id := range [...]primitives.EpochID{last.End.EpochID, cur.First.EpochID, cur.First.NextEpochID} {
		s.Epochs[i].ID, s.Epochs[i].Info = id, [...]*epoch.EpochInfo{last.Info, last.Next, last.NextNext}[i]
	}
	for _, r := range s.Rows {
		if r.Info.Hash != r.Header.Hash() || r.Info.Height != r.Header.Height {
			return nil, fmt.Errorf("%w: BlockInfo of %v beside header %v", ErrProof, r.Info.Hash, r.Header.Hash())
		}
	}
	return s, nil
}
