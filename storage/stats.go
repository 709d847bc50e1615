package storage

import (
	"time"

	"github.com/syndtr/goleveldb/leveldb"
)

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
}

// Stats returns the counters; zeros after Close.
func (s *Store) Stats() Stats {
	var l leveldb.DBStats
	if err := s.db.ldb.Stats(&l); err != nil {
		return Stats{}
	}
	out := Stats{LogBytes: s.log.written.Load(), IndexBytes: l.IOWrite, IndexRead: l.IORead, LevelTables: l.LevelTablesCounts,
		CacheBytes: l.BlockCacheSize, OpenTables: l.OpenedTablesCount, DelayCount: int(l.WriteDelayCount),
		Delay: l.WriteDelayDuration, Paused: l.WritePaused}
	for _, size := range l.LevelSizes {
		out.LevelSizes = append(out.LevelSizes, size)
	}
	v := s.view.Load()
	out.Pending = len(v.pending)
	for _, p := range v.pending {
		out.PendingBytes += p.bytes
	}
	return out
}

// PendingBytes is the size of the changes of all blocks that are not folded: what the store itself holds of them.
func (s *Store) PendingBytes() (n int) {
	for _, p := range s.view.Load().pending {
		n += p.bytes
	}
	return n
}
