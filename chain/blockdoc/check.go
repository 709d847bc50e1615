package blockdoc

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Known contains data from other sources with which a Document is completed and checked.
type Known struct {
	Code      Code
	Ancestors Ancestors
	// Layout is the shard layout of the parent block. If it is nil, Check does not check the roots
	// of receipts.
	Layout *primitives.ShardLayout
}

// Report says which data of a document is proven by the block's hash, and which data only a later
// block can prove.
type Report struct {
	// Outcomes are the outcome roots that Check computed from the document, by shard with a new
	// chunk. The header of the shard's next new chunk contains the true root (prev_outcome_root).
	// If the computed root equals that header's root, the block that contains the next new chunk
	// proves the outcomes.
	Outcomes map[primitives.ShardID]primitives.Hash
	// Complete contains the shards all of whose outcomes are in the document. Whole contains those
	// whose outcomes are also in the order of execution.
	Complete, Whole map[primitives.ShardID]bool
	// Transactions contains the shards whose transactions are proven by the root in the chunk
	// header. Receipts contains the shards whose receipts are proven by the root in the chunk
	// header.
	Transactions, Receipts map[primitives.ShardID]bool
	// Lacking lists why some transactions or receipts are not proven.
	Lacking []error
	// Unproven is the size in bytes of the transactions and receipts, which Check counts as unproven, and
	// of unusually long metadata and failures. Allowed is the size that the block's hash allows them. In
	// a single block Unproven may exceed it; see blockfeed.HistoryCheck.
	Unproven, Allowed int64
}

// Check verifies a document against the block's hash: chunk headers, the roots in the chunk
// headers, transactions, receipts and outcomes. The Report holds for the block that has this hash.
// Check does not verify that the block is on the chain; see Chain. Errors: MismatchError, ErrForm.
func (d *Document) Check(k Known) (*Report, error) {
	if err := d.checkBlock(); err != nil {
		return nil, err
	}
	r := &Report{
		Outcomes:     map[primitives.ShardID]primitives.Hash{},
		Complete:     map[primitives.ShardID]bool{},
		Whole:        map[primitives.ShardID]bool{},
		Transactions: map[primitives.ShardID]bool{},
		Receipts:     map[primitives.ShardID]bool{},
	}
	chunks, at := d.Block.Body.Chunks, 0
	for i := range d.Shards {
		s := &d.Shards[i]
		where := fmt.Sprintf("shards[%d]", i)
		for at < len(chunks) && chunks[at].ShardID != s.ID {
			at++
		}
		if at == len(chunks) {
			return nil, mismatchf(where, "the block has no shard %d, or the shards are out of order", s.ID)
		}
		if err := d.checkShard(where, s, k, r); err != nil {
			return nil, err
		}
		at++
	}
	r.Unproven, r.Allowed = d.weigh()
	return r, nil
}

func (d *Document) checkBlock() error {
	h := d.Block.Header
	skip := []string{"hash", "chunk_hash"}
	// Feeds of earlier nearcore releases list a chunk's header only in its shard, not in the block.
	if len(d.chunks) == 0 && len(h.ChunkMask) > 0 {
		if err := d.gatherChunks(); err != nil {
			return err
		}
		skip = append(skip, "chunks")
	}
	if err := same("block", d.raw, view.AppendBlock(nil, d.Author, d.Block), skip...); err != nil {
		return err
	}
	// The genesis header has no outcome root, no approvals and, at height 0, no chunk mask. So
	// Check checks none of these fields. A follower knows the genesis hash in advance.
	if h.IsGenesis() {
		return d.checkGenesis()
	}
	if len(h.ChunkMask) != len(d.chunks) {
		return mismatchf("block.chunks", "%d, and the mask has %d", len(d.chunks), len(h.ChunkMask))
	}
	chunks := d.Block.Body.Chunks
	root := func(leaf func(int) []byte) primitives.Hash {
		leaves := make([]primitives.Hash, len(chunks))
		for i := range leaves {
			leaves[i] = primitives.HashBytes(leaf(i))
		}
		return primitives.MerkleRoot(leaves)
	}
	for _, x := range []struct {
		name string
		want primitives.Hash
		leaf func(int) []byte
	}{
		{"prev_state_root", h.PrevStateRoot, func(i int) []byte { return chunks[i].PrevStateRoot[:] }},
		{"outcome_root", h.PrevOutcomeRoot, func(i int) []byte { return chunks[i].PrevOutcomeRoot[:] }},
		{"chunk_receipts_root", h.PrevChunkOutgoingReceiptsRoot, func(i int) []byte { return chunks[i].PrevOutgoingReceiptsRoot[:] }},
		{"chunk_tx_root", h.ChunkTxRoot, func(i int) []byte { return chunks[i].TxRoot[:] }},
		{"chunk_headers_root", h.ChunkHeadersRoot, func(i int) []byte {
			return borsh.AppendUint64(d.chunks[i].AppendBorsh(nil), uint64(chunks[i].HeightIncluded))
		}},
	} {
		if root(x.leaf) != x.want {
			return mismatchf("block.chunks", "their %s differs from the header's", x.name)
		}
	}
	for i, c := range chunks {
		if included := c.HeightIncluded == h.Height; included != h.ChunkMask[i] {
			return mismatchf("block.chunks", "shard %d: the mask says %v, the height %v", c.ShardID, h.ChunkMask[i], included)
		}
	}
	return nil
}

