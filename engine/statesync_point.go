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

// The newest sync point is where a shard comes in. An epoch has one once each shard has had two chunks in it: where the makers of a shard can't get it, no later epoch
// has one, and where every node forgot the last one in time, nobody could ever get a shard again that is dealt anew each epoch. So what belongs to the newest one
// stays as long as there is no newer one: the snapshots (statesync_snapshot.go), and all blocks from the beginning of its epoch on, which whoever comes in at it catches up
// with. The price is disk, epoch by epoch, and Options.SyncPointEpochs bounds it. A chain of one shard keeps nothing for it: nothing changes hands there.

// DefaultSyncPointEpochs is how many epochs the newest sync point is kept without a newer one: four times as many as garbage collection leaves by default.
const DefaultSyncPointEpochs = 20

// staleAge is the age from which on a sync point is late: of the epoch before is the newest in each one's beginning.
const staleAge = 2

// ErrNoPoint says that shards can't change hands as they should, since epochs have had no sync point.
var ErrNoPoint = errors.New("engine: no sync point")

// lastPoint is the newest sync point of the folded blocks.
type lastPoint struct {
	begin storage.EpochBegin // of its epoch
	at    storage.BlockRef
	age   int  // epochs that have begun since
	keep  bool // what belongs to it stays
}

// pointRow is where it stands: who starts looks back no further than states are kept of in any case.
const pointRow = "sync point"

// AppendBorsh appends 80 bytes.
func (p *lastPoint) AppendBorsh(b []byte) []byte {
	b = append(borsh.AppendUint64(b, uint64(p.begin.Height)), p.begin.Epoch[:]...)
	return append(borsh.AppendUint64(b, uint64(p.at.Height)), p.at.Hash[:]...)
}

// DecodeBorsh reads 80 bytes.
func (p *lastPoint) DecodeBorsh(r *borsh.Reader) {
	*p = lastPoint{begin: storage.EpochBegin{Height: primitives.Height(r.Uint64()), Epoch: primitives.ReadHash(r)}}
	p.at = storage.BlockRef{Height: primitives.Height(r.Uint64()), Hash: primitives.ReadHash(r)}
}

// aged is the point as it is with the epochs that are here, ascending; most are those that it is kept for, shards are those of the layout. Of a point that was given up the
// epochs behind it go, too: that does not make it younger.
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

// stale tells whether shards wait for a newer point for longer than an epoch, and may still come in at this one.
func (p *lastPoint) stale() bool { return p != nil && p.keep && p.age >= staleAge }

// warning is what the log is told when an epoch begins without a newer point.
func (p *lastPoint) warning(most int) error {
	if p.keep {
		return fmt.Errorf("%w for %d epochs, since block %d: a shard has had no chunks. States and blocks since then are kept for up to %d epochs, so that it can come in where it is needed",
			ErrNoPoint, p.age, p.at.Height, most)
	}
	return fmt.Errorf("%w for %d epochs, since block %d: what was kept for its sake is given up. Who is to make the chunks of a shard and has not got it needs a copy of a folder with it",
		ErrNoPoint, p.age, p.at.Height)
}

// pointEpochs is how many epochs the newest point is kept at the most.
func (e *Engine) pointEpochs() int {
	return max(cmp.Or(e.o.SyncPointEpochs, DefaultSyncPointEpochs), keptSnapshotEpochs-1)
}

// watchesPoints tells whether sync points are anything to this node: it gives states, or shards come in.
func (e *Engine) watchesPoints() bool { return e.o.Snapshots || e.o.Scheduled }

// loadPoint reads the newest sync point that was known. One that the chain does not have is none: a folder can go back.
func (e *Engine) loadPoint() error {
	if !e.watchesPoints() {
		return nil
	}
	raw, err := storage.Misc.Get(e.store.Reader(), pointRow)
	if err != nil {
		return absent(err)
	}
	p := new(lastPoint)
	if err := borsh.Unmarshal(raw, p); err != nil {
		return fmt.Errorf("engine: the newest sync point: %w", err)
	}
	if is, err := e.store.IsCanonical(p.at); err != nil || !is || p.at.Height > e.store.Tip().Folded.Height {
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
			err = nil
		}
		return err
	}
	epochs, err := e.store.Epochs()
	if err == nil {
		e.stateSnapshots.last.Store(p.aged(epochs, e.pointEpochs(), e.flatHead.Layout.NumShards()))
	}
	return err
}

// notePoints takes up the points that were found lately, the newest last, with the epochs that there are by now.
func (e *Engine) notePoints(found []*syncPoint, epochs []storage.EpochBegin, shards int) error {
	p := e.stateSnapshots.last.Load()
	if n := len(found); n > 0 && (p == nil || found[n-1].at.Height > p.at.Height) {
		p = &lastPoint{begin: found[n-1].begin, at: found[n-1].at}
		var batch storage.Batch
		row := storage.Raw(p.AppendBorsh(nil))
		storage.Misc.Put(&batch, pointRow, &row)
		if err := e.store.Write(&batch); err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	before := p.age
	p = p.aged(epochs, e.pointEpochs(), shards)
	e.stateSnapshots.last.Store(p)
	if p.age > before && p.age >= staleAge && p.age <= e.pointEpochs()+1 && shards > 1 && e.o.Warn != nil {
		e.o.Warn(p.warning(e.pointEpochs()))
	}
	return nil
}

// pointOf is the newest point as a scan finds it.
func (e *Engine) pointOf(p *lastPoint) (*syncPoint, error) {
	rec, err := e.store.Block(p.at)
	if err != nil {
		return nil, err
	}
	chunks, err := chunksIn(rec)
	return &syncPoint{p.at, p.begin, chunks}, err
}

// lastKept is the newest point if what belongs to it is kept; nil: there is none.
func (e *Engine) lastKept() *lastPoint {
	if p := e.stateSnapshots.last.Load(); p != nil && p.keep {
		return p
	}
	return nil
}

// KeepFrom is the height from which on all blocks are to stay, whatever garbage collection would take: of the newest sync point's epoch and as far before it as
// transactions of that may refer to, which are valid only where that block is known; and from the last chunk of each shard that is held here, since its receipts, and those
// that came to the shard behind it, are what the next one goes on from. Safe from any goroutine.
func (e *Engine) KeepFrom() (primitives.Height, error) {
	at, err := e.Block(e.store.Tip().Folded.Hash)
	if err != nil {
		return 0, err
	}
	from := at.Height()
	for i, h := range at.Block.Body.Chunks {
		if at.Shards[i].Held() {
			from = min(from, h.HeightIncluded)
		}
	}
	if p := e.lastKept(); p != nil {
		from = min(from, p.begin.Height-min(p.begin.Height, e.chain.ValidityPeriod))
	}
	return max(from, e.genesis.Height()+1), nil // that stays in any case
}

// LastPoint is the newest sync point, as others are told of it.
type LastPoint struct {
	At    storage.BlockRef
	Epoch primitives.EpochID
	Age   int  // epochs that have begun since; 0 or 1 where all is well
	Kept  bool // what belongs to it stays
}

// SyncPointNow returns the newest sync point; known is false where there is none, or nobody looks for one. Safe from any goroutine.
func (e *Engine) SyncPointNow() (out LastPoint, known bool) {
	p := e.stateSnapshots.last.Load()
	if p == nil {
		return out, false
	}
	return LastPoint{At: p.at, Epoch: p.begin.Epoch, Age: p.age, Kept: p.keep}, true
}
