package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

var testIdentity = Identity{ChainID: "test-chain", Genesis: primitives.HashBytes([]byte("genesis")), Numbering: primitives.NumberingJune}

func testOptions() Options {
	return Options{Identity: testIdentity, WriteBuffer: 64 << 10, SegmentSize: 16 << 10, FlatHeadBlocks: 4, NoSync: true}
}

func hashOf(parts ...any) primitives.Hash { return primitives.HashBytes(fmt.Append(nil, parts...)) }

// modelKey is a key of a shard; shardBound ones differ by shard.
type modelKey struct {
	shard primitives.ShardID
	key   string
}

// modelBlock is what a block must read back as.
type modelBlock struct {
	block  *Block
	state  map[modelKey]string
	layout []modelShard
}

// modelShard is a shard of a layout.
type modelShard struct {
	id       primitives.ShardID
	accounts AccountRange
}

// has returns whether the shard has a key. Every shard has queues and the like; accounts are in
// only one shard.
func (s *modelShard) has(key string) bool {
	if shardBound(key[0]) {
		return true
	}
	hi := string(s.accounts.Hi)
	return key[1:] >= string(s.accounts.Lo) && (hi == "" || key[1:] < hi)
}

func findShard(layout []modelShard, id primitives.ShardID) *modelShard {
	for i := range layout {
		if layout[i].id == id {
			return &layout[i]
		}
	}
	return nil
}

// split splits a random shard of layout at a random account. The Split is nil if that shard has
// only one account. Splits on different branches may create shards with the same IDs.
func (m *model) split(layout []modelShard) ([]modelShard, *Split) {
	i := m.rng.IntN(len(layout))
	s, next := &layout[i], primitives.ShardID(0)
	for _, o := range layout {
		next = max(next, o.id+1)
	}
	at := modelNames[m.rng.IntN(len(modelNames))]
	first := modelNames[slices.IndexFunc(modelNames, func(n string) bool { return s.has("\x00" + n) })]
	if !s.has("\x00"+at) || at <= first {
		return layout, nil
	}
	x := &Split{Parent: s.id, Left: next, Right: next + 1}
	children := []modelShard{{next, AccountRange{s.accounts.Lo, primitives.AccountID(at)}}, {next + 1, AccountRange{primitives.AccountID(at), s.accounts.Hi}}}
	return slices.Concat(layout[:i], children, layout[i+1:]), x
}

// after returns the state of a parent in the layout after a split.
func after(state map[modelKey]string, layout []modelShard, x *Split) map[modelKey]string {
	out := map[modelKey]string{}
	for k, v := range state {
		if x == nil || k.shard != x.Parent {
			out[k] = v
			continue
		}
		for _, child := range []primitives.ShardID{x.Left, x.Right} {
			switch col := primitives.TrieColumn(k.key[0]); {
			case !findShard(layout, child).has(k.key):
			case child == x.Right && (col == primitives.ColBufferedReceipt || col == primitives.ColBufferedReceiptIndices):
			default:
				out[modelKey{child, k.key}] = v
			}
		}
	}
	return out
}

// modelNames ascend.
var modelNames = []string{"a", "b", "bob", "c\x00x", "d", "m", "n", "nn", "z"}

// model is the simple store: whole states in maps.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	blocks  map[BlockRef]*modelBlock
	layouts map[BlockRef][]modelShard // of all blocks that were made
	genesis BlockRef
	head    BlockRef
	final   BlockRef
	folded  BlockRef
	tail    primitives.Height
	serial  int
	whole   bool // no shard is split
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), blocks: map[BlockRef]*modelBlock{}, layouts: map[BlockRef][]modelShard{}}
	g := &Block{Ref: BlockRef{10, hashOf("genesis block")}, Timestamp: 10, Epoch: hashOf("epoch", 0), Head: true, Header: []byte("genesis header")}
	g.Final = BlockRef{}
	state := map[modelKey]string{}
	for range 30 {
		k := m.randomKey(firstLayout)
		state[k] = m.randomValue()
	}
	m.blocks[g.Ref] = &modelBlock{g, state, firstLayout}
	m.genesis, m.head, m.folded, m.tail = g.Ref, g.Ref, g.Ref, g.Ref.Height
	return m
}