// gatherChunks takes the headers of the new chunks from the document's shards.
func (d *Document) gatherChunks() error {
	h := d.Block.Header
	byID := make([]*Shard, 0, len(d.Shards))
	for i := range d.Shards {
		byID = append(byID, &d.Shards[i])
	}
	slices.SortFunc(byID, func(a, b *Shard) int { return cmp.Compare(a.ID, b.ID) })
	if len(byID) != len(h.ChunkMask) {
		return mismatchf("block.chunks", "none, and %d shards, but the mask has %d", len(byID), len(h.ChunkMask))
	}
	for i, s := range byID {
		if s.Chunk == nil || !h.ChunkMask[i] {
			return mismatchf("block.chunks", "none, and no new one of shard %d in its shards", s.ID)
		}
		c := *s.Chunk
		c.HeightIncluded = h.Height
		d.Block.Body.Chunks = append(d.Block.Body.Chunks, &c)
		d.chunks = append(d.chunks, s.hash)
	}
	return nil
}

// checkGenesis checks only the state root of the genesis block. The follower knows the block's
// hash.
func (d *Document) checkGenesis() error {
	states := make([]primitives.Hash, len(d.chunks))
	for i, c := range d.Block.Body.Chunks {
		states[i] = primitives.HashBytes(c.PrevStateRoot[:])
	}
	if primitives.MerkleRoot(states) != d.Block.Header.PrevStateRoot {
		return mismatchf("block.chunks", "their prev_state_root differs from the header's")
	}
	return nil
}

func (d *Document) checkShard(where string, s *Shard, k Known, r *Report) error {
	var header *primitives.ChunkHeader
	for i, c := range d.Block.Body.Chunks {
		if c.ShardID == s.ID && c.HeightIncluded == d.Block.Header.Height {
			header = c
			if s.Chunk != nil && s.hash != d.chunks[i] {
				return mismatchf(where+".chunk", "%v, and the block has %v", s.hash, d.chunks[i])
			}
		}
	}
	switch {
	case header == nil && s.Chunk != nil:
		return mismatchf(where+".chunk", "the block has no new one of shard %d", s.ID)
	case s.Chunk == nil:
		if len(s.Outcomes) > 0 { // without a new chunk a shard executes nothing
			return mismatchf(where, "outcomes without a chunk")
		}
		return nil
	}
	if s.Chunk.HeightIncluded != 0 && s.Chunk.HeightIncluded != d.Block.Header.Height {
		return mismatchf(where+".chunk.header.height_included", "%d in block %d", s.Chunk.HeightIncluded, d.Block.Header.Height)
	}
	if s.Chunk.Signature != header.Signature {
		return mismatchf(where+".chunk.header.signature", "differs from the block's")
	}
	if err := d.checkTexts(where, s); err != nil {
		return err
	}
	if s.Chunk.TxRoot.IsZero() && len(s.Transactions) > 0 {
		return mismatchf(where+".chunk.transactions", "%d, and the root says that there are none", len(s.Transactions))
	}
	d.checkTransactions(s, k, r)
	if !d.Block.Header.IsGenesis() { // the chunk headers of the genesis have no receipt root
		d.checkReceipts(s, k, r)
	}
	return d.checkOutcomes(where, s, r)
}

// checkTransactions compares the root of a shard's transactions with the chunk header.
func (d *Document) checkTransactions(s *Shard, k Known, r *Report) {
	txs := make([]*primitives.SignedTransaction, len(s.Transactions))
	for i, t := range s.Transactions {
		if k.Code == nil || k.Ancestors == nil {
			return
		}
		if err := t.Complete(k.Code, k.Ancestors); err != nil {
			r.Lacking = append(r.Lacking, err)
			return
		}
		txs[i] = t.SignedTransaction
	}
	// Feeds leave out invalid transactions of a chunk. In that case the computed root differs from
	// the header's root.
	if r.Transactions[s.ID] = chain.TxRoot(txs) == s.Chunk.TxRoot; !r.Transactions[s.ID] {
		r.Lacking = append(r.Lacking, mismatchf("transactions", "of shard %d: not all of the chunk's", s.ID))
	}
}

