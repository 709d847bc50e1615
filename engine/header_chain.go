package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// HeaderChain is the part of the chain of validated headers that is above the imported blocks. Only
// headers above the flat head have rows of their own. For a block at or below the flat head, the
// HeaderChain reads the engine's block record. Exported methods are safe for concurrent use.
type HeaderChain struct {
	store  *storage.Store
	spec   *ChainSpec
	blocks headerBlocks
	epochs epoch.Store // of the blocks
	// The following fields are options of the engine: Verify, Now and MaxHeightJump.
	verify        func(primitives.Signature, []byte, primitives.PublicKey) bool
	now           func() uint64 // nil: no limit of a header's time
	maxHeightJump primitives.Height

	adding    sync.Mutex // held while Add or Jump runs; locked before mu
	mu        sync.Mutex // locked after epochMu, for the time of one header at most
	chain     *headerchain.Chain
	rows      *headerRows
	busy      bool // Add has rows that it has not written yet
	offBranch bool // the highest header on disk is on a branch that does not extend the imported blocks

	// jumps is the number of successful Jumps, and joined is 1 more than what jumps was when the headers
	// last proved not to be apart from the imported blocks; 0: never yet.
	jumps, joined atomic.Uint64
	refused       atomic.Pointer[refusedProof] // the last proof for which Jump returned ErrVersion; nil: none
}

// headerBlocks is what HeaderChain reads of the engine. All methods are safe for concurrent use.
type headerBlocks interface {
	Genesis() *BlockNode
	Head() *BlockNode
	Tip() *BlockNode
	Imported(primitives.Hash) *BlockNode
	BlockNode(primitives.Hash) *BlockNode
	wantsShard(*epoch.Manager, primitives.EpochID, primitives.Hash, primitives.ShardLayout, primitives.ShardID) (bool, error)
}

func newHeaderChain(e *Engine) *HeaderChain {
	return &HeaderChain{
		store: e.store, spec: e.chain, blocks: e, epochs: epochStore{e},
		verify: e.verify, now: e.o.Now, maxHeightJump: e.o.MaxHeightJump,
	}
}

// HeaderChain returns the verified headers above the imported blocks.
func (e *Engine) HeaderChain() *HeaderChain { return e.headerChain }

// Names of the header chain's cells in the store.
const (
	headersHead  = "head"  // hash of the highest header
	headersFloor = "floor" // hash of the first header after an epoch sync proof
	headersFirst = "first" // BlockInfo, from that proof, of the first block of the epoch before that header
	headersProof = "proof" // the epoch sync proof
)

// pruneHeaders bounds the number of headers at or below the flat head that one Add removes.
const pruneHeaders = 4096

// Add validates headers and adds them to the header chain. list is one peer's response, parents
// first. Add skips known headers and stops at the first bad header. The error is one of package
// chain/headerchain or chain; chain.Invalid means that the sender is at fault. taken is the number
// of headers that Add accepted. These headers are on disk when Add returns. Safe for concurrent
// use.
func (l *HeaderChain) Add(list []*primitives.BlockHeader) (taken int, err error) {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ensure(); err != nil {
		return 0, err
	}
	l.busy = true
	defer func() { l.busy = false }()
	for i, h := range list {
		named := i+1 < len(list) && list[i+1].PrevHash == h.Hash()
		var now uint64
		if l.now != nil {
			now = l.now()
		}
		_, aerr := l.chain.Add(h, named, now)
		if errors.Is(aerr, headerchain.ErrKnown) {
			continue
		}
		if aerr != nil {
			err = fmt.Errorf("engine: header of height %d: %w", h.Height, aerr)
			break
		}
		taken++
		l.mu.Unlock() // between two headers, a waiting Precheck can lock mu
		l.mu.Lock()
	}
	if taken == 0 {
		return 0, err
	}
	err = errors.Join(err, l.rows.prune(l.store.Tip().FlatHead.Height))
	l.mu.Unlock() // safe, because no other goroutine writes the batch while adding is locked
	ferr := l.store.PutHeaders(&l.rows.batch)
	l.mu.Lock()
	l.rows.reset()
	if ferr != nil {
		l.chain = nil // rows on disk are missing, so the next call opens the header chain again
		return 0, ferr
	}
	return taken, err
}

