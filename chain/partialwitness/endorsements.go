package partialwitness

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// MaxChunks is of how many chunks endorsements are kept (nearcore chunk_endorsement.rs:19).
const MaxChunks = 100

// Endorsements collects what validators say of chunks, for who makes blocks. Not safe for concurrent use.
type Endorsements struct {
	chain  Chain
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	chunks recent[primitives.ChunkKey, map[primitives.AccountID]endorsed]
}

// endorsed is what a validator has said. Its signatures are looked at when it is made use of, or when it has said something else: who makes no block looks at
// none.
type endorsed struct {
	*primitives.ChunkEndorsement
	good bool // the signature of the chunk's hash is its
}

// NewEndorsements returns an empty one.
func NewEndorsements(c Chain, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Endorsements {
	return &Endorsements{c, verify, newRecent[primitives.ChunkKey, map[primitives.AccountID]endorsed](MaxChunks)}
}

// Add takes an endorsement: the first one of each validator of a chunk. Whether it is that validator's own may show later; then it makes room.
func (s *Endorsements) Add(e *primitives.ChunkEndorsement) error {
	m := &e.Metadata
	key := primitives.ChunkKey{ShardID: m.ShardID, EpochID: m.EpochID, HeightCreated: m.HeightCreated}
	was, known := s.chunks.by[key][m.AccountID]
	if known && (was.good || was.ChunkHash == e.ChunkHash && was.Signature == e.Signature && was.MetadataSignature == e.MetadataSignature) {
		return fmt.Errorf("%w: the endorsement of %s", ErrKnown, m.AccountID)
	}
	if !s.chain.Relevant(key) {
		return fmt.Errorf("%w: shard %d at %d", ErrIrrelevant, key.ShardID, key.HeightCreated)
	}
	list, err := s.chain.Validators(key)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a chain.Assigned) bool { return a.AccountID == m.AccountID })
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrAssigned, m.AccountID)
	}
	fresh := endorsed{e, false}
	if known {
		if s.signed(was.ChunkEndorsement, list[i].PublicKey) {
			s.chunks.by[key][m.AccountID] = endorsed{was.ChunkEndorsement, true}
			return fmt.Errorf("%w: the endorsement of %s", ErrKnown, m.AccountID)
		}
		if !s.signed(e, list[i].PublicKey) {
			delete(s.chunks.by[key], m.AccountID)
			return fmt.Errorf("%w: %s", ErrSigner, m.AccountID)
		}
		fresh.good = true
	}
	of, ok := s.chunks.get(key)
	if !ok {
		if !s.room() {
			if fresh.good = s.signed(e, list[i].PublicKey); !fresh.good {
				return fmt.Errorf("%w: %s", ErrSigner, m.AccountID)
			}
			s.makeRoom()
		}
		of = map[primitives.AccountID]endorsed{}
		s.chunks.put(key, of)
	}
	of[m.AccountID] = fresh
	return nil
}

// room tells whether one more chunk may be kept, when those that are of no use any more have gone: none is, if the lowest is of use.
func (s *Endorsements) room() bool {
	if len(s.chunks.order) < MaxChunks {
		return true
	}
	height := func(a, b primitives.ChunkKey) int { return cmp.Compare(a.HeightCreated, b.HeightCreated) }
	if s.chain.Relevant(slices.MinFunc(s.chunks.order, height)) {
		return false
	}
	for _, k := range slices.Clone(s.chunks.order) {
		if !s.chain.Relevant(k) {
			s.chunks.drop(k)
		}
	}
	return len(s.chunks.order) < MaxChunks
}

// makeRoom has a chunk go of which nobody has said anything, if there is one: else its least recent one goes. Each signature is looked at once.
func (s *Endorsements) makeRoom() {
	for _, k := range s.chunks.order {
		list, err := s.chain.Validators(k)
		if err != nil {
			s.chunks.drop(k)
			return
		}
		of := s.chunks.by[k]
		for _, a := range list {
			if e, ok := of[a.AccountID]; !ok || e.good {
				continue
			} else if s.signed(e.ChunkEndorsement, a.PublicKey) {
				of[a.AccountID] = endorsed{e.ChunkEndorsement, true}
			} else {
				delete(of, a.AccountID)
			}
		}
		if len(of) == 0 {
			s.chunks.drop(k)
			return
		}
	}
}

// signed tells whether an endorsement is of who has a key.
func (s *Endorsements) signed(e *primitives.ChunkEndorsement, key primitives.PublicKey) bool {
	return s.verify(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash), key) && s.verify(e.MetadataSignature, e.Metadata.AppendBorsh(nil), key)
}

// Of returns the endorsements of a chunk in the order of assignment, empty strings where there is none, and whether they are enough for a block.
func (s *Endorsements) Of(key primitives.ChunkKey, chunk primitives.Hash) (signatures []primitives.Signature, enough bool, err error) {
	list, err := s.chain.Validators(key)
	if err != nil {
		return nil, false, err
	}
	signatures = make([]primitives.Signature, len(list))
	of, message := s.chunks.by[key], primitives.ChunkEndorsementBytes(chunk)
	for i, a := range list {
		e, ok := of[a.AccountID]
		if !ok || e.ChunkHash != chunk {
			continue
		}
		if !e.good && !s.verify(e.Signature, message, a.PublicKey) { // what it says of the chunk besides nobody makes use of
			delete(of, a.AccountID) // the right one may be on its way
			continue
		}
		of[a.AccountID] = endorsed{e.ChunkEndorsement, true}
		signatures[i] = e.Signature
	}
	return signatures, chain.EndorsedEnough(list, func(i int) bool { return signatures[i] != "" }), nil
}
