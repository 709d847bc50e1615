package headerchain

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// FuzzRow: any input is refused, or is the canonical encoding of the decoded row.
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
