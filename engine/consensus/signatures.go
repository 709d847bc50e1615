package consensus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// SignaturesRow names the row in which Signatures are persisted.
const SignaturesRow = "validator_signatures"

// endorsedAhead is for how many heights one write permits endorsements in eager mode. A crash costs
// the endorsements of these heights.
const endorsedAhead = 8

// maxEndorsed is how many endorsed chunks of a shard are recorded.
const maxEndorsed = 64

// Signatures records what a validator has signed, as far as needed to refuse a contradicting
// signature (slashing protection). It is persisted before the signature leaves the node, so that no
// restart can lead to double signing. It is not safe for concurrent use.
type Signatures struct {
	Target primitives.Height // the highest height voted for
	Block  primitives.Height // height of the last produced block
	Ahead  primitives.Height // chunks up to this height may have been endorsed without a record on disk
	// Ahead when this was read, or the tip's height if higher. Of chunks up to it only the recorded
	// ones may be endorsed.
	floor    primitives.Height
	chunks   []made     // the last one produced of each shard
	endorsed []endorsed // the last ones of each shard, by height
}

type made struct {
	shard  primitives.ShardID
	height primitives.Height // created at
}

type endorsed struct {
	shard  primitives.ShardID
	height primitives.Height
	epoch  primitives.EpochID
	chunk  primitives.Hash
}

// ReadSignatures decodes what AppendBorsh encoded. An empty row is that of a validator that has
// signed nothing.
func ReadSignatures(row []byte) (*Signatures, error) {
	s := new(Signatures)
	if len(row) == 0 {
		return s, nil
	}
	if err := borsh.Unmarshal(row, s); err != nil {
		return nil, fmt.Errorf("consensus: decode the row of signed approvals and chunks: %w", err)
	}
	s.floor = s.Ahead
	return s, nil
}

// MergeSignatures merges two encoded Signatures of one validator, either of which may have entries
// that the other lacks. The result permits only what both permit.
func MergeSignatures(a, b []byte) ([]byte, error) {
	s, err := ReadSignatures(a)
	if err != nil {
		return nil, err
	}
	o, err := ReadSignatures(b)
	if err != nil {
		return nil, err
	}
	s.Target, s.Block, s.Ahead = max(s.Target, o.Target), max(s.Block, o.Block), max(s.Ahead, o.Ahead)
	for _, m := range o.chunks {
		_ = s.chunk(m.shard, m.height) // it only raises the height
	}
	// Highest first, so that the highest of each shard are kept: nothing below them may be
	// endorsed.
	all := slices.Concat(s.endorsed, o.endorsed)
	slices.SortStableFunc(all, func(x, y endorsed) int { return cmp.Compare(y.height, x.height) })
	s.endorsed = nil
	for _, e := range all {
		_ = s.add(e)
	}
	slices.Reverse(s.endorsed) // in signing order
	return s.AppendBorsh(nil), nil
}

// size returns the length of AppendBorsh's encoding: 20 KiB for four shards. It is written with
// each signature.
func (s *Signatures) size() (n int) {
	if s.Ahead > 0 {
		n = 8
	}
	return n + 1 + 8 + 8 + 4 + 16*len(s.chunks) + 4 + 80*len(s.endorsed)
}

// AppendBorsh appends the stored form.
func (s *Signatures) AppendBorsh(b []byte) []byte {
	if s.Ahead > 0 {
		b = borsh.AppendUint64(append(b, 1), uint64(s.Ahead))
	} else {
		b = append(b, 0)
	}
	b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(s.Target)), uint64(s.Block))
	b = borsh.AppendSlice(b, s.chunks, func(b []byte, m *made) []byte {
		return borsh.AppendUint64(borsh.AppendUint64(b, uint64(m.shard)), uint64(m.height))
	})
	b = borsh.AppendLen(b, len(s.endorsed))
	for i := range s.endorsed {
		e := &s.endorsed[i]
		b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(e.shard)), uint64(e.height))
		b = append(append(b, e.epoch[:]...), e.chunk[:]...)
	}
	return b
}

// DecodeBorsh reads the stored form.
func (s *Signatures) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
	case 1: // of a node in eager mode
		s.Ahead = primitives.Height(r.Uint64())
	default:
		r.BadTag("Signatures", tag)
		return
	}
	s.Target, s.Block = primitives.Height(r.Uint64()), primitives.Height(r.Uint64())
	s.chunks = borsh.Slice(r, 16, func(r *borsh.Reader) made {
		return made{primitives.ShardID(r.Uint64()), primitives.Height(r.Uint64())}
	})
	s.endorsed = borsh.Slice(r, 80, func(r *borsh.Reader) endorsed {
		return endorsed{
			primitives.ShardID(r.Uint64()),
			primitives.Height(r.Uint64()),
			primitives.ReadHash(r),
			primitives.ReadHash(r),
		}
	})
}

// begin sets the tip at which a node continues. Its own block may have been persisted with its
// endorsements before these were, and is then broadcast like a peer's.
func (s *Signatures) begin(tip primitives.Height) { s.floor = max(s.floor, tip) }

// vote records an approval for a height.
func (s *Signatures) vote(target primitives.Height) { s.Target = max(s.Target, target) }

// block reports whether a block of a height may be signed, and records it.
func (s *Signatures) block(h primitives.Height) bool {
	if h <= s.Block {
		return false
	}
	s.Block = h
	return true
}

// chunk reports whether a chunk may be signed, and records it.
func (s *Signatures) chunk(shard primitives.ShardID, h primitives.Height) bool {
	i := slices.IndexFunc(s.chunks, func(m made) bool { return m.shard == shard })
	switch {
	case i < 0:
		s.chunks = append(s.chunks, made{shard, h})
	case h <= s.chunks[i].height:
		return false
	default:
		s.chunks[i].height = h
	}
	return true
}

// endorse reports whether a chunk may be endorsed, and records it: no other chunk of its shard and
// height has been, as far as is known. The same chunk may be endorsed again. fresh: the record must
// be on disk first. With ahead that is so for only one chunk in so many heights; a restart endorses
// none of those between, as it cannot know which were.
func (s *Signatures) endorse(
	key primitives.ChunkKey,
	chunk primitives.Hash,
	ahead primitives.Height,
) (fresh, may bool) {
	for i := range s.endorsed {
		if e := &s.endorsed[i]; e.shard == key.ShardID && e.height == key.HeightCreated && e.epoch == key.EpochID {
			return false, e.chunk == chunk
		}
	}
	if key.HeightCreated <= s.floor || !s.add(endorsed{key.ShardID, key.HeightCreated, key.EpochID, chunk}) {
		return false, false
	}
	if ahead > 0 {
		if key.HeightCreated <= s.Ahead {
			return false, true
		}
		s.Ahead = key.HeightCreated + ahead
	}
	return true, true
}

// add records an endorsement among the last ones of its shard. It returns false if one of its place
// is recorded, or all recorded ones are higher.
func (s *Signatures) add(x endorsed) bool {
	n, lowest := 0, -1
	for i := range s.endorsed {
		e := &s.endorsed[i]
		if e.shard != x.shard {
			continue
		}
		if e.height == x.height && e.epoch == x.epoch {
			return false
		}
		if n++; lowest < 0 || e.height < s.endorsed[lowest].height {
			lowest = i
		}
	}
	if n >= maxEndorsed {
		if x.height <= s.endorsed[lowest].height {
			return false
		}
		s.endorsed = slices.Delete(s.endorsed, lowest, lowest+1)
	}
	s.endorsed = append(s.endorsed, x)
	return true
}
