package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage/history"
)

// documents is a History in memory.
type documents struct {
	texts    map[primitives.Height][]byte
	parsed   map[primitives.Height]*blockdoc.Document // shared by all readers, as those of a history.Store
	heights  map[primitives.Hash]primitives.Height
	chunks   map[primitives.Hash]history.Place
	txs      map[primitives.Hash]history.Place
	receipts map[primitives.Hash]history.Place
	sent     map[primitives.Hash]history.Place
	low, top primitives.Height
}

// newDocuments returns the history of StreamerMessages. They lose their state changes, as in a
// history.Store.
func newDocuments(t testing.TB, texts [][]byte) *documents {
	t.Helper()
	h := &documents{texts: map[primitives.Height][]byte{}, parsed: map[primitives.Height]*blockdoc.Document{}, heights: map[primitives.Hash]primitives.Height{},
		chunks: map[primitives.Hash]history.Place{}, txs: map[primitives.Hash]history.Place{}, receipts: map[primitives.Hash]history.Place{},
		sent: map[primitives.Hash]history.Place{}}
	for _, text := range texts {
		d, err := blockdoc.Parse(text)
		if err == nil {
			err = d.GatherChunks()
		}
		if err != nil {
			t.Fatal(err)
		}
		at := d.Block.Header.Height
		if h.low == 0 || at < h.low {
			h.low = at
		}
		h.top = max(h.top, at)
		h.texts[at], h.parsed[at], h.heights[d.Hash] = text, d, at
		for i := range d.Shards {
			s := &d.Shards[i]
			p := history.Place{Height: at, Shard: s.ID}
			if s.Chunk != nil {
				h.chunks[s.Chunk.ChunkHash()] = p
			}
			for _, x := range s.Receipts {
				h.sent[x.ID] = p
			}
			for k := range s.Outcomes {
				if k < len(s.Transactions) {
					h.txs[s.Outcomes[k].ID] = p
				} else {
					h.receipts[s.Outcomes[k].ID] = p
				}
			}
		}
	}
	return h
}

func (h *documents) Bounds() (lowest, highest primitives.Height, ok bool) {
	return h.low, h.top, len(h.texts) > 0
}

func (h *documents) Document(height primitives.Height) (*blockdoc.Document, error) {
	if d := h.parsed[height]; d != nil {
		return d, nil
	}
	return nil, history.ErrNone
}

func (h *documents) BlockHeight(hash primitives.Hash) (primitives.Height, bool, error) {
	at, ok := h.heights[hash]
	return at, ok, nil
}

func placeIn(m map[primitives.Hash]history.Place, id primitives.Hash) (history.Place, bool, error) {
	p, ok := m[id]
	return p, ok, nil
}

func (h *documents) Chunk(id primitives.Hash) (history.Place, bool, error) {
	return placeIn(h.chunks, id)
}

func (h *documents) Transaction(id primitives.Hash) (history.Place, bool, error) {
	return placeIn(h.txs, id)
}

func (h *documents) Receipt(id primitives.Hash) (history.Place, bool, error) {
	return placeIn(h.receipts, id)
}

func (h *documents) Sent(id primitives.Hash) (history.Place, bool, error) {
	return placeIn(h.sent, id)
}

// raw sends a request and returns the whole reply.
func (c *lookupClient) raw(method string, params map[string]any) []byte {
	c.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.Fatal(err)
	}
	reply, err := http.Post(c.url, "application/json", bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		c.Fatal(err)
	}
	return text
}

// pair asks two nodes with the same chain: whole has executed it from the genesis, late has begun by
// state sync and has a history of the blocks before.
type pair struct {
	*testing.T
	whole, late *lookupClient
	counts      map[string]int
}

// same checks that both nodes give the same reply, byte for byte. It returns the reply.
func (p *pair) same(kind, method string, params map[string]any) []byte {
	p.Helper()
	want, got := p.whole.raw(method, params), p.late.raw(method, params)
	if p.counts[kind]++; !bytes.Equal(want, got) {
		if p.counts["different "+kind]++; p.counts["different "+kind] < 4 {
			got, want := around(got, want)
			p.Errorf("%s: %s %v\n%s\nwant\n%s", kind, method, params, got, want)
		}
	}
	if bytes.Contains(want, []byte(`"error":{`)) {
		p.counts["errors of "+kind]++
	}
	return want
}

