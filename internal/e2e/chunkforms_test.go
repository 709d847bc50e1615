//go:build e2e

package e2e

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// chunkForm is how a chunk may be written, with its witness. What is right neards endorse.
type chunkForm struct {
	name   string
	right  bool
	change func(x *chunkTale) bool // false: it can't be said of this one
	// only the witness is wrong: a validator that holds the shard may endorse the chunk without it,
	// as Troupe does
	proven bool
	// whether it is valid depends on the producer it names: nodes of one kind must agree
	either bool
	// it is valid only to a node that holds the shard: the witness does not prove it to others
	state bool
}

// chunkHeader is a form that changes a header's field.
func chunkHeader(name string, right bool, change func(h *primitives.ChunkHeader)) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool { change(&x.ChunkHeader); return true }, false, false, false}
}

// shown is a form that changes a witness behind its header.
func shown(name string, right bool, change func(w *primitives.ChunkStateWitness) bool) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool { x.seal(); return change(x.shown) }, !right, false, false}
}

// stateless is a form that changes a witness in what it shows of the state.
func stateless(name string, change func(w *primitives.ChunkStateWitness) bool) chunkForm {
	f := shown(name, true, change)
	f.state = true
	return f
}

// created is a form with another height than the one after its block. The producer of both heights
// may get it endorsed.
func created(name string, more int) chunkForm {
	f := chunkHeader(name, true, func(h *primitives.ChunkHeader) { h.HeightCreated += primitives.Height(more) })
	f.either = true
	return f
}

// sends is a form whose body sends other receipts than the chunk before has left; where it sends
// none nothing can be said. root: the header says so, too.
func sends(name string, root bool, change func([]*primitives.Receipt) []*primitives.Receipt) chunkForm {
	return chunkForm{name, false, func(x *chunkTale) bool {
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

// with is a form that puts transactions into the chunk; of nil nothing can be said in this one.
func with(name string, right bool, list func(x *chunkTale) []*primitives.SignedTransaction) chunkForm {
	return chunkForm{name, right, func(x *chunkTale) bool {
		txs := list(x)
		x.body.Transactions = append(x.body.Transactions, txs...)
		return txs != nil && x.code()
	}, false, false, false}
}

// odd is a form that puts one transaction into the chunk that differs in something from one that is
// right.
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

// transfer is one of the liar's, which is of the shard of its account; nil: the chunk is of another
// one.
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

// rightChunks neards endorse, as they hold the shard: what a witness shows of the state is then not
// looked at. What is odd of transactions is left out when the chunk is applied.
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
	odd("V1 with a strict nonce", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.Version, tx.NonceMode = primitives.TransactionV1, primitives.NonceStrict
	}),
	odd("no actions", true, func(_ *chunkTale, tx *primitives.Transaction) { tx.Actions = nil }),
	odd("a stake with a key that is none", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.ReceiverID = tx.SignerID
		tx.Actions = []primitives.Action{&primitives.Stake{Stake: primitives.NEAR(50_000_000), PublicKey: primitives.ZeroED25519Key}}
	}),
	odd("code of 1.4 MB that is none", true, func(_ *chunkTale, tx *primitives.Transaction) {
		tx.ReceiverID = tx.SignerID
		tx.Actions = []primitives.Action{&primitives.DeployContract{Code: make([]byte, 1_400_000)}}
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

// wrongReceipts are endorsed by no validator.
var wrongReceipts = []chunkForm{
	sends("receipts twice", false, func(l []*primitives.Receipt) []*primitives.Receipt { return append(l, l...) }),
	sends("receipts twice, and their root", true, func(l []*primitives.Receipt) []*primitives.Receipt { return append(l, l...) }),
	sends("a receipt less", false, func(l []*primitives.Receipt) []*primitives.Receipt { return l[1:] }),
	sends("a receipt less, and their root", true, func(l []*primitives.Receipt) []*primitives.Receipt { return l[1:] }),
}

// wrongChunks are endorsed by no validator.
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
	odd("longer than a transaction may be", false, func(_ *chunkTale, tx *primitives.Transaction) {
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
