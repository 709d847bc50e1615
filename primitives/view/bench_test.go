package view

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

func BenchmarkAppend(b *testing.B) {
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.Signature("\x00" + string(make([]byte, 64)))}
	header.EpochID, header.RandomValue, header.PrevHash = testHash, testHash, testHash
	header.Init()
	block := &primitives.Block{Header: header}
	for i := range 4 {
		block.Body.Chunks = append(block.Body.Chunks, &primitives.ChunkHeader{Signature: header.Signature, ChunkHeaderInner: primitives.ChunkHeaderInner{
			Version: primitives.ChunkInnerV5, ShardID: primitives.ShardID(i), PrevStateRoot: testHash, TxRoot: testHash, PrevBlockHash: testHash}})
	}
	account := &primitives.Account{Amount: primitives.NEAR(1_000_000), StorageUsage: 182}
	signed := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: testKey,
		Actions: []primitives.Action{&primitives.Transfer{Deposit: near1}}}, header.Signature)
	status := &Status{ChainID: "test-chain", Validators: []primitives.AccountID{"test.near"}, NodePublicKey: testKey,
		ValidatorPublicKey: testKey, GenesisHash: testHash, Sync: SyncInfo{LatestBlockHash: testHash, EpochID: testHash}}
	for _, c := range []struct {
		name string
		do   func([]byte) []byte
	}{
		{"view=account", func(buf []byte) []byte { return AppendQueryAccount(buf, account, &testAt) }},
		{"view=transaction", func(buf []byte) []byte { return AppendSignedTransaction(buf, signed) }},
		{"view=status", func(buf []byte) []byte { return AppendNodeStatus(buf, status, Sorted) }},
		{"view=block/shards=4", func(buf []byte) []byte { return AppendBlock(buf, "a.near", block) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 32<<10)
			for b.Loop() {
				buf = c.do(buf[:0])
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
