package mainnetpeer

import (
	"bufio"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// makeHeaders makes the headers after the proof, and the parts of the proof that depend on them.
func (c *Chain) makeHeaders() error {
	first := c.Proof.Current.First
	n, length := 2*int(c.o.EpochLength)+c.o.Extra, int(c.o.EpochLength)
	out := bufio.NewWriterSize(c.file, 1<<20)
	end, parent := int64(0), first
	var raw []byte
	var list []*primitives.BlockHeader // of the last blocks of the proof's last epoch
	c.index[first.Hash()], c.hashes = 0, append(c.hashes, first.Hash())
	for i := 1; i < n && c.o.Next == c.o.Version; i++ {
		h, err := c.child(parent, i == n-1)
		if err != nil {
			return fmt.Errorf("mainnetpeer: header %d of %d: %w", i, n, err)
		}
		if i >= length-3 && i < length {
			list = append(list, h)
		}
		raw = h.AppendBorsh(raw[:0])
		if _, err := out.Write(raw); err != nil {
			return err
		}
		end += int64(len(raw))
		c.ends, c.hashes, c.index[h.Hash()], parent = append(c.ends, end), append(c.hashes, h.Hash()), i, h
	}
	c.walk, c.rows = nil, nil
	if len(list) == 0 { // no header follows the proof
		return c.closeProof()
	}
	last := &c.Proof.Epochs[c.o.Epochs-1]
	last.Final = list[0]
	last.Endorsements = make([]primitives.Signature, len(last.Producers))
	copy(last.Endorsements, list[1].Approvals)
	var err error
	if c.Proof.Current.Path, err = primitives.BlockMerkleProof(leaves{c}, first.Hash(), list[0].Hash()); err != nil {
		return err
	}
	return out.Flush()
}

// closeProof fills the entry of the proof's last epoch with a header that is not on any chain.
func (c *Chain) closeProof() error {
	first := c.Proof.Current.First
	h := c.fields(first.Height+primitives.Height(c.o.EpochLength)-3, c.seed("parent"), len(first.ChunkMask))
	h.EpochID, h.NextEpochID, h.NextBPHash = first.EpochID, first.NextEpochID, first.NextBPHash
	tree := c.Proof.Current.Tree.Clone()
	tree.Insert(first.Hash())
	c.hashes = append(c.hashes, c.seed("parent"))
	h.BlockMerkleRoot = tree.Root()
	h.Init()
	last := &c.Proof.Epochs[c.o.Epochs-1]
	inner := primitives.ApprovalInner{Endorsement: h.Hash()}
	last.Final, last.Endorsements = h, c.votes(last.Producers, inner.SignedBytes(h.Height+1), 0)
	c.hashes[1] = h.Hash()
	var err error
	c.Proof.Current.Path, err = primitives.BlockMerkleProof(leaves{c}, first.Hash(), h.Hash())
	c.Head = c.HeadAt(h.Height + 1)
	return err
}

// HeadAt returns a block of the given height that is on no chain. A peer can only announce it.
func (c *Chain) HeadAt(height primitives.Height) *primitives.Block {
	b := &primitives.Block{Header: c.fields(height, c.seed("parent of a head"), len(c.Proof.Current.First.ChunkMask))}
	b.Header.EpochID, b.Header.BlockBodyHash = primitives.EpochID(c.seed("epoch of a head")), b.Body.Hash()
	b.Header.Init()
	return b
}

// child makes the next header. The header of the last block has a body.
func (c *Chain) child(parent *primitives.BlockHeader, last bool) (*primitives.BlockHeader, error) {
	m, p := c.walk.Epochs(), parent.Hash()
	at := parent.Height + 1
	h := c.fields(at, p, len(parent.ChunkMask))
	var version primitives.ProtocolVersion
	var by *primitives.ValidatorStake
	var approvers []epoch.ApprovalStake
	tree := c.walk.Head().Tree.Clone()
	tree.Insert(p)
	h.BlockMerkleRoot, h.BlockOrdinal = tree.Root(), tree.Size()+1
	h.LastDSFinalBlock, h.LastFinalBlock = chain.LastDSFinal(parent, at), chain.LastFinal(parent, at)
	h.NextBPHash = parent.NextBPHash
	for _, step := range []func() error{
		func() (err error) { h.EpochID, err = m.EpochIDFromPrev(p); return },
		func() (err error) { h.NextEpochID, err = m.NextEpochIDFromPrev(p); return },
		func() (err error) { h.EpochSyncDataHash, err = m.EpochSyncDataHash(p); return },
		func() (err error) { version, err = m.ProtocolVersion(h.EpochID); return },
		func() (err error) {
			if h.EpochID != parent.EpochID {
				h.NextBPHash, err = m.BlockProducersHash(h.NextEpochID)
			}
			return
		},
		func() (err error) { by, err = m.BlockProducer(h.EpochID, at); return },
		func() (err error) { approvers, err = m.BlockApprovers(p); return },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	h.LatestProtocolVersion = max(version, c.o.Version)
	inner := primitives.NewApprovalInner(p, parent.Height, at)
	list := make([]primitives.ValidatorStake, len(approvers))
	for i, a := range approvers {
		list[i].AccountID = a.AccountID
	}
	h.Approvals = c.votes(list, inner.SignedBytes(at), int(at))
	if last {
		if err := c.makeHead(h, m); err != nil {
			return nil, err
		}
	}
	hash := h.Init().Hash()
	h.Signature = c.key(by.AccountID).Sign(hash[:])
	_, err := c.walk.Add(h, false, 0)
	return h, err
}

// makeHead adds a body to the header of the last block.
func (c *Chain) makeHead(h *primitives.BlockHeader, m *epoch.Manager) error {
	layout, err := m.ShardLayout(h.EpochID)
	if err != nil {
		return err
	}
	c.Head = &primitives.Block{Header: h}
	y := &c.Head.Body
	for _, id := range layout.ShardIDs() {
		y.Chunks = append(y.Chunks, &primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{
			Version: primitives.ChunkInnerV5, PrevBlockHash: h.PrevHash, HeightCreated: h.Height, ShardID: id, GasLimit: c.config.GasLimit,
		}, HeightIncluded: h.Height, Signature: primitives.ZeroED25519Signature})
		y.ChunkEndorsements = append(y.ChunkEndorsements, nil)
	}
	r := chain.ComputeRoots(y.Chunks, h.Height)
	h.PrevStateRoot, h.PrevOutcomeRoot, h.PrevChunkOutgoingReceiptsRoot = r.PrevStateRoot, r.PrevOutcomeRoot, r.PrevOutgoingReceipts
	h.ChunkHeadersRoot, h.ChunkTxRoot, h.BlockBodyHash = r.ChunkHeaders, r.ChunkTx, y.Hash()
	h.RandomValue = primitives.HashBytes(y.VRFValue[:])
	return nil
}

// Len returns the number of headers after the first block of the proof's last epoch.
func (c *Chain) Len() int { return len(c.ends) }

// After returns up to n headers after the first known hash of a locator, and the number of headers
// before them. It returns none if no hash is known.
func (c *Chain) After(locator []primitives.Hash, n int) (out []*primitives.BlockHeader, from int, err error) {
	for _, hash := range locator {
		at, known := c.index[hash]
		if !known {
			continue
		}
		begin := int64(0)
		if at > 0 {
			begin = c.ends[at-1]
		}
		n = min(n, len(c.ends)-at)
		if n <= 0 {
			return nil, at, nil
		}
		raw := make([]byte, c.ends[at+n-1]-begin)
		if _, err := c.file.ReadAt(raw, begin); err != nil {
			return nil, at, err
		}
		r := borsh.NewReader(raw)
		for range n {
			h := new(primitives.BlockHeader)
			h.DecodeBorsh(r)
			out = append(out, h)
		}
		return out, at, r.Close()
	}
	return nil, 0, nil
}

// leaves is the source of BlockMerkleProof.
type leaves struct{ c *Chain }

func (s leaves) BlockMerkleTree(hash primitives.Hash) (*primitives.PartialMerkleTree, error) {
	t := s.c.Proof.Current.Tree.Clone()
	for _, x := range s.c.hashes {
		if x == hash {
			return t, nil
		}
		t.Insert(x)
	}
	return nil, fmt.Errorf("mainnetpeer: block %v is not on the chain", hash)
}

func (s leaves) BlockAtLeaf(leaf uint64) (primitives.Hash, error) {
	return s.c.hashes[leaf-s.c.Proof.Current.Tree.Size()], nil
}

// memory is the store of the headers that the chain is made of. It keeps whole only the last rows.
type memory struct {
	rows     map[primitives.Hash]*headerchain.Row
	recent   []*headerchain.Row
	infos    map[primitives.EpochID]*epoch.EpochInfo
	starts   map[primitives.EpochID]primitives.Height
	sums     map[primitives.EpochID]*epoch.EpochSummary
	earliest *epoch.BlockInfo
}

// wholeRows is the number of rows that are kept whole.
const wholeRows = 16

func newMemory() *memory {
	return &memory{rows: map[primitives.Hash]*headerchain.Row{}, infos: map[primitives.EpochID]*epoch.EpochInfo{},
		starts: map[primitives.EpochID]primitives.Height{}, sums: map[primitives.EpochID]*epoch.EpochSummary{}}
}

func (s *memory) Row(hash primitives.Hash) (*headerchain.Row, error) { return s.rows[hash], nil }

func (s *memory) BlockInfo(hash primitives.Hash) (*epoch.BlockInfo, error) {
	if r := s.rows[hash]; r != nil {
		return r.Info, nil
	}
	return nil, nil
}

func (s *memory) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) { return s.infos[id], nil }

