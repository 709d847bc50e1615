package partialwitness

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// MaxChunks is the maximum number of chunks whose endorsements are stored (nearcore
// chunk_endorsement.rs:19).
const MaxChunks = 100

// Endorsements collects chunk endorsements for a block producer. It is not safe for concurrent use.
type Endorsements struct {
	chain  Assignments
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	chunks recent[primitives.ChunkKey, map[primitives.AccountID]endorsed]
}

// endorsed is an endorsement that may not be verified yet. Endorsements verifies the signature only
// when it uses the endorsement, or when a different endorsement by the same validator arrives. So a
// node that produces no blocks verifies hardly any endorsements.
type endorsed struct {
	*primitives.ChunkEndorsement
	good bool // the signature of the chunk hash was verified
}

// NewEndorsements returns an empty collection. verify checks signatures.
func NewEndorsements(c Assignments, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Endorsements {
	return &Endorsements{c, verify, newRecent[primitives.ChunkKey, map[primitives.AccountID]endorsed](MaxChunks)}
}

// Add stores the first endorsement of each assigned validator of a chunk. If the validator sends a
// different endorsement of the chunk, Add verifies both endorsements, and the second replaces the
// first if the first is invalid. Errors: ErrKnown, ErrIrrelevant, ErrAssigned, ErrSigner.
func (s *Endorsements) Add(e *primitives.ChunkEndorsement) error {
	m := &e.Metadata
	key := primitives.ChunkKey{ShardID: m.ShardID, EpochID: m.EpochID, HeightCreated: m.HeightCreated}
	was, known := s.chunks.by[key][m.AccountID]
	if known && (was.good || was.ChunkHash == e.ChunkHash && was.Signature == e.Signature && was.MetadataSignature == e.MetadataSignature) {
		return fmt.Errorf("%w: the endorsement of %s", ErrKnown, m.AccountID)
	}
	if !s.chain.Relevant(key) {
		return fmt.Errorf("%w: shard %d at height %d", ErrIrrelevant, key.ShardID, key.HeightCreated)
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
		if s.isSigned(was.ChunkEndorsement, list[i].PublicKey) {
			s.chunks.by[key][m.AccountID] = endorsed{was.ChunkEndorsement, true}
			return fmt.Errorf("%w: the endorsement of %s", ErrKnown, m.AccountID)
		}
		if !s.isSigned(e, list[i].PublicKey) {
			delete(s.chunks.by[key], m.AccountID)
			return fmt.Errorf("%w: expected %s", ErrSigner, m.AccountID)
		}
		fresh.good = true
	}
	of, ok := s.chunks.get(key)
	if !ok {
		if !s.hasRoom() {
			if fresh.good = s.isSigned(e, list[i].PublicKey); !fresh.good {
				return fmt.Errorf("%w: expected %s", ErrSigner, m.AccountID)
			}
			s.makeRoom()
		}
		of = map[primitives.AccountID]endorsed{}
		s.chunks.put(key, of)
	}
	of[m.AccountID] = fresh
	return nil
}

// hasRoom returns whether another chunk can be stored. If MaxChunks chunks are stored, hasRoom
// first drops the chunks that no block can include any more (Assignments.Relevant). hasRoom skips this
// step if the lowest chunk is still relevant.
func (s *Endorsements) hasRoom() bool {
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

// makeRoom drops the chunk with the fewest valid endorsements, and among chunks with equally many
// the least recently used chunk. So a validator that endorses invented chunks cannot evict a chunk
// that other validators have endorsed. More than MaxChunks invented chunks can be relevant at the
// end of an epoch, or while no block becomes final. makeRoom verifies each signature at most once.
func (s *Endorsements) makeRoom() {
	var least primitives.ChunkKey
	fewest := -1
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
			} else if s.isSigned(e.ChunkEndorsement, a.PublicKey) {
				of[a.AccountID] = endorsed{e.ChunkEndorsement, true}
			} else {
				delete(of, a.AccountID)
			}
		}
		if fewest < 0 || len(of) < fewest {
			least, fewest = k, len(of)
		}
		if fewest == 0 {
			break
		}
	}
	s.chunks.drop(least)
}

// isSigned returns whether both signatures of an endorsement are valid for a key.
func (s *Endorsements) isSigned(e *primitives.ChunkEndorsement, key primitives.PublicKey) bool {
	return s.verify(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash), key) &&
		s.verify(e.MetadataSignature, e.Metadata.AppendBorsh(nil), key)
}

// Of returns the endorsements of a chunk in the order of the assigned validators. The signature of
// a validator without an endorsement is empty. enough means that the endorsements suffice for a
// block. Of deletes invalid endorsements.
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
		// A block contains only the signature of the chunk hash, so Of verifies only that
		// signature.
		if !e.good && !s.verify(e.Signature, message, a.PublicKey) {
			// drop the invalid endorsement, because the validator's true endorsement may still
			// arrive
			delete(of, a.AccountID)
			continue
		}
		of[a.AccountID] = endorsed{e.ChunkEndorsement, true}
		signatures[i] = e.Signature
	}
	return signatures, chain.EndorsedEnough(list, func(i int) bool { return signatures[i] != "" }), nil
}
