package daemon

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// feeds follows block feeds instead of a network.
type feeds struct {
	*blockfeed.Runner
	tip   func() primitives.Height
	ended chan struct{} // closed when the runner has stopped
}

// feedsBehind is the maximum lag in blocks behind the feeds for which a node does not count as
// syncing. One block is always in transit.
const feedsBehind = 2

// followsFeeds turns off block production and the network of a node that follows feeds.
func followsFeeds(o *Options) {
	off := false
	o.Home.Config.Network.Enabled = &off
	if o.Home.ValidatorKey != nil {
		o.Log.Warnf("%s produces no blocks: the node follows feeds", o.Home.ValidatorKey.AccountID)
		o.Home.ValidatorKey = nil
	}
}

// openFeeds creates the feeds' runner. The runner runs once the node has started.
func (h *Daemon) openFeeds(sources []blockfeed.Source, track engine.Track, no *node.Options) {
	chain := feedChain{h, track}
	f := &feeds{tip: chain.Tip, ended: make(chan struct{})}
	f.Runner = blockfeed.New(blockfeed.Options{
		Sources: sources, Chain: chain, Importer: chain, Older: h.hashesBefore, Partial: track != nil,
		Warn: func(feed, what string, err error) {
			h.log.WithError(err).WithField("peer", feed).Warn(what)
		},
	})
	no.Net = f
	h.feeds = f
}

// feedChain is the node's chain as the feeds' runner sees it.
type feedChain struct {
	*Daemon
	track engine.Track // nil: all shards
}

// Tip implements blockfeed.Chain.
func (c feedChain) Tip() primitives.Height { return c.Engine.Tip().Height() }

// Final implements blockfeed.Chain.
func (c feedChain) Final() primitives.Height { return c.Engine.TipFinal().Height }

// Has implements blockfeed.Chain.
func (c feedChain) Has(block primitives.Hash) bool { return c.Engine.Imported(block) != nil }

// Moved implements blockfeed.Chain.
func (c feedChain) Moved() <-chan struct{} { return c.Node.Moves() }

// Deliver implements blockfeed.Importer.
func (c feedChain) Deliver(m messages.BlockReceived) { c.Node.Receive(m) }

// Admit prechecks a block of a feed. The block's producer must have signed the block with these
// chunk headers. precheckFeedBlock returns blockfeed.ErrPassed for a known or old block, and
// blockfeed.ErrNotYet for a block of an unknown epoch.
func (c feedChain) Admit(b *primitives.Block) error {
	a, err := c.Engine.Precheck(b)
	switch {
	case errors.Is(err, engine.ErrKnown), errors.Is(err, engine.ErrOld):
		return blockfeed.ErrPassed
	case err != nil && engine.VerdictOf(err) == engine.VerdictInvalid:
		return &blockdoc.MismatchError{Where: "block.header", Err: err}
	// the epoch becomes known only with the blocks before this one
	case err == nil && a.Standing == blockpool.UnknownEpoch:
		return blockfeed.ErrNotYet
	}
	return err
}

// checkCheckpoint returns an error if the chain in the folder lacks the block want. The zero hash
// always passes.
func (h *Daemon) checkCheckpoint(want primitives.Hash) error {
	if want.IsZero() || want == h.Engine.Genesis().Hash {
		return nil
	}
	rec, err := h.store.BlockByHash(want)
	if err == nil {
		var at primitives.Hash
		if at, err = h.store.HashAt(rec.Ref().Height); err == nil && at == want {
			return nil
		}
	}
	return fmt.Errorf("the chain in %s (head %d) does not contain checkpoint block %v: check --checkpoint, or use another home folder",
		h.home.Paths.Data, h.Engine.Head().Height(), want)
}

