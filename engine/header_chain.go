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

// headerChain is the chain of headers where it is ahead of the blocks. Its rows begin above the folded block: what they say of older ones is the
// engine's own.
type headerChain struct {
	adding    sync.Mutex // one list at a time; taken before mu
	mu        sync.Mutex // taken behind epochMu, for one header's time
	chain     *headerchain.Chain
	rows      *headerRows
	busy      bool // a list is being added, whose rows are not all written
	offBranch bool // the highest header on disk is of a branch that does not lead on from the chain, and may again
}

// headersHead is the cell with the hash of the head by headers, headersFloor that with the hash of the first one behind a proof,
// headersFirst what that says of the first block of the epoch before, headersProof that proof.
const (
	headersHead  = "head"
	headersFloor = "floor"
	headersFirst = "first"
	headersProof = "proof"
)

// pruneHeaders is how many headers one call of AddHeaders removes whose blocks are folded.
const pruneHeaders = 4096

// AddHeaders follows headers ahead of their blocks, parents first, as they come in one answer of a peer: each is judged as far as a header can be.
// They are on disk, all that were taken, when it returns. It stops at the first that is not taken, for the reason that package chain/headerchain gives:
// chain.Invalid is the sender's fault. Those that are known are passed over. From any goroutine.
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
		l.mu.Unlock() // who admits blocks waits for one header and not for all
		l.mu.Lock()
	}
	if taken == 0 {
		return 0, err
	}
	err = errors.Join(err, l.rows.prune(e.store.Tip().Folded.Height))
	l.mu.Unlock() // nobody else writes to the batch
	ferr := e.store.PutHeaders(&l.rows.batch)
	l.mu.Lock()
	l.rows.reset()
	if ferr != nil {
		l.chain = nil // it is ahead of its rows: the next call begins with those that are there
		return 0, ferr
	}
	return taken, err
}

// JumpHeaders has the headers go on from the first block of an epoch that a proof leads to, far ahead of the blocks (nearcore's epoch sync).
// following.ErrProof is the sender's fault, ErrOld nobody's: the headers are there already. From any goroutine.
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
		l.mu.Unlock() // who admits blocks does not wait for the signatures of a stranger's proof
		err = verify()
		l.mu.Lock()
	}
	if err == nil {
		err = e.ensureHeaderChain() // blocks may have come
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

// HeaderProof is the proof that headers came by last; nil: none.
func (e *Engine) HeaderProof() (*headerchain.EpochProof, error) {
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersProof)
	if err != nil {
		return nil, absent(err)
	}
	p := new(headerchain.EpochProof)
	return p, borsh.Unmarshal(raw, p)
}

// HeadersApart tells whether headers begin, with a proof, above the chain: what is between is not known.
func (e *Engine) HeadersApart() (bool, error) {
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersFloor)
	if err != nil || len(raw) != len(primitives.Hash{}) {
		return false, absent(err)
	}
	height, err := e.headerAt(primitives.Hash(raw))
	return height > e.Tip().Height(), err
}

// HeaderHead names the highest header that is known: the head's, if no other is above it.
func (e *Engine) HeaderHead() (storage.BlockRef, error) {
	e.headerChain.mu.Lock()
	defer e.headerChain.mu.Unlock()
	if tip := e.Head(); e.headerChain.overtaken(tip) { // with every block of a node that makes them: the chain of headers is left as it is
		return storage.BlockRef{Height: tip.Height(), Hash: tip.Hash}, nil
	}
	if err := e.ensureHeaderChain(); err != nil {
		return storage.BlockRef{}, err
	}
	h := e.headerChain.chain.Head().Info
	return storage.BlockRef{Height: h.Height, Hash: h.Hash}, nil
}

// repoint tells whether blocks have passed the highest header, so that theirs is the highest. The caller holds mu.
func (l *headerChain) overtaken(tip *BlockNode) bool {
	return l.chain != nil && !l.busy && !l.offBranch && l.chain.Head().Info.Height < tip.Height()
}