// around returns the texts from shortly before their first difference on.
func around(a, b []byte) (from, to []byte) {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	i = max(0, i-200)
	return a[i:min(len(a), i+500)], b[i:min(len(b), i+500)]
}

// sameUnless is same for a reply that the late node may lack: then its cause must be unknown.
func (p *pair) sameUnless(kind, unknown, method string, params map[string]any) {
	p.Helper()
	want, got := p.whole.raw(method, params), p.late.raw(method, params)
	switch {
	case bytes.Equal(want, got):
		p.counts[kind]++
	case bytes.Contains(got, []byte(`"name":"`+unknown+`"`)):
		p.counts["lacking "+kind]++
	default:
		got, want := around(got, want)
		p.Errorf("%s: %s %v\n%s\nwant\n%s", kind, method, params, got, want)
	}
}

// newPair makes a congested chain with contracts, and a late node that has begun in the middle of it.
func newPair(t *testing.T, seed uint64, blocks int) (*pair, *syncedNode, *chainContents) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	o, course := congestedChain(seed, blocks, v)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := newLookupChain(t, c, course, map[string]int{})
	var late *syncedNode
	for i := range course.Blocks {
		m := r.step()
		if m == nil {
			continue
		}
		if late != nil {
			late.follow(m)
			continue
		}
		point, err := c.Engine.SyncPoint(c.Engine.Head())
		if err != nil {
			t.Fatal(err)
		}
		if i > course.Blocks/3 && point != nil && point.Height() <= c.Engine.Final().Height {
			if late = r.sync(point); late != nil {
				t.Cleanup(func() { _ = late.chain.Close() })
			}
		}
	}
	if late == nil || late.chain.Engine.Head().Hash != c.Engine.Head().Hash {
		t.Fatal("no node began in the middle of the chain")
	}
	s := r.gather()
	r.back = New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	var texts [][]byte
	for _, b := range s.canonical {
		if b.entry.Height() > late.since {
			continue
		}
		text, err := r.back.StreamerMessage(view.BlockRef{Kind: view.RefHash, Hash: b.entry.Hash})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	p := &pair{T: t, counts: map[string]int{}}
	p.whole, p.late = r.serve(v, nil), late.serve(v, newDocuments(t, texts))
	return p, late, s
}

