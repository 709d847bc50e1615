package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/storage"
)

// Accepted says what committing a block did.
type Accepted struct {
	Entry *BlockNode
	// IsHead: the block is the new canonical head. OldHead is the one before.
	IsHead  bool
	OldHead *BlockNode
	// Final is the last final block now, OldFinal the one before.
	Final, OldFinal storage.BlockRef
	// Returned are the transactions of blocks that were canonical and are no longer; those that the new branch has too are
	// not among them.
	Returned []*primitives.SignedTransaction
}

// Commit adopts a block and waits until it is on disk. An error is fatal to the node, but for ErrFull of the store, after which
// nothing has changed and the same Commit may be tried again, and for those that Adopt gives to bad blocks.
func (e *Engine) Commit(p *BlockImport) (*Accepted, error) {
	if _, err := e.Flush(); err != nil {
		return nil, err
	}
	a, err := e.importBlock(p, nil)
	if err != nil {
		return nil, err
	}
	e.persist(e.pipeline.list, false) // nobody else writes now
	if _, err := e.reap(); err != nil {
		e.abandonInFlight()
		return nil, err
	}
	return a, e.stepFlatHead()
}

// importBlock makes an applied block part of the chain and puts it into ahead.
func (e *Engine) importBlock(p *BlockImport, stored func()) (*Accepted, error) {
	entry := p.entry
	if !e.descendsFromFinal(p.parent) { // final blocks have come since Begin
		return nil, fmt.Errorf("%w: block %d on %v", ErrOld, entry.Height(), p.parent.Hash)
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.err != nil {
			return nil, e.jobError(p, i)
		}
		if !j.Done() {
			return nil, fmt.Errorf("engine: shard %d of block %d was not applied", entry.Shards[i].ID, entry.Height())
		}
	}
	if !p.complete { // else this is another try
		for i := range p.jobs {
			if t := p.jobs[i].transition; t != nil {
				t.Block, t.Height = entry.Hash, entry.Height()
				e.proofs.keep(t)
			}
			if p.jobs[i].notHeld() {
				continue
			}
			fillShardState(&entry.Shards[i], &p.prev[i], &p.jobs[i], entry.Hash)
		}
		p.complete = true
		if err := e.trim(entry); err != nil {
			return nil, err
		}
		e.precompileNext(entry) // behind trim, which puts other roots in place of the entry's
	}
	u := &inFlightBlock{imp: p, onPersisted: stored}
	err := e.Epochs(func(m *epoch.Manager) (err error) {
		u.changes, err = m.RecordBlockInfo(epoch.BlockInfoFromHeader(entry.Header(), entry.finalHeight), entry.Header().RandomValue)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("engine: epoch of block %d: %w", entry.Height(), err)
	}
	old := e.tip.Load()
	a := &Accepted{Entry: entry, OldHead: old.entry, OldFinal: old.final, Final: old.final, IsHead: entry.Height() > old.entry.Height()}
	if f := e.finalRef(entry); a.IsHead && f.Height > a.Final.Height { // a longer branch may tell of an older one
		a.Final = f
		if final := e.Imported(f.Hash); final != nil {
			e.proofs.prune(final)
		}
	}
	u.accepted = a
	e.mu.Lock()
	e.entries[entry.Hash] = entry
	e.mu.Unlock()
	e.resident = append(e.resident, entry)
	p.imported = true
	e.times.measure(p)
	if a.IsHead {
		if old.entry.Hash != entry.Header().PrevHash {
			a.Returned = e.orphanedTransactions(old.entry, entry)
			e.endOffBranch(entry)
		}
		e.tip.Store(&head{entry: entry, final: a.Final})
	}
	e.pipeline.mu.Lock()
	e.pipeline.list = append(e.pipeline.list, u)
	e.pipeline.mu.Unlock()
	return a, nil
}

// fillShardState fills a shard's state after its job.
func fillShardState(s, prev *ShardState, j *Job, hash primitives.Hash) {
	r := j.result
	s.Result, s.root = r, rootOf(r.Trie)
	j.releaseRecording()
	if !j.input.NewChunk {
		extra := *prev.Extra // a missing chunk changes the state root only
		extra.StateRoot = s.root.Hash()
		s.Extra, s.Outgoing, s.OutgoingAt, s.OutgoingOf = &extra, prev.Outgoing, prev.OutgoingAt, prev.OutgoingOf
		return
	}
	s.Extra = &chain.ChunkExtra{
		StateRoot: s.root.Hash(), OutcomeRoot: r.OutcomeRoot, Proposals: r.Proposals, GasUsed: r.GasUsed,
		GasLimit: j.input.GasLimit, BalanceBurnt: r.BalanceBurnt, CongestionInfo: r.Congestion,
		BandwidthRequests: r.BandwidthRequests, ProposedSplit: r.ProposedSplit,
	}
	s.Outgoing, s.OutgoingAt, s.OutgoingOf = r.Outgoing, hash, s.ID
}

// finalRef names the last final block of a head.
func (e *Engine) finalRef(entry *BlockNode) storage.BlockRef {
	hash := entry.Header().LastFinalBlock
	if hash.IsZero() {
		hash = e.genesis.Hash
	}
	return storage.BlockRef{Height: entry.finalHeight, Hash: hash}
}

// orphanedTransactions lists the transactions that only the old branch has.
func (e *Engine) orphanedTransactions(old, now *BlockNode) []*primitives.SignedTransaction {
	kept := map[primitives.Hash]bool{}
	var out []*primitives.SignedTransaction
	for old != nil && now != nil && old.Hash != now.Hash {
		if now.Height() >= old.Height() {
			for _, tx := range e.withChunks(now).transactions() {
				kept[tx.Hash()] = true
			}
			now = e.Imported(now.Header().PrevHash)
			continue
		}
		out = append(out, e.withChunks(old).transactions()...)
		old = e.Imported(old.Header().PrevHash)
	}
	n := 0
	for _, tx := range out {
		if !kept[tx.Hash()] {
			out[n] = tx
			n++
		}
	}
	return out[:n]
}

func (e *BlockNode) transactions() (out []*primitives.SignedTransaction) {
	for i := range e.Shards {
		if c := e.Shards[i].Chunk; c != nil {
			out = append(out, c.Transactions...)
		}
	}
	return out
}

func senderRequests(c *primitives.ChunkHeader) bandwidth.SenderRequests {
	return bandwidth.SenderRequests{Shard: c.ShardID, Requests: c.BandwidthRequests}
}

// Process does all of it at once: Begin, every job on this goroutine, Commit.
func (e *Engine) Process(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*Accepted, error) {
	p, err := e.BeginImport(b, chunks, produced)
	if err != nil {
		return nil, err
	}
	for i := range p.jobs {
		p.jobs[i].Run()
	}
	a, err := e.Commit(p)
	if err != nil {
		p.Drop()
	}
	return a, err
}
