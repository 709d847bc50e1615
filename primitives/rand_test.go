package primitives

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"
)

// TestChaChaStreamMatchesRand has the first words of rand_chacha 0.3's generators for the zero key
// (from its own test vectors: draft-strombergson-chacha-test-vectors and RFC 8439).
func TestChaChaStreamMatchesRand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rng  *ChaChaRng
		want string
	}{
		{"8", NewChaCha8Rng([32]byte{}), "3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e"},
		{"12", NewStdRng([32]byte{}), "9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f"},
		{"20", NewChaCha20Rng([32]byte{}), "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make([]byte, 32)
			tt.rng.Read(got)
			if hex.EncodeToString(got) != tt.want {
				t.Errorf("ChaCha%s = %x, want %s", tt.name, got, tt.want)
			}
		})
	}
	// Reading odd lengths consumes whole words; words and bytes come from one stream.
	a, b := NewStdRng([32]byte{1}), NewStdRng([32]byte{1})
	all := make([]byte, 4*40)
	a.Read(all)
	piece := make([]byte, 5)
	b.Read(piece)
	if !bytes.Equal(piece, all[:5]) {
		t.Errorf("5 bytes = %x, want %x", piece, all[:5])
	}
	if got, want := b.Uint32(), uint32(all[8])|uint32(all[9])<<8|uint32(all[10])<<16|uint32(all[11])<<24; got != want {
		t.Errorf("the word after 5 bytes = %x, want %x", got, want)
	}
}

// TestShuffleVectorA39 compares with nearcore's literals: a ChaCha20 shuffle.
func TestShuffleVectorA39(t *testing.T) {
	t.Parallel()
	s := []int{0, 1, 2, 3, 4, 5, 6}
	Shuffle(NewChaCha20Rng(HashBytes([]byte{1, 2, 3, 4, 5})), s)
	if want := []int{2, 3, 1, 4, 0, 5, 6}; !slices.Equal(s, want) {
		t.Errorf("shuffled = %v, want %v", s, want)
	}
}

// TestMandateShuffleVectorA51 compares with nearcore's literals: the shuffles of validator
// mandates.
func TestMandateShuffleVectorA51(t *testing.T) {
	t.Parallel()
	iota := func(n int) []int {
		s := make([]int, n)
		for i := range s {
			s[i] = i
		}
		return s
	}
	type partial struct{ id, weight int }
	tests := []struct {
		shards       int
		first, again []int
		mandates     []int // before the shuffle: A50's for 4 shards
		shuffled     []int
		partials     []partial
		lastly       []partial
	}{
		{
			shards: 3, first: []int{2, 1, 0}, again: []int{2, 1, 0},
			mandates: []int{0, 0, 0, 1, 1, 3, 4, 4, 4}, shuffled: []int{0, 1, 4, 4, 3, 1, 4, 0, 0},
			partials: []partial{{1, 7}, {2, 9}, {3, 2}, {4, 5}, {5, 4}, {6, 6}},
			lastly:   []partial{{3, 2}, {4, 5}, {1, 7}, {2, 9}, {5, 4}, {6, 6}},
		},
		{
			shards: 4, first: []int{0, 2, 1, 3}, again: []int{3, 2, 0, 1},
			mandates: []int{0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 4}, shuffled: []int{0, 0, 2, 1, 3, 4, 1, 1, 0, 4, 4, 4},
			partials: []partial{{0, 6}, {1, 3}, {2, 1}, {3, 4}, {4, 3}, {5, 4}, {6, 6}},
			lastly:   []partial{{5, 4}, {3, 4}, {0, 6}, {2, 1}, {1, 3}, {4, 3}, {6, 6}},
		},
	}
	for _, tt := range tests {
		rng := NewChaCha8Rng(RngSeedFromUint64(42))
		a, b := iota(tt.shards), iota(tt.shards)
		Shuffle(rng, a)
		Shuffle(rng, b)
		Shuffle(rng, tt.mandates)
		Shuffle(rng, tt.partials)
		if !slices.Equal(a, tt.first) || !slices.Equal(b, tt.again) {
			t.Errorf("%d shards: ids %v, %v, want %v, %v", tt.shards, a, b, tt.first, tt.again)
		}
		if !slices.Equal(tt.mandates, tt.shuffled) {
			t.Errorf("%d shards: mandates %v, want %v", tt.shards, tt.mandates, tt.shuffled)
		}
		if !slices.Equal(tt.partials, tt.lastly) {
			t.Errorf("%d shards: partials %v, want %v", tt.shards, tt.partials, tt.lastly)
		}
	}
}

func TestUniformStaysBelowBound(t *testing.T) {
	t.Parallel()
	r := NewStdRng([32]byte{3})
	for range 2000 {
		if v := r.UniformUint32(7); v >= 7 {
			t.Fatalf("u32 %d", v)
		}
		if v := r.UniformUint64(1<<40 + 1); v > 1<<40 {
			t.Fatalf("u64 %d", v)
		}
		if r.UniformUint32(1) != 0 || r.UniformUint64(1) != 0 {
			t.Fatal("0..1 is not 0")
		}
	}
}

func BenchmarkShuffle(b *testing.B) {
	s := make([]int, 1000)
	for b.Loop() {
		Shuffle(NewChaCha20Rng([32]byte{}), s)
	}
}