// TestHistoryRepliesEqualThoseOfTheWholeChain: a node that began by state sync and has a history of the
// blocks before gives the replies of a node with the whole chain, byte for byte: blocks, chunks, gas
// prices, congestion levels, transactions, receipts and their transactions, and errors.
func TestHistoryRepliesEqualThoseOfTheWholeChain(t *testing.T) {
	p, late, s := newPair(t, 1, 72)
	head := late.chain.Engine.Head()
	blocks := map[primitives.Height]*recordedBlock{}
	twice := map[primitives.Hash]bool{} // chunks with a transaction twice, of which feeds show it once
	for _, b := range s.canonical {
		blocks[b.entry.Height()] = b
		for i := range b.entry.Shards {
			if c := b.entry.Shards[i].Chunk; c != nil && b.entry.Height() <= late.since && hasDuplicate(c.Transactions) {
				twice[c.Hash] = true
			}
		}
	}
	for height := range head.Height() + 3 {
		p.same("blocks by height", "block", map[string]any{"block_id": height})
		p.same("gas prices by height", "gas_price", map[string]any{"block_id": height})
		p.same("chunks of unknown shards", "chunk", map[string]any{"block_id": height, "shard_id": 99})
		if height == 0 {
			p.genesis(late.chain.Engine.Genesis())
			continue
		}
		if blocks[height] == nil {
			p.same("chunks of no block", "chunk", map[string]any{"block_id": height, "shard_id": 0})
			continue
		}
		e := blocks[height].entry
		p.same("blocks by hash", "block", map[string]any{"block_id": e.Hash.String()})
		p.same("gas prices by hash", "gas_price", map[string]any{"block_id": e.Hash.String()})
		for i := range e.Shards {
			hash := e.Block.Body.Chunks[i].ChunkHash()
			id := map[string]any{"chunk_id": hash.String()}
			ref := map[string]any{"block_id": height, "shard_id": e.Shards[i].ID}
			p.same("congestion by chunk", "EXPERIMENTAL_congestion_level", id)
			p.same("congestion by block", "EXPERIMENTAL_congestion_level", ref)
			if twice[hash] {
				p.counts["chunks with a transaction twice"]++
				continue
			}
			p.same("chunks by hash", "chunk", id)
			p.same("chunks by height", "chunk", ref)
			ref["block_id"] = e.Hash.String()
			p.same("chunks by block", "chunk", ref)
		}
	}
	for _, params := range []map[string]any{{"block_id": primitives.HashBytes([]byte("none")).String()}, {"finality": "final"},
		{"sync_checkpoint": "genesis"}} {
		p.same("other blocks", "block", params)
		p.same("other gas prices", "gas_price", params)
	}
	for hash, b := range s.txs {
		p.transaction(hash, b, s, late.since)
	}
	none := primitives.HashBytes([]byte("none")).String()
	p.same("unknown transactions", "tx", map[string]any{"tx_hash": none, "sender_account_id": "a.near", "wait_until": "NONE"})
	p.same("unknown receipts", "EXPERIMENTAL_receipt", map[string]any{"receipt_id": none})
	for id, x := range s.receipts {
		ref := map[string]any{"receipt_id": id.String()}
		if x.executed != nil {
			p.same("executed receipts", "EXPERIMENTAL_receipt", ref)
		} else {
			p.sameUnless("other receipts", "UNKNOWN_RECEIPT", "EXPERIMENTAL_receipt", ref)
		}
		p.sameUnless("origins", "UNKNOWN_RECEIPT", "EXPERIMENTAL_receipt_to_tx", ref)
	}
	p.Logf("%d to %d, %v", late.since, head.Height(), p.counts)
	for _, kind := range []string{"errors of blocks by height", "errors of chunks of no block", "errors of chunks of unknown shards", "transactions", "crossing transactions",
		"executed receipts", "origins", "other receipts"} {
		if p.counts[kind] == 0 {
			t.Errorf("%s: none", kind)
		}
	}
}

// genesis compares the chunks of the genesis.
func (p *pair) genesis(g *engine.BlockNode) {
	p.Helper()
	for _, c := range g.Block.Body.Chunks {
		for _, ref := range []map[string]any{{"chunk_id": c.ChunkHash().String()}, {"block_id": 0, "shard_id": c.ShardID},
			{"block_id": g.Hash.String(), "shard_id": c.ShardID}} {
			p.same("chunks of the genesis", "chunk", ref)
			p.same("congestion of the genesis", "EXPERIMENTAL_congestion_level", ref)
		}
	}
	if p.counts["errors of chunks of the genesis"] > 0 {
		p.Error("the chunks of the genesis are errors")
	}
}

func hasDuplicate(txs []*primitives.SignedTransaction) bool {
	seen := map[primitives.Hash]bool{}
	for _, t := range txs {
		if seen[t.Hash()] {
			return true
		}
		seen[t.Hash()] = true
	}
	return false
}

// transaction compares a transaction in all forms.
func (p *pair) transaction(hash primitives.Hash, b *recordedBlock, s *chainContents, since primitives.Height) {
	p.Helper()
	o := s.outcomes[hash]
	if o == nil || b.entry.Height() > since {
		return
	}
	kind := "transactions"
	for id, x := range s.receipts {
		if x.executed == nil || x.executed.entry.Height() <= since {
			continue
		}
		for up := id; ; up = s.receipts[up].parent {
			if up == hash {
				kind = "crossing transactions"
			}
			if s.receipts[up] == nil {
				break
			}
		}
	}
	params := map[string]any{"tx_hash": hash.String(), "sender_account_id": string(o.Outcome.ExecutorID)}
	params["wait_until"] = "NONE"
	reply := p.same(kind, "tx", params)
	p.same(kind, "tx_status", params)
	if !bytes.Contains(reply, []byte(`"final_execution_status":"FINAL"`)) {
		return // a wait would end by its timeout
	}
	p.counts["final transactions"]++
	for i, level := range []string{"INCLUDED", "INCLUDED_FINAL", "EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"} {
		params["wait_until"] = level
		p.same(kind, []string{"tx", "EXPERIMENTAL_tx_status", "tx_status"}[i%3], params)
	}
}

