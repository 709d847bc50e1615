package consensus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// SignaturesRow is the name of the row that stores Signatures.
const SignaturesRow = "validator_signatures"

// endorsedAhead is the number of heights for which one disk write permits endorsements in eager
// mode. After a crash, the node does not know which chunks of these heights it has endorsed, so it
// endorses none of them.
const endorsedAhead = 8

// maxEndorsed is the number of endorsed chunks per shard that are recorded.
const maxEndorsed = 64

// Signatures is the slashing protection of a validator. Signatures records what is needed to refuse
// a signature that contradicts a recorded signature. The record is persisted before a signature
// leaves the node, so a restart cannot lead to double signing. Not safe for concurrent use.
type Signatures struct {
	Target primitives.Height // highest target height of an approval
	Block  primitives.Height // height of the last produced block
	Ahead  primitives.Height // this validator may have endorsed chunks up to this height without a record on disk
	// floor is the maximum of the stored Ahead and the height of the tip at the start. Up to floor,
	// this validator may endorse only chunks that the record lists as endorsed.
	floor    primitives.Height
	chunks   []made      // last produced chunk of each shard
	endorsed []endorsed  // last endorsed chunks of each shard, in the order of signing
	keys     []keyRecord // keys that this node has had, oldest first
	// unnamed means that the record has signatures, but was written by a version that did not record
	// keys. The next key is then taken for the one that made them.
	unnamed bool
}

type made struct {
	shard  primitives.ShardID
	height primitives.Height // the chunk's created height
}

type endorsed struct {
	shard  primitives.ShardID
	height primitives.Height
	epoch  primitives.EpochID
	chunk  primitives.Hash
}

// ReadSignatures decodes the stored form. An empty row means that the validator has signed nothing.
func ReadSignatures(row []byte) (*Signatures, error) {
	s := new(Signatures)
	if len(row) == 0 {
		return s, nil
	}
	if err := borsh.Unmarshal(row, s); err != nil {
		return nil, fmt.Errorf("consensus: decode the row of signed approvals and chunks: %w", err)
	}
	s.floor, s.unnamed = s.Ahead, len(s.keys) == 0
	return s, nil
}

// MergeSignatures merges two encoded Signatures of one validator. a may record signatures that b
// does not, and b signatures that a does not. The result permits only signatures that a and b
// permit.
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
		_ = s.chunk(m.shard, m.height) // can only raise the recorded height
	}
	// Sort by descending height, so that add keeps each shard's highest endorsements. Lower chunks
	// cannot be endorsed any more.
	all := slices.Concat(s.endorsed, o.endorsed)
	slices.SortStableFunc(all, func(x, y endorsed) int { return cmp.Compare(y.height, x.height) })
	s.endorsed = nil
	for _, e := range all {
		_ = s.add(e)
	}
	slices.Reverse(s.endorsed) // back to the order of signing
	for i := range o.keys {
		k := &o.keys[i]
		r, made := s.key(k.account, k.key, k.seen)
		if made {
			*r = *k
		} else {
			r.merge(k)
		}
	}
	return s.AppendBorsh(nil), nil
}

// size returns the number of bytes that AppendBorsh appends. For four shards it is about 20 KiB,
// which are written to disk for each new signature.
func (s *Signatures) size() (n int) {
	switch {
	case len(s.keys) > 0:
		n = 8 + 4
		for i := range s.keys {
			n += s.keys[i].size()
		}
	case s.Ahead > 0:
		n = 8
	}
	return n + 1 + 8 + 8 + 4 + 16*len(s.chunks) + 4 + 80*len(s.endorsed)
}

// AppendBorsh appends the stored form of s.
func (s *Signatures) AppendBorsh(b []byte) []byte {
	switch {
	case len(s.keys) > 0:
		b = borsh.AppendUint64(append(b, 2), uint64(s.Ahead))
		b = borsh.AppendSlice(b, s.keys, appendKeyRecord)
	case s.Ahead > 0:
		b = borsh.AppendUint64(append(b, 1), uint64(s.Ahead))
	default:
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
	case 1: // the form that is written in eager mode
		s.Ahead = primitives.Height(r.Uint64())
	case 2: // the form with keys
		s.Ahead = primitives.Height(r.Uint64())
		s.keys = borsh.Slice(r, new(keyRecord).size(), readKeyRecord)
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

// last returns the height of the highest recorded signature.
func (s *Signatures) last() primitives.Height {
	h := max(s.Target, s.Block, s.Ahead)
	for _, m := range s.chunks {
		h = max(h, m.height)
	}
	for i := range s.endorsed {
		h = max(h, s.endorsed[i].height)
	}
	return h
}

// begin raises floor to tip, the height of the tip at the start, or at which a key begins to sign.
// The tip may be a block of this validator that was persisted before the record of the endorsements
// in the block. This node broadcasts such a block like a peer's block, so the block's chunks count
// as endorsed.
func (s *Signatures) begin(tip primitives.Height) { s.floor = max(s.floor, tip) }

// vote records an approval of the height target.
func (s *Signatures) vote(target primitives.Height) { s.Target = max(s.Target, target) }

// block returns whether the validator may sign a block of height h. If so, block records the
// height.
func (s *Signatures) block(h primitives.Height) bool {
	if h <= s.Block {
		return false
	}
	s.Block = h
	return true
}

// chunk returns whether the validator may sign a chunk of a shard at height h. If so, chunk records
// the height.
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

// endorse returns whether the validator may endorse a chunk: the record contains no endorsement of
// another chunk of the same shard and height. If the validator may, endorse records the
// endorsement. Endorsing the same chunk again is allowed. fresh means that the record must be on
// disk before the endorsement is sent. If ahead is not 0, fresh is true only once in ahead heights.
// After a restart the validator endorses no chunk of these heights, because the record does not say
// which of these chunks the validator has endorsed.
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

// add records an endorsement. If the shard then has more than maxEndorsed endorsements, add drops
// the one with the lowest height. It returns false and records nothing in two cases: the shard has
// an endorsement of the same height and epoch, or it has maxEndorsed endorsements, none of them
// below the height of x.
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
