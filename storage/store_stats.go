package storage

import "time"

// Stats are counters since the store was opened, and current sizes. Sizes are in bytes unless
// noted.
type Stats struct {
	LogBytes   uint64 // number of bytes written to the log
	IndexBytes uint64 // number of bytes written to the index's files
	IndexRead  uint64 // number of bytes read from the index's tables
	// LevelSizes and LevelTables are by level of the index.
	LevelSizes  []int64
	LevelTables []int
	// CacheBytes is the number of bytes in the index's block cache, modulo 4 GiB. CacheCapacity is the
	// cache's present capacity in bytes (Options.MaxBlockCache).
	CacheBytes, CacheCapacity int

	OpenTables   int           // number of open table files
	DelayCount   int           // number of writes that the index has delayed
	Delay        time.Duration // total duration of the delayed writes' delays
	Paused       bool          // true: a write waits for a compaction now
	Pending      int           // number of blocks above the flat head
	PendingBytes int           // size in bytes of the state changes above the flat head in memory
	// Work of reads above the flat head: records read as a whole, single changes read from the log,
	// and keys visited by scans.
	PendingRecords, PendingChanges, PendingKeys uint64
}

// Stats returns the counters. After Close the counters of the index are zero.
func (s *Store) Stats() (out Stats) {
	out.LogBytes = s.log.written.Load()
	s.db.stats(&out)
	out.Pending, out.PendingBytes = s.tree.stats()
	out.PendingRecords, out.PendingChanges, out.PendingKeys = s.bodyCache.count(), s.pendingReads.Load(), s.pendingSteps.Load()
	return out
}

// PendingBytes returns the bytes of the changes above the flat head that are in memory.
func (s *Store) PendingBytes() (n int) {
	_, n = s.tree.stats()
	return n
}
