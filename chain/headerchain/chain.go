package headerchain

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Chain.
const (
	// MaxEquivocating is the number of headers of one height that are stored. A further header of
	// that height is stored only if the caller has a child of the header, up to MaxNamed headers in
	// total.
	MaxEquivocating = 2
	MaxNamed        = 8
	// MaxUnfinal is the maximum number of stored headers above the final header.
	MaxUnfinal = 1 << 16
)

// Reasons why a header is not stored. The sender of the header is not at fault.
var (
	ErrKnown        = errors.New("header chain: the header is already known")
	ErrOrphan       = errors.New("header chain: the parent is unknown")
	ErrOld          = errors.New("header chain: the header does not descend from the final header, or the proof is not ahead of this node")
	ErrEquivocating = errors.New("header chain: the maximum of headers of this height is stored already")
	ErrFull         = errors.New("header chain: too many headers above the final one")
)

// ErrVersion means that a header or a proof leads to an epoch whose protocol version is above
// Options.Newest. This program cannot validate the headers of such an epoch. No peer is at fault:
// the operator must upgrade the program.
var ErrVersion = errors.New("header chain: the network's protocol is newer than this program")

// Options configure a Chain.
type Options struct {
	Genesis *primitives.BlockHeader
	Params  *epoch.GenesisParams
	Configs *epoch.Configs
	Store   Store
	Head    primitives.Hash // the head, if Store has rows; zero: start a new chain from Genesis
	// Floor is the first header in Store if Store started from an epoch sync proof. This header
	// counts as final. Floor is zero if Store started from the genesis.
	Floor Ref
	// MaxHeightJump is the largest number of heights that a header may be above the head; 0 means
	// no limit.
	MaxHeightJump primitives.Height
	// Newest is the newest protocol version whose headers can be validated. 0: any.
	Newest primitives.ProtocolVersion
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
}

// Ref identifies a header.
type Ref struct {
	Hash   primitives.Hash
	Height primitives.Height
}

// Added is the result of adding a header.
type Added struct {
	Row     *Row
	Changes epoch.Changes
	IsHead  bool
	Final   Ref // the final header after the addition
}

// Chain is a chain of validated headers. Not safe for concurrent use.
type Chain struct {
	o       Options
	epochs  *epoch.Manager
	head    *Row
	final   Ref
	heights map[primitives.Height][]primitives.Hash // hashes of the headers above the final header
	unfinal int
}

// New creates a chain that starts from the genesis, or resumes the chain in the store
// (Options.Head). In a resumed chain, headers that a previous Chain stored count against the bounds
// only if the headers are on the head's branch.
func New(o Options) (*Chain, error) {
	m, err := epoch.NewManager(o.Params, o.Configs, rows{o.Store})
	if err != nil {
		return nil, err
	}
	c := &Chain{o: o, epochs: m, heights: map[primitives.Height][]primitives.Hash{}}
	if !o.Head.IsZero() {
		return c, c.resume()
	}
	g := o.Genesis
	row := &Row{Header: g, Info: epoch.BlockInfoFromHeader(g, g.Height), Tree: new(primitives.PartialMerkleTree), Final: g.Height}
	changes, err := m.RecordBlockInfo(row.Info, primitives.Hash{})
	if err != nil {
		return nil, err
	}
	c.head, c.final = row, Ref{g.Hash(), g.Height}
	return c, o.Store.Put(row, &changes, true)
}

func (c *Chain) resume() (err error) {
	if c.head, err = c.row(c.o.Head); err != nil {
		return err
	}
	c.final = c.finalOf(c.head)
	if f := c.o.Floor; f.Height > 0 {
		c.epochs.StartAt(f.Height)
		if f.Height > c.final.Height {
			c.final = f
		}
	}
	for at := c.head; at.Header.Height > c.final.Height; {
		c.index(at.Header)
		if at, err = c.row(at.Header.PrevHash); err != nil {
			return err
		}
	}
	return nil
}

// row returns the row of a header. It returns ErrOrphan if the header is unknown.
func (c *Chain) row(hash primitives.Hash) (*Row, error) {
	r, err := c.o.Store.Row(hash)
	if err == nil && r == nil {
		err = fmt.Errorf("%w: %v", ErrOrphan, hash)
	}
	return r, err
}

// Head returns the highest header. Final returns the last final header of the head's branch.
func (c *Chain) Head() *Row { return c.head }
func (c *Chain) Final() Ref { return c.final }

// Epochs returns the epoch manager of the chain. The caller must not use the manager concurrently
// with the Chain.
func (c *Chain) Epochs() *epoch.Manager { return c.epochs }

// Add validates and stores a header. named says that the caller has a child of the header, for
// example in the same response. now is the time in ns since 1970. A header's timestamp must not
// exceed now by more than chain.AcceptableTimeDifference (nearcore chain/chain/src/chain.rs:876).
// If now is 0, the timestamp is not checked. On an error the Chain is unchanged.
func (c *Chain) Add(h *primitives.BlockHeader, named bool, now uint64) (a Added, err error) {
	hash := h.Hash()
	known, err := c.o.Store.Row(hash)
	if err != nil {
		return a, err
	}
	if known != nil {
		return a, ErrKnown
	}
	if h.Height <= c.final.Height {
		return a, ErrOld
	}
	parent, err := c.row(h.PrevHash)
	if err != nil {
		return a, err
	}
	if h.Height <= parent.Header.Height { // checked before the lookup of the header's producer
		return a, chain.InvalidBlockHeight
	}
	if err := c.checkDescends(parent); err != nil {
		return a, err
	}
	most := MaxEquivocating
	if named {
		most = MaxNamed
	}
	switch {
	case len(c.heights[h.Height]) >= most:
		return a, ErrEquivocating
	case c.unfinal >= MaxUnfinal:
		return a, ErrFull
	}
	j, tree, err := c.validationContext(h, parent)
	if err != nil {
		return a, err
	}
	j.Now = now
	if err := chain.ValidateHeader(h, j); err != nil {
		return a, err
	}
	return c.keep(h, parent, tree)
}

