package storage

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// entry is the row of a block in the index: the position of the payload of the block's record, and
// a copy of the record's head.
type entry struct {
	at      position
	headLen int
	head    head
}

// AppendBorsh appends the position and the head.
func (e *entry) AppendBorsh(b []byte) []byte { return e.head.AppendBorsh(e.at.AppendBorsh(b)) }

// DecodeBorsh reads the position and the head.
func (e *entry) DecodeBorsh(r *borsh.Reader) {
	e.at.DecodeBorsh(r)
	e.headLen = r.Remaining()
	e.head.DecodeBorsh(r)
}

// size is the length of the record's payload.
func (e *entry) size() int64 {
	n := recordPrefix + e.headLen
	for i := range e.head.Sections {
		for _, f := range e.head.Sections[i].Frames {
			n += f.Stored
		}
	}
	return int64(n)
}

// hasShard returns whether the record holds the results of a shard.
func (e *entry) hasShard(shard primitives.ShardID) bool {
	for i := range e.head.Sections {
		if s := &e.head.Sections[i]; s.Kind == kindExtra && s.Shard == shard {
			return true
		}
	}
	return false
}

// start returns where the record begins in the log.
func (e *entry) start() position { return position{e.at.Segment, e.at.Offset - recordHeader} }

// end returns where the record ends in the log.
func (e *entry) end() position { return position{e.at.Segment, e.at.Offset + e.size()} }

// segmentInfo is the row of a log segment in the index.
type segmentInfo struct {
	Highest primitives.Height // highest height of a block in the segment
}

// AppendBorsh appends a u64.
func (s segmentInfo) AppendBorsh(b []byte) []byte { return borsh.AppendUint64(b, uint64(s.Highest)) }

// DecodeBorsh reads a u64.
func (s *segmentInfo) DecodeBorsh(r *borsh.Reader) { s.Highest = primitives.Height(r.Uint64()) }
