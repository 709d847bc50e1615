package primitives

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// oldHeader is a chunk's header of versions 1 and 2, without a tag.
func oldHeader() []byte {
	h := *sampleChunkHeaders()[0]
	h.Version = ChunkInnerV1
	return h.AppendBorsh(nil)[1:]
}

// anyHeaders are chunk headers of all versions, with their tags.
func anyHeaders() [][]byte {
	h := *sampleChunkHeaders()[0]
	h.ProposedSplit = &TrieSplit{Boundary: "mm"}
	signed := ZeroED25519Signature.AppendBorsh(make([]byte, 8))
	out := [][]byte{append([]byte{0}, oldHeader()...), append([]byte{1}, oldHeader()...)}
	first := append([]byte{2, 0}, oldHeader()...)
	h.Version = ChunkInnerV5
	fifth := h.AppendBorsh(nil)
	h.Version = ChunkInnerV4
	fourth := h.AppendBorsh(nil)
	tail := len(signed) + len(AppendBandwidthRequests(nil, h.BandwidthRequests))
	third := append(bytes.Clone(fourth[:len(fourth)-tail]), signed...)
	second := append(bytes.Clone(fourth[:len(fourth)-tail-len(h.CongestionInfo.AppendBorsh(nil))]), signed...)
	third[1], second[1] = 2, 1
	sixth := append(append([]byte{2, 5}, make([]byte, 4*32+3*8)...), signed...)
	return append(out, first, second, third, fourth, fifth, sixth)
}

// challenges are of each kind, with chunks of each version.
func challenges() (out [][]byte) {
	path := MerklePath{{Hash{1}, Right}}.AppendBorsh(nil)
	body := sampleChunk().ChunkBody.AppendBorsh(nil)
	by := ZeroED25519Signature.AppendBorsh(AccountID("aa").AppendBorsh(nil))
	join := func(list ...[]byte) { out = append(out, bytes.Join(append(list, by), nil)) }
	content := []byte{2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 9}
	join([]byte{0, 1, 0, 0, 0, 7, 0, 0, 0, 0})
	join([]byte{1, 0, 0, 0, 0}, path, []byte{0, 0}, oldHeader(), content)
	for _, h := range anyHeaders() {
		join([]byte{1, 0, 0, 0, 0}, path, []byte{0, 1}, h, content)
		join([]byte{1, 0, 0, 0, 0}, path, []byte{1, 1}, make([]byte, 32), h, body)
		join([]byte{2, 0, 0, 0, 0}, make([]byte, 8), path, []byte{0}, make([]byte, 32), oldHeader(), body, path, h, []byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 5})
	}
	return out
}

// TestChallengesAreDecodedAndHashed: a body with challenges of any kind is decoded, its hash covers
// them, and truncated ones are refused.
func TestChallengesAreDecodedAndHashed(t *testing.T) {
	t.Parallel()
	list := challenges()
	all := borsh.AppendUint32(nil, uint32(len(list)))
	for i, one := range list {
		all = append(all, one...)
		var y BlockBody
		x := sampleBlock().Body
		none := x.Hash()
		x.Challenges = append([]byte{1, 0, 0, 0}, one...)
		raw := x.AppendBorsh(nil)
		if err := borsh.Unmarshal(raw, &y); err != nil || !bytes.Equal(y.AppendBorsh(nil), raw) || y.Hash() == none || len(y.ChunkEndorsements) != len(x.ChunkEndorsements) {
			t.Errorf("challenge %d: %v", i, err)
		}
		x.Challenges = append([]byte{1, 0, 0, 0}, one[:len(one)-1]...)
		if err := borsh.Unmarshal(x.AppendBorsh(nil), &y); err == nil {
			t.Errorf("challenge %d, cut short, is read", i)
		}
	}
	r := borsh.NewReader(append(bytes.Clone(all), 42))
	if got := readChallenges(r); r.Err() != nil || !bytes.Equal(got, all) || r.Byte() != 42 {
		t.Errorf("%d challenges: %v", len(list), r.Err())
	}
	if len(list) < 26 {
		t.Errorf("%d challenges", len(list))
	}
}

// sampleBlocks have all valid forms.
func sampleBlocks() []*Block {
	out := []*Block{sampleBlock()}
	for _, v := range []HeaderVersion{HeaderV5, HeaderV7} {
		b := sampleBlock()
		if b.Header.Version = v; v == HeaderV7 {
			b.Header.CertifiedEpochID, b.Header.EndorsementStats = Hash{3}, []EndorsementStats{{1, 2}, {}}
		}
		b.Header.Init()
		out = append(out, b)
	}
	for _, one := range challenges() {
		b := sampleBlock()
		b.Body.Challenges = append([]byte{1, 0, 0, 0}, one...)
		out = append(out, b)
	}
	return out
}

