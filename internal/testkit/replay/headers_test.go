package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// headerRows is a store of headers that keeps encodings, so that rows are decoded when they are
// read.
type headerRows struct {
	rows    map[primitives.Hash][]byte
	infos   map[primitives.EpochID][]byte
	sums    map[primitives.EpochID][]byte
	starts  map[primitives.EpochID]primitives.Height
	head    primitives.Hash
	before  []byte
	refuses error
}

func newHeaderRows() *headerRows {
	return &headerRows{rows: map[primitives.Hash][]byte{}, infos: map[primitives.EpochID][]byte{}, sums: map[primitives.EpochID][]byte{},
		starts: map[primitives.EpochID]primitives.Height{}}
}

func read[T any, P interface {
	*T
	borsh.Decoder
}](from map[primitives.Hash][]byte, key primitives.Hash) (P, error) {
	raw, ok := from[key]
	if !ok {
		return nil, nil
	}
	v := P(new(T))
	return v, borsh.Unmarshal(raw, v)
}

func (s *headerRows) Row(h primitives.Hash) (*headerchain.Row, error) {
	return read[headerchain.Row](s.rows, h)
}
func (s *headerRows) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	return read[epoch.EpochInfo](s.infos, id)
}
func (s *headerRows) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	return read[epoch.EpochSummary](s.sums, id)
}
func (s *headerRows) Aggregator() (*epoch.Aggregator, error) { return nil, nil }
func (s *headerRows) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	h, ok := s.starts[id]
	return h, ok, nil
}

func (s *headerRows) Put(r *headerchain.Row, c *epoch.Changes, head bool) error {
	if s.refuses != nil {
		return s.refuses
	}
	s.rows[r.Info.Hash] = r.AppendBorsh(nil)
	if c.EpochStart {
		s.starts[c.BlockInfo.EpochID] = c.BlockInfo.Height
	}
	if c.NextNextEpoch != nil {
		s.infos[c.BlockInfo.Hash] = c.NextNextEpoch.AppendBorsh(nil)
	}
	if c.Summary != nil {
		s.sums[c.BlockInfo.EpochID] = c.Summary.AppendBorsh(nil)
	}
	if head {
		s.head = r.Info.Hash
	}
	return nil
}

func (s *headerRows) Begin(b *headerchain.Start) error {
	if s.refuses != nil {
		return s.refuses
	}
	for _, r := range b.Rows {
		s.rows[r.Info.Hash] = r.AppendBorsh(nil)
		s.head = r.Info.Hash
		s.starts[r.Info.EpochID] = r.Info.Height // the last one's is that
	}
	s.starts[b.Before.EpochID] = b.Before.Height
	s.before = b.Before.AppendBorsh(nil)
	for _, x := range b.Epochs {
		s.infos[x.ID] = x.Info.AppendBorsh(nil)
	}
	return nil
}

func (s *headerRows) Before() (*epoch.BlockInfo, error) {
	if s.before == nil {
		return nil, nil
	}
	b := new(epoch.BlockInfo)
	return b, borsh.Unmarshal(s.before, b)
}

// headerChain follows a replay by the headers.
type headerChain struct {
	*headerchain.Chain
	store  *headerRows
	random *rand.Rand
	bad    int // headers that were refused
}

func (c *headerChain) open(r *runner) (err error) {
	c.Chain, err = headerchain.New(headerchain.Options{Genesis: r.e.Genesis().Header(), Params: r.chain.Params, Configs: r.chain.Configs,
		Store: c.store, Head: c.store.head, MaxHeightJump: 1000,
		Verify: func(s primitives.Signature, data []byte, key primitives.PublicKey) bool { return s.Verify(data, key) }})
	return err
}

// follow adds the header of a replayed block and compares the results with the engine's.
func (c *headerChain) follow(r *runner, entry *engine.BlockNode) error {
	h := entry.Header()
	if err := c.spoil(r, h); err != nil {
		return err
	}
	a, err := c.Add(h, false, 0)
	if err != nil {
		return fmt.Errorf("header %d: %w", h.Height, err)
	}
	if _, err := c.Add(h, false, 0); !errors.Is(err, headerchain.ErrKnown) {
		return fmt.Errorf("header %d again: %v", h.Height, err)
	}
	where := fmt.Sprintf("header %d", h.Height)
	if !bytes.Equal(a.Row.Tree.AppendBorsh(nil), entry.Tree.AppendBorsh(nil)) {
		r.differs(where, "another Merkle tree", "that of the block")
	}
	if tip := r.e.Tip(); c.Head().Info.Hash != tip.Hash || c.Final().Hash != r.e.TipFinal().Hash || a.IsHead != (tip == entry) {
		r.differs(where, fmt.Sprint(c.Head().Info.Height, c.Final()), fmt.Sprint(tip.Height(), r.e.TipFinal()))
	}
	return r.e.Epochs(func(m *epoch.Manager) error {
		info, err := m.BlockInfo(entry.Hash)
		if err != nil {
			return err
		}
		if !bytes.Equal(info.AppendBorsh(nil), a.Row.Info.AppendBorsh(nil)) {
			r.differs(where, fmt.Sprintf("%+v", *a.Row.Info), fmt.Sprintf("%+v", *info))
		}
		if a.Changes.NextNextEpoch == nil {
			return nil
		}
		want, err := m.EpochInfo(entry.Hash)
		if err != nil {
			return err
		}
		if !bytes.Equal(want.AppendBorsh(nil), a.Changes.NextNextEpoch.AppendBorsh(nil)) {
			r.differs(where, "another epoch after the next", "that of the block")
		}
		return nil
	})
}

