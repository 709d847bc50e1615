package consensus

import (
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestSignatures: what was signed comes back from its row, and holds back what contradicts it.
func TestSignatures(t *testing.T) {
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
		if fresh, may := s.endorse(key(1, 5), primitives.Hash{1}); fresh || !may {
			t.Errorf("the same chunk again: fresh %v, may %v", fresh, may)
		}
		if _, may := s.endorse(key(1, 5), primitives.Hash{2}); may {
			t.Error("another chunk of the place is endorsed")
		}
	}
	s.vote(9)
	s.vote(8)
	if s.Target != 9 {
		t.Errorf("the greatest height voted for is %d", s.Target)
	}
	if fresh, may := s.endorse(key(1, 5), primitives.Hash{1}); !s.block(7) || !s.chunk(1, 5) || !s.chunk(2, 4) || !fresh || !may {
		t.Fatal("what contradicts nothing is held back")
	}
	check(s)
	row := s.AppendBorsh(nil)
	if len(row) != s.size() {
		t.Errorf("a row of %d bytes, said to be %d", len(row), s.size())
	}
	again, err := ReadSignatures(row)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("%v: %+v, want %+v", err, again, s)
	}
	check(again)
	if !again.block(8) || !again.chunk(1, 6) {
		t.Error("what comes next is held back")
	}
}

// TestEndorsedBound: of a shard it is known which of the last chunks were endorsed; what is below those is endorsed no more.
func TestEndorsedBound(t *testing.T) {
	s := new(Signatures)
	k := primitives.ChunkKey{ShardID: 3}
	for h := range primitives.Height(maxEndorsed + 10) {
		k.HeightCreated = h + 1
		if fresh, may := s.endorse(k, primitives.Hash{byte(h)}); !fresh || !may {
			t.Fatalf("height %d is held back", h+1)
		}
	}
	if len(s.endorsed) != maxEndorsed {
		t.Errorf("%d are kept", len(s.endorsed))
	}
	for _, h := range []primitives.Height{1, 10} {
		k.HeightCreated = h
		if _, may := s.endorse(k, primitives.Hash{99}); may {
			t.Errorf("height %d, which was forgotten, is endorsed again", h)
		}
	}
	k.ShardID, k.HeightCreated = 4, 1
	if _, may := s.endorse(k, primitives.Hash{99}); !may {
		t.Error("one shard's chunks hold back another's")
	}
}

// TestBadRow: a row that is none is no reason to begin with nothing.
func TestBadRow(t *testing.T) {
	row := new(Signatures).AppendBorsh(nil)
	for _, bad := range [][]byte{row[:len(row)-1], append(row[:len(row):len(row)], 0), {7}} {
		if _, err := ReadSignatures(bad); err == nil {
			t.Errorf("%x is read", bad)
		}
	}
	if s, err := ReadSignatures(nil); err != nil || s.Target != 0 {
		t.Errorf("no row: %+v, %v", s, err)
	}
}
