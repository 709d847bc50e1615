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

// recentBlocks is how many of the newest blocks a stream for indexers begins with that has nothing.
const recentBlocks = 1000

// toldBlocks is what indexers are told of the node's final blocks.
type toldBlocks struct{ b *backend.Backend }

// tell begins to tell indexers of blocks, if they are to be told.
func (p *publishing) tell(back *backend.Backend) {
	if p == nil || p.told == nil {
		return
	}
	p.told.Source = toldBlocks{back}
	p.blocks = jetstream.NewBlockPublisher(*p.told)
}

// Blocks is part of jetstream.BlockSource.
func (x toldBlocks) Blocks(ctx context.Context, after *jetstream.BlockPlace, f func(jetstream.BlockMessage) error) error {
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
	// collected, or of a folder that was put back
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
		if err := f(jetstream.BlockMessage{BlockPlace: jetstream.BlockPlace{Height: m.Cursor.Height, Hash: m.Cursor.Hash}, Back: m.Skipped != nil, Text: text}); err != nil {
			return err
		}
	}
}

// first is where a stream begins that has nothing.
func (x toldBlocks) first() (primitives.Height, error) {
	_, earliest, err := x.b.Block(view.BlockRef{Kind: view.RefEarliest})
	if err != nil {
		return 0, err
	}
	return max(earliest.Header.Height, x.b.Engine.Final().Height-min(x.b.Engine.Final().Height, recentBlocks)), nil
}
