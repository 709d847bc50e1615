package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// headerChain is the chain of headers where it is ahead of the blocks. Its rows start above the
// flat head; those of older blocks are the engine's own.
type headerChain struct {
	adding    sync.Mutex // one list at a time; taken before mu
	mu        sync.Mutex // taken after epochMu, for the time of one header
	chain     *headerchain.Chain
	rows      *headerRows
	busy      bool // a list is being added and not all of its rows are written
	offBranch bool // the highest header on disk is on a branch that does not extend the chain, for now
}

// Cells of the header chain: the hash of the highest header, the hash of the first header after an
// epoch sync proof, the proof's info of the first block of the epoch before, and that proof.
const (
	headersHead  = "head"
	headersFloor = "floor"
	headersFirst = "first"
	headersProof = "proof"
)

// pruneHeaders bounds the headers below the flat head that one AddHeaders removes.
const pruneHeaders = 4096

// AddHeaders adds headers above the blocks, parents first, as one peer's response contains them.
// Each is validated as far as a header can be. The accepted ones are on disk when it returns; known
// ones are skipped. It stops at the first bad header with an error of package chain/headerchain, of
// which chain.Invalid is the sender's fault. Safe for concurrent use.
func (e *Engine) AddHeaders(list []*primitives.BlockHeader) (taken int, err error) {
	l := &e.headerChain
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := e.ensureHeaderChain(); err != nil {
		return 0, err
	}
	l.busy = true
	defer func() { l.busy = false }()
	for i, h := range list {
		named := i+1 < len(list) && list[i+1].PrevHash == h.Hash()
		var now uint64
		if e.o.Now != nil {
			now = e.o.Now()
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
		l.mu.Unlock() // a Precheck waits for one header, not for all
		l.mu.Lock()
	}
	if taken == 0 {
		return 0, err
	}
	err = errors.Join(err, l.rows.prune(e.store.Tip().FlatHead.Height))
	l.mu.Unlock() // adding excludes other writers of the batch
	ferr := e.store.PutHeaders(&l.rows.batch)
	l.mu.Lock()
	l.rows.reset()
	if ferr != nil {
		l.chain = nil // it is ahead of its rows: the next call starts from the disk
		return 0, ferr
	}
	return taken, err
}

// JumpHeaders continues the header chain at the first block of an epoch that an epoch sync proof
// leads to, far above the blocks (nearcore's epoch sync). headerchain.ErrProof is the sender's
// fault. headerchain.ErrOld is no one's: the headers are known already. Safe for concurrent use.
func (e *Engine) JumpHeaders(p *headerchain.EpochProof) error {
	l := &e.headerChain
	l.adding.Lock()
	defer l.adding.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := e.ensureHeaderChain()
	if err != nil {
		return err
	}
	verify, err := l.chain.Proving(p)
	if err == nil {
		l.mu.Unlock() // a Precheck does not wait for the signatures of a peer's proof
		err = verify()
		l.mu.Lock()
	}
	if err == nil {
		err = e.ensureHeaderChain() // blocks may have arrived
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer l.rows.reset()
	if err := l.chain.Take(p); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	raw := storage.Raw(p.AppendBorsh(nil))
	storage.HeaderCell.Put(&l.rows.batch, headersProof, &raw)
	if err := e.store.PutHeaders(&l.rows.batch); err != nil {
		l.chain = nil
		return err
	}
	return nil
}

// HeaderProof returns the proof of the last JumpHeaders; nil: none.
func (e *Engine) HeaderProof() (*headerchain.EpochProof, error) {
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersProof)
	if err != nil {
		return nil, absent(err)
	}
	p := new(headerchain.EpochProof)
	return p, borsh.Unmarshal(raw, p)
}

// HeadersApart reports whether the headers start, with a proof, above the chain, with a gap
// between.
func (e *Engine) HeadersApart() (bool, error) {
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersFloor)
	if err != nil || len(raw) != len(primitives.Hash{}) {
		return false, absent(err)
	}
	height, err := e.headerAt(primitives.Hash(raw))
	return height > e.Tip().Height(), err
}

