package witness

import (
	"fmt"

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

type endorsed struct {
	chunk     primitives.Hash
	signature primitives.Signature
}

// NewEndorsements returns an empty one.
func NewEndorsements(c Chain, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Endorsements {
	return &Endorsements{c, verify, newRecent[primitives.ChunkKey, map[primitives.AccountID]endorsed](MaxChunks)}
}

// Add takes an endorsement: the first one of each validator of a chunk.
func (s *Endorsements) Add(e *primitives.ChunkEndorsement) error {
	m := &e.Metadata
	key := primitives.ChunkKey{ShardID: m.ShardID, EpochID: m.EpochID, HeightCreated: m.HeightCreated}
	if _, known := s.chunks.by[key][m.AccountID]; known {
		return fmt.Errorf("%w: the endorsement of %s", ErrKnown, m.AccountID)
	}
	if !s.chain.Relevant(key) {
		return fmt.Errorf("%w: shard %d at %d", ErrIrrelevant, key.ShardID, key.HeightCreated)
	}
	list, err := s.chain.Validators(key)
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.AccountID != m.AccountID {
			continue
		}
		if !s.verify(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash), a.PublicKey) || !s.verify(e.MetadataSignature, m.AppendBorsh(nil), a.PublicKey) {
			return fmt.Errorf("%w: %s", ErrSigner, m.AccountID)
		}
		of, ok := s.chunks.get(key)
		if !ok {
			of = map[primitives.AccountID]endorsed{}
			s.chunks.put(key, of)
		}
		of[m.AccountID] = endorsed{e.ChunkHash, e.Signature}
		return nil
	}
	return fmt.Errorf("%w: %s", ErrAssigned, m.AccountID)
}

// Of returns the endorsements of a chunk in the order of assignment, empty strings where there is none, and whether they are enough for a block.
func (s *Endorsements) Of(key primitives.ChunkKey, chunk primitives.Hash) (signatures []primitives.Signature, enough bool, err error) {
	list, err := s.chain.Validators(key)
	if err != nil {
		return nil, false, err
	}
	signatures = make([]primitives.Signature, len(list))
	of := s.chunks.by[key]
	for i, a := range list {
		if e, ok := of[a.AccountID]; ok && e.chunk == chunk {
			signatures[i] = e.signature
		}
	}
	return signatures, chain.EndorsedEnough(list, func(i int) bool { return signatures[i] != "" }), nil
}