// randomKey returns one of few keys, so that blocks meet.
func (m *model) randomKey(layout []modelShard) modelKey {
	s := &layout[m.rng.IntN(len(layout))]
	name := ""
	for name == "" || !s.has("\x00"+name) {
		name = modelNames[m.rng.IntN(len(modelNames))]
	}
	switch m.rng.IntN(6) {
	case 0:
		return modelKey{s.id, string(rune(primitives.ColDelayedReceipt)) + string(byteOf(m.rng.IntN(4)))}
	case 1:
		return modelKey{s.id, "\x09" + name + "," + string(byteOf(m.rng.IntN(6))) + "\xff\x00"[:m.rng.IntN(3)]}
	case 2:
		return modelKey{s.id, "\x00" + name}
	case 3:
		return modelKey{s.id, "\x02" + name + "\x02\x00\x00" + string(byteOf(m.rng.IntN(3)))}
	case 4:
		return modelKey{s.id, string(rune(primitives.ColBufferedReceipt)) + string(byteOf(m.rng.IntN(4)))}
	}
	return modelKey{s.id, "\x09" + name + ","}
}

func byteOf(n int) []byte { return []byte{byte(n)} }

// firstLayout has account names below "m" in shard 0, from it on in shard 1.
var firstLayout = []modelShard{{0, AccountRange{Hi: "m"}}, {1, AccountRange{Lo: "m"}}}

func (m *model) randomValue() string {
	m.serial++
	b := binary.BigEndian.AppendUint32(nil, uint32(m.serial))
	return string(append(b, make([]byte, m.rng.IntN(100))...))
}

