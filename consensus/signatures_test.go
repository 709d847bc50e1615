package consensus

import (
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRestoredSignaturesRefuseConflicts: Signatures are restored from the stored row and refuse
// contradicting signatures.
func TestRestoredSignaturesRefuseConflicts(t *testing.T) {
	s := new(Signatures)
	key := func(shard primitives.ShardID, h primitives.Height) primitives.ChunkKey {
		return primitives.ChunkKey{ShardID: shard, EpochID: primitives.Hash{9}, HeightCreated: h}
	}
	check := func(s *Signatures) {
		t.Helper()
		for _, x := range []struct {
			what      string
			got, want bool
		}{
			{"a block of the same height", s.block(7), false},
			{"a lower block", s.block(6), false},
			{"a chunk of the same height", s.chunk(1, 5), false},
		} {
			if x.got != x.want {
				t.Errorf("%s: %v", x.what, x.got)
			}
		}
		if fresh, may := s.endorse(key(1, 5), primitives.Hash{1}, 0); fresh || !may {
			t.Errorf("the same chunk again: fresh %v, may %v", fresh, may)
		}
		if _, may := s.endorse(key(1, 5), primitives.Hash{2}, 0); may {
			t.Error("another chunk of the place is endorsed")
		}
	}
	s.vote(9)
	s.vote(8)
	if s.Target != 9 {
		t.Errorf("the greatest height voted for is %d", s.Target)
	}
	if fresh, may := s.endorse(key(1, 5), primitives.Hash{1}, 0); !s.block(7) || !s.chunk(1, 5) || !s.chunk(2, 4) || !fresh || !may {
		t.Fatal("what contradicts nothing is held back")
	}
	check(s)
	row := s.AppendBorsh(nil)
	if len(row) != s.size() {
		t.Errorf("a row of %d bytes, size returns %d", len(row), s.size())
	}
	again, err := ReadSignatures(row)
	if s.unnamed = true; err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("%v: %+v, want %+v", err, again, s)
	}
	check(again)
	if !again.block(8) || !again.chunk(1, 6) {
		t.Error("what comes next is held back")
	}
}

// TestForgottenHeightsAreNotEndorsed: the last maxEndorsed endorsed chunks of a shard are recorded,
// and chunks below them may not be endorsed any more.
func TestForgottenHeightsAreNotEndorsed(t *testing.T) {
	s := new(Signatures)
	k := primitives.ChunkKey{ShardID: 3}
	for h := range primitives.Height(maxEndorsed + 10) {
		k.HeightCreated = h + 1
		if fresh, may := s.endorse(k, primitives.Hash{byte(h)}, 0); !fresh || !may {
			t.Fatalf("height %d is refused", h+1)
		}
	}
	if len(s.endorsed) != maxEndorsed {
		t.Errorf("%d endorsements are recorded, want %d", len(s.endorsed), maxEndorsed)
	}
	for _, h := range []primitives.Height{1, 10} {
		k.HeightCreated = h
		if _, may := s.endorse(k, primitives.Hash{99}, 0); may {
			t.Errorf("height %d, which was forgotten, is endorsed again", h)
		}
	}
	k.ShardID, k.HeightCreated = 4, 1
	if _, may := s.endorse(k, primitives.Hash{99}, 0); !may {
		t.Error("endorsements of one shard block another shard")
	}
}

// TestMalformedSignaturesRowIsAnError: it does not give an empty record.
func TestMalformedSignaturesRowIsAnError(t *testing.T) {
	row := new(Signatures).AppendBorsh(nil)
	for _, bad := range [][]byte{row[:len(row)-1], append(row[:len(row):len(row)], 0), {7}} {
		if _, err := ReadSignatures(bad); err == nil {
			t.Errorf("malformed row %x is accepted", bad)
		}
	}
	if s, err := ReadSignatures(nil); err != nil || s.Target != 0 {
		t.Errorf("no row: %+v, %v", s, err)
	}
}

