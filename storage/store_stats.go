package storage

import "time"

// Stats are counters since the store was opened, and present sizes, in bytes where nothing else is said.
type Stats struct {
	LogBytes     uint64 // written to the log
	IndexBytes   uint64 // written to the index: journal, tables, compactions, manifest
	IndexRead    uint64 // read from the index's tables
	LevelSizes   []int64
	LevelTables  []int
	CacheBytes   int // of the index's block cache
	OpenTables   int
	DelayCount   int           // writes that the index slowed down
	Delay        time.Duration // for how long in all
	Paused       bool          // a write waits for a compaction right now
	Pending      int           // blocks that are not folded
	PendingBytes int           // of their changes
	// What readers of states above the folded block took: records that were read whole, single changes that were read from the log, and
	// keys that scans passed.
	PendingRecords, PendingChanges, PendingKeys uint64
}

// Stats returns the counters; zeros after Close.
func (s *Store) Stats() (out Stats) {
	out.LogBytes = s.log.written.Load()
	s.db.stats(&out)
	out.Pending, out.PendingBytes = s.tree.stats()
	out.PendingRecords, out.PendingChanges, out.PendingKeys = s.bodyCache.count(), s.pendingReads.Load(), s.pendingSteps.Load()
	return out
}

// PendingBytes is the size of the changes of all blocks that are not folded: what the store itself holds of them.
func (s *Store) PendingBytes() (n int) {
	_, n = s.tree.stats()
	return n
}
