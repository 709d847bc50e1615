package engine

import (
	"fmt"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/storage"
)

// Imported is the result of importing one block.
type Imported struct {
	Entry *BlockNode
	// IsHead means that the block is the new in-memory head. OldHead is the head before the import.
	IsHead  bool
	OldHead *BlockNode
	// Final is the last final block after the import. OldFinal is the last final block before the
	// import.
	Final, OldFinal storage.BlockRef
	// Returned holds the transactions of blocks that are no longer canonical, except those that the
	// new branch includes.
	Returned []*primitives.SignedTransaction
	// UpgradeNeeded is ErrUpgradeNeeded if the block is the head and its children belong to an epoch
	// whose protocol version this program does not support. nil: this program can import children.
	UpgradeNeeded error
}

// Commit imports a block and waits until it is on disk. Commit is for tests and tools; the node uses
// FinishImport. After storage.ErrFull nothing has changed,
// and Commit may be called again. ErrOld and ErrChunk mean that the block is stale or invalid. Any
// other error is fatal for the node.
func (e *Engine) Commit(p *BlockImport) (*Imported, error) {
	if _, err := e.Flush(); err != nil {
		return nil, err
	}
	a, err := e.importBlock(p, nil)
	if err != nil {
		return nil, err
	}
	e.persist(e.pipeline.list, false) // Flush has waited for the pipeline's goroutine to end
	if _, err := e.reap(); err != nil {
		e.abandonInFlight()
		return nil, err
	}
	return a, e.stepFlatHead()
}

// importBlock adds an applied block to the block tree and to the pipeline's queue.
func (e *Engine) importBlock(p *BlockImport, stored func()) (*Imported, error) {
	entry, began := p.entry, time.Now()
	if !e.descendsFromFinal(p.parent) { // finality may have advanced since BeginImport
		return nil, fmt.Errorf("%w: block %d with parent %v", ErrOld, entry.Height(), p.parent.Hash)
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.err != nil {
			return nil, e.jobError(p, i)
		}
		if !j.Done() {
			return nil, fmt.Errorf("engine: import block %d before its shard %d was applied", entry.Height(), entry.Shards[i].ID)
		}
	}
	if !p.complete { // p is complete if this call is a retry after ErrFull
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
		e.precompiler.next(entry) // must come after trim, which replaces the roots in entry
	}
	u := &inFlightBlock{imp: p, onPersisted: stored}
	err := e.Epochs(func(m *epoch.Manager) (err error) {
		u.changes, err = m.RecordBlockInfo(
			epoch.BlockInfoFromHeader(entry.Header(), entry.finalHeight),
			entry.Header().RandomValue,
		)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("engine: update the epochs for block %d: %w", entry.Height(), err)
	}
	old := e.tip.Load()
	a := &Imported{
		Entry:    entry,
		OldHead:  old.entry,
		OldFinal: old.final,
		Final:    old.final,
		IsHead:   isBetterHead(entry, old.entry),
	}
	// a higher branch may have a lower final block than the previous head's branch
	if f := e.finalRef(entry); a.IsHead && f.Height > a.Final.Height {
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
		e.dropStaleOptimistic()
		a.UpgradeNeeded = e.adviseUpgrade(entry)
	}
	e.times.Imports.Add(postprocessTime, int64(time.Since(began)))
	e.pipeline.mu.Lock()
	e.pipeline.list = append(e.pipeline.list, u)
	e.pipeline.mu.Unlock()
	return a, nil
}

// fillShardState fills s, the state of a shard after the block with this hash, from the result of
// job j. prev is the shard's state before the block.
func fillShardState(s, prev *ShardState, j *Job, hash primitives.Hash) {
	r := j.result
	s.Result, s.root = r, rootOf(r.Trie)
	j.releaseRecording()
	if !j.input.NewChunk {
		extra := *prev.Extra // the chunk is missing, so only the state root changes
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

// finalRef returns the last final block according to entry.
func (e *Engine) finalRef(entry *BlockNode) storage.BlockRef {
	hash := entry.Header().LastFinalBlock
	if hash.IsZero() {
		hash = e.genesis.Hash
	}
	return storage.BlockRef{Height: entry.finalHeight, Hash: hash}
}

// orphanedTransactions returns the transactions of the old head's branch that the new head's branch
// does not include.
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

// Process imports a block synchronously: it calls BeginImport, runs all jobs on this goroutine, and
// calls Commit. Process is for tests and tools; the node uses BeginImport and FinishImport.
func (e *Engine) Process(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*Imported, error) {
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