// checkReceipts compares the shard's receipts with the root in the chunk header. The shard's
// previous chunk sent these receipts.
func (d *Document) checkReceipts(s *Shard, k Known, r *Report) {
	if k.Layout == nil || k.Code == nil {
		return
	}
	list := make([]*primitives.Receipt, len(s.Receipts))
	for i, x := range s.Receipts {
		if missing := fill(x.Slots, k.Code); len(missing) > 0 {
			r.Lacking = append(r.Lacking, &CodeError{Of: x.ID, Hashes: missing})
			return
		}
		list[i] = x.Receipt
	}
	if r.Receipts[s.ID] = sentOut(list, k.Layout, s.Chunk.PrevOutgoingReceiptsRoot); !r.Receipts[s.ID] {
		r.Lacking = append(r.Lacking, mismatchf("receipts", "of shard %d: their root differs from the chunk's", s.ID))
	}
}

// maxUnsure is the maximum number of receipts of unknown layout for which sentOut tries both
// layouts.
const maxUnsure = 12

// sentOut returns whether want is the root of the outgoing receipts in list.
//
// Action receipts have two layouts. Receipts that contracts create have the second layout. Receipts
// that transactions, delegate actions and refunds create have the first layout. A view shows the
// layout only if refund_to is set. Therefore sentOut tries the likely layouts first. Then sentOut
// tries all combinations if at most maxUnsure receipts are uncertain. A wrong layout always leads
// to another root.
func sentOut(list []*primitives.Receipt, layout *primitives.ShardLayout, want primitives.Hash) bool {
	var unsure []*primitives.ActionReceipt
	for _, r := range list {
		if a, ok := r.Body.(*primitives.ActionReceipt); ok && a.RefundTo == "" && r.PredecessorID != primitives.SystemAccount {
			a.V2 = r.PredecessorID != a.SignerID
			unsure = append(unsure, a)
		}
	}
	n, left, size := min(len(unsure), maxUnsure), int64(maxFlipped), int64(0)
	for _, r := range list {
		size += int64(len(r.AppendBorsh(nil)))
	}
	for flip := range 1 << n {
		if flip > 0 { // a Gray code: each step changes the layout of one receipt
			a := unsure[bits.TrailingZeros(uint(flip))]
			a.V2 = !a.V2
		}
		if left -= size; left < 0 {
			return false
		}
		if root, _ := chain.OutgoingReceiptsRoot(list, *layout); root == want {
			return true
		}
	}
	return false
}

// checkTexts encodes a shard's decoded data again and compares the result with the document's JSON.
func (d *Document) checkTexts(where string, s *Shard) error {
	c := s.raw.Chunk
	if c == nil { // built from a chunk view: only data that a hash covers was kept
		return nil
	}
	header := *s.Chunk
	if err := same(where+".chunk.header", c.Header, view.AppendChunkHeader(nil, &header), "chunk_hash"); err != nil {
		return err
	}
	for i, t := range s.Transactions {
		var x struct {
			Transaction rawText `json:"transaction"`
			Outcome     struct {
				Execution rawText `json:"execution_outcome"`
			} `json:"outcome"`
		}
		if err := parse(c.Transactions[i], &x); err != nil {
			return err
		}
		at := fmt.Sprintf("%s.chunk.transactions[%d]", where, i)
		if err := same(at+".transaction", x.Transaction, view.AppendSignedTransaction(nil, t.SignedTransaction), "hash", "code"); err != nil {
			return err
		}
		if err := sameOutcome(at+".outcome", x.Outcome.Execution, &s.Outcomes[i]); err != nil {
			return err
		}
		if !t.Signature.Verify(t.Named[:], t.PublicKey) {
			return mismatchf(at+".transaction.signature", "is invalid")
		}
		if s.Outcomes[i].ID != t.Named {
			return mismatchf(at+".outcome.execution_outcome.id", "%v, and the transaction is %v", s.Outcomes[i].ID, t.Named)
		}
		// The hash of an outcome covers the account that executed it (nearcore
		// runtime/runtime/src/lib.rs: executor_id of transactions and of action receipts).
		if s.Outcomes[i].ExecutorID != t.SignerID {
			return mismatchf(at+".transaction.signer_id", "%s, and the outcome is of %s", t.SignerID, s.Outcomes[i].ExecutorID)
		}
	}
	for i, x := range s.Receipts {
		if err := same(fmt.Sprintf("%s.chunk.receipts[%d]", where, i), c.Receipts[i], view.AppendReceipt(nil, x.Receipt), "code"); err != nil {
			return err
		}
	}
	for i, x := range s.Executed {
		at := fmt.Sprintf("%s.receipt_execution_outcomes[%d]", where, i)
		o := &s.Outcomes[len(s.Transactions)+i]
		if err := sameOutcome(at+".execution_outcome", s.raw.Executed[i].Execution, o); err != nil {
			return err
		}
		if err := same(at+".receipt", s.raw.Executed[i].Receipt, view.AppendReceipt(nil, x.Receipt), "code"); err != nil {
			return err
		}
		if x.ID != o.ID {
			return mismatchf(at+".receipt.receipt_id", "%v, and the outcome is of %v", x.ID, o.ID)
		}
		if _, is := x.Body.(*primitives.ActionReceipt); is && x.ReceiverID != o.ExecutorID {
			return mismatchf(at+".receipt.receiver_id", "%s, and the outcome is of %s", x.ReceiverID, o.ExecutorID)
		}
	}
	return nil
}

