package consensus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// SignaturesRow is the name under which Signatures are kept.
const SignaturesRow = "validator_signatures"

// endorsedAhead is for how many heights a network that hurries endorses chunks behind one write to the disk. A crash costs it the endorsements of so many.
const endorsedAhead = 8

// maxEndorsed is of how many chunks of a shard it is known which were endorsed.
const maxEndorsed = 64

// Signatures is what a validator has signed, as much of it as tells whether another signature would contradict: it is on disk before the
// signature leaves the node, so that no restart makes it say otherwise.
type Signatures struct {
	Target   primitives.Height // the greatest height voted for
	Block    primitives.Height // of the last block made
	Ahead    primitives.Height // chunks up to there may be endorsed before it is on disk which
	floor    primitives.Height // what Ahead was when this was read, or the tip's height: of chunks up to there nobody knows, unless they are among endorsed
	chunks   []made            // the last one made of each shard
	endorsed []endorsed        // of each shard the last ones, by height
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

// ReadSignatures reads what AppendBorsh wrote; nothing: of a validator that has signed nothing.
func ReadSignatures(row []byte) (*Signatures, error) {
	s := new(Signatures)
	if len(row) == 0 {
		return s, nil
	}
	if err := borsh.Unmarshal(row, s); err != nil {
		return nil, fmt.Errorf("consensus: what was signed: %w", err)
	}
	s.floor = s.Ahead
	return s, nil
}

// MergeSignatures joins what AppendBorsh wrote at two places, one of which may know what the other does not: it forgets nothing of both.
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
		_ = s.chunk(m.shard, m.height) // it raises only
	}
	// The highest first, so that of each shard those are kept: of what is below them nothing is endorsed.
	all := slices.Concat(s.endorsed, o.endorsed)
	slices.SortStableFunc(all, func(x, y endorsed) int { return cmp.Compare(y.height, x.height) })
	s.endorsed = nil
	for _, e := range all {
		_ = s.add(e)
	}
	slices.Reverse(s.endorsed) // as they were signed
	return s.AppendBorsh(nil), nil
}

// size is how many bytes AppendBorsh appends: 20 KiB of four shards, with each signature.
func (s *Signatures) size() (n int) {
	if s.Ahead > 0 {
		n = 8
	}
	return n + 1 + 8 + 8 + 4 + 16*len(s.chunks) + 4 + 80*len(s.endorsed)
}

// AppendBorsh appends our storage form.
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

// DecodeBorsh reads our storage form.
func (s *Signatures) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
	case 1: // of a network that hurries
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
		return endorsed{primitives.ShardID(r.Uint64()), primitives.Height(r.Uint64()), primitives.ReadHash(r), primitives.ReadHash(r)}
	})
}

// beginImport has a node go on at a tip. A block of its own may have come to the disk with its endorsements before these did, and is told as others' are.
func (s *Signatures) begin(tip primitives.Height) { s.floor = max(s.floor, tip) }

// vote notes an approval for a height.
func (s *Signatures) vote(target primitives.Height) { s.Target = max(s.Target, target) }

// block tells whether a block of a height may be signed, and notes it.
func (s *Signatures) block(h primitives.Height) bool {
	if h <= s.Block {
		return false
	}
	s.Block = h
	return true
}

// chunk tells whether a chunk may be signed, and notes it.
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

// endorse tells whether a chunk may be endorsed, and notes it: no other of its shard and height was, as far as that is still known. The same one may
// be endorsed again; fresh: it is to be on disk before. With ahead that is asked of one chunk in so many heights: of those between a restart knows only that some
// may have been endorsed, and endorses none.
func (s *Signatures) endorse(key primitives.ChunkKey, chunk primitives.Hash, ahead primitives.Height) (fresh, may bool) {
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

// add keeps an endorsement among the last of its shard, unless there is one of its place. It is false for one that is below all that are kept.
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
