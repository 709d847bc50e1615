package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// recentBlocks is the number of blocks below the final one at which an empty stream for indexers
// starts.
const recentBlocks = 1000

// blockSource provides the node's final blocks to indexers.
type blockSource struct{ b *backend.Backend }

// startBlocks starts publishing blocks for indexers, if that is configured.
func (p *publishing) startBlocks(back *backend.Backend) {
	if p == nil || p.blocksOptions == nil {
		return
	}
	p.blocksOptions.Source = blockSource{back}
	p.blocks = jetstream.NewBlockPublisher(*p.blocksOptions)
}

// Blocks implements jetstream.BlockSource.
func (x blockSource) Blocks(ctx context.Context, after *jetstream.BlockPlace, f func(jetstream.BlockMessage) error) error {
	q := &stream.Query{Finality: view.RefFinal}
	if after != nil {
		q.After = &stream.Cursor{Height: after.Height, Hash: after.Hash}
	} else {
		from, err := x.first()
		if err != nil {
			return err
		}
		q.From = &from
	}
	feed, err := x.b.Open(ctx, q)
	// The block was garbage collected, or belongs to a data folder that was replaced by a restore.
	if errors.Is(err, stream.ErrGone) || errors.Is(err, stream.ErrAhead) {
		return fmt.Errorf("%w: %w", jetstream.ErrSource, err)
	}
	if err != nil {
		return err
	}
	defer feed.Close()
	for {
		m, err := feed.Next(ctx)
		if errors.Is(err, stream.ErrGone) {
			return fmt.Errorf("%w: %w", jetstream.ErrSource, err)
		}
		if err != nil {
			return err
		}
		text, err := m.JSON()
		if err != nil {
			return err
		}
		if err := f(jetstream.BlockMessage{BlockPlace: jetstream.BlockPlace{Height: m.Cursor.Height, Hash: m.Cursor.Hash},
			Back: m.Skipped != nil, Text: text}); err != nil {
			return err
		}
	}
}

// first returns the height at which an empty stream starts.
func (x blockSource) first() (primitives.Height, error) {
	_, earliest, err := x.b.Block(context.Background(), view.BlockRef{Kind: view.RefEarliest})
	if err != nil {
		return 0, err
	}
	return max(earliest.Header.Height, x.b.Engine.Final().Height-min(x.b.Engine.Final().Height, recentBlocks)), nil
}
