package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// maxSigned is how many things that were signed a search keeps: some 100 bytes each.
const maxSigned = 4 << 20

// ErrManySigned says that a recording holds more than a search for conflicts keeps.
var ErrManySigned = fmt.Errorf("more than %d blocks, chunks and votes", maxSigned)

// Conflict is two things that a validator signed and never should have: two blocks of a height, two chunks of a height and shard, two votes for
// one height (nearcore chain/chain/src/doomslug.rs, largest_target_height).
type Conflict struct {
	Account primitives.AccountID
	Kind    string // block, chunk, vote
	Height  primitives.Height
	Shard   primitives.ShardID // of chunks
	A, B    string             // what they are, the first that was heard before
}

func (c *Conflict) String() string {
	at := fmt.Sprint("height ", c.Height)
	if c.Kind == "chunk" {
		at += fmt.Sprint(", shard ", c.Shard)
	}
	return fmt.Sprintf("%s signed two %ss at %s: %s and %s", c.Account, c.Kind, at, c.A, c.B)
}

// signedAt is a place for which a validator signs one thing.
type signedAt struct {
	kind    byte
	account primitives.AccountID
	height  primitives.Height
	shard   primitives.ShardID
}

// Search looks for conflicts in what validators signed, over any number of recordings of one network. Only what is signed with one of the keys
// counts: anybody can say what a validator has not signed.
type Search struct {
	keys  map[primitives.AccountID]primitives.PublicKey
	order []primitives.AccountID
	at    map[signedAt]string
	known map[primitives.Hash]bool // headers and chunks that were looked at

	Blocks, Chunks, Votes int // that were signed with one of the keys, each once
	Unsigned              int // that none of the keys has signed
	Conflicts             []Conflict
}

// NewSearch begins a search for what these accounts sign with these keys.
func NewSearch(keys map[primitives.AccountID]primitives.PublicKey) *Search {
	s := &Search{keys: map[primitives.AccountID]primitives.PublicKey{}, at: map[signedAt]string{}, known: map[primitives.Hash]bool{}}
	for id, key := range keys {
		s.add(id, key)
	}
	return s
}

func (s *Search) add(id primitives.AccountID, key primitives.PublicKey) {
	if _, ok := s.keys[id]; !ok {
		i, _ := slices.BinarySearch(s.order, id)
		s.order = slices.Insert(s.order, i, id)
	}
	s.keys[id] = key
}

// Read searches a recording. Validators' keys that it names are learned, as neard's recordings name them. A recording that was cut off is
// searched to where it ends.
func (s *Search) Read(in io.Reader) error {
	for l, err := range Lines(in) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, n := range l.Nodes {
			if n.Validator.Account != "" {
				s.add(n.Validator.Account, n.Validator.Public)
			}
		}
		if len(l.Frame) == 0 {
			continue
		}
		m, err := wire.Decode(l.Frame)
		if err != nil {
			continue
		}
		s.message(m)
		if len(s.at) > maxSigned || len(s.known) > maxSigned {
			return ErrManySigned
		}
	}
	return nil
}

func (s *Search) message(m wire.Message) {
	switch m := m.(type) {
	case *wire.Block:
		if m.Block == nil {
			return
		}
		s.header(m.Block.Header)
		for _, h := range m.Block.Body.Chunks {
			s.chunk(h)
		}
	case *wire.Headers:
		for _, h := range m.Headers {
			s.header(h)
		}
	case *wire.Routed:
		switch b := m.Body.(type) {
		case *wire.BlockApproval:
			s.vote(&b.Approval)
		case *wire.PartialChunk:
			s.chunk(&b.Header)
		}
	}
}

// header and chunk do not say who signed them: it is one of those whose keys are known.
func (s *Search) header(h *primitives.BlockHeader) {
	hash := h.Hash()
	if s.known[hash] || h.Height == 0 {
		return
	}
	if s.signed(hash, h.Signature, signedAt{kind: 'b', height: h.Height}) {
		s.Blocks++
	}
}

func (s *Search) chunk(h *primitives.ChunkHeader) {
	hash := h.ChunkHash()
	if s.known[hash] || h.HeightCreated == 0 {
		return
	}
	if s.signed(hash, h.Signature, signedAt{kind: 'c', height: h.HeightCreated, shard: h.ShardID}) {
		s.Chunks++
	}
}

func (s *Search) signed(hash primitives.Hash, sig primitives.Signature, at signedAt) bool {
	for _, id := range s.order {
		if sig.Verify(hash[:], s.keys[id]) {
			s.known[hash] = true
			at.account = id
			s.note(at, hash.String())
			return true
		}
	}
	s.Unsigned++
	return false
}

func (s *Search) vote(a *primitives.Approval) {
	at := signedAt{kind: 'v', account: a.AccountID, height: a.Target}
	what := "for " + a.Inner.Endorsement.String()
	if a.Inner.Skip {
		what = fmt.Sprint("to skip from ", a.Inner.SkipHeight)
	}
	if s.at[at] == what {
		return
	}
	if key, ok := s.keys[a.AccountID]; !ok || !a.Signature.Verify(a.Inner.SignedBytes(a.Target), key) {
		s.Unsigned++
		return
	}
	s.Votes++
	s.note(at, what)
}

func (s *Search) note(at signedAt, what string) {
	first, ok := s.at[at]
	if !ok {
		s.at[at] = what
		return
	}
	c := Conflict{Account: at.account, Kind: map[byte]string{'b': "block", 'c': "chunk", 'v': "vote"}[at.kind], Height: at.height, Shard: at.shard, A: first, B: what}
	if i, found := slices.BinarySearchFunc(s.Conflicts, c, compareConflicts); !found {
		s.Conflicts = slices.Insert(s.Conflicts, i, c)
	}
}

func compareConflicts(a, b Conflict) int {
	return cmp.Or(cmp.Compare(a.Height, b.Height), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.B, b.B))
}
