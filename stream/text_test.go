package stream

import (
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// transfers is the Digest of a block of four shards, in each of which 25 transfers begin and those
// of the previous block arrive: some 500 KiB of text.
func transfers() *Digest {
	n := 0
	hash := func() primitives.Hash {
		n++
		return primitives.HashBytes([]byte(strconv.Itoa(n)))
	}
	var keys []primitives.PublicKey
	for i := range 50 {
		keys = append(keys, primitives.SecretKeyFromSeed(primitives.ED25519, strconv.Itoa(i)).PublicKey())
	}
	name := func(i int) primitives.AccountID { return primitives.AccountID("a" + strconv.Itoa(i) + ".near") }
	header := (&primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}).Init()
	m := &Block{Author: "v.near", Hash: hash(), Block: &primitives.Block{Header: header}}
	var details []Details
	for shard := range 4 {
		s, d := Shard{ID: primitives.ShardID(shard), Author: "p.near"}, Details{Receipts: map[primitives.Hash]*primitives.Receipt{}}
		s.Chunk = &primitives.Chunk{Header: primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature, ChunkHeaderInner: primitives.ChunkHeaderInner{Version: primitives.ChunkInnerV5}}}
		change := func(key []byte, hash primitives.Hash, value []byte, kinds ...primitives.CauseKind) {
			k := primitives.KeyChanges{Key: key}
			for _, kind := range kinds {
				k.Changes = append(k.Changes, primitives.StateChange{Cause: primitives.StateChangeCause{Kind: kind, Hash: hash}, Value: value})
			}
			d.Changes = append(d.Changes, k)
		}
		account := (&primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182}).AppendBorsh(nil)
		access := (&primitives.AccessKey{Nonce: 77}).AppendBorsh(nil)
		outcome := func(id primitives.Hash, status primitives.ExecutionStatus, by primitives.AccountID, ids ...primitives.Hash) {
			s.Outcomes = append(s.Outcomes, primitives.OutcomeWithID{ID: id, Outcome: primitives.Outcome{ExecutorID: by, GasBurnt: 223182562500, TokensBurnt: primitives.Balance{Lo: 1<<63 + 1},
				ReceiptIDs: ids, Status: status, Metadata: primitives.ExecutionMetadata{Version: 4, Contracts: []primitives.AccountContract{{}}}}})
		}
		for i := range 25 {
			tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: name(i), ReceiverID: name(i + 1), PublicKey: keys[i], Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}},
				Nonce: primitives.TransactionNonce{Nonce: 77}}, primitives.SecretKeyFromSeed(primitives.ED25519, "x").Sign([]byte{byte(i)}))
			s.Chunk.Transactions = append(s.Chunk.Transactions, tx)
			id := hash()
			outcome(tx.Hash(), primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: id}, name(i), id)
			change(primitives.AppendAccountKey(nil, name(i)), tx.Hash(), account, primitives.CauseTransactionProcessing)
			change(primitives.AppendAccessKeyKey(nil, name(i), keys[i].Handle()), tx.Hash(), access, primitives.CauseTransactionProcessing)
			for _, from := range []primitives.AccountID{name(i), primitives.SystemAccount} {
				r := &primitives.Receipt{PredecessorID: from, ReceiverID: name(i + 1), ID: hash(), Body: &primitives.ActionReceipt{SignerID: name(i), SignerPublicKey: keys[i],
					GasPrice: primitives.Balance{Lo: 100000000}, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}}
				s.Chunk.PrevOutgoingReceipts = append(s.Chunk.PrevOutgoingReceipts, r)
				d.Receipts[r.ID] = r
				outcome(r.ID, primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue}, name(i+1))
				change(primitives.AppendAccountKey(nil, name(i+1)), r.ID, account, primitives.CauseReceiptProcessing)
			}
		}
		m.Shards, details = append(m.Shards, s), append(details, d)
	}
	return NewDigest(m, func() ([]Details, error) { return details, nil })
}

// BenchmarkText makes the text of a block of a hundred transfers, on one core.
func BenchmarkText(b *testing.B) {
	d := transfers()
	details, err := d.details()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		if text, err = AppendMessage(text[:0], d.Block, details); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(text)))
}
