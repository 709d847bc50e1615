package chain

import (
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

func hash(t *testing.T, text string) primitives.Hash {
	t.Helper()
	h, err := primitives.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// simpleChain returns the chain of nearcore's simple chain tests: one validator "test", one shard,
// and blocks whose times are 1 ms apart.
func simpleChain(t *testing.T, version primitives.ProtocolVersion) (*primitives.Block, []primitives.Hash) {
	t.Helper()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "test")
	stake := primitives.MustParseBalance("50000000000000000000000000000000")
	const genesisTime = 1601510400_000_000_000 + 3_444_000_000
	in := &GenesisInput{
		Version: version, Time: genesisTime, GasLimit: 1_000_000, MinGasPrice: primitives.Yocto(100),
		TotalSupply: primitives.Yocto(1_000_000_000), ShardIDs: []primitives.ShardID{0},
		StateRoots:     []primitives.Hash{hash(t, "F5owueruwL7nH2sxCQZy2nhL5VU2JU2xCXfWfK6TiiPD")},
		Congestion:     []primitives.CongestionInfo{{}},
		BlockProducers: []primitives.ValidatorStake{{AccountID: "test", PublicKey: key.PublicKey(), Stake: stake}},
	}
	genesis, chunks, err := Genesis(in)
	if err != nil {
		t.Fatal(err)
	}
	if version == 86 {
		if got, want := chunks[0].Hash.String(), "GJXokmHvShbHKLGqigFXBYHbDJMTMhmDVxKU5LjTfWpx"; got != want {
			t.Errorf("genesis chunk = %s, want %s", got, want)
		}
		if got, want := genesis.Body.Hash().String(), "EQwoLyU53ah6w8Ld83T9mhvWTYbvVmmSkM1GsUqjLg5R"; got != want {
			t.Errorf("genesis body = %s, want %s", got, want)
		}
		if got, want := genesis.Header.NextBPHash.String(), "HQ5e34oXyhoDHgq6Z1hM71Be9ux52EGJcbqQWWoypY3h"; got != want {
			t.Errorf("next_bp_hash = %s, want %s", got, want)
		}
	}
	parent, hashes := genesis, []primitives.Hash{genesis.Hash()}
	for h := primitives.Height(1); h <= 4; h++ {
		value, proof, err := key.ProveVRF(parent.Header.RandomValue[:])
		if err != nil {
			t.Fatal(err)
		}
		b, err := BuildBlock(&BlockInput{
			BlockFacts: BlockFacts{
				NextEpochID: genesis.Hash(), NextBPHash: genesis.Header.NextBPHash,
				BlockMerkleRoot: parent.Hash(), BlockOrdinal: uint64(h) + 1,
				Pricing: epoch.GasPriceRules{Min: primitives.Yocto(100), Max: primitives.Yocto(2000), AdjustmentRate: epoch.Ratio{Num: 1, Den: 100}},
			},
			Parent: parent.Header, Height: h, Timestamp: parent.Header.Timestamp + 1_000_000,
			Chunks: genesis.Body.Chunks, ChunkEndorsements: [][]primitives.Signature{nil},
			VRFValue: value, VRFProof: proof, Vote: version,
		})
		if err != nil {
			t.Fatal(err)
		}
		SignBlock(b, key)
		parent = b
		hashes = append(hashes, b.Hash())
	}
	return genesis, hashes
}

// TestSimpleChainHashesVectorA8A9: block hashes of the simple chain in protocol versions 86
// (literals of nearcore, and the blocks between them) and 85.
func TestSimpleChainHashesVectorA8A9(t *testing.T) {
	t.Parallel()
	for version, want := range map[primitives.ProtocolVersion][]string{
		86: {"432iZKRoXmYbMq4YjwwTUPVp7nvCVrEkVEQZiMykRMmS", "DxBZK9R2yNYducZryiAxaBRs2np8cr9EaxFpqsTYDGin",
			"HpWzNVGNNmar3UGu4181difqn9FhauE5aXrdibUudCYw", "6QKf8tyLjxBP5N1iA5cW2iPeTspHs6zvRK4YjhhyZ6cz",
			"5CmewzTJZhjkqrYwopdcEgeX4UmgmQ28PhiCJDcwpQev"},
		85: {"AbVLVqR2U1UA8cXU94p4XZ4LpnbZFRVqKiKB2ykoXQu4", "Hm5vLcDWs3ifFnq6D1SJvwuxoNDFNKko8nmGxqHoXHq6",
			"2NDz6LhMf3RCKTeWT1N6mL3Hdy9rK8tdXQddLTrdJk6G", "BrXrjGpnJmj9HKUuUzuexyZz5LfTvLgyQNdhrxyjpxzA",
			"ECiXkcbtKnpweHE3ssbFoqZ84zZnHohHjgKA5cxMWQpa"},
	} {
		_, got := simpleChain(t, version)
		for i := range want {
			if got[i].String() != want[i] {
				t.Errorf("version %d block %d = %s, want %s", version, i, got[i], want[i])
			}
		}
	}
}

// TestGenesisAboveZeroHasEmptyChunkMask: a genesis above height 0 has an empty chunk mask. The
// encodings depend on the protocol version of the genesis, not on that of the program.
func TestGenesisAboveZeroHasEmptyChunkMask(t *testing.T) {
	t.Parallel()
	in := GenesisInput{Version: 86, ShardIDs: []primitives.ShardID{0}, StateRoots: make([]primitives.Hash, 1), Congestion: make([]primitives.CongestionInfo, 1)}
	for height, want := range map[primitives.Height]int{0: 1, 1: 0, 9820210: 0} {
		in.Height = height
		b, chunks, err := Genesis(&in)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Header.ChunkMask) != want || b.Header.Version != primitives.HeaderV6 || chunks[0].Header.Version != primitives.ChunkInnerV5 {
			t.Errorf("height %d: mask %v, header %d, chunk %d", height, b.Header.ChunkMask, b.Header.Version, chunks[0].Header.Version)
		}
	}
	in.Version = primitives.ProdGenesisProtocolVersion
	if b, chunks, err := Genesis(&in); err != nil || b.Header.Version != primitives.HeaderV1 || chunks[0].Header.Version != primitives.ChunkInnerV1 {
		t.Errorf("version 29: %v", err)
	}
	in.Version = 84
	if _, _, err := Genesis(&in); err == nil {
		t.Error("a genesis of version 84 was made")
	}
}

// TestGenesisPrevOutcomeRootIsZero: prev_outcome_root is zero in the genesis header. In the next
// header it is the root over chunks without outcomes.
func TestGenesisPrevOutcomeRootIsZero(t *testing.T) {
	t.Parallel()
	r := newValidCase(t)
	if got := r.j.Parent.PrevOutcomeRoot; !got.IsZero() {
		t.Errorf("prev_outcome_root of the genesis = %v, want zeros", got)
	}
	one := ComputeRoots(r.j.PrevChunks[:1], 1).PrevOutcomeRoot
	if want := primitives.HashBytes(make([]byte, 32)); one != want {
		t.Errorf("prev_outcome_root above it = %v, want the hash of zeros, %v", one, want)
	}
}