// TestHistoryDoesNotServeState: what nothing proves has the errors of a node without a history.
func TestHistoryDoesNotServeState(t *testing.T) {
	p, late, s := newPair(t, 1, 72)
	plain := &lookupClient{late.lookupChain, ""}
	plain.url = late.serve(nil, nil).url
	old := s.canonical[slices.IndexFunc(s.canonical, func(b *recordedBlock) bool { return b.entry.Height() > late.since })-3].entry
	refused := map[string]bool{}
	for _, at := range []any{old.Height(), old.Hash.String()} {
		ref := map[string]any{"block_id": at}
		for method, params := range map[string]map[string]any{
			"query":                           {"request_type": "view_account", "account_id": string(workload.Account(0)), "block_id": at},
			"EXPERIMENTAL_changes_in_block":   ref,
			"EXPERIMENTAL_changes":            {"changes_type": "account_changes", "account_ids": []string{string(workload.Account(0))}, "block_id": at},
			"EXPERIMENTAL_streamer_message":   ref,
			"EXPERIMENTAL_protocol_config":    ref,
			"EXPERIMENTAL_validators_ordered": ref,
			"validators":                      ref,
		} {
			want, got := plain.raw(method, params), p.late.raw(method, params)
			if !bytes.Equal(want, got) {
				t.Errorf("%s %v\n%.500s\nwant\n%.500s", method, params, got, want)
			}
			if bytes.Contains(want, []byte(`"error":{`)) {
				refused[method] = true
			}
		}
	}
	for _, method := range []string{"query", "EXPERIMENTAL_changes_in_block", "EXPERIMENTAL_changes", "EXPERIMENTAL_streamer_message"} {
		if !refused[method] {
			t.Errorf("%s is answered", method)
		}
	}
	for hash, b := range s.txs {
		if s.outcomes[hash] == nil || b.entry.Height() > late.since {
			continue
		}
		got := p.late.raw("EXPERIMENTAL_trace_tx", map[string]any{"tx_hash": hash.String()})
		if !bytes.Contains(got, []byte(`"name":"GARBAGE_COLLECTED_BLOCK"`)) || !bytes.Contains(got, []byte(`"block_height":`)) {
			t.Errorf("trace of a transaction whose state is not kept: %.500s", got)
		}
		break
	}
	status := func(c *lookupClient) string {
		text := string(c.raw("status", map[string]any{}))
		_, text, _ = strings.Cut(text, `"sync_info":`)
		text, _, _ = strings.Cut(text, "}")
		return text
	}
	if want, got := status(plain), status(p.late); want != got || !strings.Contains(got, fmt.Sprint(late.since)) {
		t.Errorf("status\n%s\nwant\n%s", got, want)
	}
}

