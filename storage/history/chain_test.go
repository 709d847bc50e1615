package history

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var genesisHash = primitives.Hash{9}

// testChain returns the documents of a chain of n blocks, lowest first. Every third height has no block.
// Each block has a new chunk of shard 3 with a transaction, a receipt and their outcomes, and a state
// change.
func testChain(t testing.TB, n int) (list []*blockdoc.Document) {
	t.Helper()
	prev, height := genesisHash, primitives.Height(100)
	for i := range n {
		if height++; i%3 == 2 {
			height++
		}
		id := func(kind byte) (out primitives.Hash) {
			binary.BigEndian.PutUint64(out[8:], uint64(height))
			out[0] = kind
			return out
		}
		c := &primitives.ChunkHeader{HeightIncluded: height, Signature: primitives.ZeroED25519Signature}
		c.Version, c.ShardID, c.HeightCreated, c.PrevBlockHash = primitives.ChunkInnerV4, 3, height, prev
		b := &primitives.Block{Header: &primitives.BlockHeader{Version: primitives.HeaderV5, PrevHash: prev, Signature: primitives.ZeroED25519Signature}}
		b.Header.Height, b.Header.ChunkMask, b.Header.ChunksIncluded, b.Header.BlockOrdinal = height, []bool{true}, 1, uint64(i+1)
		b.Header.ChunkEndorsements = [][]byte{{1}}
		b.Body.Chunks = []*primitives.ChunkHeader{c}
		prev = b.Header.Init().Hash()
		tx := primitives.NewSignedTransaction(primitives.Transaction{
			SignerID: "a.near", ReceiverID: "b.near", PublicKey: primitives.ZeroED25519Key, BlockHash: id('b'),
			Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(uint64(i))}},
		}, primitives.ZeroED25519Signature)
		outcome := func(of primitives.Hash) []byte {
			o := &view.OutcomeProof{BlockHash: prev}
			o.ID, o.ExecutorID, o.Status.Kind = of, "a.near", primitives.StatusSuccessValue
			return view.AppendOutcomeProof(nil, o)
		}
		receipt := view.AppendReceipt(nil, &primitives.Receipt{PredecessorID: "a.near", ReceiverID: "b.near", ID: id('r'), Body: &primitives.DataReceipt{}})
		text := fmt.Appendf(nil, `{"block":%s,"shards":[{"shard_id":3,"chunk":{"author":"c.near","header":%s,"transactions":[{"transaction":%s,`+
			`"outcome":{"execution_outcome":%s,"receipt":null}}],"receipts":[%s]},"receipt_execution_outcomes":[{"execution_outcome":%s,"receipt":%s}],`+
			`"state_changes":[{"type":"contract_code_update","change":{"code_base64":"AAEC"}}]}]}`,
			view.AppendBlock(nil, "p.near", b), view.AppendChunkHeader(nil, c), view.AppendSignedTransaction(nil, tx), outcome(tx.Hash()), receipt, outcome(id('r')), receipt)
		d, err := blockdoc.Parse(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		list = append(list, d)
	}
	return list
}

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	o.Genesis = genesisHash
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// appendAll appends documents from the last one down to the first one, and names each by its height.
func appendAll(t testing.TB, s *Store, list []*blockdoc.Document) {
	t.Helper()
	for i := len(list) - 1; i >= 0; i-- {
		if err := s.Append(list[i], progressAt(list[i])); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func progressAt(d *blockdoc.Document) []byte { return fmt.Appendf(nil, "%d", d.Block.Header.Height) }

// checkHas checks that the store has exactly the blocks from list[from] on.
func checkHas(t testing.TB, s *Store, list []*blockdoc.Document, from int) {
	t.Helper()
	low, high, ok := s.Bounds()
	st := s.Stats()
	if from == len(list) {
		if ok || st.Blocks != 0 || len(s.Progress()) != 0 {
			t.Errorf("an empty store has %d to %d, %+v, %s", low, high, st, s.Progress())
		}
		return
	}
	if want := list[from].Block.Header.Height; !ok || low != want || high != list[len(list)-1].Block.Header.Height ||
		st.Blocks != uint64(len(list)-from) || string(s.Progress()) != string(progressAt(list[from])) {
		t.Fatalf("%d to %d, %v, %+v, progress %s; want from %d on", low, high, ok, st, s.Progress(), want)
	}
	for i, d := range list {
		h := d.Block.Header.Height
		got, err := s.Document(h)
		at, has, herr := s.BlockHeight(d.Hash)
		chunk, _ := d.NewChunk(3)
		places := map[string]bool{}
		for name, f := range map[string]func() (Place, bool, error){
			"chunk":       func() (Place, bool, error) { return s.Chunk(chunk) },
			"transaction": func() (Place, bool, error) { return s.Transaction(d.Shards[0].Transactions[0].Named) },
			"sent":        func() (Place, bool, error) { return s.Sent(d.Shards[0].Receipts[0].ID) },
			"receipt":     func() (Place, bool, error) { return s.Receipt(d.Shards[0].Executed[0].ID) },
		} {
			p, found, err := f()
			if err != nil || found && p != (Place{h, 3}) {
				t.Errorf("%s of block %d: %+v, %v", name, h, p, err)
			}
			places[name] = found
		}
		if i < from {
			if err != ErrNone || has || herr != nil || places["chunk"] || places["transaction"] || places["receipt"] || places["sent"] {
				t.Errorf("block %d, which is not stored: %v, %v, %v, %v", h, err, has, herr, places)
			}
			continue
		}
		if err != nil || herr != nil || !has || at != h || !places["chunk"] || !places["transaction"] || !places["receipt"] || !places["sent"] {
			t.Fatalf("block %d: %v, %v, %v, %d, %v", h, err, herr, has, at, places)
		}
		if got.Hash != d.Hash || string(got.AppendJSON(nil)) != string(d.AppendJSON(nil)) || len(got.Shards[0].Codes) != 0 {
			t.Errorf("block %d: %s, want %s", h, got.AppendJSON(nil), d.AppendJSON(nil))
		}
	}
}
