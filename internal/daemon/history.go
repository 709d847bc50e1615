package daemon

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/internal/blockfeed"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// openHistory opens the store of imported older blocks, and prepares their import if config.json
// names a feed. An archive without a feed serves what it has imported earlier. Other nodes have no
// history.
func (h *Daemon) openHistory(o *Options, no *node.Options, undo *[]func()) error {
	hm, c := o.Home, &o.Home.Config.History
	if o.Memory || !hm.Config.Archive || c.Source == "" && !history.Exists(hm.Paths.History) {
		return nil
	}
	genesis := h.Engine.Genesis().Hash
	cache := int64(c.Cache)
	if cache == 0 {
		cache = -1
	}
	ho := history.Options{Genesis: genesis, CacheBytes: cache}
	s, err := history.Open(hm.Paths.History, ho)
	full := storage.IsFull(err)
	if full { // the node itself serves reads on a full disk, too
		ho.ReadOnly = true
		s, err = history.Open(hm.Paths.History, ho)
	}
	switch {
	case full && err != nil, errors.Is(err, storage.ErrDamaged): // the node does not depend on older blocks
		h.log.WithError(err).Error("the imported older blocks are not served, and no more are imported until the node is restarted")
		return nil
	case err != nil:
		return fmt.Errorf("%w (troupe.history.path)", err)
	}
	h.history = s
	*undo = append(*undo, func() { _ = s.Close() })
	if full {
		h.log.Warn("the disk is full: no older blocks are imported until there is room and the node is restarted")
	}
	if c.Source == "" || full {
		return nil
	}
	source, err := historySource(hm)
	if err != nil {
		return err
	}
	h.imports = blockfeed.NewImport(blockfeed.ImportOptions{
		Store: s, Source: source, Chain: historyChain{h}, Log: h.log, Dir: hm.Paths.History, Genesis: genesis,
		First: max(c.First, h.Engine.Chain().Height+1), Fetches: int(c.Fetches), Percent: int(c.Percent), Reserve: c.Reserve,
	})
	no.History = h.imports
	return nil
}

// historySource returns the feed of troupe.history.source.
func historySource(hm *home.Home) (blockfeed.Source, error) {
	text := hm.Config.History.Source
	if !config.IsHistorySource(text) {
		return nil, fmt.Errorf("troupe.history.source %q: want neardata:URL, lake:URL or lake:FOLDER", text)
	}
	if folder := lakeFolder(hm); folder != "" {
		text = "lake:" + folder
	}
	return blockfeed.ParseHistory(text)
}

// historyChain is the node's chain as the import of history sees it.
type historyChain struct{ *Daemon }

// Lowest implements blockfeed.HistoryChain. The block above the lowest one must be final, and with it
// the lowest one.
func (c historyChain) Lowest() (lowest history.Block, above *primitives.Block, err error) {
	first, tail := c.Engine.Chain().Height, c.store.Tip().Tail
	if c.Engine.Head().Height() <= first {
		return lowest, nil, blockfeed.ErrNoLowest
	}
	if tail <= first {
		return lowest, nil, blockfeed.ErrHasAll
	}
	ref, err := c.store.NextBlock(tail)
	if err != nil {
		return lowest, nil, lowestError(err)
	}
	next, err := c.store.NextBlock(ref.Height + 1)
	if err != nil {
		return lowest, nil, lowestError(err)
	}
	if next.Height > c.Engine.Final().Height {
		return lowest, nil, blockfeed.ErrNoLowest
	}
	if above, err = c.Engine.WholeBlock(next.Hash); err != nil {
		return lowest, nil, lowestError(err)
	}
	return history.Block{Height: ref.Height, Hash: ref.Hash}, above, nil
}

// lowestError turns the absence of a block into ErrNoLowest.
func lowestError(err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
		return blockfeed.ErrNoLowest
	}
	return err
}

// HashAt implements blockfeed.HistoryChain.
func (c historyChain) HashAt(height primitives.Height) (primitives.Hash, error) {
	return c.store.HashAt(height)
}

// historyMetrics appends the metrics of the imported blocks and of their import.
func (h *Daemon) historyMetrics(b []byte) []byte {
	if h.history == nil {
		return b
	}
	s := h.history.Stats()
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	gauge("troupe_history_blocks", "Imported older blocks", float64(s.Blocks))
	gauge("troupe_history_lowest_height", "Lowest imported block; 0: none", float64(s.Low.Height))
	gauge("troupe_history_highest_height", "Highest imported block; 0: none", float64(s.Top.Height))
	gauge("troupe_history_bytes", "Size of the imported blocks on disk, without their index", float64(s.Bytes))
	gauge("troupe_history_index_bytes", "Size of the index of the imported blocks", float64(s.Index))
	b = h.olderMetrics(b)
	if h.imports == nil {
		return b
	}
	m := h.imports.Status()
	gauge("troupe_history_first_height", "Height down to which older blocks are imported", float64(m.First))
	gauge("troupe_history_progress", "Part of the import that is done, from 0 to 1", m.Share())
	left := m.Left.Seconds()
	if m.Left < 0 {
		left = -1
	}
	gauge("troupe_history_seconds_left", "Estimated time until the import is done; -1: unknown", left)
	gauge("troupe_history_fetch_bytes", "Replies of the feed that are held for blocks ahead of the next one", float64(m.FetchBytes))
	gauge("troupe_history_outcomes", "Outcomes of imported blocks that the chain proves", float64(m.Check.Outcomes))
	gauge("troupe_history_unproven_outcomes", "Outcomes of imported blocks that the chain does not prove", float64(m.Check.Unproven))
	b = appendMetric(b, "counter", "troupe_history_errors", "Attempts to import that failed since the start", float64(m.Errors))
	const state = "troupe_history_state"
	b = append(b, "# HELP "+state+" 1 for the state of the import\n# TYPE "+state+" gauge\n"...)
	for _, x := range blockfeed.ImportStates {
		v := 0
		if x == m.State {
			v = 1
		}
		b = fmt.Appendf(b, "%s{state=%q} %d\n", state, x, v)
	}
	return b
}
