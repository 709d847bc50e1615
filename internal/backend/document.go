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

// Documents are nearcore's messages for indexers as neardata serves them: a block of one of two chains by its height, with the transaction
// that each executed receipt comes from (github.com/fastnear/neardata-server).

// AwaitHeight waits until the chain of a finality has come to a height, or the context ends. It returns where that chain is.
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

// BlockDocument returns the JSON of a part of a block's document; "null" for a height that has no block, and for a part that the block has
// not. The height must not be above that of the chain's head. An error of view.UnknownBlock: it is not kept any more.
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

// dropped tells whether blocks of that height are not kept any more.
func (b *Backend) dropped(height primitives.Height) bool {
	first, err := b.find(view.BlockRef{Kind: view.RefEarliest})
	return err == nil && height < first.ref.Height && height > b.Engine.Chain().Height
}

// name says of the receipts that a shard has executed which transaction they come from.
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

// originOf looks a receipt's transaction up; zero: there is none, or it is too far away.
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

// origins remember transactions of receipts: who reads the blocks in their order has each at hand. What was put before the last originsKept is
// forgotten. They are safe for concurrent use.
type origins struct {
	mu       sync.Mutex
	now, old map[primitives.Hash]primitives.Hash
}

// originsKept is how many are remembered at least, of which one takes some 100 bytes; at most twice as many.
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