// Wanted returns the shards that the node tracks in an epoch.
func (c feedChain) Wanted(id primitives.EpochID) (w *blockdoc.Wanted, err error) {
	w = new(blockdoc.Wanted)
	err = c.Engine.Epochs(func(m *epoch.Manager) (err error) {
		w.Layout, err = m.ShardLayout(id)
		return err
	})
	if err != nil || c.track == nil {
		return w, err
	}
	w.Held = []primitives.ShardID{}
	for _, id := range w.Layout.ShardIDs() {
		if c.track(w.Layout, id) {
			w.Held = append(w.Held, id)
		}
	}
	return w, nil
}

// hashesBefore yields the hashes of the stored blocks that a transaction may refer to, newest
// first.
func (h *Daemon) hashesBefore(yield func(primitives.Hash) bool) {
	at := h.Engine.Tip().Height()
	first := h.Engine.Chain().Height
	if validity := primitives.Height(h.home.Genesis.TransactionValidityPeriod); at > first+validity {
		first = at - validity
	}
	for ; ; at-- {
		if hash, err := h.store.HashAt(at); err == nil && !yield(hash) || at <= first {
			return
		}
	}
}

func (f *feeds) run(ctx context.Context) {
	defer close(f.ended)
	f.Run(ctx)
}

// feedForwarder forwards submitted transactions to feeds that accept them. It waits until this node
// has executed the transaction.
type feedForwarder struct {
	backend.Submitter
	feeds *feeds
}

// SendTxAsync forwards a transaction.
func (p feedForwarder) SendTxAsync(ctx context.Context, tx *primitives.SignedTransaction) error {
	if err := p.feeds.Send(ctx, tx.AppendBorsh(nil)); err != nil {
		return err
	}
	return p.Submitter.SendTxAsync(ctx, tx)
}

// SendTx forwards a transaction and waits for the requested level.
func (p feedForwarder) SendTx(ctx context.Context, r *view.SendTx) (*view.FinalOutcome, error) {
	if err := p.feeds.Send(ctx, r.Tx.AppendBorsh(nil)); err != nil {
		return nil, err
	}
	return p.Submitter.SendTx(ctx, r)
}

// Syncing returns true if the node lags behind its feeds, or if no feed has reported a height yet.
func (f *feeds) Syncing() (bool, primitives.Height) {
	var best primitives.Height
	for _, s := range f.Status() {
		best = max(best, s.Height)
	}
	return best == 0 || best > f.tip()+feedsBehind, best
}

// Info reports no peers.
func (f *feeds) Info() *view.NetworkInfo { return &view.NetworkInfo{} }

// metrics appends the metrics of each feed.
func (f *feeds) metrics(b []byte) []byte {
	list := f.Status()
	for _, m := range []struct {
		kind, name, help string
		of               func(*blockfeed.Status) float64
	}{
		{"gauge", "troupe_feed_height", "Highest block that a feed has reported", func(s *blockfeed.Status) float64 { return float64(s.Height) }},
		{"counter", "troupe_feed_blocks", "Blocks received from a feed, duplicates of other feeds included",
			func(s *blockfeed.Status) float64 { return float64(s.Given) }},
		{"counter", "troupe_feed_refused", "Blocks of a feed that failed verification",
			func(s *blockfeed.Status) float64 { return float64(s.Refused) }},
		{"counter", "troupe_feed_failures", "Requests that a feed failed to answer",
			func(s *blockfeed.Status) float64 { return float64(s.Failed) }},
		{"gauge", "troupe_feed_lag_seconds", "Time from the last block's timestamp to its receipt from the feed",
			func(s *blockfeed.Status) float64 { return float64(s.LagNS) / 1e9 }},
	} {
		b = append(b, "# HELP "+m.name+" "+m.help+"\n# TYPE "+m.name+" "+m.kind+"\n"...)
		for i := range list {
			b = append(strconv.AppendQuote(append(b, m.name+"{feed="...), list[i].Name), "} "...)
			b = append(strconv.AppendFloat(b, m.of(&list[i]), 'g', -1, 64), '\n')
		}
	}
	return b
}