// overlay makes a block on a parent with random changes.
func (m *model) overlay(parent BlockRef, head bool) *Block {
	m.serial++
	p := m.blocks[parent]
	height := parent.Height + 1 + primitives.Height(m.rng.IntN(2)*m.rng.IntN(3))
	b := &Block{Ref: BlockRef{height, hashOf("block", m.serial)}, Prev: parent, Timestamp: uint64(height), Ordinal: p.block.Ordinal + 1,
		Epoch: hashOf("epoch", height/20), Head: head, Header: fmt.Append(nil, "header ", m.serial), Body: fmt.Append(nil, "body ", m.serial), Info: []byte("info")}
	b.Final = m.final
	if head { // the ancestor two back, if it is not older than the last final block
		f := parent
		if fp := m.blocks[f]; fp != nil && !fp.block.Prev.IsZero() {
			f = fp.block.Prev
		}
		if f.Height > m.final.Height {
			b.Final = f
		}
	}
	layout, split := p.layout, (*Split)(nil)
	if !m.whole && len(layout) < 6 && m.rng.IntN(8) == 0 {
		if layout, split = m.split(layout); split != nil {
			b.Splits = []Split{*split}
		}
	}
	m.layouts[b.Ref] = layout
	before := after(p.state, layout, split)
	state := maps.Clone(before)
	for i := range layout {
		shard := layout[i].id
		s := Shard{ID: shard, Extra: fmt.Append(nil, "extra ", m.serial, shard)}
		for i := range m.rng.IntN(6) {
			m.serial++
			s.Outcomes = append(s.Outcomes, Outcome{hashOf("outcome", m.serial), fmt.Append(nil, "outcome ", m.serial, i)})
		}
		for _, r := range shardOf(p.block, shard).Outgoing { // most receipts run in the next block
			if m.rng.IntN(4) > 0 {
				s.Outcomes = append(s.Outcomes, Outcome{r.ID, []byte("executed")})
			}
		}
		if m.rng.IntN(4) > 0 {
			c := &Chunk{Hash: hashOf("chunk", m.serial, shard), Header: []byte("chunk header")}
			for i := range s.Outcomes {
				if m.rng.IntN(2) == 0 {
					c.Transactions = append(c.Transactions, Transaction{s.Outcomes[i].ID, fmt.Append(nil, "tx ", i, m.serial)})
				}
			}
			if m.rng.IntN(3) == 0 {
				c.Transactions = append(c.Transactions, Transaction{hashOf("loose", m.serial, shard), []byte("not executed")})
			}
			if !parent.IsZero() && height-parent.Height <= ReceiptsReach && parent != m.genesis && findShard(p.layout, shard) != nil {
				c.ReceiptsOf = []BlockRef{parent}
			}
			s.Chunk = c
		}
		for i := range m.rng.IntN(4) {
			id := hashOf("receipt", m.serial, i, shard)
			s.Outgoing = append(s.Outgoing, Receipt{id, append(append([]byte("to:"), id[:]...), byte(i))})
			s.Local = append(s.Local, Receipt{hashOf(id), []byte("without its id")})
			if m.rng.IntN(2) == 0 {
				s.Outcomes = append(s.Outcomes, Outcome{hashOf(id), []byte("local")})
			}
		}
		for i := range m.serial % 3 { // from the queue, with an outcome or without, and what made receipts that wait
			id := hashOf("delayed", m.serial, i, shard)
			s.Delayed = append(s.Delayed, Receipt{id, append([]byte("from the queue "), id[:]...)})
			if m.serial%2 == 0 {
				s.Outcomes = append(s.Outcomes, Outcome{id, []byte("delayed")})
			}
			s.Origins = append(s.Origins, Origin{hashOf("waits", m.serial, i, shard), id})
		}
		changes := map[string]*Change{}
		for range m.rng.IntN(8) {
			k := m.randomKey(layout)
			if k.shard != shard {
				continue
			}
			c := changes[k.key]
			if c == nil {
				c = &Change{KeyChanges: primitives.KeyChanges{Key: []byte(k.key)}}
				if old, ok := before[k]; ok {
					c.Old = []byte(old)
				}
				changes[k.key] = c
			}
			w := primitives.StateChange{Cause: primitives.StateChangeCause{Kind: primitives.CauseMigration}}
			if len(s.Outcomes) > 0 && m.rng.IntN(2) == 0 {
				w.Cause = primitives.StateChangeCause{Kind: primitives.CauseReceiptProcessing, Hash: s.Outcomes[m.rng.IntN(len(s.Outcomes))].ID}
			} else if m.rng.IntN(2) == 0 {
				w.Cause = primitives.StateChangeCause{Kind: primitives.CauseReceiptProcessing, Hash: hashOf("elsewhere")}
			}
			switch m.rng.IntN(4) {
			case 0:
				delete(state, k)
			case 1:
				w.Value = []byte{}
				state[k] = ""
			default:
				v := m.randomValue()
				w.Value = []byte(v)
				state[k] = v
			}
			c.Changes = append(c.Changes, w)
		}
		for _, k := range slices.Sorted(maps.Keys(changes)) {
			s.Changes = append(s.Changes, *changes[k])
		}
		b.Shards = append(b.Shards, s)
	}
	b.Puts = &Batch{}
	info := Raw(fmt.Append(nil, "epoch info ", height))
	EpochInfo.Put(b.Puts, b.Epoch, &info)
	return b
}

func shardOf(b *Block, id primitives.ShardID) *Shard {
	for i := range b.Shards {
		if b.Shards[i].ID == id {
			return &b.Shards[i]
		}
	}
	return &Shard{}
}

// in keeps the places of one block: forks may execute the same receipt.
func in(ref BlockRef, places []Place) (out []Place) {
	for _, p := range places {
		if p.Block.Ref() == ref {
			out = append(out, p)
		}
	}
	return out
}

