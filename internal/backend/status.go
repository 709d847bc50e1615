package backend

import (
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// statusAt caches the last result of Status with the values on which that result depends. While
// these values are unchanged, Status only updates the fields that change with time.
type statusAt struct {
	head   *engine.BlockNode
	tail   primitives.Height
	halted *view.Halted
	mocks  *primitives.Mocks
	key    *primitives.KeyFile
	status view.Status
}

// earliest is the oldest block in the store, as Status reports it.
type earliest struct {
	tail   primitives.Height // lowest stored height when this block was looked up
	hash   primitives.Hash
	height primitives.Height
	time   uint64 // ns since 1970
}

// Status describes the node and the chain. On a replica, the reported lag is at most a second old.
// While the result does not change, Status returns the same pointer, so that callers can cache the
// encoded result.
func (b *Backend) Status() (*view.Status, error) {
	head, tail := b.Engine.Head(), b.Engine.Store().Tip().Tail
	uptime := int64(b.Now().Sub(b.started) / time.Second)
	var halted *view.Halted
	if b.Obstacles != nil {
		halted = b.Obstacles.Halted()
	}
	last, syncing, mocks, key := b.status.Load(), b.syncing(), b.Engine.Mocks(), b.validator.Load()
	switch {
	case last == nil || last.status.Sync.Syncing != syncing || last.head != head || last.tail != tail || last.halted != halted || last.mocks != mocks || last.key != key:
		s, err := b.describe(head, tail, key)
		if err != nil {
			return nil, err
		}
		s.Halted, s.Sync.Syncing, s.Mocked = halted, syncing, mocks.Names()
		last = &statusAt{head: head, tail: tail, halted: halted, mocks: mocks, key: key, status: *s}
	case last.status.UptimeSeconds == uptime:
		return &last.status, nil
	default:
		same := *last
		last = &same
	}
	last.status.UptimeSeconds, last.status.Replica, last.status.Progress = uptime, b.lag(), b.progress(syncing)
	if last.status.KeyWait = nil; b.Obstacles != nil {
		last.status.KeyWait = b.Obstacles.KeyWait()
	}
	b.status.Store(last)
	return &last.status, nil
}

// progress returns how far sync has come, or nil if the node is not syncing.
func (b *Backend) progress(syncing bool) *view.Progress {
	if !syncing {
		return nil
	}
	_, best := b.Network.Syncing()
	p := &view.Progress{Highest: best, Headers: b.Engine.Head().Height()}
	if x, ok := b.Network.(interface{ Progress(*view.Progress) }); ok {
		x.Progress(p)
	}
	return p
}

// describe returns a status without its uptime.
func (b *Backend) describe(head *engine.BlockNode, tail primitives.Height, key *primitives.KeyFile) (*view.Status, error) {
	h := head.Header()
	s := &view.Status{
		Version: b.Version, ChainID: b.Genesis.ChainID, LatestProtocolVersion: parameters.Newest(b.Engine.Chain().Version.Numbering), RPCAddr: b.RPCAddr,
		NodePublicKey: b.NodeKey, GenesisHash: b.Engine.Genesis().Hash,
		Sync: view.SyncInfo{LatestBlockHash: head.Hash, LatestBlockHeight: h.Height, LatestStateRoot: h.PrevStateRoot,
			LatestBlockTime: h.Timestamp, EpochID: h.EpochID},
	}
	if key != nil {
		s.ValidatorAccountID, s.ValidatorPublicKey = key.AccountID, key.PublicKey()
	}
	err := b.Engine.Epochs(func(m *epoch.Manager) (err error) {
		if s.ProtocolVersion, err = m.ProtocolVersion(h.EpochID); err != nil {
			return err
		}
		producers, err := m.BlockProducersOrdered(h.EpochID)
		if err != nil {
			return err
		}
		for _, p := range producers {
			s.Validators = append(s.Validators, p.AccountID)
		}
		s.Sync.EpochStartHeight, err = m.EpochStartHeight(head.Hash)
		return err
	})
	if err != nil {
		return nil, err
	}
	if u, err := b.Engine.Upgrade(); err != nil {
		return nil, err
	} else if u.IsNeeded() {
		s.Upgrade = &view.Upgrade{Height: u.NextStart, Version: u.Next}
	}
	first := b.first.Load()
	if first == nil || first.tail != tail {
		k, err := b.find(view.BlockRef{Kind: view.RefEarliest})
		if err != nil {
			return nil, err
		}
		header, err := b.header(k)
		if err != nil {
			return nil, err
		}
		first = &earliest{tail: tail, hash: k.ref.Hash, height: header.Height, time: header.Timestamp}
		b.first.Store(first)
	}
	s.Sync.EarliestBlockHash, s.Sync.EarliestBlockHeight, s.Sync.EarliestBlockTime = first.hash, first.height, first.time
	return s, nil
}