// ensureHeaderChain makes the chain where there is none, or where blocks that are on disk have overtaken it. The caller holds mu.
func (e *Engine) ensureHeaderChain() error {
	l, tip := &e.headerChain, e.Head()
	if l.chain != nil && (l.busy || l.chain.Head().Info.Height >= tip.Height()) {
		return nil
	}
	l.rows = &headerRows{e: e}
	l.rows.reset() // nothing of it is unwritten
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
	if l.chain, err = e.openHeaderChain(head); errors.Is(err, headerchain.ErrOrphan) && head != tip.Hash { // of a branch that lost
		l.offBranch = true
		l.chain, err = e.openHeaderChain(tip.Hash)
	}
	return err
}

func (e *Engine) openHeaderChain(head primitives.Hash) (*headerchain.Chain, error) {
	o := headerchain.Options{Genesis: e.genesis.Header(), Params: e.chain.Params, Configs: e.chain.Configs, Store: e.headerChain.rows,
		Head: head, Verify: e.verify, MaxHeightJump: e.o.MaxHeightJump}
	raw, err := storage.HeaderCell.Get(e.store.Reader(), headersFloor)
	if absent(err) != nil {
		return nil, err
	}
	if err == nil && len(raw) == len(head) {
		height, err := e.headerAt(primitives.Hash(raw))
		if err != nil {
			return nil, err
		}
		if height > 0 { // else blocks have come by
			o.Floor = headerchain.Ref{Hash: primitives.Hash(raw), Height: height}
		}
	}
	return headerchain.New(o)
}

// headerEpochs returns who knows an epoch that headers tell of, above the folded block; nil: they do not. The caller holds mu.
func (e *Engine) headerEpochs(id primitives.EpochID) (*epoch.Manager, error) {
	_, err := storage.HeaderEpochInfo.Get(e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	ref, err := e.headerAt(primitives.Hash(id))
	if err != nil || ref <= e.store.Tip().Folded.Height { // of an epoch that may be over; Begin will know
		return nil, err
	}
	if err := e.ensureHeaderChain(); err != nil {
		return nil, err
	}
	return e.headerChain.chain.Epochs(), nil
}

// headerAt returns the height of a header that is kept; 0: it is not.
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

// headerRows are the rows of headers: those that are yet to be written, those on disk, and the engine's own of blocks.
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

// Put gathers a header with what it adds.
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

// Begin gathers what a proof has shown.
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

// Before is what a proof said of the first block of an epoch.
func (s *headerRows) Before() (*epoch.BlockInfo, error) {
	raw, err := storage.HeaderCell.Get(s.e.store.Reader(), headersFirst)
	if err != nil {
		return nil, absent(err)
	}
	b := new(epoch.BlockInfo)
	return b, borsh.Unmarshal(raw, b)
}

// prune removes headers up to a height: what they say the engine's blocks say too, or they have lost.
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

// begun tells whether headers say that an epoch has begun up to a height. On another branch than that of a header of it that lost it may
// begin later, and then that is what they say.
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

// Row is a header's row.
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

// ofBlock is the row of a header whose block is here.
func (s *headerRows) ofBlock(hash primitives.Hash) (*headerchain.Row, error) {
	info, err := (epochStore{s.e}).BlockInfo(hash)
	if err != nil || info == nil {
		return nil, err
	}
	if at := s.e.BlockNode(hash); at != nil { // what is not on disk yet may be lost, and the headers on it are written
		return &headerchain.Row{Header: at.Header(), Info: info, Tree: at.Tree, Final: at.finalHeight}, nil
	}
	rec, err := s.e.store.BlockByHash(hash)
	if err != nil {
		return nil, absent(err)
	}
	r := &headerchain.Row{Header: new(primitives.BlockHeader), Info: info, Tree: new(primitives.PartialMerkleTree), Final: max(rec.Final().Height, s.e.chain.Height)}
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

// EpochInfo is what blocks or headers say of an epoch. So are the others.
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

// EpochStart is the height of an epoch's first block.
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

// EpochSummary is what an epoch came to.
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