// TestOldChunkHeaderIsOnlyInBlocks: the chunk header of a public genesis survives encoding and
// decoding in a block. In messages about chunks it is refused.
func TestOldChunkHeaderIsOnlyInBlocks(t *testing.T) {
	t.Parallel()
	h := genesisChunkHeader()
	body := BlockBody{Chunks: []*ChunkHeader{h}}
	var back BlockBody
	if err := borsh.Unmarshal(body.AppendBorsh(nil), &back); err != nil || len(back.Chunks) != 1 || !reflect.DeepEqual(back.Chunks[0], h) {
		t.Errorf("got %+v, %v, want %+v", back.Chunks, err, h)
	}
	c := &Chunk{Hash: h.ChunkHash(), Header: *h}
	if err := borsh.Unmarshal(c.AppendBorsh(nil), new(Chunk)); err == nil {
		t.Error("a chunk with an old header is read")
	}
	c.Header = *sampleChunkHeaders()[0]
	if err := borsh.Unmarshal(c.AppendBorsh(nil), new(Chunk)); err != nil {
		t.Error(err)
	}
}

// sampleHeaders returns a header of each version. Each has all fields of its version and no others.
func sampleHeaders() (out []*BlockHeader) {
	for v := HeaderV1; v <= HeaderV8; v++ {
		h := &BlockHeader{Version: v, PrevHash: Hash{1, byte(v)}, Signature: ZeroED25519Signature,
			BlockHeaderInnerLite: BlockHeaderInnerLite{Height: 7, Timestamp: 8, NextBPHash: Hash{9}},
			BlockHeaderInnerRest: BlockHeaderInnerRest{ChunkTxRoot: Hash{10}, ChunkMask: []bool{true, false}, NextGasPrice: NEAR(2),
				PrevValidatorProposals: []ValidatorStake{{"test", ZeroED25519Key, NEAR(1)}}, Approvals: []Signature{"", ZeroED25519Signature},
				LatestProtocolVersion: 29}}
		if v == HeaderV1 {
			h.ChunksIncluded = 1
		}
		if v >= HeaderV3 {
			h.BlockOrdinal, h.PrevHeight, h.EpochSyncDataHash = 6, 5, &Hash{2}
		}
		if v >= HeaderV4 {
			h.BlockBodyHash = Hash{11}
		}
		if v >= HeaderV5 {
			h.ChunkEndorsements = [][]byte{{1}, {}}
		}
		if v >= HeaderV6 {
			h.ShardSplit = &ShardSplit{ShardID: 1, Boundary: "mm"}
		}
		if v >= HeaderV7 {
			h.CertifiedEpochID, h.EndorsementStats = Hash{3}, []EndorsementStats{{1, 2}, {}}
		}
		if v >= HeaderV8 {
			h.ChunkExecutionRoot = Hash{4}
		}
		out = append(out, h.Init())
	}
	return out
}

// TestHeaderVersionsSurviveEncoding: headers of all versions survive encoding and decoding. Headers
// with challenges, which no chain has, are refused, and so are unknown versions.
func TestHeaderVersionsSurviveEncoding(t *testing.T) {
	t.Parallel()
	seen := map[Hash]bool{}
	for _, b := range sampleBlocks()[:3] {
		var back Block
		if err := borsh.Unmarshal(b.AppendBorsh(nil), &back); err != nil || back.Hash() != b.Hash() || seen[b.Hash()] {
			t.Errorf("V%d: %v", b.Header.Version+1, err)
		}
		seen[b.Hash()] = true
	}
	for _, h := range sampleHeaders() {
		var back BlockHeader
		raw := h.AppendBorsh(nil)
		if err := borsh.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(&back, h) || seen[h.Hash()] {
			t.Errorf("V%d: got %+v, want %+v: %v", h.Version+1, &back, h, err)
		}
		seen[h.Hash()] = true
		for n := range raw {
			if borsh.Unmarshal(raw[:n], new(BlockHeader)) == nil {
				t.Fatalf("V%d: %d of %d bytes are read as a header", h.Version+1, n, len(raw))
			}
		}
	}
	for _, v := range []byte{8, 9, 255} {
		raw := sampleBlock().AppendBorsh(nil)
		raw[1] = v
		if err := borsh.Unmarshal(raw, new(Block)); err == nil {
			t.Errorf("a header with tag %d is read", v)
		}
	}
	b := sampleBlocks()[1]
	lite := len(b.Header.BlockHeaderInnerLite.AppendBorsh(nil))
	raw := b.AppendBorsh(nil)
	raw[2+32+lite+4*32]++ // challenges_root
	if err := borsh.Unmarshal(raw, new(Block)); err == nil {
		t.Error("a root of challenges is read")
	}
}