// lonely returns a backend with a history, whose own chain has only the genesis.
func lonely(t *testing.T, old History) *Backend {
	t.Helper()
	c, err := workload.OpenChain(workload.ChainOptions{Options: workload.Options{Accounts: 2, Shards: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: old})
}

// askAll asks a backend for all ids of a history, and makes the text of each reply. It returns the
// number of replies and of errors by kind.
func askAll(t *testing.T, b *Backend, h *documents) map[string]int {
	t.Helper()
	n := map[string]int{}
	reply := func(kind string, text []byte, err error) {
		switch {
		case err != nil:
			n["errors of "+kind]++
		case !json.Valid(text):
			t.Errorf("%s: %s", kind, text)
		default:
			n[kind]++
		}
	}
	for hash, height := range h.heights {
		for _, ref := range []view.BlockRef{{Kind: view.RefHash, Hash: hash}, {Kind: view.RefHeight, Height: height}} {
			author, block, err := b.Block(t.Context(), ref)
			text := []byte(nil)
			if err == nil {
				text = view.AppendBlock(nil, author, block)
			}
			reply("blocks", text, err)
			_, err = b.GasPrice(t.Context(), &ref)
			reply("gas prices", []byte("0"), err)
		}
	}
	for hash, at := range h.chunks {
		height := view.BlockRef{Kind: view.RefHeight, Height: at.Height}
		for _, ref := range []view.ChunkRef{{ByHash: true, Hash: hash}, {Block: height, ShardID: at.Shard}} {
			author, c, err := b.Chunk(t.Context(), ref)
			text := []byte(nil)
			if err == nil {
				text = view.AppendChunk(nil, author, c)
			}
			reply("chunks", text, err)
			_, err = b.CongestionLevel(t.Context(), ref)
			reply("congestion", []byte("0"), err)
		}
	}
	for hash := range h.txs {
		o, err := b.Tx(t.Context(), &view.GetTx{Hash: hash, Sender: "a.near", WaitUntil: view.LevelNone, Receipts: true})
		text := []byte(nil)
		if err == nil {
			text = view.AppendFinalOutcome(nil, o, true)
		}
		reply("transactions", text, err)
		_, err = b.Tx(t.Context(), &view.GetTx{Hash: hash, Sender: "a.near", WaitUntil: view.LevelFinal})
		reply("waits", []byte("0"), err)
	}
	for id := range h.receipts {
		x, err := b.Receipt(t.Context(), id)
		text := []byte(nil)
		if err == nil {
			text = view.AppendReceipt(nil, x)
		}
		reply("receipts", text, err)
		_, err = b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: id})
		reply("origins", []byte("0"), err)
	}
	return n
}

// TestBlocksOfAllProtocolVersionsAreServed: recorded blocks of mainnet and testnet from protocol 29 on
// are served from a history.
func TestBlocksOfAllProtocolVersionsAreServed(t *testing.T) {
	testutil.Need(t, testutil.Data("README.md"), "recordings are not part of the repository (docs/dev/testing.md)")
	paths, err := filepath.Glob(testutil.Data("real/blocks/*"))
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for _, path := range paths {
		text := testutil.Read(t, path)
		if _, err := blockdoc.Parse(text); err == nil { // some are of another form
			texts = append(texts, text)
		}
	}
	h := newDocuments(t, texts)
	n := askAll(t, lonely(t, h), h)
	t.Log(len(texts), n)
	for _, kind := range []string{"blocks", "gas prices", "chunks", "congestion", "transactions", "receipts"} {
		if errs := n["errors of "+kind]; n[kind] < 20 || kind != "transactions" && errs > 0 {
			t.Errorf("%s: %d, and %d errors", kind, n[kind], errs)
		}
	}
}

// alteredDocuments is a history whose documents are not those that its index names.
type alteredDocuments struct {
	*documents
	altered map[primitives.Height]*blockdoc.Document
}

// newAltered returns a history whose documents are altered.
func newAltered(t *testing.T, h *documents, alter func(*blockdoc.Document)) *alteredDocuments {
	t.Helper()
	out := &alteredDocuments{h, map[primitives.Height]*blockdoc.Document{}}
	for height, text := range h.texts {
		d, err := blockdoc.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		alter(d)
		out.altered[height] = d
	}
	return out
}

func (h *alteredDocuments) Document(height primitives.Height) (*blockdoc.Document, error) {
	if d := h.altered[height]; d != nil {
		return d, nil
	}
	return nil, history.ErrNone
}