// keep stores a validated header.
func (c *Chain) keep(h *primitives.BlockHeader, parent *Row, tree *primitives.PartialMerkleTree) (a Added, err error) {
	final, err := c.finalHeight(h, parent)
	if err != nil {
		return a, err
	}
	a.Row = &Row{Header: h, Info: epoch.BlockInfoFromHeader(h, final), Tree: tree, Final: final}
	if a.Changes, err = c.epochs.RecordBlockInfo(a.Row.Info, h.RandomValue); err != nil {
		return Added{}, err
	}
	a.IsHead = h.Height > c.head.Header.Height
	if err := c.o.Store.Put(a.Row, &a.Changes, a.IsHead); err != nil {
		c.epochs.Forget(&a.Changes)
		return Added{}, err
	}
	c.index(h)
	if a.IsHead {
		c.head = a.Row
		if f := c.finalOf(a.Row); f.Height > c.final.Height {
			c.final = f
			c.prune()
		}
	}
	a.Final = c.final
	return a, nil
}

func (c *Chain) index(h *primitives.BlockHeader) {
	c.heights[h.Height] = append(c.heights[h.Height], h.Hash())
	c.unfinal++
}

// prune stops counting the heights at or below the final header against the bounds.
func (c *Chain) prune() {
	for height, list := range c.heights {
		if height <= c.final.Height {
			c.unfinal -= len(list)
			delete(c.heights, height)
		}
	}
}

// checkDescends returns ErrOld unless a header is the final header or descends from the final
// header.
func (c *Chain) checkDescends(at *Row) (err error) {
	if at == c.head {
		return nil
	}
	for at.Header.Height > c.final.Height {
		if at, err = c.row(at.Header.PrevHash); err != nil {
			return err
		}
	}
	if at.Header.Hash() != c.final.Hash {
		return ErrOld
	}
	return nil
}

// finalOf returns the last final header on the branch of a header.
func (c *Chain) finalOf(r *Row) Ref {
	if r.Header.LastFinalBlock.IsZero() {
		return Ref{c.o.Genesis.Hash(), c.o.Genesis.Height}
	}
	return Ref{r.Header.LastFinalBlock, r.Final}
}

func (c *Chain) finalHeight(h *primitives.BlockHeader, parent *Row) (primitives.Height, error) {
	switch h.LastFinalBlock {
	case primitives.Hash{}:
		return c.o.Genesis.Height, nil
	case parent.Header.LastFinalBlock:
		return parent.Final, nil
	}
	r, err := c.row(h.LastFinalBlock)
	if err != nil {
		return 0, err
	}
	return r.Header.Height, nil
}

// checkVersion returns ErrVersion if the version of an epoch is above Options.Newest.
func (c *Chain) checkVersion(id primitives.EpochID, v primitives.ProtocolVersion) error {
	if c.o.Newest == 0 || v <= c.o.Newest {
		return nil
	}
	return fmt.Errorf("%w: epoch %v has version %d, this program runs versions up to %d: install a newer release",
		ErrVersion, id, v, c.o.Newest)
}

// validationContext returns the data for ValidateHeader, and the block Merkle tree up to the
// parent.
func (c *Chain) validationContext(h *primitives.BlockHeader, parent *Row) (*chain.ValidationContext, *primitives.PartialMerkleTree, error) {
	m, p := c.epochs, h.PrevHash
	j := &chain.ValidationContext{Parent: parent.Header, Verify: c.o.Verify}
	steps := []func() error{
		func() (err error) { j.EpochID, err = m.EpochIDFromPrev(p); return },
		func() (err error) { j.NextEpochID, err = m.NextEpochIDFromPrev(p); return },
		func() (err error) { j.EpochSyncDataHash, err = m.EpochSyncDataHash(p); return },
		func() (err error) {
			if j.Version, err = m.ProtocolVersion(j.EpochID); err == nil {
				err = c.checkVersion(j.EpochID, j.Version)
			}
			return
		},
		func() (err error) {
			if j.NextBPHash = parent.Header.NextBPHash; j.EpochID != parent.Header.EpochID {
				j.NextBPHash, err = m.BlockProducersHash(j.NextEpochID)
			}
			return
		},
		func() (err error) {
			v, err := m.BlockProducer(j.EpochID, h.Height)
			if err == nil {
				j.Producer = v.PublicKey
			}
			return
		},
		func() (err error) {
			stakes, err := m.BlockApprovers(p)
			for _, s := range stakes {
				j.Approvers = append(j.Approvers, chain.Approver{AccountID: s.AccountID, PublicKey: s.PublicKey,
					StakeThis: s.StakeThisEpoch, StakeNext: s.StakeNextEpoch})
			}
			return
		},
		func() (err error) {
			layout, err := m.ShardLayout(j.EpochID)
			if err != nil {
				return err
			}
			j.ShardIDs = layout.ShardIDs()
			return nil
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, nil, fmt.Errorf("header chain: header of height %d on parent %v: %w", h.Height, p, err)
		}
	}
	if c.o.MaxHeightJump > 0 {
		j.MaxHeight = c.head.Header.Height + c.o.MaxHeightJump
	}
	tree := parent.Tree.Clone()
	tree.Insert(p)
	j.BlockMerkleRoot, j.BlockOrdinal = tree.Root(), tree.Size()+1
	return j, tree, nil
}
