package backend

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// A document is a block's message for indexers in the format of neardata
// (github.com/fastnear/neardata-server): nearcore's streamer message, with the originating
// transaction of each executed receipt. Documents are read by height, on the final or the
// optimistic chain.

// AwaitHeight waits until the head or, if final is set, the final block has reached a height. The
// result is the height that this block has then. When ctx ends, it returns the height so far and
// the context's cause.
func (b *Backend) AwaitHeight(ctx context.Context, final bool, height primitives.Height) (primitives.Height, error) {
	for {
		moved := b.Submit.Moves()
		at := b.Engine.Head().Height()
		if final {
			at = b.Engine.Final().Height
		}
		if at >= height {
			return at, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// BlockDocument returns the JSON of one part of a block's document. For a height without a block,
// and for a missing part, the result is "null". The height must not be above the head.
// BlockDocument returns view.UnknownBlock if the block is collected.
func (b *Backend) BlockDocument(ctx context.Context, height primitives.Height, part view.DocumentPart) ([]byte, error) {
	k, err := b.byHeight(height)
	var missing *view.LookupError
	if errors.As(err, &missing) && missing.Kind == view.ErrUnknownHeight && !b.dropped(height) {
		return []byte("null"), nil
	}
	if err != nil {
		return nil, err
	}
	m, err := b.streamed(k)
	if err != nil {
		return nil, err
	}
	if part.Kind == view.DocumentCode {
		return appendCode(m, part.Code)
	}
	if part.Kind == view.DocumentHeaders {
		return stream.AppendBlock(nil, m), nil
	}
	details, err := b.details(k, m)
	if err != nil {
		return nil, err
	}
	for i := range m.Shards {
		if err := b.name(ctx, &m.Shards[i], &details[i]); err != nil {
			return nil, err
		}
	}
	if part.Kind == view.DocumentWhole {
		return stream.AppendMessage(nil, m, details)
	}
	for i := range m.Shards {
		if m.Shards[i].ID != part.Shard {
			continue
		}
		shard, err := stream.AppendShard(nil, m, i, &details[i])
		if part.Kind == view.DocumentShard || err != nil {
			return shard, err
		}
		var has struct{ Chunk json.RawMessage }
		err = json.Unmarshal(shard, &has)
		return has.Chunk, err
	}
	return []byte("null"), nil
}

// dropped returns whether the blocks at a height are collected.
func (b *Backend) dropped(height primitives.Height) bool {
	first, err := b.find(view.BlockRef{Kind: view.RefEarliest})
	return err == nil && height < first.ref.Height && height > b.Engine.Chain().Height
}

// name sets d.Origins: for each receipt that a shard executed, its originating transaction.
func (b *Backend) name(ctx context.Context, s *stream.Shard, d *stream.Details) error {
	d.Origins = make(map[primitives.Hash]primitives.Hash, len(s.Outcomes))
	isTx := map[primitives.Hash]bool{}
	if s.Chunk != nil {
		for _, tx := range s.Chunk.Transactions {
			isTx[tx.Hash()] = true
		}
	}
	for i := range s.Outcomes {
		out := &s.Outcomes[i]
		tx, known := out.ID, isTx[out.ID]
		if !known {
			if tx, known = b.origins.get(out.ID); !known {
				var err error
				if tx, err = b.originOf(ctx, out.ID); err != nil {
					return err
				}
			}
			d.Origins[out.ID] = tx
		}
		for _, id := range out.Outcome.ReceiptIDs {
			b.origins.put(id, tx)
		}
	}
	return nil
}

// originOf looks up the originating transaction of a receipt. The result is the zero hash if the
// search finds no transaction within its bounds.
func (b *Backend) originOf(ctx context.Context, id primitives.Hash) (primitives.Hash, error) {
	bounds := Origins{MaxOutcomes: 20_000}
	o := &origin{Backend: b, ctx: ctx, bounds: bounds, left: bounds.MaxOutcomes}
	found, err := o.find(&view.OriginQuery{Receipt: id}, 0)
	var far *view.OriginError
	switch {
	case errors.As(err, &far):
		return primitives.Hash{}, nil
	case err != nil:
		return primitives.Hash{}, err
	}
	return found.Transaction, nil
}

// origins caches the originating transactions of receipts. A client that reads blocks in order
// finds nearly every receipt in this cache. The cache has two generations. When the newer
// generation is full, the older generation is dropped. Safe for concurrent use.
type origins struct {
	mu       sync.Mutex
	now, old map[primitives.Hash]primitives.Hash
}

// originsKept is the maximum size of a generation, in entries of about 100 bytes. So the cache
// keeps at least this many recent entries, and at most twice as many.
const originsKept = 20_000

func (o *origins) get(id primitives.Hash) (primitives.Hash, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tx, ok := o.now[id]
	if !ok {
		tx, ok = o.old[id]
	}
	return tx, ok
}

func (o *origins) put(id, tx primitives.Hash) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now == nil || len(o.now) >= originsKept {
		o.now, o.old = make(map[primitives.Hash]primitives.Hash, originsKept), o.now
	}
	o.now[id] = tx
}
