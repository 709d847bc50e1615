//go:build e2e

package e2e

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// chunkForm is a change of a chunk and its witness. If right is set, neards endorse the changed
// chunk.
type chunkForm struct {
	name   string
	right  bool
	change func(x *forgedChunk) bool // returns false if the change cannot be made to this chunk
	// only the witness is wrong: a validator that tracks the shard may endorse the chunk without it,
	// as Troupe does
	proven bool
	// whether the chunk is valid depends on the producer it names: all nodes of one kind must agree
	either bool
	// the chunk is valid only for a node that tracks the shard, since the witness does not prove it
	state bool
}

// chunkHeader returns a form that changes a field of the header.
func chunkHeader(name string, right bool, change func(h *primitives.ChunkHeader)) chunkForm {
	return chunkForm{name, right, func(x *forgedChunk) bool { change(&x.ChunkHeader); return true }, false, false, false}
}

// shown returns a form that changes the witness but not the chunk header.
func shown(name string, right bool, change func(w *primitives.ChunkStateWitness) bool) chunkForm {
	return chunkForm{name, right, func(x *forgedChunk) bool { x.seal(); return change(x.shown) }, !right, false, false}
}

// stateless returns a form that changes the state proof of the witness.
func stateless(name string, change func(w *primitives.ChunkStateWitness) bool) chunkForm {
	f := shown(name, true, change)
	f.state = true
	return f
}

// created returns a form with a height other than the one after the parent block. If one producer
// makes the chunks of both heights, it may be endorsed.
func created(name string, more int) chunkForm {
	f := chunkHeader(name, true, func(h *primitives.ChunkHeader) { h.HeightCreated += primitives.Height(more) })
	f.either = true
	return f
}

// sends returns a form whose body contains other receipts than the previous chunk produced. It does
// not apply if that chunk produced none. With root, the header's receipt root matches the body.
func sends(name string, root bool, change func([]*primitives.Receipt) []*primitives.Receipt) chunkForm {
	return chunkForm{name, false, func(x *forgedChunk) bool {
		list := x.body.PrevOutgoingReceipts
		if len(list) == 0 {
			return false
		}
		x.body.PrevOutgoingReceipts = change(list[:len(list):len(list)])
		if root {
			x.PrevOutgoingReceiptsRoot, _ = chain.OutgoingReceiptsRoot(x.body.PrevOutgoingReceipts, x.c.layout)
		}
		return x.code()
	}, false, false, false}
}

// with returns a form that adds transactions to the chunk. If the function returns nil, the form
// does not apply to this chunk.
func with(name string, right bool, list func(x *forgedChunk) []*primitives.SignedTransaction) chunkForm {
	return chunkForm{name, right, func(x *forgedChunk) bool {
		txs := list(x)
		x.body.Transactions = append(x.body.Transactions, txs...)
		return txs != nil && x.code()
	}, false, false, false}
}

// odd returns a form that adds one transaction that differs from a valid one in one respect.
func odd(name string, right bool, change func(x *forgedChunk, tx *primitives.Transaction)) chunkForm {
	return with(name, right, func(x *forgedChunk) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		change(x, tx)
		return []*primitives.SignedTransaction{x.sign(tx)}
	})
}

// transfer returns a transaction of the byzantine validator's account; nil if the chunk is of
// another shard than the account.
func (x *forgedChunk) transfer() *primitives.Transaction {
	s := x.c.signer
	if x.ShardID != x.c.shard {
		return nil
	}
	s.nonce++
	return &primitives.Transaction{SignerID: s.key.AccountID, PublicKey: s.key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: s.nonce},
		ReceiverID: "near", BlockHash: s.base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}}
}

func (x *forgedChunk) sign(tx *primitives.Transaction) *primitives.SignedTransaction {
	hash := tx.Hash()
	return primitives.NewSignedTransaction(*tx, x.c.signer.key.SecretKey.Sign(hash[:]))
}

