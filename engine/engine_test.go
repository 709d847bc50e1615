package engine

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

func seedKey(name primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(name))
}

// node is an engine under test together with the secret keys of all validators, so it can also
// produce blocks.
type node struct {
	*Engine
	t    testing.TB
	disk *storage.MemDisk
	vote primitives.ProtocolVersion // what blocks from make vote for; 0: the version of the upgrade schedule
}

// testGenesis returns the genesis of `neard localnet` with the given validators, two shards, epochs
// of ten blocks and the newest protocol version.
func testGenesis(t testing.TB, validators ...primitives.AccountID) *genesis.Genesis {
	t.Helper()
	g, err := genesis.Localnet(genesis.LocalnetOptions{
		ChainID: "test-engine", Time: 1_700_000_000_000_000_000, Accounts: validators, Validators: len(validators), Shards: 2,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Config.EpochLength, g.Config.TransactionValidityPeriod = 10, 20
	return g
}

// TestChainIDWithOwnParametersIsRefused: nearcore uses special limits of congestion, bandwidth and
// witnesses for two test chains (core/parameters/src/config_store.rs:171 for_chain_id). The engine
// does not implement them, so it refuses a genesis with one of their names.
func TestChainIDWithOwnParametersIsRefused(t *testing.T) {
	for id, want := range map[string]error{
		"benchmarknet": ErrChainID, "congestion_control_test": ErrChainID, "mocknet": nil, "localnet": nil, "benchmarknet2": nil,
	} {
		t.Run(id, func(t *testing.T) {
			g := testGenesis(t, "a.near")
			g.Config.ChainID = id
			if _, err := NewChain(&g.Config, primitives.NumberingRelease, nil, nil); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
}

func openNode(t testing.TB, g *genesis.Genesis) *node {
	t.Helper()
	return openOn(t, g, storage.NewMemDisk(), storage.Options{})
}

// openOn opens a node on a disk, which is empty or contains the node's chain from an earlier run.
func openOn(t testing.TB, g *genesis.Genesis, disk *storage.MemDisk, o storage.Options) *node {
	t.Helper()
	return openWith(t, g, disk, o, trie.Options{Poison: true})
}

// openWith does the same as openOn, with trie options.
func openWith(t testing.TB, g *genesis.Genesis, disk *storage.MemDisk, o storage.Options, tries trie.Options) *node {
	t.Helper()
	n, err := openChanged(t, g, disk, o, func(o *Options) { o.Tries = tries })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// openChanged does the same as openOn, with changed engine options.
func openChanged(t testing.TB, g *genesis.Genesis, disk *storage.MemDisk, o storage.Options, change func(*Options)) (*node, error) {
	t.Helper()
	c, err := NewChain(&g.Config, primitives.NumberingRelease, nil, func() (io.ReadCloser, error) {
		records := []byte{'['}
		for i, r := range g.Records {
			if i > 0 {
				records = append(records, ',')
			}
			records = genesis.AppendRecord(records, r)
		}
		return io.NopCloser(bytes.NewReader(append(records, ']'))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Identity = storage.Identity{ChainID: c.ID, Numbering: primitives.NumberingRelease}
	s, err := storage.OpenMemory(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	eo := Options{Chain: c, Store: s, MaxHeightJump: 100, Now: func() uint64 { return 1_800_000_000_000_000_000 }}
	change(&eo)
	e, err := Open(eo)
	return &node{Engine: e, t: t, disk: disk}, err
}

// make makes a block at height on parent and the chunks in it. The first shard's chunk contains
// txs. If skip is set, the second shard's chunk is missing.
func (n *node) make(parent primitives.Hash, height primitives.Height, skip bool, txs ...*primitives.SignedTransaction) (*primitives.Block, []*primitives.Chunk) {
	n.t.Helper()
	return n.makeWithout(parent, height, [2]bool{false, skip}, txs...)
}

// makeWithout does the same as make. The chunks of the shards for which skip is true are missing.
func (n *node) makeWithout(parent primitives.Hash, height primitives.Height, skip [2]bool,
	txs ...*primitives.SignedTransaction) (*primitives.Block, []*primitives.Chunk) {
	n.t.Helper()
	fail := func(err error) {
		if err != nil {
			n.t.Helper()
			n.t.Fatal(err)
		}
	}
	p := n.Imported(parent)
	prop := &Proposal{Parent: parent, Height: height, Timestamp: p.Header().Timestamp + 1_000_000_000, Vote: n.vote,
		Chunks: make([]*primitives.Chunk, 2), Endorsements: make([][]primitives.Signature, 2)}
	for i, id := range p.Layout.ShardIDs() {
		if skip[i] {
			continue
		}
		producer, err := n.ChunkProducer(parent, id)
		fail(err)
		var in []*primitives.SignedTransaction
		if i == 0 {
			in = txs
		}
		c, err := n.NewChunk(parent, primitives.ShardIndex(i), in, seedKey(producer.AccountID))
		fail(err)
		validators, err := n.ChunkValidators(p, id)
		fail(err)
		for _, v := range validators {
			prop.Endorsements[i] = append(prop.Endorsements[i], seedKey(v.AccountID).Sign(primitives.ChunkEndorsementBytes(c.Hash)))
		}
		prop.Chunks[i] = c
	}
	approvers, err := n.Approvers(parent)
	fail(err)
	inner := primitives.NewApprovalInner(parent, p.Height(), height)
	for _, a := range approvers {
		prop.Approvals = append(prop.Approvals, seedKey(a.AccountID).Sign(inner.SignedBytes(height)))
	}
	b, err := n.NewBlock(prop, n.producer(parent, height))
	fail(err)
	return b, prop.Chunks
}

func (n *node) producer(parent primitives.Hash, height primitives.Height) primitives.SecretKey {
	n.t.Helper()
	v, err := n.BlockProducer(parent, height)
	if err != nil {
		n.t.Fatal(err)
	}
	return seedKey(v.AccountID)
}

// accept imports a block as one that a peer has sent.
func (n *node) accept(b *primitives.Block, chunks []*primitives.Chunk) *Imported {
	n.t.Helper()
	a, err := n.Process(b, chunks, false)
	if err != nil {
		n.t.Fatalf("block %d: %v", b.Header.Height, err)
	}
	return a
}

// TestMainnetGenesisBlockMatchesVectorA2: the engine computes mainnet's genesis block (nearcore
// chain/chain/src/genesis.rs:105) from its genesis config and its state root (vector A1), and the
// validators of its first epochs.
func TestMainnetGenesisBlockMatchesVectorA2(t *testing.T) {
	g, _, err := genesis.ReadConfig(testutil.Open(t, "../primitives/genesis/mainnet.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	params := EpochParams(g)
	configs, err := epoch.NewConfigs(params, nil, parameters.Newest(primitives.NumberingRelease))
	if err != nil {
		t.Fatal(err)
	}
	m, err := epoch.NewManager(params, configs, nothing{})
	if err != nil {
		t.Fatal(err)
	}
	producers, err := m.BlockProducersOrdered(primitives.EpochID{})
	if err != nil {
		t.Fatal(err)
	}
	var names []primitives.AccountID
	for _, p := range producers {
		names = append(names, p.AccountID)
	}
	if want := []primitives.AccountID{"nfvalidator2.near", "nfvalidator1.near", "nfvalidator4.near", "nfvalidator3.near"}; !slices.Equal(names, want) {
		t.Errorf("producers = %v, want %v", names, want)
	}
	root, err := primitives.ParseHash("8EhZRfDTYujfZoUZtZ3eSMB9gJyFo5zjscR12dEcaxGU")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.GenesisTime.String(), "2020-07-21T16:55:51.591948Z"; got != want {
		t.Errorf("time = %s, want %s", got, want)
	}
	block, chunks, err := chain.Genesis(&chain.GenesisInput{
		Version: g.ProtocolVersion, Height: g.GenesisHeight, Time: uint64(g.GenesisTime), GasLimit: g.GasLimit, MinGasPrice: g.MinGasPrice,
		TotalSupply: g.TotalSupply, ShardIDs: []primitives.ShardID{0}, StateRoots: []primitives.Hash{root},
		Congestion: make([]primitives.CongestionInfo, 1), BlockProducers: producers,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what string
		got  primitives.Hash
		want string
	}{
		{"chunk", chunks[0].Hash, "CUc7UcYGcXwu5Y6UqEkkS6UbffHN4NNHhh5XLRHV8kLu"},
		{"next_bp_hash", block.Header.NextBPHash, "C4121SKfZh1MC38ukZaxHsEXNYrBbqAk77P7yLmQffs5"},
		{"block", block.Hash(), "EPnLgE7iEq9s7yTkos96M3cWymH5avBAPm3qx3NXqR8H"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if tt.got.String() != tt.want {
				t.Errorf("%s = %v, want %s", tt.what, tt.got, tt.want)
			}
		})
	}
}

// nothing is an epoch.Store without entries.
type nothing struct{}

func (nothing) BlockInfo(primitives.Hash) (*epoch.BlockInfo, error)          { return nil, nil }
func (nothing) EpochInfo(primitives.EpochID) (*epoch.EpochInfo, error)       { return nil, nil }
func (nothing) EpochSummary(primitives.EpochID) (*epoch.EpochSummary, error) { return nil, nil }
func (nothing) Aggregator() (*epoch.Aggregator, error)                       { return nil, nil }
func (nothing) EpochStart(primitives.EpochID) (primitives.Height, bool, error) {
	return 0, false, nil
}

// TestRecomputedHeaderFieldsVectorA66: the cases of nearcore's
// chain/chain/src/tests/validate_header_recompute.rs:12, on whole blocks: a wrong block ordinal or
// epoch_sync_data_hash is refused.
func TestRecomputedHeaderFieldsVectorA66(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	root := n.Head().Hash
	for name, tt := range map[string]struct {
		change func(*primitives.BlockHeader)
		want   error
	}{
		"as it must be": {func(*primitives.BlockHeader) {}, nil},
		"ordinal":       {func(h *primitives.BlockHeader) { h.BlockOrdinal += 1000 }, chain.InvalidBlockOrdinal},
		"another hash": {func(h *primitives.BlockHeader) {
			forged := primitives.HashBytes([]byte("forged"))
			h.EpochSyncDataHash = &forged
		}, chain.InvalidEpochSyncDataHash},
		"no hash": {func(h *primitives.BlockHeader) { h.EpochSyncDataHash = nil }, chain.InvalidEpochSyncDataHash},
	} {
		t.Run(name, func(t *testing.T) {
			b, chunks := n.make(root, 1, false)
			if b.Header.EpochSyncDataHash == nil {
				t.Fatal("the block after the genesis begins an epoch, but has no epoch_sync_data_hash")
			}
			tt.change(b.Header)
			b.Header.Init()
			chain.SignBlock(b, n.producer(root, 1))
			if _, err := n.BeginImport(b, chunks, false); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// state returns the parts of the engine that a refused block must not change: head, final block,
// number of blocks, and references to the head.
func (n *node) state() [4]any {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return [4]any{n.Head(), n.Final(), len(n.entries), n.Head().refs.Load()}
}

// TestInvalidBlocksLeaveEngineUnchanged: for each kind of invalid block, the engine refuses it
// without any change, and accepts the valid block afterwards.
func TestInvalidBlocksLeaveEngineUnchanged(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb", "cc"))
	n.accept(n.make(n.Head().Hash, 1, false))
	parent := n.Head().Hash
	for name, tt := range map[string]struct {
		change func(*primitives.Block, []*primitives.Chunk) []*primitives.Chunk
		want   error // nil: any error
	}{
		"orphan": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { b.Header.PrevHash[0]++; return c }, ErrOrphan},
		"no chunk headers": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { b.Body.Chunks = nil; return c },
			chain.InvalidNumberOfChunkHeaders},
		"no bodies":   {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { return nil }, nil},
		"a body less": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { return c[:1] }, nil},
		"bodies swapped": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			return []*primitives.Chunk{c[1], c[0]}
		}, nil},
		"other transactions": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			x := *c[0]
			x.Transactions = []*primitives.SignedTransaction{primitives.NewSignedTransaction(primitives.Transaction{
				SignerID: "aa", ReceiverID: "bb", PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature)}
			return []*primitives.Chunk{&x, c[1]}
		}, chain.InvalidTxRoot},
		"another header in the body": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			x := *c[0]
			x.Header.PrevGasUsed++
			return []*primitives.Chunk{&x, c[1]}
		}, chain.InvalidChunk},
		"height 0":        {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { b.Header.Height = 0; return c }, chain.InvalidBlockHeight},
		"height too high": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk { b.Header.Height = 102; return c }, chain.ErrHeightAhead},
		"greatest height": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			b.Header.Height = ^primitives.Height(0)
			return c
		}, nil},
		"the future": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			b.Header.Timestamp = ^uint64(0)
			return c
		},
			chain.InvalidBlockFutureTime},
		"nobody approved": {func(b *primitives.Block, c []*primitives.Chunk) []*primitives.Chunk {
			b.Header.Approvals = nil
			return c
		},
			chain.NotEnoughApprovals},
	} {
		t.Run(name, func(t *testing.T) {
			b, chunks := n.make(parent, 2, false)
			before := n.state()
			given := tt.change(b, chunks)
			b.Header.BlockBodyHash = b.Body.Hash()
			b.Header.Init()
			chain.SignBlock(b, n.producer(parent, b.Header.Height))
			_, err := n.Process(b, given, false)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if early := errors.Is(err, chain.ErrHeightAhead); errors.Is(err, chain.InvalidBlockHeight) && (VerdictOf(err) == VerdictEarly) != early {
				t.Errorf("verdict %d of %v", VerdictOf(err), err)
			}
			if after := n.state(); after != before {
				t.Errorf("the engine was %v and is %v", before, after)
			}
		})
	}
	b, chunks := n.make(parent, 2, false)
	a := n.accept(b, chunks)
	if !a.IsHead || n.Head().Hash != b.Hash() {
		t.Error("the valid block did not become the head")
	}
	before := n.state()
	if _, err := n.Process(b, chunks, false); !errors.Is(err, ErrKnown) || n.state() != before {
		t.Errorf("the same block again: %v, want %v", err, ErrKnown)
	}
}

// TestUncoveredPartsOfChunkAreIgnored: the engine does not trust those parts of a chunk that no
// hash in its header covers.
func TestUncoveredPartsOfChunkAreIgnored(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	b, chunks := n.make(n.Head().Hash, 1, false)
	for i := range chunks {
		x := *chunks[i]
		x.Header.HeightIncluded, x.Header.Signature = 77, primitives.ZeroED25519Signature
		x.PrevOutgoingReceipts = []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "aa", ID: primitives.Hash{1}, Body: &primitives.ActionReceipt{
			SignerID: "aa", SignerPublicKey: primitives.ZeroED25519Key, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}}}
		chunks[i] = &x
	}
	e := n.accept(b, chunks).Entry
	for i, s := range e.Shards {
		if h := &s.Chunk.Header; h.HeightIncluded != 1 || h.Signature != b.Body.Chunks[i].Signature {
			t.Errorf("shard index %d keeps the height or signature that came with the chunk", i)
		}
		if len(s.Incoming) != 0 || len(s.Chunk.PrevOutgoingReceipts) != 0 || len(s.Result.Outcomes) != 0 {
			t.Errorf("shard index %d runs a receipt that no chunk sent", i)
		}
	}
}

// TestHighestBlockBecomesHead: of two blocks of equal height the one imported first stays the head.
// A reorganization returns the transactions that only the old branch contains.
func TestHighestBlockBecomesHead(t *testing.T) {
	g := testGenesis(t, "aa")
	n := openNode(t, g)
	root := n.Head().Hash
	shard := n.Head().Layout.ShardOf("aa")
	if i, err := n.Head().Layout.Index(shard); err != nil || i != 0 {
		t.Fatalf("aa is in shard index %d, want 0", i)
	}
	one, two := transfer(root, 1), transfer(root, 2)
	a1 := n.accept(n.make(root, 1, false, one))
	b1, c1 := n.make(root, 1, true)
	other := n.accept(b1, c1)
	if !a1.IsHead || other.IsHead || n.Head() != a1.Entry {
		t.Error("the second block of a height became the head")
	}
	a2 := n.accept(n.make(a1.Entry.Hash, 2, false, two))
	if !a2.IsHead || len(a2.Returned) != 0 {
		t.Errorf("a block on the head: head %v, %d transactions returned", a2.IsHead, len(a2.Returned))
	}
	b2 := n.accept(n.make(other.Entry.Hash, 2, false, one))
	if b2.IsHead {
		t.Error("the other branch became the head at the same height")
	}
	b3 := n.accept(n.make(b2.Entry.Hash, 3, false))
	if !b3.IsHead || b3.OldHead != a2.Entry || n.Head() != b3.Entry {
		t.Error("the longer branch did not become the head")
	}
	if len(b3.Returned) != 1 || b3.Returned[0].Hash() != two.Hash() {
		t.Errorf("%d transactions returned, want the one that only the old branch has", len(b3.Returned))
	}
	if o, _, err := n.Transactions().Outcome(one.Hash()); err != nil || o.BlockHash != b2.Entry.Hash {
		t.Errorf("outcome of the transaction in both branches: block %v, %v, want %v", o.BlockHash, err, b2.Entry.Hash)
	}
	if _, _, err := n.Transactions().Outcome(two.Hash()); err == nil {
		t.Error("an outcome of the abandoned branch is reported")
	}
}

// TestReceiverAgreesWithProducer: an engine that only imports blocks computes the same hashes as
// the engine that produced them, over several epochs, with missing chunks and skipped heights.
func TestReceiverAgreesWithProducer(t *testing.T) {
	maker, other := openNode(t, testGenesis(t, "aa", "bb", "cc")), openNode(t, testGenesis(t, "aa", "bb", "cc"))
	if maker.Head().Hash != other.Head().Hash {
		t.Fatal("the genesis blocks differ")
	}
	height := primitives.Height(0)
	for i := range 45 {
		height++
		if i%7 == 3 {
			height++ // a skipped height
		}
		b, chunks := maker.make(maker.Head().Hash, height, i%5 == 2)
		made, err := maker.Process(b, chunks, true)
		if err != nil {
			t.Fatal(err)
		}
		for k, c := range chunks { // as the network delivers it: without the outgoing receipts
			if c != nil {
				x := *c
				x.PrevOutgoingReceipts = nil
				chunks[k] = &x
			}
		}
		got := other.accept(b, chunks)
		for s := range got.Entry.Shards {
			if a, b := got.Entry.Shards[s].Extra, made.Entry.Shards[s].Extra; a.StateRoot != b.StateRoot || a.OutcomeRoot != b.OutcomeRoot {
				t.Fatalf("height %d: shard index %d differs", height, s)
			}
		}
		if made.Final != got.Final {
			t.Fatalf("height %d: final %v and %v", height, made.Final, got.Final)
		}
	}
	if maker.Final().Height < 40 {
		t.Errorf("final height = %d, want more than 40", maker.Final().Height)
	}
}

// TestReceiptsOfMissedChunksComeNewestFirst: if a shard had no chunk in some blocks, its next chunk
// applies the receipts of its own block first, then those of the earlier blocks, newest first, back
// to the block of its last chunk. The test calls the function directly: with real blocks, the
// bandwidth scheduler grants nothing to a shard without chunks, so at most one earlier block would
// have receipts.
func TestReceiptsOfMissedChunksComeNewestFirst(t *testing.T) {
	e := &Engine{entries: map[primitives.Hash]*BlockNode{}}
	layout := primitives.SingleShardLayout()
	var all []*BlockNode
	prev := primitives.Hash{}
	for height := primitives.Height(1); height <= 5; height++ {
		b := &primitives.Block{Header: (&primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: prev,
			BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{Height: height}}).Init()}
		prev = b.Hash()
		x := &BlockNode{Block: b, Hash: prev, Layout: layout, Shards: []ShardState{{Incoming: []*primitives.Receipt{{ID: primitives.Hash{byte(height), 1}}, {ID: primitives.Hash{byte(height), 2}}}}}}
		e.entries[prev], all = x, append(all, x)
	}
	for since, want := range map[primitives.Height][]byte{4: {5}, 3: {5, 4}, 1: {5, 4, 3, 2}} {
		got, err := e.incoming(all[4], all[3], 0, since)
		if err != nil {
			t.Fatal(err)
		}
		var heights []byte
		for i, r := range got {
			if i%2 == 0 {
				heights = append(heights, r.ID[0])
			}
			if r.ID[1] != byte(i%2+1) {
				t.Errorf("since %d: the order inside a block changed", since)
			}
		}
		if !slices.Equal(heights, want) {
			t.Errorf("since %d: receipts of blocks %v, want %v", since, heights, want)
		}
	}
	if len(all[4].Shards[0].Incoming) != 2 {
		t.Error("the block's own list has grown")
	}
}