// HeaderHead returns the highest known header: that of the head if no other is above it.
func (e *Engine) HeaderHead() (storage.BlockRef, error) {
	e.headerChain.mu.Lock()
	defer e.headerChain.mu.Unlock()
	// on a block producer it is so with each block: leave the header chain as it is
	if tip := e.Head(); e.headerChain.overtaken(tip) {
		return storage.BlockRef{Height: tip.Height(), Hash: tip.Hash}, nil
	}
	if err := e.ensureHeaderChain(); err != nil {
		return storage.BlockRef{}, err
	}
	h := e.headerChain.chain.Head().Info
	return storage.BlockRef{Height: h.Height, Hash: h.Hash}, nil
}

// overtaken reports whether the blocks have passed the highest header. The caller holds mu.
func (l *headerChain) overtaken(tip *BlockNode) bool {
	return l.chain != nil && !l.busy && !l.offBranch && l.chain.Head().Info.Height < tip.Height()
}

// ensureHeaderChain opens the header chain if there is none, or if persisted blocks have passed it.
// The caller holds mu.
func (e *Engine) ensureHeaderChain() error {
	l, tip := &e.headerChain, e.Head()
	if l.chain != nil && (l.busy || l.chain.Head().Info.Height >= tip.Height()) {
		return nil
	}
	l.rows = &headerRows{e: e}
	l.rows.reset() // nothing is unwritten
	head := tip.Hash
	if raw, err := storage.HeaderCell.Get(e.store.Reader(), headersHead); err == nil && len(raw) == len(head) {
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
	// of a branch that lost
	if l.chain, err = e.openHeaderChain(head); errors.Is(err, headerchain.ErrOrphan) && head != tip.Hash {
		l.offBranch = true
		l.chain, err = e.openHeaderChain(tip.Hash)
	}
	return err
}

func (e *Engine) openHeaderChain(head primitives.Hash) (*headerchain.Chain, error) {
	o := headerchain.Options{
		Genesis:       e.genesis.Header(),
		Params:        e.chain.Params,
		Configs:       e.chain.Configs,
		Store:         e.headerChain.rows,
		Head:          head,
		Verify:        e.verify,
		MaxHeightJump: e.o.MaxHeightJump,
	}
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersFloor)
	if absent(err) != nil {
		return nil, err
	}
	if err == nil && len(raw) == len(head) {
		height, err := e.headerAt(primitives.Hash(raw))
		if err != nil {
			return nil, err
		}
		if height > 0 { // else the blocks have passed the floor
			o.Floor = headerchain.Ref{Hash: primitives.Hash(raw), Height: height}
		}
	}
	return headerchain.New(o)
}

