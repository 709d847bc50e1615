//go:build e2e

package e2e

import (
	"github.com/troupe-chain/troupe/primitives"
)

// chunkForm is how a chunk may be written, with its witness. What is right neards endorse.
type chunkForm struct {
	name   string
	right  bool
	change func(x *chunkTale) bool // false: it can't be said of this one
	proven bool                    // it is the witness alone that is wrong: who holds the shard may endorse the chunk without it, as a troupe does
}

// chunkHeader is a form that changes a header's field.
func chunkHeader(name string, right bool, change func(h *primitives.ChunkHeader)) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool { change(&x.ChunkHeader); return true }, false}
}

// shown is a form that changes a witness behind its header.
func shown(name string, right bool, change func(w *primitives.ChunkStateWitness) bool) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool { x.seal(); return change(x.shown) }, !right}
}

// with is a form that puts transactions into the chunk; of nil nothing can be said in this one.
func with(name string, right bool, list func(x *chunkTale) []*primitives.SignedTransaction) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool {
		txs := list(x)
		x.body.Transactions = append(x.body.Transactions, txs...)
		return txs != nil && x.code()
	}, false}
}

// odd is a form that puts one transaction into the chunk that differs in something from one that is right.
func odd(name string, right bool, change func(x *chunkTale, tx *primitives.Transaction)) chunkForm {
	return with(name, right, func(x *chunkTale) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		change(x, tx)
		return []*primitives.SignedTransaction{x.sign(tx)}
	})
}

// transfer is one of the liar's, which is of the shard of its account; nil: the chunk is of another one.
func (x *chunkTale) transfer() *primitives.Transaction {
	s := x.c.signer
	if x.ShardID != x.c.shard {
		return nil
	}
	s.nonce++
	return &primitives.Transaction{SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
		ReceiverID: "near", BlockHash: s.base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}}
}

func (x *chunkTale) sign(tx *primitives.Transaction) *primitives.SignedTransaction {
	hash := tx.Hash()
	return primitives.NewSignedTransaction(*tx, x.c.signer.key.SecretKey.Sign(hash[:]))
}

// rightChunks neards endorse, as they hold the shard: what a witness shows of the state is then not looked at. What is odd of transactions is left out when the chunk
// is applied.
var rightChunks = []chunkForm{
	chunkHeader("chunk as it was", true, func(*primitives.ChunkHeader) {}),
	chunkHeader("chunk V4", true, func(h *primitives.ChunkHeader) { h.Version = primitives.ChunkInnerV4 }),
	odd("a transaction", true, func(*chunkTale, *primitives.Transaction) {}),
	with("a transaction twice", true, func(x *chunkTale) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		return []*primitives.SignedTransaction{x.sign(tx), x.sign(tx)}
	}),
	with("signed by another", true, func(x *chunkTale) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		hash := tx.Hash()
		return []*primitives.SignedTransaction{primitives.NewSignedTransaction(*tx, primitives.SecretKeyFromSeed(primitives.ED25519, "nobody").Sign(hash[:]))}
	}),
	odd("nonce 0", true, func(_ *chunkTale, tx *primitives.Transaction) { tx.Nonce.Nonce = 0 }),
	odd("nonce beyond all", true, func(_ *chunkTale, tx *primitives.Transaction) { tx.Nonce.Nonce = 1 << 62 }),
	odd("signer who is not there", true, func(_ *chunkTale, tx *primitives.Transaction) { tx.SignerID = "aa-nobody" }),
	odd("key that is not there", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "nobody").PublicKey()
	}),
	odd("more than there is", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.Actions = []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(4_000_000_000)}}
	}),
	odd("on a block that is not there", true, func(_ *chunkTale, tx *primitives.Transaction) { tx.BlockHash = primitives.Hash{1} }),
	odd("a hundred and one actions", true, func(_ *chunkTale, tx *primitives.Transaction) {
		for range 100 {
			tx.Actions = append(tx.Actions, tx.Actions[0])
		}
	}),
	odd("a call without gas", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.Actions = []primitives.Action{&primitives.FunctionCall{Method: "x"}}
	}),
	with("signer of another shard", true, func(x *chunkTale) []*primitives.SignedTransaction {
		if x.ShardID == x.c.shard {
			return nil
		}
		s := x.c.signer
		return []*primitives.SignedTransaction{x.sign(&primitives.Transaction{SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(),
			Nonce: primitives.TransactionNonce{Nonce: s.nonce + 1000}, ReceiverID: "near", BlockHash: s.base,
			Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}})}
	}),
	chunkHeader("a height at which it is included", true, func(h *primitives.ChunkHeader) { h.HeightIncluded = 7 }),
	shown("another signature in the witness", true, func(w *primitives.ChunkStateWitness) bool {
		w.Header.Signature = primitives.ZeroED25519Signature
		return true
	}),
	shown("another state behind the transition", true, func(w *primitives.ChunkStateWitness) bool { w.Main.PostState[3] ^= 1; return true }),
	shown("a transition more", true, func(w *primitives.ChunkStateWitness) bool { w.Implicit = append(w.Implicit, w.Main); return true }),
	shown("less of the state", true, func(w *primitives.ChunkStateWitness) bool {
		if len(w.Main.Base) == 0 {
			return false
		}
		w.Main.Base = w.Main.Base[1:]
		return true
	}),
	shown("another block of the transition", true, func(w *primitives.ChunkStateWitness) bool { w.Main.Block[3] ^= 1; return true }),
}

