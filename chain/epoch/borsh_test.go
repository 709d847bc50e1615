package epoch

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func sampleBlockInfo() *BlockInfo {
	return &BlockInfo{
		Hash: primitives.Hash{1}, Height: 7, LastFinalizedHeight: 5, LastFinalBlockHash: primitives.Hash{2}, PrevHash: primitives.Hash{3},
		EpochFirstBlock: primitives.Hash{4}, EpochID: primitives.Hash{5}, Proposals: stakes("test", 10), ChunkMask: []bool{true, false},
		LatestProtocolVersion: 86, TotalSupply: primitives.NEAR(1), Timestamp: 8, ChunkEndorsements: [][]byte{{3}, {}},
		ShardSplit: &primitives.ShardSplit{ShardID: 1, Boundary: "bob.near"},
	}
}

func sampleEpochInfos(t testing.TB) []*EpochInfo {
	height := uint64(9)
	in := &selectionInput{
		config: selectionConfig(100, 100, 300, smallRatio), prev: prevInfo(7, stakes("old", 5)...), version: 86, lastResharding: &height,
		proposals: proposalMap(stakes("test", 1000, 2000, 300)), layout: primitives.SingleShardLayout(),
		kickout: AccountMap[KickoutReason]{
			{"old0", KickoutReason{Kind: Unstaked}}, {"old1", produced(NotEnoughChunkEndorsements, 1, 2)},
			{"old2", KickoutReason{Kind: ProtocolVersionTooOld, Version: 85, NetworkVersion: 86}},
			{"old3", KickoutReason{Kind: NotEnoughStake, Stake: primitives.Yocto(1), Threshold: primitives.Yocto(2)}},
		},
		reward: AccountMap[primitives.Balance]{{"near", primitives.Yocto(1)}},
	}
	v5, err := proposalsToEpochInfo(in)
	if err != nil {
		t.Fatal(err)
	}
	in.version = 84
	v4, err := proposalsToEpochInfo(in)
	if err != nil {
		t.Fatal(err)
	}
	config := &Config{NumBlockProducerSeats: 10, ShardLayout: primitives.NewShardLayoutV0(1, 0)}
	v2, err := prodGenesis(config, stakes("test", 1000, 2000), nil)
	if err != nil {
		t.Fatal(err)
	}
	return []*EpochInfo{v5, v4, v2}
}

// TestStoredValuesSurviveEncoding: each value survives encoding and decoding. A prefix of an
// encoding, or one with trailing bytes, is refused.
func TestStoredValuesSurviveEncoding(t *testing.T) {
	t.Parallel()
	type value interface {
		borsh.Appender
		borsh.Decoder
	}
	summary := &EpochSummary{
		PrevEpochLastBlockHash: primitives.Hash{1}, AllProposals: proposalMap(stakes("test", 1, 2)), NextNextEpochVersion: 86,
		ValidatorKickout: AccountMap[KickoutReason]{{"test0", KickoutReason{Kind: DidNotGetASeat}}},
		Stats:            AccountMap[ValidatorStats]{{"test0", work(1, 2, 3, 4, 5, 6)}},
	}
	values := []value{sampleBlockInfo(), &BlockInfo{}, summary}
	for _, e := range sampleEpochInfos(t) {
		values = append(values, e)
	}
	for _, v := range values {
		in := v.AppendBorsh(nil)
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface().(value)
		if err := borsh.Unmarshal(in, got); err != nil {
			t.Errorf("%T: %v", v, err)
			continue
		}
		if out := got.AppendBorsh(nil); !bytes.Equal(out, in) {
			t.Errorf("%T: %x became %x", v, in, out)
		}
		for n := range in {
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface().(value)
			if err := borsh.Unmarshal(in[:n], again); !errors.Is(err, borsh.ErrInvalid) {
				t.Errorf("%T cut to %d bytes: %v, want ErrInvalid", v, n, err)
				break
			}
		}
		if err := borsh.Unmarshal(append(in, 0), got); !errors.Is(err, borsh.ErrTrailing) {
			t.Errorf("%T with one more byte: %v, want ErrTrailing", v, err)
		}
	}
}

// TestUnsortedMapIsRefused (trap 12): the encoding of a map is sorted by key.
func TestUnsortedMapIsRefused(t *testing.T) {
	t.Parallel()
	m := AccountMap[primitives.Balance]{{"bob", primitives.Yocto(1)}, {"alice", primitives.Yocto(2)}}
	r := borsh.NewReader(appendAccountMap(nil, m, appendBalance))
	readAccountMap(r, 16, primitives.ReadBalance)
	if err := r.Close(); !errors.Is(err, borsh.ErrInvalid) {
		t.Errorf("a map out of order: %v, want ErrInvalid", err)
	}
	var sorted AccountMap[primitives.Balance]
	for _, p := range m {
		sorted.Set(p.Account, p.Value)
	}
	sorted.Set("bob", primitives.Yocto(3))
	sorted.Delete("carol")
	if want := (AccountMap[primitives.Balance]{{"alice", primitives.Yocto(2)}, {"bob", primitives.Yocto(3)}}); !reflect.DeepEqual(sorted, want) {
		t.Errorf("map = %v, want %v", sorted, want)
	}
}

func FuzzBlockInfo(f *testing.F) { // the decoder refuses any input that is not the one encoding of a value
	f.Add(sampleBlockInfo().AppendBorsh(nil))
	f.Add((&BlockInfo{}).AppendBorsh(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b BlockInfo
		if borsh.Unmarshal(in, &b) == nil && !bytes.Equal(b.AppendBorsh(nil), in) {
			t.Errorf("decode then encode changed %x", in)
		}
	})
}

func FuzzEpochInfo(f *testing.F) { // in addition, a decoded value can be sampled without a panic
	for _, e := range sampleEpochInfos(f) {
		f.Add(e.AppendBorsh(nil))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var e EpochInfo
		if borsh.Unmarshal(in, &e) != nil {
			return
		}
		if !bytes.Equal(e.AppendBorsh(nil), in) {
			t.Errorf("decode then encode changed %x", in)
		}
		e.SampleBlockProducer(42)
		if len(e.Mandates.Mandates) < 1000 && e.Mandates.NumShards < 1000 {
			e.SampleChunkValidators(42)
		}
		if e.Version == EpochInfoV5 {
			for i := range e.ChunkProducers {
				_, _ = e.SampleChunkProducer(e.ShardLayout, primitives.ShardIndex(i), 42)
			}
		}
	})
}

func FuzzEpochSummary(f *testing.F) {
	f.Add((&EpochSummary{Stats: AccountMap[ValidatorStats]{{"test0", work(1, 2)}}}).AppendBorsh(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		var s EpochSummary
		if borsh.Unmarshal(in, &s) == nil && !bytes.Equal(s.AppendBorsh(nil), in) {
			t.Errorf("decode then encode changed %x", in)
		}
	})
}