// TestMergedSignaturesRefuseWhatEitherDoes: merging two rows, in either order, refuses what one of
// the rows refuses, even if both are full.
func TestMergedSignaturesRefuseWhatEitherDoes(t *testing.T) {
	key := func(shard primitives.ShardID, h primitives.Height) primitives.ChunkKey {
		return primitives.ChunkKey{ShardID: shard, HeightCreated: h}
	}
	a, b := new(Signatures), new(Signatures)
	a.vote(9)
	a.block(3)
	a.chunk(1, 5)
	a.chunk(2, 7)
	b.vote(6)
	b.block(8)
	b.chunk(1, 6)
	b.chunk(2, 4)
	b.chunk(3, 1)
	for h := range primitives.Height(maxEndorsed) {
		a.endorse(key(1, 2*h+1), primitives.Hash{1}, 0)
		b.endorse(key(1, 2*h+2), primitives.Hash{1}, 0)
	}
	a.endorse(key(4, 1), primitives.Hash{1}, 0)
	b.endorse(key(5, 1), primitives.Hash{1}, 0)
	for _, rows := range [][2][]byte{{a.AppendBorsh(nil), b.AppendBorsh(nil)}, {b.AppendBorsh(nil), a.AppendBorsh(nil)}} {
		row, err := MergeSignatures(rows[0], rows[1])
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadSignatures(row)
		if err != nil {
			t.Fatal(err)
		}
		if s.Target != 9 || s.block(8) || s.chunk(1, 6) || s.chunk(2, 7) || s.chunk(3, 1) {
			t.Errorf("it has forgotten: %+v", s)
		}
		for h := range primitives.Height(2 * maxEndorsed) {
			if _, may := s.endorse(key(1, h+1), primitives.Hash{2}, 0); may {
				t.Fatalf("another chunk of height %d is endorsed", h+1)
			}
		}
		for _, shard := range []primitives.ShardID{4, 5} {
			if _, may := s.endorse(key(shard, 1), primitives.Hash{2}, 0); may {
				t.Errorf("another chunk of shard %d is endorsed", shard)
			}
		}
		if !s.block(9) || !s.chunk(1, 7) {
			t.Error("what comes next is held back")
		}
		if again, err := MergeSignatures(row, rows[1]); err != nil || len(again) != len(row) {
			t.Errorf("joined once more: %d bytes of %d, %v", len(again), len(row), err)
		}
	}
	if row, err := MergeSignatures(nil, a.AppendBorsh(nil)); err != nil || len(row) != a.size() {
		t.Errorf("with none: %d bytes, %v", len(row), err)
	}
	if _, err := MergeSignatures(a.AppendBorsh(nil), []byte{7}); err == nil {
		t.Error("a row that is none is joined")
	}
}

// TestEagerEndorsementsArePersistedInAdvance: in eager mode only one endorsement in endorsedAhead
// heights is persisted first. No contradicting endorsement is possible after a restart.
func TestEagerEndorsementsArePersistedInAdvance(t *testing.T) {
	key := func(h primitives.Height) primitives.ChunkKey {
		return primitives.ChunkKey{ShardID: 3, HeightCreated: h, EpochID: primitives.Hash{1}}
	}
	s, row, writes := new(Signatures), []byte(nil), 0
	for h := primitives.Height(1); h <= 40; h++ {
		fresh, may := s.endorse(key(h), primitives.Hash{byte(h)}, endorsedAhead)
		if !may {
			t.Fatalf("the endorsement at %d is refused", h)
		}
		if fresh {
			row = s.AppendBorsh(nil)
			writes++
		}
		for _, crash := range []primitives.Height{0, 1, endorsedAhead + 1} { // heights after h, without endorsements
			b, err := ReadSignatures(row)
			if err != nil {
				t.Fatal(err)
			}
			joined, err := MergeSignatures(row, (&Signatures{Target: 7}).AppendBorsh(nil))
			if err != nil {
				t.Fatal(err)
			}
			c, err := ReadSignatures(joined)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*Signatures{b, c} {
				if _, may := r.endorse(key(h), primitives.Hash{99}, crash); may {
					t.Fatalf("another chunk of %d is endorsed behind a crash", h)
				}
				if _, may := r.endorse(key(h+endorsedAhead+1), primitives.Hash{1}, 0); !may {
					t.Fatalf("nothing is endorsed any more behind a crash at %d", h)
				}
			}
		}
	}
	if writes != 40/(endorsedAhead+1)+1 {
		t.Errorf("%d writes for 40 chunks", writes)
	}
	if fresh, may := s.endorse(key(41), primitives.Hash{41}, 0); !fresh || !may {
		t.Error("without haste it is not written down")
	}
	if _, may := s.endorse(key(30), primitives.Hash{99}, endorsedAhead); may {
		t.Error("another chunk of 30")
	}
}