func (s *memory) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, nil
}

func (s *memory) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	return s.sums[id], nil
}

func (s *memory) Aggregator() (*epoch.Aggregator, error) { return nil, nil } // the chain is made in one run

func (s *memory) Before() (*epoch.BlockInfo, error) { return s.earliest, nil }

func (s *memory) Put(r *headerchain.Row, changes *epoch.Changes, _ bool) error {
	s.rows[r.Info.Hash] = r
	if s.recent = append(s.recent, r); len(s.recent) > wholeRows {
		old := s.recent[0]
		s.recent = s.recent[1:]
		s.rows[old.Info.Hash] = &headerchain.Row{Info: old.Info}
	}
	if changes.EpochStart {
		s.starts[r.Info.EpochID] = r.Info.Height
	}
	if changes.NextNextEpoch != nil {
		s.infos[primitives.EpochID(r.Info.Hash)] = changes.NextNextEpoch
	}
	if changes.Summary != nil {
		s.sums[r.Info.EpochID] = changes.Summary
	}
	return nil
}

func (s *memory) Begin(b *headerchain.Start) error {
	for i, r := range b.Rows {
		if err := s.Put(r, &epoch.Changes{EpochStart: i == len(b.Rows)-1}, false); err != nil {
			return err
		}
	}
	for _, x := range b.Epochs {
		s.infos[x.ID] = x.Info
	}
	s.earliest, s.starts[b.Before.EpochID] = b.Before, b.Before.Height
	return nil
}
