package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// A shard can be caught up only from a sync point. An epoch has a sync point only if each shard has
// had two chunks in the epoch. If the producers of a shard cannot obtain the shard's state, the
// shard has no chunks, and no further epoch has a sync point. If every node then dropped the last
// sync point's data, a shard whose producers change each epoch would be lost forever. Therefore the
// engine keeps the data of the newest sync point until there is a newer sync point. The data is the
// point's state snapshots (statesync_snapshot.go), and all blocks since the start of the point's
// epoch, which a catchup applies. The disk space for the data grows until Options.SyncPointEpochs
// epochs are kept. A node of a chain with only one shard keeps no such data, because the shard is
// never caught up.

// DefaultSyncPointEpochs is the number of epochs for which the newest sync point's data is kept if
// there is no newer sync point. The default is four times the number of epochs that garbage
// collection keeps by default.
const DefaultSyncPointEpochs = 20

// staleAge is the age in epochs from which the newest sync point counts as stale. An age of 1 is
// normal at the start of an epoch.
const staleAge = 2

// ErrNoPoint is a warning: the last epochs had no sync point, so new producers of a shard cannot
// fetch a recent state of the shard.
var ErrNoPoint = errors.New("engine: no sync point")

// lastPoint is the newest sync point at or below the flat head.
type lastPoint struct {
	begin storage.EpochBegin // start of the epoch of at
	at    storage.BlockRef   // the sync point
	age   int                // number of epochs that began after the epoch of at
	keep  bool               // the point's data is kept for catchups
}

// pointRow is the name of the row that stores the newest sync point. A start reads the row instead
// of searching, because the blocks that a search would visit may be garbage collected.
const pointRow = "sync point"

// AppendBorsh appends the stored form: 80 bytes, without age and keep.
func (p *lastPoint) AppendBorsh(b []byte) []byte {
	b = append(borsh.AppendUint64(b, uint64(p.begin.Height)), p.begin.Epoch[:]...)
	return append(borsh.AppendUint64(b, uint64(p.at.Height)), p.at.Hash[:]...)
}

// DecodeBorsh reads what AppendBorsh has written.
func (p *lastPoint) DecodeBorsh(r *borsh.Reader) {
	*p = lastPoint{begin: storage.EpochBegin{Height: primitives.Height(r.Uint64()), Epoch: primitives.ReadHash(r)}}
	p.at = storage.BlockRef{Height: primitives.Height(r.Uint64()), Hash: primitives.ReadHash(r)}
}

// aged returns the point with age and keep computed again. epochs are the epochs in the store,
// ascending. most is the maximum age for which data is kept. shards is the number of shards. The
// age of a point never decreases, even if garbage collection removes epochs after the point.
func (p *lastPoint) aged(epochs []storage.EpochBegin, most, shards int) *lastPoint {
	q := &lastPoint{begin: p.begin, at: p.at}
	for _, b := range epochs {
		if b.Height > p.begin.Height {
			q.age++
		}
	}
	q.age = max(q.age, p.age)
	q.keep = q.age <= most && shards > 1 && slices.Contains(epochs, p.begin)
	return q
}

// stale returns whether the point's age is at least staleAge and the point's data is kept.
func (p *lastPoint) stale() bool { return p != nil && p.keep && p.age >= staleAge }

// warning returns the warning for an epoch that has begun while p is still the newest sync point.
func (p *lastPoint) warning(most int) error {
	if p.keep {
		return fmt.Errorf(
			"%w for %d epochs, since block %d, because a shard has no chunks. "+
				"States and blocks since then are kept for up to %d epochs, so that the next chunk producers of the shard can download its state",
			ErrNoPoint,
			p.age,
			p.at.Height,
			most,
		)
	}
	return fmt.Errorf(
		"%w for %d epochs, since block %d. This node now deletes the states and blocks that it kept since then. "+
			"A chunk producer that lacks the state of its shard needs a copy of a data folder that has the shard",
		ErrNoPoint,
		p.age,
		p.at.Height,
	)
}

// pointEpochs returns the maximum age in epochs of a sync point whose data is kept.
func (ss *StateSnapshots) pointEpochs() int {
	return max(cmp.Or(ss.pointAge, DefaultSyncPointEpochs), keptSnapshotEpochs-1)
}

// watchesPoints returns whether this node needs sync points: it serves states or catches up shards.
func (ss *StateSnapshots) watchesPoints() bool { return ss.serves || ss.scheduled }

// loadPoint reads the stored sync point. loadPoint ignores a point that is not on the chain. A
// stored point can be off the chain after a revert.
func (ss *StateSnapshots) loadPoint(shards int) error {
	if !ss.watchesPoints() {
		return nil
	}
	raw, err := storage.Misc.Get(ss.store.Reader(), pointRow)
	if err != nil {
		return absent(err)
	}
	p := new(lastPoint)
	if err := borsh.Unmarshal(raw, p); err != nil {
		return fmt.Errorf("engine: decode the stored sync point: %w", err)
	}
	if is, err := ss.store.IsCanonical(p.at); err != nil || !is || p.at.Height > ss.store.Tip().FlatHead.Height {
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			err = nil
		}
		return err
	}
	epochs, err := ss.store.Epochs()
	if err == nil {
		ss.last.Store(p.aged(epochs, ss.pointEpochs(), shards))
	}
	return err
}