// wrongChunks nobody endorses.
var wrongChunks = []chunkForm{
	chunkHeader("chunk's state root", false, func(h *primitives.ChunkHeader) { h.PrevStateRoot[3] ^= 1 }),
	chunkHeader("chunk's outcome root", false, func(h *primitives.ChunkHeader) { h.PrevOutcomeRoot[3] ^= 1 }),
	chunkHeader("chunk's merkle root", false, func(h *primitives.ChunkHeader) { h.EncodedMerkleRoot[3] ^= 1 }),
	chunkHeader("chunk's length", false, func(h *primitives.ChunkHeader) { h.EncodedLength++ }),
	chunkHeader("chunk's gas used", false, func(h *primitives.ChunkHeader) { h.PrevGasUsed++ }),
	chunkHeader("chunk's gas limit", false, func(h *primitives.ChunkHeader) { h.GasLimit-- }),
	chunkHeader("chunk's burnt balance", false, func(h *primitives.ChunkHeader) {
		h.PrevBalanceBurnt = h.PrevBalanceBurnt.SaturatingAdd(primitives.Yocto(1))
	}),
	chunkHeader("chunk's receipts root", false, func(h *primitives.ChunkHeader) { h.PrevOutgoingReceiptsRoot[3] ^= 1 }),
	chunkHeader("chunk's transactions root", false, func(h *primitives.ChunkHeader) { h.TxRoot[3] ^= 1 }),
	chunkHeader("chunk's proposal", false, func(h *primitives.ChunkHeader) {
		h.PrevValidatorProposals = []primitives.ValidatorStake{{AccountID: "near", PublicKey: primitives.ZeroED25519Key, Stake: primitives.NEAR(1)}}
	}),
	chunkHeader("chunk's congestion", false, func(h *primitives.ChunkHeader) { h.CongestionInfo.ReceiptBytes++ }),
	chunkHeader("chunk's allowed shard", false, func(h *primitives.ChunkHeader) { h.CongestionInfo.AllowedShard ^= 1 }),
	chunkHeader("chunk's bandwidth", false, func(h *primitives.ChunkHeader) {
		h.BandwidthRequests = append(h.BandwidthRequests[:len(h.BandwidthRequests):len(h.BandwidthRequests)], primitives.BandwidthRequest{ToShard: 1, Bitmap: [5]byte{1}})
	}),
	chunkHeader("chunk's split", false, func(h *primitives.ChunkHeader) {
		h.ProposedSplit = &primitives.TrieSplit{Boundary: "mm", LeftMemory: 1, RightMemory: 2}
	}),
	chunkHeader("chunk of another shard", false, func(h *primitives.ChunkHeader) { h.ShardID ^= 1 }),
	shown("another epoch in the witness", false, func(w *primitives.ChunkStateWitness) bool { w.EpochID[3] ^= 1; return true }),
	shown("other receipts", false, func(w *primitives.ChunkStateWitness) bool { w.AppliedReceipts[3] ^= 1; return true }),
	shown("proof of a source less", false, func(w *primitives.ChunkStateWitness) bool {
		if len(w.Sources) == 0 {
			return false
		}
		w.Sources = w.Sources[1:]
		return true
	}),
}
