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

// maxSigned is the maximum number of signed blocks, chunks and approvals that a search keeps, of
// about 100 bytes each.
const maxSigned = 4 << 20

// ErrManySigned means that a recording contains more than maxSigned signed items.
var ErrManySigned = fmt.Errorf("the recording has more than %d signed blocks, chunks and votes, the limit", maxSigned)

// Conflict is a pair of items of which a validator must sign at most one. The pair is one of these:
// two blocks of a height; two chunks of a height and shard; endorsements of two blocks of a height;
// an endorsement of a block and a skip approval that skips its height. Two skip approvals to one
// height are not a conflict. If a neard receives a higher block, neard sends skip approvals from
// that block to heights for which it has already sent skip approvals from a lower block
// (chain/chain/src/doomslug.rs, process_timer). Receivers of approvals keep the newest one.
type Conflict struct {
	Account primitives.AccountID
	Kind    string // block, chunk or vote (an approval)
	Height  primitives.Height
	Shard   primitives.ShardID // for chunks
	A, B    string             // descriptions; A was recorded first
}

func (c *Conflict) String() string {
	at := fmt.Sprint("height ", c.Height)
	if c.Kind == "chunk" {
		at += fmt.Sprint(", shard ", c.Shard)
	}
	return fmt.Sprintf("%s signed two %ss at %s: %s and %s", c.Account, c.Kind, at, c.A, c.B)
}

// signedAt identifies a block, chunk or approval of which a validator may sign only one.
type signedAt struct {
	kind    byte
	account primitives.AccountID
	height  primitives.Height
	shard   primitives.ShardID
}

// skip identifies a validator's approval for height to of a block at height from, with no block in
// between.
type skip struct {
	account  primitives.AccountID
	from, to primitives.Height
}

// Search looks for conflicts between signed items in any number of recordings of one network.
// Search counts only items signed with one of the given keys, because any peer can claim that a
// validator has signed something.
type Search struct {
	keys  map[primitives.AccountID]primitives.PublicKey
	order []primitives.AccountID
	at    map[signedAt]string
	skips map[skip]bool
	known map[primitives.Hash]bool // hashes of processed headers and chunks

	Blocks, Chunks, Votes int // distinct items signed with one of the keys
	Unsigned              int // items that none of the keys signed
	Conflicts             []Conflict
}

// NewSearch returns a search for items that these accounts sign with these keys.
func NewSearch(keys map[primitives.AccountID]primitives.PublicKey) *Search {
	s := &Search{keys: map[primitives.AccountID]primitives.PublicKey{}, at: map[signedAt]string{}, skips: map[skip]bool{},
		known: map[primitives.Hash]bool{}}
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

// Read searches a recording. If the recording names validator keys, as neard's recordings do, Read
// adds these keys to the search. It reads a truncated recording to its end without an error.
func (s *Search) Read(in io.Reader) error {
	if err := s.read(in); err != nil {
		return err
	}
	s.skipped()
	return nil
}

func (s *Search) read(in io.Reader) error {
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
		if len(s.at)+len(s.skips) > maxSigned || len(s.known) > maxSigned {
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

// header records a header. A header does not name its signer, so the search tries each known key.
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
	x := skip{a.AccountID, a.Inner.SkipHeight, a.Target}
	at, what := signedAt{kind: 'v', account: a.AccountID, height: a.Target - 1}, "for "+a.Inner.Endorsement.String()
	if a.Target == 0 || (a.Inner.Skip && s.skips[x] || !a.Inner.Skip && s.at[at] == what) {
		return
	}
	if key, ok := s.keys[a.AccountID]; !ok || !a.Signature.Verify(a.Inner.SignedBytes(a.Target), key) {
		s.Unsigned++
		return
	}
	s.Votes++
	if a.Inner.Skip {
		s.skips[x] = true
		return
	}
	s.note(at, what)
}

// skipped records conflicts between skip approvals and endorsements of the same validator.
func (s *Search) skipped() {
	voted := map[primitives.AccountID][]primitives.Height{}
	for at := range s.at {
		if at.kind == 'v' {
			voted[at.account] = append(voted[at.account], at.height)
		}
	}
	for _, list := range voted {
		slices.Sort(list)
	}
	for x := range s.skips {
		list := voted[x.account]
		i, _ := slices.BinarySearch(list, x.from+1)
		for ; i < len(list) && list[i] < x.to; i++ {
			at := signedAt{kind: 'v', account: x.account, height: list[i]}
			s.conflict(at, s.at[at], fmt.Sprintf("to skip from %d to %d", x.from, x.to))
		}
	}
}

func (s *Search) note(at signedAt, what string) {
	first, ok := s.at[at]
	if !ok {
		s.at[at] = what
		return
	}
	s.conflict(at, first, what)
}

func (s *Search) conflict(at signedAt, a, b string) {
	c := Conflict{Account: at.account, Kind: map[byte]string{'b': "block", 'c': "chunk", 'v': "vote"}[at.kind],
		Height: at.height, Shard: at.shard, A: a, B: b}
	if i, found := slices.BinarySearchFunc(s.Conflicts, c, compareConflicts); !found {
		s.Conflicts = slices.Insert(s.Conflicts, i, c)
	}
}

func compareConflicts(a, b Conflict) int {
	return cmp.Or(cmp.Compare(a.Height, b.Height), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.B, b.B))
}
