package storage

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// entry says where the record of a block is: the position of its payload and the copy of its head.
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

// hasShard tells whether a shard's results are in the record.
func (e *entry) hasShard(shard primitives.ShardID) bool {
	for i := range e.head.Sections {
		if s := &e.head.Sections[i]; s.Kind == kindExtra && s.Shard == shard {
			return true
		}
	}
	return false
}

// start is where the record begins in the log.
func (e *entry) start() position { return position{e.at.Segment, e.at.Offset - recordHeader} }

// cancelWaits is where the record ends in the log.
func (e *entry) end() position { return position{e.at.Segment, e.at.Offset + e.size()} }

// segmentInfo is what a segment of the log holds.
type segmentInfo struct {
	Highest primitives.Height // of its blocks
}

// AppendBorsh appends a u64.
func (s segmentInfo) AppendBorsh(b []byte) []byte { return borsh.AppendUint64(b, uint64(s.Highest)) }

// DecodeBorsh reads a u64.
func (s *segmentInfo) DecodeBorsh(r *borsh.Reader) { s.Highest = primitives.Height(r.Uint64()) }