// rightChunks are forms that neards endorse if they track the shard, since they do not read the
// state proof then. Invalid transactions in them are dropped when the chunk is applied.
var rightChunks = []chunkForm{
	chunkHeader("chunk as it was", true, func(*primitives.ChunkHeader) {}),
	chunkHeader("chunk V4", true, func(h *primitives.ChunkHeader) { h.Version = primitives.ChunkInnerV4 }),
	odd("a transaction", true, func(*forgedChunk, *primitives.Transaction) {}),
	with("a transaction twice", true, func(x *forgedChunk) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		return []*primitives.SignedTransaction{x.sign(tx), x.sign(tx)}
	}),
	with("signed by another", true, func(x *forgedChunk) []*primitives.SignedTransaction {
		tx := x.transfer()
		if tx == nil {
			return nil
		}
		hash := tx.Hash()
		return []*primitives.SignedTransaction{primitives.NewSignedTransaction(*tx, primitives.SecretKeyFromSeed(primitives.ED25519, "nobody").Sign(hash[:]))}
	}),
	odd("nonce 0", true, func(_ *forgedChunk, tx *primitives.Transaction) { tx.Nonce.Nonce = 0 }),
	odd("nonce beyond all", true, func(_ *forgedChunk, tx *primitives.Transaction) { tx.Nonce.Nonce = 1 << 62 }),
	odd("signer that does not exist", true, func(_ *forgedChunk, tx *primitives.Transaction) { tx.SignerID = "aa-nobody" }),
	odd("key that is not there", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "nobody").PublicKey()
	}),
	odd("more than there is", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.Actions = []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(4_000_000_000)}}
	}),
	odd("on a block that is not there", true, func(_ *forgedChunk, tx *primitives.Transaction) { tx.BlockHash = primitives.Hash{1} }),
	odd("a hundred and one actions", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		for range 100 {
			tx.Actions = append(tx.Actions, tx.Actions[0])
		}
	}),
	odd("a call without gas", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.Actions = []primitives.Action{&primitives.FunctionCall{Method: "x"}}
	}),
	odd("V1 with a strict nonce", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.Version, tx.NonceMode = primitives.TransactionV1, primitives.NonceStrict
	}),
	odd("no actions", true, func(_ *forgedChunk, tx *primitives.Transaction) { tx.Actions = nil }),
	odd("a stake with a key that is none", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.ReceiverID = tx.SignerID
		tx.Actions = []primitives.Action{&primitives.Stake{Stake: primitives.NEAR(50_000_000), PublicKey: primitives.ZeroED25519Key}}
	}),
	odd("code of 1.4 MB that is none", true, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.ReceiverID = tx.SignerID
		tx.Actions = []primitives.Action{&primitives.DeployContract{Code: make([]byte, 1_400_000)}}
	}),
	with("signer of another shard", true, func(x *forgedChunk) []*primitives.SignedTransaction {
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
	stateless("another state behind the transition", func(w *primitives.ChunkStateWitness) bool { w.Main.PostState[3] ^= 1; return true }),
	stateless("a transition more", func(w *primitives.ChunkStateWitness) bool { w.Implicit = append(w.Implicit, w.Main); return true }),
	stateless("less of the state", func(w *primitives.ChunkStateWitness) bool {
		if len(w.Main.Base) == 0 {
			return false
		}
		w.Main.Base = w.Main.Base[1:]
		return true
	}),
	shown("another block of the transition", true, func(w *primitives.ChunkStateWitness) bool { w.Main.Block[3] ^= 1; return true }),
}

// wrongReceipts are forms that no validator endorses.
var wrongReceipts = []chunkForm{
	sends("receipts twice", false, func(l []*primitives.Receipt) []*primitives.Receipt { return append(l, l...) }),
	sends("receipts twice, and their root", true, func(l []*primitives.Receipt) []*primitives.Receipt { return append(l, l...) }),
	sends("a receipt less", false, func(l []*primitives.Receipt) []*primitives.Receipt { return l[1:] }),
	sends("a receipt less, and their root", true, func(l []*primitives.Receipt) []*primitives.Receipt { return l[1:] }),
}

// wrongChunks are forms that no validator endorses.
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
	odd("longer than a transaction may be", false, func(_ *forgedChunk, tx *primitives.Transaction) {
		tx.Actions = []primitives.Action{&primitives.DeployContract{Code: make([]byte, 1_600_000)}}
	}),
	created("chunk of the next height", 1),
	created("chunk of the one behind that", 2),
	created("chunk of the height before", -1),
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