// TestAlteredHistoryIsNoPanic: documents that contradict the index, or refer to themselves, lead to
// errors or to other replies. No request panics, and each ends.
func TestAlteredHistoryIsNoPanic(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	shards := func(f func(*blockdoc.Shard)) func(*blockdoc.Document) {
		return func(d *blockdoc.Document) {
			for i := range d.Shards {
				f(&d.Shards[i])
			}
		}
	}
	for _, x := range []struct {
		name   string
		alter  func(*blockdoc.Document)
		errors string // kind of which all replies are errors
	}{
		{"unaltered", func(*blockdoc.Document) {}, ""},
		{"no shards", func(d *blockdoc.Document) { d.Shards = nil }, "transactions"},
		{"no chunks", shards(func(s *blockdoc.Shard) { s.Chunk = nil }), "chunks"},
		{"no chunk headers", func(d *blockdoc.Document) { d.Block.Body.Chunks = nil }, ""},
		{"no outcomes", shards(func(s *blockdoc.Shard) { s.Outcomes = nil }), "transactions"},
		{"no transactions", shards(func(s *blockdoc.Shard) { s.Transactions = nil }), "transactions"},
		{"no receipts", shards(func(s *blockdoc.Shard) { s.Receipts, s.Executed = nil, nil }), "receipts"},
		{"another hash", func(d *blockdoc.Document) { d.Hash[0]++ }, ""},
		{"other ids of outcomes", shards(func(s *blockdoc.Shard) {
			for i := range s.Outcomes {
				s.Outcomes[i].ID[0]++
			}
		}), "transactions"},
		{"each outcome sends all", func(d *blockdoc.Document) {
			var all []primitives.Hash
			for id := range h.receipts {
				all = append(all, id)
			}
			for i := range d.Shards {
				for k := range d.Shards[i].Outcomes {
					d.Shards[i].Outcomes[k].ReceiptIDs = all
				}
			}
		}, ""},
		{"each outcome sends itself", shards(func(s *blockdoc.Shard) {
			for i := range s.Outcomes {
				s.Outcomes[i].ReceiptIDs = []primitives.Hash{s.Outcomes[i].ID, s.Outcomes[i].ID}
			}
		}), ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			n := askAll(t, lonely(t, newAltered(t, h, x.alter)), h)
			if x.errors != "" && (n[x.errors] > 0 || n["errors of "+x.errors] == 0) {
				t.Errorf("%v", n)
			}
			if x.name == "unaltered" && (n["blocks"] == 0 || n["transactions"] == 0 || n["errors of chunks"] > 0 || n["errors of receipts"] > 0) {
				t.Errorf("%v", n)
			}
		})
	}
}