func (m *model) isAncestor(a, of BlockRef) bool {
	for !of.IsZero() && of.Height >= a.Height {
		if of == a {
			return true
		}
		mb := m.blocks[of]
		if mb == nil {
			return false
		}
		of = mb.block.Prev
	}
	return false
}

func (m *model) add(b *Block) {
	p := m.blocks[b.Prev]
	layout, split := m.layouts[b.Ref], (*Split)(nil)
	if len(b.Splits) > 0 {
		split = &b.Splits[0]
	}
	state := after(p.state, layout, split)
	for i := range b.Shards {
		for j := range b.Shards[i].Changes {
			c := &b.Shards[i].Changes[j]
			k := modelKey{b.Shards[i].ID, string(c.Key)}
			if v := c.Last(); v == nil {
				delete(state, k)
			} else {
				state[k] = string(v)
			}
		}
	}
	m.blocks[b.Ref] = &modelBlock{b, state, layout}
	if b.Head {
		m.head = b.Ref
		if b.Final.Height > m.final.Height {
			m.final = b.Final
		}
	}
}

func importGenesis(t testing.TB, s *Store, m *model) {
	t.Helper()
	g := m.blocks[m.genesis]
	err := s.Import(g.block, slices.Values([]FrontierChange{{Shard: 1, FrontierNode: FrontierNode{Path: []byte{1, 2}, Hash: hashOf("stub"), MemoryUsage: 7}}}), func(put func(Pair) error) error {
		for k, v := range g.state {
			if err := put(Pair{k.shard, []byte(k.key), []byte(v)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// live returns the blocks the store must know.
func (m *model) live() []BlockRef {
	var out []BlockRef
	for ref := range m.blocks {
		if ref.Height >= m.tail && (m.isAncestor(ref, m.folded) || m.isAncestor(m.folded, ref)) {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, func(a, b BlockRef) int { return bytes.Compare(appendRef(nil, a), appendRef(nil, b)) })
	return out
}

// check compares everything.
func (m *model) check(s *Store) {
	m.t.Helper()
	tip := s.Tip()
	if tip.Head != m.head || tip.Final != m.final || tip.FlatHead != m.folded || tip.Tail != m.tail {
		m.t.Fatalf("tip = %+v, want head %v final %v folded %v tail %d", tip, m.head, m.final, m.folded, m.tail)
	}
	keys := map[modelKey]bool{}
	for _, mb := range m.blocks {
		for k := range mb.state {
			keys[k] = true
		}
	}
	for _, ref := range m.live() {
		mb := m.blocks[ref]
		for k := range keys {
			if on := findShard(mb.layout, k.shard); on == nil || !on.has(k.key) {
				continue
			}
			got, err := s.ValueAt(ref, k.shard, []byte(k.key))
			want, ok := mb.state[k]
			if !ok {
				if !errors.Is(err, ErrNotFound) {
					m.t.Fatalf("ValueAt(%v, %d, %q) = %x, %v, want ErrNotFound", ref, k.shard, k.key, got, err)
				}
			} else if err != nil || string(got) != want {
				m.t.Fatalf("ValueAt(%v, %d, %q) = %x, %v, want %x", ref, k.shard, k.key, got, err, want)
			}
		}
		m.checkScan(s, ref)
		m.checkRecord(s, ref)
	}
	m.checkRows(s)
	for ref := range m.blocks {
		if ref.Height >= m.tail || ref == m.genesis || !m.isAncestor(ref, m.head) {
			continue
		}
		if got, err := s.CollectedAt(ref.Height); err != nil || got != ref.Hash {
			m.t.Fatalf("CollectedAt(%d) = %v, %v, want %v", ref.Height, got, err, ref)
		}
	}
	for h := m.tail; h <= m.head.Height+3; h++ {
		var want BlockRef
		for ref := range m.blocks {
			if ref.Height == h && m.isAncestor(ref, m.head) {
				want = ref
			}
		}
		got, err := s.HashAt(h)
		if want.IsZero() != errors.Is(err, ErrNotFound) || !want.IsZero() && got != want.Hash {
			m.t.Fatalf("HashAt(%d) = %v, %v, want %v", h, got, err, want)
		}
		if !want.IsZero() {
			ref, err := s.OrdinalAt(m.blocks[want].block.Ordinal)
			if err != nil || ref != want {
				m.t.Fatalf("OrdinalAt(%d) = %v, %v, want %v", m.blocks[want].block.Ordinal, ref, err, want)
			}
		}
	}
}

// checkRows looks for rows of shards without any block with a readable state.
func (m *model) checkRows(s *Store) {
	m.t.Helper()
	live := map[primitives.ShardID]bool{}
	for _, ref := range m.live() {
		if m.isAncestor(ref, m.folded) {
			for _, on := range m.blocks[ref].layout {
				live[on.id] = true
			}
		}
	}
	for id := range primitives.ShardID(16) {
		err := shardColumns(id, func(col byte, lo, hi []byte) error {
			return flat.Scan(s.db, lo, hi, func(key []byte, _ packed) bool {
				if !live[id] {
					m.t.Fatalf("row %x of shard %d, which is gone", key, id)
				}
				return true
			})
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *model) checkScan(s *Store, ref BlockRef) {
	m.t.Helper()
	for _, on := range m.blocks[ref].layout {
		shard := on.id
		for _, prefix := range []string{"", "\x09", "\x07", "\x09b", "\x09nn,", "\x00", "\x0e"} {
			var want []string
			for k, v := range m.blocks[ref].state {
				if k.shard == shard && len(k.key) >= len(prefix) && k.key[:len(prefix)] == prefix {
					want = append(want, fmt.Sprintf("%x=%x", k.key, v))
				}
			}
			slices.Sort(want)
			for what, scan := range map[string]func(BlockRef, primitives.ShardID, AccountRange, []byte, []byte, func(k, v []byte) bool) error{
				"Scan": s.Scan, "Load": s.Load} {
				var got []string
				last, sorted := "", true
				err := scan(ref, shard, on.accounts, []byte(prefix), PrefixEnd([]byte(prefix)), func(k, v []byte) bool {
					got = append(got, fmt.Sprintf("%x=%x", k, v))
					sorted = sorted && last < string(k)
					last = string(k)
					return true
				})
				if err != nil || !sorted {
					m.t.Fatalf("%s(%v, %d, %q): %v, sorted %v", what, ref, shard, prefix, err, sorted)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					m.t.Fatalf("%s(%v, %d, %q) = %v\nwant %v", what, ref, shard, prefix, got, want)
				}
			}
		}
	}
}

func (m *model) checkRecord(s *Store, ref BlockRef) {
	m.t.Helper()
	fatal := func(what string, args ...any) {
		m.t.Helper()
		m.t.Fatalf("block %v: %s", ref, fmt.Sprintf(what, args...))
	}
	want := m.blocks[ref].block
	r, err := s.BlockByHash(ref.Hash)
	if err != nil {
		fatal("BlockByHash: %v", err)
	}
	if r.Ref() != ref || r.Prev() != want.Prev || r.Epoch() != want.Epoch || r.Ordinal() != want.Ordinal || r.Timestamp() != want.Timestamp {
		fatal("head is %+v", r.e.head)
	}
	if h, err := r.Header(); err != nil || !bytes.Equal(h, want.Header) {
		fatal("header = %q, %v", h, err)
	}
	canonical := m.isAncestor(ref, m.head)
	if got, err := s.IsCanonical(ref); err != nil || got != canonical {
		fatal("IsCanonical = %v, %v, want %v", got, err, canonical)
	}
	if want.Puts != nil {
		if _, err := EpochInfo.Get(s.Reader(), want.Epoch); err != nil {
			fatal("epoch info: %v", err)
		}
	}
	for i := range want.Shards {
		w := &want.Shards[i]
		outcomes, err := r.Outcomes(w.ID)
		if err != nil || len(outcomes) != len(w.Outcomes) {
			fatal("%d outcomes, %v, want %d", len(outcomes), err, len(w.Outcomes))
		}
		for j, o := range w.Outcomes {
			if outcomes[j].ID != o.ID || !bytes.Equal(outcomes[j].Value, o.Value) {
				fatal("outcome %d = %v", j, outcomes[j])
			}
			at, err := s.Find().Outcome(o.ID)
			at = in(ref, at)
			if err != nil || len(at) != 1 || at[0].Block.Ref() != ref || at[0].Shard != w.ID || at[0].Index != j || at[0].Canonical != canonical {
				fatal("FindOutcome(%v) = %+v, %v", o.ID, at, err)
			}
		}
		changes, err := r.Changes(w.ID)
		if err != nil || len(changes) != len(w.Changes) {
			fatal("%d changes, %v, want %d", len(changes), err, len(w.Changes))
		}
		for j := range changes {
			if got, want := fmt.Sprintf("%+v", changes[j]), fmt.Sprintf("%+v", w.Changes[j]); got != want {
				fatal("change %d = %s, want %s", j, got, want)
			}
		}
		for list, receipts := range [][]Receipt{w.Outgoing, w.Local, w.Delayed} {
			for j, receipt := range receipts {
				at, err := s.Find().Receipt(receipt.ID)
				at = in(ref, at)
				if err != nil || len(at) != 1 || at[0].list != receiptKinds[list] || at[0].Local != (list == 1) || at[0].Index != j || at[0].Block.Ref() != ref {
					fatal("FindReceipt(%v) = %+v, %v", receipt.ID, at, err)
				}
				if sent, err := s.Find().Sent(receipt.ID); err != nil || len(in(ref, sent)) != max(0, 1-list/2) {
					fatal("FindSent(%v) = %+v, %v", receipt.ID, sent, err)
				}
				if got, err := at[0].Receipt(); err != nil || !bytes.Equal(got.Value, receipt.Value) {
					fatal("receipt %v = %v, %v", receipt.ID, got, err)
				}
			}
		}
		for j, o := range w.Origins {
			at, err := s.Find().Origin(o.Receipt)
			at = in(ref, at)
			if err != nil || len(at) != 1 || at[0].Index != j || at[0].Canonical != canonical {
				fatal("FindOrigin(%v) = %+v, %v", o.Receipt, at, err)
			}
			if got, err := at[0].Origin(); err != nil || got != o {
				fatal("origin of %v = %v, %v", o.Receipt, got, err)
			}
			if at, err := s.Find().Receipt(o.Receipt); err != nil || len(at) > 0 {
				fatal("FindReceipt(%v), of which only the origin is stored, = %+v, %v", o.Receipt, at, err)
			}
		}
		if w.Chunk == nil {
			continue
		}
		at, err := s.Find().Chunk(w.Chunk.Hash)
		if err != nil || len(at) != 1 || at[0].Block.Ref() != ref || at[0].Shard != w.ID {
			fatal("FindChunk(%v) = %+v, %v", w.Chunk.Hash, at, err)
		}
		for j, tx := range w.Chunk.Transactions {
			at, err := s.Find().Transaction(tx.Hash)
			at = in(ref, at)
			if err != nil || len(at) != 1 || at[0].Index != j {
				fatal("FindTransaction(%v) = %+v, %v, want index %d", tx.Hash, at, err, j)
			}
			if got, err := at[0].Block.Transaction(w.ID, j); err != nil || !bytes.Equal(got.Value, tx.Value) {
				fatal("transaction %v = %v, %v", tx.Hash, got, err)
			}
		}
		receipts, err := r.ChunkReceipts(w.ID)
		if err != nil {
			fatal("ChunkReceipts: %v", err)
		}
		var n int
		for _, of := range w.Chunk.ReceiptsOf {
			n += len(shardOf(m.blocks[of].block, w.ID).Outgoing)
		}
		if len(receipts) != n {
			fatal("%d chunk receipts, want %d", len(receipts), n)
		}
	}
}
