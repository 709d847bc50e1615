package storage

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Block is everything that storage keeps of one block. Commit stores it in one atomic step.
//
// The engine encodes the byte strings; storage does not decode them. A nil byte string is not
// stored. Commit takes over the block's memory: the caller must not change it afterwards.
type Block struct {
	Ref       BlockRef
	Prev      BlockRef // parent; zero for the genesis
	Timestamp uint64   // ns since 1970
	Ordinal   uint64   // value of block_ordinal in the header
	Epoch     primitives.EpochID
	// Final is the last final block as of this block: an ancestor or this block itself. It is zero
	// while no block is final.
	Final BlockRef
	// Head is set if this block becomes the head.
	Head bool

	Header, Body []byte // encoded header and body, stored apart so that each can be read alone
	Info         []byte // encoded epoch.StoredBlockInfo
	MerkleTree   []byte // encoded PartialMerkleTree of the blocks before this one
	Shards       []Shard
	Splits       []Split // splits of shards of the parent's layout that take effect with this block
	Puts         *Batch  // rows of the engine's columns, applied with the block; nil: none
	Patch        []byte  // sandbox state patch of the block, encoded by the engine; nil: none
}

// Shard is the result of one block in one shard.
type Shard struct {
	ID    primitives.ShardID
	Chunk *Chunk // the block's new chunk of the shard; nil: none
	Extra []byte // encoded ChunkExtra
	// Outcomes are in execution order: transactions, then receipts.
	Outcomes []Outcome
	// Outgoing are the receipts for other chunks, in order. Local are the receipts that this chunk
	// made and executed. Delayed are the receipts that this chunk took off the shard's queue and
	// processed.
	//
	// Delayed receipts are stored a second time. The record of the block that made the receipts may
	// be garbage collected, or may be missing if the store began in the middle of the chain
	// (ImportAt). A local receipt that was put on the queue is stored only in Delayed.
	Outgoing, Local, Delayed []Receipt
	// Origins name the parents of receipts that this chunk made. Origins leaves out receipts whose
	// parent follows from the chunk's outcomes or outgoing receipts.
	Origins  []Origin
	Incoming []byte // proofs of incoming receipts, for a node that receives these receipts from peers
	Other    []byte // opaque data that the engine keeps with the chunk
	// Changes of the shard's state, ascending by key.
	Changes []Change
}

// Chunk is the new chunk of a shard.
type Chunk struct {
	Hash         primitives.Hash
	Header       []byte
	Transactions []Transaction
	// Receipts are the chunk's prev_outgoing_receipts. If these receipts equal the Outgoing
	// receipts of blocks below this block for this shard, leave Receipts nil and list those blocks,
	// in order, in ReceiptsOf. The receipts are then stored only once. The listed blocks may be at
	// most ReceiptsReach heights below this block.
	Receipts   [][]byte
	ReceiptsOf []BlockRef
}

// ReceiptsReach is the largest distance in heights between a chunk's block and the blocks in its
// ReceiptsOf. Garbage collection keeps the records of that many heights below the tail.
const ReceiptsReach = 64

// Transaction is a signed transaction with its hash.
type Transaction struct {
	Hash  primitives.Hash
	Value []byte
}

// Receipt is a receipt with its ID.
type Receipt struct {
	ID    primitives.Hash
	Value []byte
}

// Origin names the parent of a receipt: the transaction or receipt whose execution created the
// receipt.
type Origin struct{ Receipt, Parent primitives.Hash }

// originLen is the length of an encoded origin: two hashes.
const originLen = 64

// Outcome is an execution outcome. ID is the hash of the executed transaction or the ID of the
// executed receipt. Value holds neither the ID nor the proof: the proof can be computed from the
// IDs and values of the chunk's outcomes.
type Outcome struct {
	ID    primitives.Hash
	Value []byte
}

func (b *Block) check() error {
	if b.Ref.Height >= 1<<48 {
		return fmt.Errorf("%w: height %d is too large", ErrOrder, b.Ref.Height)
	}
	if !b.Prev.IsZero() && b.Prev.Height >= b.Ref.Height {
		return fmt.Errorf("%w: height %d is not above the parent's height %d", ErrOrder, b.Ref.Height, b.Prev.Height)
	}
	if err := b.checkSplits(); err != nil {
		return fmt.Errorf("%w: %w", ErrOrder, err)
	}
	for i := range b.Shards {
		s := &b.Shards[i]
		for j := range i {
			if b.Shards[j].ID == s.ID {
				return fmt.Errorf("%w: the block has shard %d twice", ErrOrder, s.ID)
			}
		}
		if err := checkChanges(s.Changes); err != nil {
			return fmt.Errorf("%w: shard %d: %w", ErrOrder, s.ID, err)
		}
		if s.Chunk == nil {
			continue
		}
		for _, ref := range s.Chunk.ReceiptsOf {
			if ref.Height >= b.Ref.Height || b.Ref.Height-ref.Height > ReceiptsReach {
				return fmt.Errorf("%w: receipts of height %d cannot be applied by the chunk at height %d", ErrOrder, ref.Height, b.Ref.Height)
			}
		}
	}
	return nil
}