// shortChain makes a short chain, and returns the StreamerMessages of its blocks.
func shortChain(t *testing.T) (r *lookupChain, texts [][]byte) {
	t.Helper()
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	o, course := congestedChain(3, 12, v)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r = newLookupChain(t, c, course, map[string]int{})
	r.run(course.Blocks)
	r.back = New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	for _, b := range r.gather().canonical {
		text, err := r.back.StreamerMessage(view.BlockRef{Kind: view.RefHash, Hash: b.entry.Hash})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return r, texts
}

// failing is a History whose index is damaged.
type failing struct{ *documents }

var errFailing = errors.New("damaged")

func (failing) BlockHeight(primitives.Hash) (primitives.Height, bool, error) {
	return 0, false, errFailing
}
func (failing) Chunk(primitives.Hash) (p history.Place, ok bool, err error) {
	return p, false, errFailing
}
func (failing) Transaction(primitives.Hash) (p history.Place, ok bool, err error) {
	return p, false, errFailing
}
func (failing) Sent(primitives.Hash) (p history.Place, ok bool, err error) {
	return p, false, errFailing
}
func (failing) Receipt(primitives.Hash) (p history.Place, ok bool, err error) {
	return p, false, errFailing
}

// TestDamagedHistoryLeavesTheChainReadable: if the index of the history cannot be read, the node's own
// blocks, chunks and transactions are served. What may be in the history is an error, not unknown.
func TestDamagedHistoryLeavesTheChainReadable(t *testing.T) {
	r, texts := shortChain(t)
	b := New(Options{Engine: r.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: failing{newDocuments(t, texts)}, Submit: noWaits{}})
	head := r.chain.Engine.Head()
	if _, _, err := b.Block(t.Context(), view.BlockRef{Kind: view.RefHash, Hash: head.Hash}); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Chunk(t.Context(), view.ChunkRef{ByHash: true, Hash: head.Block.Body.Chunks[0].ChunkHash()}); err != nil {
		t.Error(err)
	}
	if _, err := b.Tx(t.Context(), &view.GetTx{Hash: head.Hash}); !errors.Is(err, errNoWaits) {
		t.Errorf("a transaction is looked up in the history only: %v", err)
	}
	none := primitives.HashBytes([]byte("none"))
	_, _, err1 := b.Block(t.Context(), view.BlockRef{Kind: view.RefHash, Hash: none})
	_, _, err2 := b.Chunk(t.Context(), view.ChunkRef{ByHash: true, Hash: none})
	_, err3 := b.Receipt(t.Context(), none)
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, errFailing) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// noWaits is a Submitter that waits for nothing.
type noWaits struct{ Submitter }

var errNoWaits = errors.New("no waits")

func (noWaits) Tx(context.Context, *view.GetTx) (*view.FinalOutcome, error) { return nil, errNoWaits }

// TestOwnTransactionsAreNotLookedUpInHistory: what the node has executed itself comes from its own store,
// although a history names the same id. Nothing proves some ids of a history.
func TestOwnTransactionsAreNotLookedUpInHistory(t *testing.T) {
	r, texts := shortChain(t)
	h := newDocuments(t, texts)
	if len(h.txs) == 0 {
		t.Fatal("the chain has no transaction")
	}
	b := New(Options{Engine: r.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now, History: h, Submit: noWaits{}})
	for id := range h.txs {
		if _, err := b.Tx(t.Context(), &view.GetTx{Hash: id}); !errors.Is(err, errNoWaits) {
			t.Errorf("%v: %v", id, err)
		}
	}
}

// moving is a History whose last group of blocks is committed, but not in Bounds yet.
type moving struct{ *documents }

func (h moving) Bounds() (lowest, highest primitives.Height, ok bool) { return h.top, h.top, true }

// TestBlocksOfAnImportAreServedWhileBoundsMove: what the index of the history names is served, although
// Bounds do not show it yet. A height that Bounds do not show is unknown.
func TestBlocksOfAnImportAreServedWhileBoundsMove(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	b := lonely(t, moving{h})
	for hash, height := range h.heights {
		if _, _, err := b.Block(t.Context(), view.BlockRef{Kind: view.RefHash, Hash: hash}); err != nil {
			t.Errorf("block %d: %v", height, err)
		}
		_, _, err := b.Block(t.Context(), view.BlockRef{Kind: view.RefHeight, Height: height})
		if height != h.top && height > 0 && !errors.Is(err, view.ErrUnknownHeight) {
			t.Errorf("block %d by height: %v", height, err)
		}
	}
	for hash := range h.chunks {
		if _, _, err := b.Chunk(t.Context(), view.ChunkRef{ByHash: true, Hash: hash}); err != nil {
			t.Errorf("chunk %v: %v", hash, err)
		}
	}
	for hash := range h.txs {
		if _, err := b.Tx(t.Context(), &view.GetTx{Hash: hash, WaitUntil: view.LevelNone}); err != nil {
			t.Errorf("transaction %v: %v", hash, err)
		}
	}
	for id := range h.receipts {
		if _, err := b.Receipt(t.Context(), id); err != nil {
			t.Errorf("receipt %v: %v", id, err)
		}
	}
}

// TestSearchForAnOriginEndsInTime: the search for the transaction of a receipt in the history ends after
// olderOriginsTime, however long the blocks take to decode.
func TestSearchForAnOriginEndsInTime(t *testing.T) {
	_, texts := shortChain(t)
	h := newDocuments(t, texts)
	id := primitives.HashBytes([]byte("a receipt that no outcome lists"))
	h.receipts[id] = history.Place{Height: h.top}
	b := lonely(t, h)
	_, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: id})
	if !errors.Is(err, view.OriginUnknown) {
		t.Errorf("with time: %v", err)
	}
	begin, reads := time.Now(), 0
	b.Options.Now = func() time.Time { reads++; return begin.Add(time.Duration(reads) * time.Second) }
	_, err = b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: id})
	if most := int(olderOriginsTime/time.Second) + 2; !errors.Is(err, view.OriginBudget) || reads != most {
		t.Errorf("%v after %d blocks, want an exhausted budget after %d", err, reads, most)
	}
}