type rawText []byte

// UnmarshalJSON keeps a copy of the JSON.
func (r *rawText) UnmarshalJSON(in []byte) error {
	*r = append([]byte(nil), in...)
	return nil
}

// sameOutcome compares the JSON of an outcome with o. It ignores the parts that no hash covers.
func sameOutcome(where string, text []byte, o *view.OutcomeProof) error {
	return same(where, text, view.AppendOutcomeProof(nil, o), "metadata", "Failure")
}

// checkOutcomes checks the proofs of a shard's outcomes and adds their root to the report.
func (d *Document) checkOutcomes(where string, s *Shard, r *Report) error {
	if s.raw.Chunk == nil {
		return nil
	}
	leaves := make([]primitives.Hash, len(s.Outcomes))
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.BlockHash != d.Hash {
			return mismatchf(where, "the outcome of %v is of another block", o.ID)
		}
		leaves[i] = o.LeafHash()
	}
	root, paths := primitives.Merklize(leaves)
	for i := range s.Outcomes {
		if samePath(paths[i], s.Outcomes[i].Proof) {
			continue
		}
		// Some feeds list the outcomes in an order other than that of execution, or leave some
		// outcomes out. Then the Merkle path of each outcome proves that outcome.
		return d.checkPaths(where, s, r)
	}
	r.Outcomes[s.ID], r.Complete[s.ID], r.Whole[s.ID] = root, true, true
	return nil
}

// checkPaths checks that the paths of all outcomes lead to one root.
func (d *Document) checkPaths(where string, s *Shard, r *Report) error {
	root := s.Outcomes[0].Proof.Root(s.Outcomes[0].LeafHash())
	seen := map[primitives.Hash]bool{}
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if seen[o.ID] || o.Proof.Root(o.LeafHash()) != root {
			return mismatchf(where, "the proof of %v leads to another root than the first one's, or it is listed twice", o.ID)
		}
		seen[o.ID] = true
	}
	r.Outcomes[s.ID] = root
	if inOrder(s.Outcomes) == root {
		r.Complete[s.ID] = true
	}
	return nil
}

// inOrder returns the root of outcomes in the order of their leaves, which the sides of their paths
// show. It is the root of the paths only if no outcome is left out.
func inOrder(list []view.OutcomeProof) primitives.Hash {
	order := make([]*view.OutcomeProof, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, func(a, b *view.OutcomeProof) int {
		for i := range min(len(a.Proof), len(b.Proof)) { // from the root down; a sibling on the left means a later leaf
			if c := cmp.Compare(b.Proof[len(b.Proof)-1-i].Direction, a.Proof[len(a.Proof)-1-i].Direction); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(a.Proof), len(b.Proof))
	})
	leaves := make([]primitives.Hash, len(order))
	for i, o := range order {
		leaves[i] = o.LeafHash()
	}
	return primitives.MerkleRoot(leaves)
}

func samePath(a, b primitives.MerklePath) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// CheckNext verifies outcomes of earlier blocks with this block: the header of a new chunk contains
// the outcome root of the shard's previous chunk. roots are Report.Outcomes of the blocks with each
// shard's last new chunk. CheckNext returns the shards whose outcomes are now proven. Errors:
// MismatchError.
func (d *Document) CheckNext(roots map[primitives.ShardID]primitives.Hash) (proven []primitives.ShardID, err error) {
	for _, c := range d.Block.Body.Chunks {
		want, ok := roots[c.ShardID]
		if !ok || c.HeightIncluded != d.Block.Header.Height {
			continue
		}
		if c.PrevOutcomeRoot != want {
			return nil, mismatchf("outcomes", "of shard %d before block %d: their root is %v, but its chunk names %v", c.ShardID, d.Block.Header.Height, want, c.PrevOutcomeRoot)
		}
		proven = append(proven, c.ShardID)
	}
	return proven, nil
}