// encode encodes the block as a log record. Shards keep the block's order. Within a shard, sections
// are ordered by kind.
func (b *Block) encode() *recordWriter { return b.encodeWith(false) }

// encodeWith encodes the block as a log record. If asIs is set, no frame is compressed.
func (b *Block) encodeWith(asIs bool) *recordWriter { return b.encodeInto(new(recordBuffers), asIs) }

// encodeInto does the same as encodeWith and uses the buffers of `by`.
func (b *Block) encodeInto(by *recordBuffers, asIs bool) *recordWriter {
	w := &recordWriter{noCompression: asIs, data: by.data[:0], raw: by.raw[:0],
		head: head{Ref: b.Ref, Prev: b.Prev, Timestamp: b.Timestamp, Ordinal: b.Ordinal, Epoch: b.Epoch,
			Final: b.Final, IsHead: b.Head, Splits: b.Splits}}
	w.one(kindHeader, 0, b.Header)
	w.one(kindBody, 0, b.Body)
	w.one(kindInfo, 0, b.Info)
	w.one(kindMerkleTree, 0, b.MerkleTree)
	if b.Puts != nil && b.Puts.Len() > 0 {
		w.one(kindPuts, 0, b.Puts.b)
	}
	if b.Patch != nil {
		w.one(kindPatch, 0, b.Patch)
	}
	for i := range b.Shards {
		b.Shards[i].encode(w)
	}
	return w
}

func (s *Shard) encode(w *recordWriter) {
	sh := shardHead{ID: s.ID}
	index := make(map[primitives.Hash]int, len(s.Outcomes))
	for i := range s.Outcomes {
		index[s.Outcomes[i].ID] = i
	}
	var buf []byte
	if c := s.Chunk; c != nil {
		sh.HasChunk, sh.Chunk, sh.ReceiptsOf = true, c.Hash, c.ReceiptsOf
		w.one(kindChunk, s.ID, c.Header)
		w.begin(kindTransactions, s.ID)
		for i := range c.Transactions {
			t := &c.Transactions[i]
			buf = appendNamed(buf[:0], t.Hash, t.Value, index)
			w.add(buf)
		}
		w.end()
		w.begin(kindReceipts, s.ID)
		for _, r := range c.Receipts {
			w.add(r)
		}
		w.end()
	}
	w.head.Shards = append(w.head.Shards, sh)
	w.one(kindExtra, s.ID, s.Extra)
	if len(s.Outcomes) > 0 {
		ids := make([]byte, 0, 32*len(s.Outcomes))
		for i := range s.Outcomes {
			ids = append(ids, s.Outcomes[i].ID[:]...)
		}
		w.one(kindOutcomeIDs, s.ID, ids)
	}
	w.begin(kindOutcomes, s.ID)
	for i := range s.Outcomes {
		w.add(s.Outcomes[i].Value)
	}
	w.end()
	for _, list := range []struct {
		kind     kind
		receipts []Receipt
	}{{kindOutgoing, s.Outgoing}, {kindLocal, s.Local}, {kindDelayed, s.Delayed}} {
		w.begin(list.kind, s.ID)
		for i := range list.receipts {
			r := &list.receipts[i]
			buf = appendInside(buf[:0], r.ID, r.Value)
			w.add(buf)
		}
		w.end()
	}
	if len(s.Origins) > 0 {
		all := make([]byte, 0, originLen*len(s.Origins))
		for _, o := range s.Origins {
			all = append(append(all, o.Receipt[:]...), o.Parent[:]...)
		}
		w.one(kindOrigins, s.ID, all)
	}
	w.one(kindIncoming, s.ID, s.Incoming)
	w.one(kindOther, s.ID, s.Other)
	w.begin(kindChanges, s.ID)
	for i := range s.Changes {
		buf = appendChange(buf[:0], &s.Changes[i], index)
		w.add(buf)
	}
	w.end()
}