// headerEpochs returns the epoch manager of the headers if they announce an epoch above the flat
// head, else nil. The caller holds mu.
func (e *Engine) headerEpochs(id primitives.EpochID) (*epoch.Manager, error) {
	_, err := storage.HeaderEpochInfo.Get(e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	ref, err := e.headerAt(primitives.Hash(id))
	if err != nil || ref <= e.store.Tip().FlatHead.Height { // of an epoch that may be over; BeginImport decides
		return nil, err
	}
	if err := e.ensureHeaderChain(); err != nil {
		return nil, err
	}
	return e.headerChain.chain.Epochs(), nil
}

// headerAt returns the height of a kept header; 0: it is not kept.
func (e *Engine) headerAt(hash primitives.Hash) (primitives.Height, error) {
	raw, err := storage.HeaderRow.Get(e.store.Reader(), hash)
	if err != nil {
		return 0, absent(err)
	}
	r := new(headerchain.Row)
	if err := borsh.Unmarshal(raw, r); err != nil {
		return 0, err
	}
	return r.Info.Height, nil
}

// headerRows are the rows of headers: the unwritten ones, those on disk, and the engine's own for
// blocks.
type headerRows struct {
	e     *Engine
	batch storage.Batch
	new   map[primitives.Hash]*headerchain.Row
	infos map[primitives.EpochID]*epoch.EpochInfo
	sums  map[primitives.EpochID]*epoch.EpochSummary
	first map[primitives.EpochID]primitives.Height
}

func (s *headerRows) reset() {
	s.batch.Reset()
	s.new, s.infos = map[primitives.Hash]*headerchain.Row{}, map[primitives.EpochID]*epoch.EpochInfo{}
	s.sums, s.first = map[primitives.EpochID]*epoch.EpochSummary{}, map[primitives.EpochID]primitives.Height{}
}

// Put adds a header and its epoch changes to the batch.
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

// Begin adds the rows that a proof starts with.
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

// Before returns the proof's info of the first block of the epoch before the headers start.
func (s *headerRows) Before() (*epoch.BlockInfo, error) {
	raw, err := storage.HeaderCell.Get(s.e.store.Reader(), headersFirst)
	if err != nil {
		return nil, absent(err)
	}
	b := new(epoch.BlockInfo)
	return b, borsh.Unmarshal(raw, b)
}

// prune removes headers up to a height: blocks replace them, or their branch lost.
func (s *headerRows) prune(height primitives.Height) error {
	n, seen := 0, map[string]bool{}
	var failed error
	err := s.e.store.HeadersUpTo(height, func(ref storage.BlockRef, id storage.Raw) bool {
		storage.HeaderRow.Delete(&s.batch, ref.Hash)
		storage.HeaderHeight.Delete(&s.batch, ref)
		storage.HeaderEpochInfo.Delete(&s.batch, ref.Hash)
		if id := string(id); len(id) == len(primitives.EpochID{}) && !seen[id] { // once for each epoch
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

// begun reports whether the headers say that an epoch began at or below height. On another branch
// the epoch may begin later; then the rows describe that.
func (s *headerRows) begun(id primitives.EpochID, height primitives.Height, failed *error) bool {
	if at, ok := s.first[id]; ok {
		return at <= height
	}
	at, err := storage.HeaderEpochStart.Get(s.e.store.Reader(), id)
	if *failed = absent(err); *failed != nil {
		return false
	}
	return err != nil || primitives.Height(at) <= height
}

// Row returns a header's row, or nil.
func (s *headerRows) Row(hash primitives.Hash) (*headerchain.Row, error) {
	if r := s.new[hash]; r != nil {
		return r, nil
	}
	raw, err := storage.HeaderRow.Get(s.e.store.Reader(), hash)
	if err == nil {
		r := new(headerchain.Row)
		return r, borsh.Unmarshal(raw, r)
	}
	if absent(err) != nil {
		return nil, err
	}
	return s.ofBlock(hash)
}

// ofBlock returns the row of a header that has its block here.
func (s *headerRows) ofBlock(hash primitives.Hash) (*headerchain.Row, error) {
	info, err := (epochStore{s.e}).BlockInfo(hash)
	if err != nil || info == nil {
		return nil, err
	}
	if at := s.e.BlockNode(hash); at != nil { // an in-flight block may be lost, while headers above it are written
		return &headerchain.Row{Header: at.Header(), Info: info, Tree: at.Tree, Final: at.finalHeight}, nil
	}
	rec, err := s.e.store.BlockByHash(hash)
	if err != nil {
		return nil, absent(err)
	}
	r := &headerchain.Row{
		Header: new(primitives.BlockHeader),
		Info:   info,
		Tree:   new(primitives.PartialMerkleTree),
		Final:  max(rec.Final().Height, s.e.chain.Height),
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

// EpochInfo returns an epoch's info from blocks or headers, nil if unknown.
func (s *headerRows) EpochInfo(id primitives.EpochID) (*epoch.EpochInfo, error) {
	if v := s.infos[id]; v != nil {
		return v, nil
	}
	if v, err := (epochStore{s.e}).EpochInfo(id); err != nil || v != nil {
		return v, err
	}
	raw, err := storage.HeaderEpochInfo.Get(s.e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	v := new(epoch.EpochInfo)
	return v, borsh.Unmarshal(raw, v)
}

// EpochStart returns the height of an epoch's first block.
func (s *headerRows) EpochStart(id primitives.EpochID) (primitives.Height, bool, error) {
	if h, ok := s.first[id]; ok {
		return h, true, nil
	}
	if h, ok, err := (epochStore{s.e}).EpochStart(id); err != nil || ok {
		return h, ok, err
	}
	h, err := storage.HeaderEpochStart.Get(s.e.store.Reader(), id)
	return primitives.Height(h), err == nil, absent(err)
}

// EpochSummary returns an epoch's summary, nil if unknown.
func (s *headerRows) EpochSummary(id primitives.EpochID) (*epoch.EpochSummary, error) {
	if v := s.sums[id]; v != nil {
		return v, nil
	}
	if v, err := (epochStore{s.e}).EpochSummary(id); err != nil || v != nil {
		return v, err
	}
	raw, err := storage.HeaderEpochSummary.Get(s.e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	v := new(epoch.EpochSummary)
	return v, borsh.Unmarshal(raw, v)
}
