package headerchain

import (
	"bytes"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// FuzzRow: the decoder refuses any input that is not the canonical encoding of a row.
func FuzzRow(f *testing.F) {
	for i := range 3 {
		h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
		h.Height, h.ChunkMask, h.ChunkEndorsements = primitives.Height(i), make([]bool, i), make([][]byte, i)
		h.Init()
		tree := new(primitives.PartialMerkleTree)
		for k := range i {
			tree.Insert(primitives.Hash{byte(k)})
		}
		r := &Row{Header: h, Info: epoch.BlockInfoFromHeader(h, 0), Tree: tree}
		r.Info.ChunkProducers = make([]epoch.ValidatorID, i)
		raw := r.AppendBorsh(nil)
		if err := borsh.Unmarshal(raw, new(Row)); err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r Row
		if borsh.Unmarshal(in, &r) != nil {
			return
		}
		out := r.AppendBorsh(nil)
		var again Row
		if err := borsh.Unmarshal(out, &again); err != nil || !bytes.Equal(again.AppendBorsh(nil), out) {
			t.Errorf("%x became %x: %v", in, out, err)
		}
	})
}

// TestRowStoresChunkProducers: the chunk producers of an anchor are stored with its header. A
// header without them has the same encoding as before version 87.
func TestRowStoresChunkProducers(t *testing.T) {
	t.Parallel()
	h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	h.Init()
	r := &Row{Header: h, Info: epoch.BlockInfoFromHeader(h, 0), Tree: new(primitives.PartialMerkleTree), Final: 3}
	plain := r.AppendBorsh(nil)
	r.Info.ChunkProducers = []epoch.ValidatorID{7, 0}
	raw := r.AppendBorsh(nil)
	if want := borsh.AppendUint64s(bytes.Clone(plain), r.Info.ChunkProducers); !bytes.Equal(raw, want) {
		t.Errorf("row %x, want %x", raw, want)
	}
	for _, c := range []struct {
		raw  []byte
		want []epoch.ValidatorID
	}{{plain, nil}, {raw, r.Info.ChunkProducers}} {
		var got Row
		if err := borsh.Unmarshal(c.raw, &got); err != nil || !slices.Equal(got.Info.ChunkProducers, c.want) || got.Final != 3 {
			t.Errorf("read chunk producers %v, final %d, %v", got.Info.ChunkProducers, got.Final, err)
		}
	}
}

// TestFirstBlockAfterProofHasProducers: from protocol version 87 on, the first block after an epoch
// sync proof has chunk producers, as with an empty list.
func TestFirstBlockAfterProofHasProducers(t *testing.T) {
	t.Parallel()
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	config := epoch.Config{NumBlockProducerSeats: 9, NumChunkProducerSeats: 9, NumChunkValidatorSeats: 9, EpochLength: 10,
		TargetValidatorMandatesPerShard: 4, MinimumStakeDivisor: 10, MinimumValidatorsPerShard: 2, MinimumStakeRatio: epoch.Ratio{Num: 1, Den: 100},
		OnlineMinThreshold: epoch.Ratio{Num: 9, Den: 10}, OnlineMaxThreshold: epoch.Ratio{Num: 99, Den: 100}, ShardLayout: layout,
		ProtocolUpgradeStakeThreshold: epoch.Ratio{Num: 4, Den: 5}, MaxInflationRate: epoch.Ratio{Num: 1, Den: 20}}
	for _, pv := range []primitives.ProtocolVersion{86, 87} {
		g := &epoch.GenesisParams{ChainID: "test-chain-start", ProtocolVersion: pv, ProtocolTreasuryAccount: "near",
			ProtocolRewardRate: epoch.Ratio{Num: 1, Den: 10}, Epoch: config}
		for _, name := range []primitives.AccountID{"a", "b", "c"} {
			g.Validators = append(g.Validators, primitives.ValidatorStake{AccountID: name, PublicKey: primitives.ZeroED25519Key, Stake: primitives.NEAR(100)})
		}
		configs, err := epoch.NewConfigs(g, nil, 87)
		if err != nil {
			t.Fatal(err)
		}
		info, err := epoch.GenesisEpochInfo(g, configs)
		if err != nil {
			t.Fatal(err)
		}
		header := func(height primitives.Height, prev *primitives.BlockHeader) *primitives.BlockHeader {
			h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
			if h.Height = height; prev != nil {
				h.PrevHash = prev.Hash()
			}
			h.Init()
			return h
		}
		p := new(EpochProof)
		p.Current.PrevPrev = header(48, nil)
		p.Current.Prev = header(49, p.Current.PrevPrev)
		first := header(50, p.Current.Prev)
		first.LastFinalBlock = p.Current.PrevPrev.Hash()
		first.Init()
		p.Current.First, p.Current.Tree = first, new(primitives.PartialMerkleTree)
		p.Last = LastEpoch{Info: info, Next: info, NextNext: info, First: &epoch.BlockInfo{},
			End: epoch.BlockInfoFromHeader(p.Current.Prev, 47), BeforeTheLast: epoch.BlockInfoFromHeader(p.Current.PrevPrev, 46)}
		s, err := p.Start()
		if err != nil {
			t.Fatal(err)
		}
		var want []epoch.ValidatorID
		for i := range layout.NumShards() {
			v, err := info.SampleChunkProducer(layout, primitives.ShardIndex(i), 52)
			if err != nil {
				t.Fatal(err)
			}
			if pv >= 87 {
				want = append(want, v)
			}
		}
		for i, r := range s.Rows {
			if got := r.Info.ChunkProducers; i < 2 && got != nil || i == 2 && !slices.Equal(got, want) {
				t.Errorf("version %d, row %d: chunk producers %v, want %v", pv, i, got, want)
			}
		}
	}
}