// notePoints computes the age of the newest sync point, and warns if the point is stale. found are
// newly found points, oldest first. If the last found point is newer than the stored point,
// notePoints stores the found point.
func (ss *StateSnapshots) notePoints(found []*syncPoint, epochs []storage.EpochBegin, shards int) error {
	p := ss.last.Load()
	if n := len(found); n > 0 && (p == nil || found[n-1].at.Height > p.at.Height) {
		p = &lastPoint{begin: found[n-1].begin, at: found[n-1].at}
		var batch storage.Batch
		row := storage.Raw(p.AppendBorsh(nil))
		storage.Misc.Put(&batch, pointRow, &row)
		if err := ss.store.Write(&batch); err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	before := p.age
	p = p.aged(epochs, ss.pointEpochs(), shards)
	ss.last.Store(p)
	if p.age > before && p.age >= staleAge && p.age <= ss.pointEpochs()+1 && shards > 1 && ss.warn != nil {
		ss.warn(p.warning(ss.pointEpochs()))
	}
	return nil
}

// pointOf returns a stored point in the form that findPoint returns.
func (ss *StateSnapshots) pointOf(p *lastPoint) (*syncPoint, error) {
	rec, err := ss.store.Block(p.at)
	if err != nil {
		return nil, err
	}
	chunks, err := chunksIn(rec)
	return &syncPoint{p.at, p.begin, chunks}, err
}

// lastKept returns the newest sync point if the point's data is kept, otherwise nil.
func (ss *StateSnapshots) lastKept() *lastPoint {
	if p := ss.last.Load(); p != nil && p.keep {
		return p
	}
	return nil
}

// KeepFrom returns the height from which garbage collection must keep all blocks. The result is the
// lower of two heights. (1) The start of the epoch of the newest kept sync point, minus the
// transaction validity period: transactions after the point may refer to a block in that period.
// (2) The lowest height of the held shards' last chunks: a shard's next chunk needs the last
// chunk's receipts and all receipts that arrived after that chunk. Safe for concurrent use.
func (e *Engine) KeepFrom() (primitives.Height, error) {
	at, err := e.Block(e.store.Tip().FlatHead.Hash)
	if err != nil {
		return 0, err
	}
	from := at.Height()
	for i, h := range at.Block.Body.Chunks {
		if at.Shards[i].Held() {
			from = min(from, h.HeightIncluded)
		}
	}
	if p := e.snapshots.lastKept(); p != nil {
		from = min(from, p.begin.Height-min(p.begin.Height, e.chain.ValidityPeriod))
	}
	return max(from, e.genesis.Height()+1), nil // garbage collection never removes the genesis block
}

// LastPoint describes the newest sync point, for status queries.
type LastPoint struct {
	At    storage.BlockRef
	Epoch primitives.EpochID
	Age   int  // number of epochs that began after Epoch; normally 0 or 1
	Kept  bool // the point's data is kept for catchups
}

// LastPoint returns the newest sync point. known is false if there is no sync point, or if this
// node neither serves states nor catches up shards. Safe for concurrent use.
func (ss *StateSnapshots) LastPoint() (out LastPoint, known bool) {
	p := ss.last.Load()
	if p == nil {
		return out, false
	}
	return LastPoint{At: p.at, Epoch: p.begin.Epoch, Age: p.age, Kept: p.keep}, true
}

// SyncPoint returns the sync point of the epoch of a block, on the block's branch. The sync point
// is the parent of the epoch's sync block. The sync point is the first block at which every shard
// has had at least two new chunks in the epoch, not counting chunks in the epoch's first block
// (nearcore chain/chain/src/state_sync/utils.rs). SyncPoint returns nil if the epoch has not
// reached its sync point yet.
func (e *Engine) SyncPoint(at *BlockNode) (*BlockNode, error) {
	var list []*BlockNode // blocks of the epoch without the epoch's first block, newest block first
	for x := at; ; {
		prev, err := e.Block(x.Header().PrevHash)
		if err != nil {
			return nil, err
		}
		if prev.Header().EpochID != x.Header().EpochID || prev.Header().PrevHash.IsZero() {
			break
		}
		list = append(list, x)
		x = prev
	}
	had := make([]int, len(at.Shards))
	for i := len(list) - 1; i >= 0; i-- {
		done := true
		for k, c := range list[i].Block.Body.Chunks {
			if c.HeightIncluded == list[i].Height() {
				had[k]++
			}
			done = done && had[k] >= 2
		}
		if done {
			return list[i], nil
		}
	}
	return nil, nil
}