// spoil adds a header with one wrong field, signed by its producer: it is refused, and nothing has
// changed.
func (c *headerChain) spoil(r *runner, h *primitives.BlockHeader) error {
	wrong := []struct {
		want   error
		change func(*primitives.BlockHeader)
	}{
		{chain.InvalidHeaderVersion, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV5 - 1 }},
		{headerchain.ErrOrphan, func(h *primitives.BlockHeader) { h.PrevHash = primitives.Hash{9} }},
		{chain.InvalidEpochHash, func(h *primitives.BlockHeader) { h.NextEpochID = primitives.Hash{9} }},
		{chain.InvalidNextBPHash, func(h *primitives.BlockHeader) { h.NextBPHash = primitives.Hash{9} }},
		{chain.InvalidBlockPastTime, func(h *primitives.BlockHeader) { h.Timestamp = 1 }},
		{chain.InvalidPrevHeight, func(h *primitives.BlockHeader) { h.PrevHeight-- }},
		{chain.InvalidNumberOfChunkHeaders, func(h *primitives.BlockHeader) { h.ChunkMask = append(h.ChunkMask, true) }},
		{chain.InvalidBlockMerkleRoot, func(h *primitives.BlockHeader) { h.BlockMerkleRoot = primitives.Hash{9} }},
		{chain.InvalidBlockOrdinal, func(h *primitives.BlockHeader) { h.BlockOrdinal++ }},
		{chain.InvalidFinalityInfo, func(h *primitives.BlockHeader) { h.LastFinalBlock = h.PrevHash }},
		{chain.InvalidProtocolVersion, func(h *primitives.BlockHeader) { h.LatestProtocolVersion = 1 }},
		{chain.NotEnoughApprovals, func(h *primitives.BlockHeader) { h.Approvals = nil }},
		{chain.InvalidEndorsementBitmap, func(h *primitives.BlockHeader) { h.ChunkEndorsements = nil }},
		{chain.InvalidEpochSyncDataHash, func(h *primitives.BlockHeader) {
			if x := (primitives.Hash{9}); h.EpochSyncDataHash == nil {
				h.EpochSyncDataHash = &x
			} else {
				h.EpochSyncDataHash = nil
			}
		}},
		{chain.InvalidBlockHeight, func(h *primitives.BlockHeader) { h.Height = h.PrevHeight }},
	}
	x := wrong[c.random.IntN(len(wrong))]
	changed := *h
	x.change(&changed)
	producer, err := r.e.BlockProducer(h.PrevHash, changed.Height)
	if err != nil {
		return err
	}
	b := &primitives.Block{Header: changed.Init()}
	chain.SignBlock(b, r.keys[producer.AccountID])
	before := *c.Chain
	if _, err := c.Add(b.Header, true, 0); !errors.Is(err, x.want) && !errors.Is(err, headerchain.ErrOld) {
		return fmt.Errorf("a header of height %d that is to give %v: %v", h.Height, x.want, err)
	}
	forged := *h
	forged.Signature = primitives.ZeroED25519Signature
	if _, err := c.Add(&forged, true, 0); !errors.Is(err, chain.InvalidSignature) {
		return fmt.Errorf("unsigned header of height %d: %v", h.Height, err)
	}
	c.store.refuses = errors.New("full")
	_, err = c.Add(h, true, 0)
	if full := c.store.refuses; !errors.Is(err, full) {
		return fmt.Errorf("header %d on a full disk: %v", h.Height, err)
	}
	c.store.refuses = nil
	if c.Head() != before.Head() || c.Final() != before.Final() {
		return fmt.Errorf("the refused message at height %d changed the chain", h.Height)
	}
	c.bad += 3
	return nil
}

// TestHeaderChainEqualsEngine: from the headers of every recorded chain alone, with forks, restarts
// and invalid headers in between, the header chain computes the same Merkle trees, BlockInfos,
// epochs, heads and final blocks as the engine from the blocks.
func TestHeaderChainEqualsEngine(t *testing.T) {
	seed := rand.Uint64()
	for _, name := range chains("four", "storm") {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			reaching(t, seed, func(seed uint64) bool {
				random := rand.New(rand.NewPCG(seed, 4))
				c := &headerChain{store: newHeaderRows(), random: random}
				border, forks, forked := atBorders(rec), 0, primitives.Height(0)
				last := rec.Blocks[len(rec.Blocks)-1].Given.Header.Height
				report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: func(r *runner, b *primitives.Block, _ []*primitives.Chunk) error {
					if c.Chain == nil || border(b.Header.Height) {
						if err := c.open(r); err != nil {
							return err
						}
					}
					entry := r.e.Imported(b.Hash())
					if err := c.follow(r, entry); err != nil {
						return err
					}
					if height := b.Header.Height + 2; height > forked && height+20 < last && random.IntN(8) == 0 {
						fork, chunks, err := r.fork(entry, height, random)
						if err != nil {
							return err
						}
						a, err := r.e.Process(fork, chunks, false)
						if err != nil {
							return err
						}
						forks, forked = forks+1, height
						return c.follow(r, a.Entry)
					}
					return nil
				}})
				for _, d := range report.Findings {
					t.Errorf("difference %v", d)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d headers and %d of forks, %d refused, %d epochs", report.Blocks, forks, c.bad, len(c.store.infos))
				return forks > 0 && len(c.store.infos) >= 2
			})
		})
	}
}
