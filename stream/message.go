package stream

import (
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Block is a block with the results of its chunks. Its parts may be shared and must not be changed.
type Block struct {
	Author primitives.AccountID
	Block  *primitives.Block
	Hash   primitives.Hash
	// Final is the height of the last final block as of this block.
	Final  primitives.Height
	Layout primitives.ShardLayout
	Shards []Shard // shards by index in the shard layout
}

// Shard is the result of a block in one shard.
type Shard struct {
	ID       primitives.ShardID
	Author   primitives.AccountID // the chunk producer
	Chunk    *primitives.Chunk    // nil: the chunk is missing or not tracked
	Outcomes []primitives.OutcomeWithID
	Refunds  map[primitives.Hash]bool // ids of sent receipts that are refunds
}

// Details is the data of a shard that only the indexer's message needs.
type Details struct {
	// Receipts are the executed receipts by id, including local receipts.
	Receipts map[primitives.Hash]*primitives.Receipt
	// Local are the local receipts, in the chunk's order. A receipt is local if the signer of its
	// transaction is the receiver. Instant are the receipts that were both created and executed
	// within the chunk.
	Local, Instant []*primitives.Receipt
	Changes        []primitives.KeyChanges // state changes in ascending order of keys
	// Origins maps each executed receipt to the transaction from which it comes; zero: unknown. If
	// Origins is nil, the message contains no origins, as in nearcore. The neardata format contains
	// origins.
	Origins map[primitives.Hash]primitives.Hash
}

// ErrReceipt means that a receipt of a message is not available.
var ErrReceipt = errors.New("stream: a receipt is missing")

// AppendMessage appends nearcore's StreamerMessage. details are by shard, as in m.Shards.
func AppendMessage(b []byte, m *Block, details []Details) ([]byte, error) {
	var err error
	b = append(AppendBlock(append(b, `{"block":`...), m), `,"shards":[`...)
	for i := range m.Shards {
		if b, err = AppendShard(append(b, comma(i)...), m, i, &details[i]); err != nil {
			return b, err
		}
	}
	return append(b, "]}"...), nil
}

// AppendBlock appends the message's part about the block itself: author, header, chunk headers.
func AppendBlock(b []byte, m *Block) []byte {
	e := encoders.Get().(*encoder)
	return e.into(b, func() { e.block(m) })
}

func (e *encoder) block(m *Block) {
	e.b = view.AppendAccountID(append(e.b, `{"author":`...), m.Author)
	e.b = e.BlockHeader(append(e.b, `,"header":`...), m.Block.Header)
	e.b = append(e.b, `,"chunks":[`...)
	for i, h := range m.Block.Body.Chunks {
		e.b = e.ChunkHeader(append(e.b, comma(i)...), h)
	}
	e.b = append(e.b, `]}`...)
}

// AppendShard appends the message's part about the shard with that index.
func AppendShard(b []byte, m *Block, i int, d *Details) (out []byte, err error) {
	e := encoders.Get().(*encoder)
	b = e.into(b, func() { err = e.shard(m, &m.Shards[i], d) })
	return b, err
}

// encoder appends texts in the order of nearcore's structs.
type encoder struct {
	*view.Encoder
	b []byte
}

func newEncoder() *encoder { return &encoder{Encoder: view.NewEncoder(view.StructOrder)} }

func comma(i int) string {
	if i > 0 {
		return ","
	}
	return ""
}

// plan is the data that a shard's text needs from the shard's outcomes.
type plan struct {
	*Shard
	*Details
	outcomes []view.OutcomeProof
	taken    []took // valid transactions of the chunk, in order
	rest     []int  // indices of the outcomes that belong to no transaction in taken
}

// took is a transaction with the index of its outcome.
type took struct {
	tx      *primitives.SignedTransaction
	outcome int
}

func planOf(m *Block, s *Shard, d *Details) *plan {
	p := &plan{Shard: s, Details: d, outcomes: Proven(m, s)}
	of := make([]bool, len(p.outcomes))
	if s.Chunk != nil {
		byID := make(map[primitives.Hash]int, len(p.outcomes))
		for i := range p.outcomes {
			byID[p.outcomes[i].ID] = i
		}
		for _, tx := range s.Chunk.Transactions {
			if i, ok := byID[tx.Hash()]; ok {
				delete(byID, tx.Hash()) // a chunk may contain a transaction twice, but only one is executed
				of[i] = true
				p.taken = append(p.taken, took{tx, i})
			}
		}
	}
	for i := range of {
		if !of[i] {
			p.rest = append(p.rest, i)
		}
	}
	return p
}

func (e *encoder) shard(m *Block, s *Shard, d *Details) error {
	p := planOf(m, s, d)
	e.chunk(p)
	return e.executed(p)
}

// chunk appends the first half of a shard: the new chunk.
func (e *encoder) chunk(p *plan) {
	e.b = strconv.AppendUint(append(e.b, `{"shard_id":`...), uint64(p.ID), 10)
	if p.Chunk == nil {
		e.b = append(e.b, `,"chunk":null`...)
		return
	}
	header := p.Chunk.Header
	header.HeightIncluded = 0 // as in the produced chunk, which nearcore reads by hash
	e.b = view.AppendAccountID(append(e.b, `,"chunk":{"author":`...), p.Author)
	e.b = e.ChunkHeader(append(e.b, `,"header":`...), &header)
	e.b = append(e.b, `,"transactions":[`...)
	for i, x := range p.taken {
		e.b = e.Transaction(append(append(e.b, comma(i)...), `{"transaction":`...), x.tx)
		e.b = e.OutcomeProof(append(e.b, `,"outcome":{"execution_outcome":`...), &p.outcomes[x.outcome])
		e.b = append(e.b, `,"receipt":null}}`...)
	}
	for _, list := range []struct {
		name     string
		receipts []*primitives.Receipt
	}{{`],"receipts":`, p.Chunk.PrevOutgoingReceipts}, {`,"local_receipts":`, p.Local}, {`,"instant_receipts":`, p.Instant}} {
		e.b = e.Receipts(append(e.b, list.name...), list.receipts)
	}
	e.b = append(e.b, '}')
}

// executed appends the second half: the executed receipts and the shard's state changes.
func (e *encoder) executed(p *plan) error {
	e.b = append(e.b, `,"receipt_execution_outcomes":[`...)
	for i, k := range p.rest {
		outcome := &p.outcomes[k]
		receipt := p.Receipts[outcome.ID]
		if receipt == nil {
			return fmt.Errorf("%w: receipt %v, executed in block %v", ErrReceipt, outcome.ID, outcome.BlockHash)
		}
		e.b = e.OutcomeProof(append(append(e.b, comma(i)...), `{"execution_outcome":`...), outcome)
		e.b = e.Receipt(append(e.b, `,"receipt":`...), receipt)
		if p.Origins != nil {
			if tx := p.Origins[outcome.ID]; tx.IsZero() {
				e.b = append(e.b, `,"tx_hash":null`...)
			} else {
				e.b = view.AppendHash(append(e.b, `,"tx_hash":`...), &tx)
			}
		}
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, `],"state_changes":[`...)
	n := 0
	var changes []view.Change
	for i := range p.Changes {
		var err error
		if changes, err = view.AppendKeyChanges(changes[:0], &p.Changes[i]); err != nil {
			return err
		}
		for k := range changes {
			e.b = e.Change(append(e.b, comma(n)...), &changes[k])
			n++
		}
	}
	e.b = append(e.b, "]}"...)
	return nil
}

// Proven returns a shard's outcomes with their proofs.
func Proven(m *Block, s *Shard) []view.OutcomeProof {
	out := make([]view.OutcomeProof, len(s.Outcomes))
	leaves := make([]primitives.Hash, len(s.Outcomes))
	var scratch []byte
	for i := range s.Outcomes {
		out[i].OutcomeWithID, out[i].BlockHash = s.Outcomes[i], m.Hash
		leaves[i], scratch = s.Outcomes[i].LeafHashIn(scratch)
	}
	_, paths := primitives.Merklize(leaves)
	for i := range out {
		out[i].Proof = paths[i]
	}
	return out
}

// Refund records r, a receipt that the shard sends, if r is a refund (its predecessor is the
// system).
func (s *Shard) Refund(r *primitives.Receipt) {
	if r.PredecessorID != primitives.SystemAccount {
		return
	}
	if s.Refunds == nil {
		s.Refunds = map[primitives.Hash]bool{}
	}
	s.Refunds[r.ID] = true
}

// Locals yields the chunk's transactions whose signer is the receiver, each with the id of the
// receipt to which it was converted. Locals leaves out transactions without a receipt.
func (s *Shard) Locals() iter.Seq2[*primitives.SignedTransaction, primitives.Hash] {
	return func(yield func(*primitives.SignedTransaction, primitives.Hash) bool) {
		made := map[primitives.Hash]primitives.Hash{}
		for i := range s.Outcomes {
			if o := &s.Outcomes[i]; o.Outcome.Status.Kind == primitives.StatusSuccessReceiptID {
				made[o.ID] = o.Outcome.Status.ReceiptID
			}
		}
		for _, tx := range s.Chunk.Transactions {
			if tx.SignerID != tx.ReceiverID {
				continue
			}
			id, ok := made[tx.Hash()]
			delete(made, tx.Hash()) // a chunk may contain the transaction twice
			if ok && !yield(tx, id) {
				return
			}
		}
	}
}

func appendInt(b []byte, v int) []byte { return strconv.AppendInt(b, int64(v), 10) }