// Jump restarts the header chain at the first block of the epoch that an epoch sync proof leads to
// (nearcore's epoch sync). That block may be far above the imported blocks. Jump returns
// headerchain.ErrProof if the proof is wrong: the proof's sender is at fault. In two cases the
// sender is not at fault: headerchain.ErrOld means that the node already knows headers after that
// block, and headerchain.ErrVersion means that the proof leads to a protocol version that this
// program does not support. Safe for concurrent use.
func (l *HeaderChain) Jump(p *headerchain.EpochProof) error {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.ensure()
	if err != nil {
		return err
	}
	verify, err := l.chain.Proving(p)
	if err == nil {
		l.mu.Unlock() // a Precheck need not wait until the signatures of the proof are verified
		err = verify()
		l.mu.Lock()
	}
	if err == nil {
		err = l.ensure() // called again, because blocks may have been imported meanwhile
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer l.rows.reset()
	if err := l.chain.Take(p); err != nil {
		if errors.Is(err, headerchain.ErrVersion) {
			l.refused.Store(l.refusedProof(p))
		}
		return fmt.Errorf("engine: %w", err)
	}
	raw := storage.Raw(p.AppendBorsh(nil))
	storage.HeaderCell.Put(&l.rows.batch, headersProof, &raw)
	if err := l.store.PutHeaders(&l.rows.batch); err != nil {
		l.chain = nil
		return err
	}
	l.refused.Store(nil)
	l.jumps.Add(1)
	return nil
}

// Proof returns the proof of the last Jump, or nil if there was none.
func (l *HeaderChain) Proof() (*headerchain.EpochProof, error) {
	raw, err := storage.HeaderCell.Get(l.store.Reader(), headersProof)
	if err != nil {
		return nil, absent(err)
	}
	p := new(headerchain.EpochProof)
	return p, borsh.Unmarshal(raw, p)
}

// IsApart returns whether there is a gap between the imported blocks and the headers, because
// the headers start at an epoch sync proof above the tip.
func (l *HeaderChain) IsApart() (bool, error) {
	raw, err := storage.HeaderCell.Get(l.store.Reader(), headersFloor)
	if err != nil || len(raw) != len(primitives.Hash{}) {
		return false, absent(err)
	}
	height, err := l.heightOf(primitives.Hash(raw))
	return height > l.blocks.Tip().Height(), err
}

// refusedProof is where an epoch sync proof leads to a protocol version that this program does not
// support.
type refusedProof struct {
	version primitives.ProtocolVersion
	start   primitives.Height // of the first epoch with that version; planned, if the proof ends before
}

// refusedProof returns where a verified proof leads to an unsupported version, or nil.
func (l *HeaderChain) refusedProof(p *headerchain.EpochProof) *refusedProof {
	newest := parameters.Newest(l.spec.Version.Numbering)
	last, cur := &p.Last, p.Current.First
	after := cur.Height + primitives.Height(l.spec.Configs.ForVersion(last.Next.ProtocolVersion).EpochLength)
	for _, r := range [...]refusedProof{
		{last.Info.ProtocolVersion, last.First.Height}, {last.Next.ProtocolVersion, cur.Height},
		{last.NextNext.ProtocolVersion, after},
	} {
		if r.version > newest {
			return &r
		}
	}
	return nil
}

// upgradeApart returns the state of protocol upgrades at the highest header, if the headers are apart
// from the imported blocks. It costs next to nothing otherwise.
func (l *HeaderChain) upgradeApart() (s UpgradeState, apart bool, err error) {
	jumps := l.jumps.Load()
	if l.joined.Load() == jumps+1 {
		return s, false, nil
	}
	if apart, err = l.IsApart(); err != nil || !apart {
		if err == nil {
			l.joined.Store(jumps + 1) // only a Jump separates them again
		}
		return s, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ensure(); err != nil {
		return s, true, err
	}
	s, err = upgradeStateAt(l.chain.Head().Header, l.chain.Epochs(), parameters.Newest(l.spec.Version.Numbering))
	return s, true, err
}

// Head returns the highest validated header, or the head if no header is above it.
func (l *HeaderChain) Head() (storage.BlockRef, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// If the head is above all headers, as always on a block producer, do not reopen the header
	// chain.
	if tip := l.blocks.Head(); l.overtaken(tip) {
		return storage.BlockRef{Height: tip.Height(), Hash: tip.Hash}, nil
	}
	if err := l.ensure(); err != nil {
		return storage.BlockRef{}, err
	}
	h := l.chain.Head().Info
	return storage.BlockRef{Height: h.Height, Hash: h.Hash}, nil
}

// Path returns the headers above the imported blocks up to the highest header, ascending by
// height. The parent of the first header is an imported block. The result is empty if no header is
// above the imported blocks. The cost is proportional to the number of headers.
func (l *HeaderChain) Path() (out []storage.BlockRef, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ensure(); err != nil {
		return nil, err
	}
	at := l.chain.Head()
	folded := l.store.Tip().FlatHead.Height
	for at != nil && at.Info.Height > folded && l.blocks.Imported(at.Info.Hash) == nil {
		out = append(out, storage.BlockRef{Height: at.Info.Height, Hash: at.Info.Hash})
		if at, err = l.rows.Row(at.Info.PrevHash); err != nil {
			return nil, err
		}
	}
	slices.Reverse(out)
	return out, nil
}

// overtaken returns whether the head is above the highest header. The caller holds mu.
func (l *HeaderChain) overtaken(tip *BlockNode) bool {
	return l.chain != nil && !l.busy && !l.offBranch && l.chain.Head().Info.Height < tip.Height()
}

// ensure opens the header chain if it is not open. If the head is above the highest header, ensure
// opens the header chain again. The caller holds mu.
func (l *HeaderChain) ensure() error {
	tip := l.blocks.Head()
	if l.chain != nil && (l.busy || l.chain.Head().Info.Height >= tip.Height()) {
		return nil
	}
	l.rows = l.newRows()
	l.rows.reset() // initialises the maps
	head := tip.Hash
	if raw, err := storage.HeaderCell.Get(l.store.Reader(), headersHead); err == nil && len(raw) == len(head) {
		if r, err := l.rows.Row(primitives.Hash(raw)); err != nil {
			return err
		} else if r != nil && r.Info.Height > tip.Height() {
			head = primitives.Hash(raw)
		}
	} else if absent(err) != nil {
		return err
	}
	var err error
	l.offBranch = false
	// If the highest header is on an abandoned branch, continue from the tip.
	if l.chain, err = l.open(head); errors.Is(err, headerchain.ErrOrphan) && head != tip.Hash {
		l.offBranch = true
		l.chain, err = l.open(tip.Hash)
	}
	return err
}

func (l *HeaderChain) open(head primitives.Hash) (*headerchain.Chain, error) {
	o := headerchain.Options{
		Genesis:       l.blocks.Genesis().Header(),
		Params:        l.spec.Params,
		Configs:       l.spec.Configs,
		Store:         l.rows,
		Head:          head,
		Verify:        l.verify,
		MaxHeightJump: l.maxHeightJump,
		Newest:        parameters.Newest(l.spec.Version.Numbering),
	}
	raw, err := storage.HeaderCell.Get(l.store.Reader(), headersFloor)
	if absent(err) != nil {
		return nil, err
	}
	if err == nil && len(raw) == len(head) {
		height, err := l.heightOf(primitives.Hash(raw))
		if err != nil {
			return nil, err
		}
		if height > 0 { // 0: the row was removed, because the imported blocks are above this header
			o.Floor = headerchain.Ref{Hash: primitives.Hash(raw), Height: height}
		}
	}
	return headerchain.New(o)
}

// epochsOf returns the header chain's epoch manager if it knows epoch id and the header with
// hash id is above the flat head. Otherwise it returns nil. The caller holds mu.
func (l *HeaderChain) epochsOf(id primitives.EpochID) (*epoch.Manager, error) {
	_, err := storage.HeaderEpochInfo.Get(l.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	ref, err := l.heightOf(primitives.Hash(id))
	if err != nil || ref <= l.store.Tip().FlatHead.Height { // if the epoch is over, BeginImport checks the block
		return nil, err
	}
	if err := l.ensure(); err != nil {
		return nil, err
	}
	return l.chain.Epochs(), nil
}

// heightOf returns the height of a header on disk, or 0 if the header has no row.
func (l *HeaderChain) heightOf(hash primitives.Hash) (primitives.Height, error) {
	raw, err := storage.HeaderRow.Get(l.store.Reader(), hash)
	if err != nil {
		return 0, absent(err)
	}
	r := new(headerchain.Row)
	if err := borsh.Unmarshal(raw, r); err != nil {
		return 0, err
	}
	return r.Info.Height, nil
}

// headerRows implements the header chain's store. A headerRows looks for a row in the unwritten
// batch first, then among the header rows on disk, then among the engine's block records.
type headerRows struct {
	store  *storage.Store
	start  primitives.Height // height of the genesis
	blocks headerBlocks
	epochs epoch.Store
	batch  storage.Batch
	new    map[primitives.Hash]*headerchain.Row
	infos  map[primitives.EpochID]*epoch.EpochInfo
	sums   map[primitives.EpochID]*epoch.EpochSummary
	first  map[primitives.EpochID]primitives.Height
}

func (l *HeaderChain) newRows() *headerRows {
	return &headerRows{store: l.store, start: l.spec.Height, blocks: l.blocks, epochs: l.epochs}
}

func (s *headerRows) reset() {
	s.batch.Reset()
	s.new, s.infos = map[primitives.Hash]*headerchain.Row{}, map[primitives.EpochID]*epoch.EpochInfo{}
	s.sums, s.first = map[primitives.EpochID]*epoch.EpochSummary{}, map[primitives.EpochID]primitives.Height{}
}

// Put adds to the batch a header and the changes that the header makes to the epoch data. head
// means that this header is the highest.
func (s *headerRows) Put(r *headerchain.Row, c *epoch.Changes, head bool) error {
	ref := storage.BlockRef{Height: r.Info.Height, Hash: r.Info.Hash}
	raw := storage.Raw(r.AppendBorsh(nil))
	storage.HeaderRow.Put(&s.batch, ref.Hash, &raw)
	s.new[ref.Hash] = r
	with := storage.Raw(append(make([]byte, 0, len(r.Info.EpochID)), r.Info.EpochID[:]...))
	storage.HeaderHeight.Put(&s.batch, ref, &with)
	if c.EpochStart {
		h := storage.Uint64(ref.Height)
		storage.HeaderEpochStart.Put(&s.batch, r.Info.EpochID, &h)
		s.first[r.Info.EpochID] = ref.Height
	}
	if c.NextNextEpoch != nil {
		raw := storage.Raw(c.NextNextEpoch.AppendBorsh(nil))
		storage.HeaderEpochInfo.Put(&s.batch, ref.Hash, &raw)
		s.infos[ref.Hash] = c.NextNextEpoch
	}
	if c.Summary != nil {
		raw := storage.Raw(c.Summary.AppendBorsh(nil))
		storage.HeaderEpochSummary.Put(&s.batch, r.Info.EpochID, &raw)
		s.sums[r.Info.EpochID] = c.Summary
	}
	if head {
		raw := storage.Raw(append([]byte{}, ref.Hash[:]...))
		storage.HeaderCell.Put(&s.batch, headersHead, &raw)
	}
	return nil
}

// Begin adds the headers and epochs of an epoch sync proof to the batch.
func (s *headerRows) Begin(b *headerchain.Start) error {
	head := b.Rows[len(b.Rows)-1]
	for _, r := range b.Rows {
		c := &epoch.Changes{BlockInfo: r.Info, EpochStart: r == head}
		if err := s.Put(r, c, r == head); err != nil {
			return err
		}
	}
	for _, x := range b.Epochs {
		raw := storage.Raw(x.Info.AppendBorsh(nil))
		storage.HeaderEpochInfo.Put(&s.batch, x.ID, &raw)
		s.infos[x.ID] = x.Info
	}
	at, before := storage.Uint64(b.Before.Height), storage.Raw(b.Before.AppendBorsh(nil))
	storage.HeaderEpochStart.Put(&s.batch, b.Before.EpochID, &at)
	storage.HeaderCell.Put(&s.batch, headersFirst, &before)
	s.first[b.Before.EpochID] = b.Before.Height
	raw := storage.Raw(append([]byte{}, head.Info.Hash[:]...))
	storage.HeaderCell.Put(&s.batch, headersFloor, &raw)
	return nil
}

// Before returns the BlockInfo of the first block of the epoch that precedes the first header. The
// BlockInfo comes from the epoch sync proof. Nil: no proof was used.
func (s *headerRows) Before() (*epoch.BlockInfo, error) {
	raw, err := storage.HeaderCell.Get(s.store.Reader(), headersFirst)
	if err != nil {
		return nil, absent(err)
	}
	b := new(epoch.BlockInfo)
	return b, borsh.Unmarshal(raw, b)
}

// prune adds to the batch the removal of at most pruneHeaders headers up to a height. These headers
// are no longer needed: their blocks are imported, or the headers are on an abandoned branch.
func (s *headerRows) prune(height primitives.Height) error {
	n, seen := 0, map[string]bool{}
	var failed error
	err := s.store.HeadersUpTo(height, func(ref storage.BlockRef, id storage.Raw) bool {
		storage.HeaderRow.Delete(&s.batch, ref.Hash)
		storage.HeaderHeight.Delete(&s.batch, ref)
		storage.HeaderEpochInfo.Delete(&s.batch, ref.Hash)
		if id := string(id); len(id) == len(primitives.EpochID{}) && !seen[id] { // once per epoch
			seen[id] = true
			if id := primitives.EpochID([]byte(id)); s.begun(id, height, &failed) {
				storage.HeaderEpochStart.Delete(&s.batch, id)
				storage.HeaderEpochSummary.Delete(&s.batch, id)
			}
		}
		n++
		return n < pruneHeaders && failed == nil
	})
	return errors.Join(err, failed)
}

// begun returns whether the epoch data of id can be removed: the epoch's stored start is at or
// below height, or no start is stored. If the epoch starts above height on another branch, the
// stored start is the start on that other branch, and begun returns false.
func (s *headerRows) begun(id primitives.EpochID, height primitives.Height, failed *error) bool {
	if at, ok := s.first[id]; ok {
		return at <= height
	}
	at, err := storage.HeaderEpochStart.Get(s.store.Reader(), id)
	if *failed = absent(err); *failed != nil {
		return false
	}
	return err != nil || primitives.Height(at) <= height
}

// Row returns the row of a header; nil: the header is unknown.
func (s *headerRows) Row(hash primitives.Hash) (*headerchain.Row, error) {
	if r := s.new[hash]; r != nil {
		return r, nil
	}
	raw, err := storage.HeaderRow.Get(s.store.Reader(), hash)
	if err == nil {
		r := new(headerchain.Row)
		return r, borsh.Unmarshal(raw, r)
	}
	if absent(err) != nil {
		return nil, err
	}
	return s.ofBlock(hash)
}

// ofBlock returns the row of a header whose block this node has, or nil if this node does not have
// the block.
func (s *headerRows) ofBlock(hash primitives.Hash) (*headerchain.Row, error) {
	info, err := s.epochs.BlockInfo(hash)
	if err != nil || info == nil {
		return nil, err
	}
	if at := s.blocks.BlockNode(hash); at != nil { // only persisted blocks: a crash may lose other ones
		return &headerchain.Row{Header: at.Header(), Info: info, Tree: at.Tree, Final: at.finalHeight}, nil
	}
	rec, err := s.store.BlockByHash(hash)
	if err != nil {
		return nil, absent(err)
	}
	r := &headerchain.Row{
		Header: new(primitives.BlockHeader),
		Info:   info,
		Tree:   new(primitives.PartialMerkleTree),
		Final:  max(rec.Final().Height, s.start),
	}
	for _, part := range []struct {
		get  func() ([]byte, error)
		into borsh.Decoder
	}{{rec.Header, r.Header}, {rec.MerkleTree, r.Tree}} {
		raw, err := part.get()
		if err == nil {
			err = borsh.Unmarshal(raw, part.into)
		}
		if err != nil {
			return nil, absent(err)
		}
	}
	return r, nil
}

// EpochInfo returns an epoch's info from blocks or headers; nil: unknown.
func (s *headerRows) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	if v := s.infos[id]; v != nil {
		return v, nil
	}
	if v, err := s.epochs.EpochInfo(id); err != nil || v != nil {
		return v, err
	}
	raw, err := storage.HeaderEpochInfo.Get(s.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	v := new(epoch.EpochInfo)
	return v, borsh.Unmarshal(raw, v)
}

// EpochStart returns the height of an epoch's first block. false: unknown.
func (s *headerRows) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	if h, ok := s.first[id]; ok {
		return h, true, nil
	}
	if h, ok, err := s.epochs.EpochStart(id); err != nil || ok {
		return h, ok, err
	}
	h, err := storage.HeaderEpochStart.Get(s.store.Reader(), id)
	return primitives.Height(h), err == nil, absent(err)
}

// Aggregator returns the statistics that the blocks have stored; nil: none.
func (s *headerRows) Aggregator() (*epoch.Aggregator, error) { return s.epochs.Aggregator() }

// EpochSummary returns an epoch's summary from blocks or headers; nil: unknown.
func (s *headerRows) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	if v := s.sums[id]; v != nil {
		return v, nil
	}
	if v, err := s.epochs.EpochSummary(id); err != nil || v != nil {
		return v, err
	}
	raw, err := storage.HeaderEpochSummary.Get(s.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	v := new(epoch.EpochSummary)
	return v, borsh.Unmarshal(raw, v)
}
