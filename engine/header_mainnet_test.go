package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// oldChain is a synthetic chain whose genesis has the version of mainnet's, with the keys of its
// validators. The validators of all its epochs are the same.
type oldChain struct {
	g         *genesis.Genesis
	keys      []primitives.SecretKey
	producers []primitives.ValidatorStake // of the first two epochs
}

func newOldChain(t testing.TB, validators int) *oldChain {
	t.Helper()
	names := make([]primitives.AccountID, validators)
	for i := range names {
		names[i] = primitives.AccountID(fmt.Sprintf("validator%03d.near", i))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "old", Time: 1_595_350_551_591_948_000, Accounts: names, Validators: validators,
		Shards: 1, Protocol: primitives.ProdGenesisProtocolVersion})
	if err != nil {
		t.Fatal(err)
	}
	return &oldChain{g: g}
}

func (c *oldChain) open(t testing.TB, disk *storage.MemDisk) *Engine {
	t.Helper()
	n, err := openChanged(t, c.g, disk, storage.Options{}, func(o *Options) { o.Now, o.MaxHeightJump = nil, 0 })
	if err != nil {
		t.Fatal(err)
	}
	e := n.Engine
	if c.producers == nil {
		if err := e.Epochs(func(m *epoch.Manager) (err error) {
			c.producers, err = m.BlockProducersOrdered(primitives.EpochID{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.producers {
			c.keys = append(c.keys, primitives.TestKey(p.AccountID))
		}
	}
	return e
}

// proof returns an epoch sync proof of n epochs. version is the protocol version of the epoch that
// the proof leads to, and next that of the epoch after it. The
// headers of the epochs have the versions V1 to V6, one after the other, and the hashes of block
// producers are of both kinds, as on mainnet.
func (c *oldChain) proof(t testing.TB, genesisHash primitives.Hash, n int, version, next primitives.ProtocolVersion) *headerchain.EpochProof {
	t.Helper()
	const length = 43_200
	p := &headerchain.EpochProof{}
	id, height := primitives.EpochID(genesisHash), primitives.Height(length)
	header := func(i int, prev primitives.Hash) *primitives.BlockHeader {
		v := min(primitives.HeaderV6, primitives.HeaderVersion(i*6/n))
		h := &primitives.BlockHeader{Version: v, PrevHash: prev, Signature: c.keys[0].Sign(prev[:])}
		h.Height, h.EpochID, h.NextEpochID = height, id, primitives.EpochID(primitives.HashBytes(fmt.Appendf(nil, "epoch %d", i)))
		h.ChunkMask, h.LatestProtocolVersion = []bool{true}, version
		return h
	}
	finish := func(h *primitives.BlockHeader, versioned bool) {
		if h.NextBPHash = primitives.UntaggedBlockProducersHash(c.producers); versioned {
			h.NextBPHash = primitives.BlockProducersHash(c.producers)
		}
		h.Init()
	}
	// Blocks around the first block of the last epoch.
	var tree primitives.PartialMerkleTree
	leaves := []primitives.Hash{{1}, {2}, {3}}
	for _, x := range leaves {
		tree.Insert(x)
	}
	for i := range n {
		last := i == n-1
		versioned := i*6/n >= int(primitives.HeaderV3)
		h := header(i, primitives.HashBytes(fmt.Appendf(nil, "parent %d", i)))
		if last {
			c.end(t, p, header, finish, tree.Clone(), version, next, id)
			root, paths := primitives.Merklize(append(leaves, p.Current.First.Hash()))
			h.BlockMerkleRoot, p.Current.Path = root, paths[len(leaves)]
		}
		finish(h, versioned)
		inner := primitives.ApprovalInner{Endorsement: h.Hash()}
		signed := inner.SignedBytes(h.Height + 1)
		e := headerchain.ProvenEpoch{Producers: c.producers, Final: h, Versioned: i > 0 && (i-1)*6/n >= int(primitives.HeaderV3)}
		for k := range c.keys {
			sig := primitives.Signature("")
			if (k+i)%5 != 4 {
				sig = c.keys[k].Sign(signed)
			}
			e.Endorsements = append(e.Endorsements, sig)
		}
		p.Epochs = append(p.Epochs, e)
		id, height = h.NextEpochID, height+length
	}
	return p
}

// end fills the end of a proof: the first block of the last epoch, whose id is id, the two blocks
// before, and the data of the epoch before.
func (c *oldChain) end(t testing.TB, p *headerchain.EpochProof, header func(int, primitives.Hash) *primitives.BlockHeader,
	finish func(*primitives.BlockHeader, bool), tree *primitives.PartialMerkleTree,
	version, next primitives.ProtocolVersion, id primitives.EpochID,
) {
	t.Helper()
	g := EpochParams(&c.g.Config)
	g.ProtocolVersion = version
	configs, err := epoch.NewConfigs(g, nil, version)
	if err != nil {
		t.Fatal(err)
	}
	info, err := epoch.GenesisEpochInfo(g, configs)
	if err != nil {
		t.Fatal(err)
	}
	before := p.Epochs[len(p.Epochs)-1].Final // of the epoch before
	block := func(at primitives.Height, prev primitives.Hash) *primitives.BlockHeader {
		h := header(len(p.Epochs), prev)
		h.Version, h.Height, h.EpochID, h.NextEpochID = primitives.HeaderV6, at, before.EpochID, id
		h.LastFinalBlock = before.Hash()
		finish(h, true)
		return h
	}
	cur, last := &p.Current, &p.Last
	cur.PrevPrev = block(before.Height+1, before.Hash())
	cur.Prev = block(before.Height+2, cur.PrevPrev.Hash())
	first := func(h *primitives.BlockHeader) *epoch.BlockInfo {
		b := epoch.BlockInfoFromHeader(h, before.Height)
		b.EpochID, b.EpochFirstBlock = before.EpochID, primitives.Hash{7}
		return b
	}
	last.Info, last.Next, last.NextNext = info, info, cloneInfo(t, info)
	last.NextNext.ProtocolVersion = next
	last.First = first(block(before.Height-100, primitives.Hash{8}))
	last.BeforeTheLast, last.End = first(cur.PrevPrev), first(cur.Prev)
	cur.First = block(before.Height+3, cur.Prev.Hash())
	cur.First.EpochID, cur.First.NextEpochID = id, primitives.EpochID(cur.Prev.Hash())
	cur.First.BlockOrdinal, cur.First.BlockMerkleRoot = tree.Size()+1, tree.Root()
	b := last.End.AppendBorsh(last.BeforeTheLast.AppendBorsh(last.First.AppendBorsh(nil)))
	sum := primitives.HashBytes(last.NextNext.AppendBorsh(last.Next.AppendBorsh(last.Info.AppendBorsh(b))))
	cur.First.EpochSyncDataHash, cur.Tree = &sum, tree
	finish(cur.First, true)
}

// heapMB returns the live heap in MB.
func heapMB() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc / 1_000_000
}

// TestProofOfOldChainIsAccepted: a chain that begins with a genesis of mainnet's version accepts an
// epoch sync proof of 5,000 epochs whose headers have all versions from V1 on. Before, it takes no
// header, and after a restart the header chain is still at the end of the proof. A changed proof is
// its sender's fault.
func TestProofOfOldChainIsAccepted(t *testing.T) {
	epochs, validators := 5000, 7
	if n, err := strconv.Atoi(os.Getenv("TROUPE_PROOF_VALIDATORS")); err == nil {
		validators = n // mainnet has 100 block producers
	} else if testing.Short() {
		epochs = 300
	}
	c, disk := newOldChain(t, validators), storage.NewMemDisk()
	e := c.open(t, disk)
	if !e.GenesisOnly() || e.Genesis().Header().Version != primitives.HeaderV1 {
		t.Fatalf("genesis only: %v, header V%d", e.GenesisOnly(), e.Genesis().Header().Version+1)
	}
	p := c.proof(t, e.Genesis().Hash, epochs, 88, 88)
	packed := statesync.PackProof(p)
	versions := map[primitives.HeaderVersion]int{}
	for i := range p.Epochs {
		versions[p.Epochs[i].Final.Version]++
	}
	if len(versions) != 6 {
		t.Errorf("headers by version: %v, want V1 to V6", versions)
	}
	if n, err := e.HeaderChain().Add([]*primitives.BlockHeader{p.Epochs[0].Final}); n != 0 || VerdictOf(err) == VerdictLocalFault {
		t.Errorf("an old header: %d taken, %v", n, err)
	}
	for what, change := range map[string]func(*headerchain.EpochProof){
		"signature": func(q *headerchain.EpochProof) {
			q.Epochs[epochs/2].Endorsements[0] = q.Epochs[epochs/2].Endorsements[1]
		},
		"epoch left out": func(q *headerchain.EpochProof) { q.Epochs = append(q.Epochs[:epochs/2], q.Epochs[epochs/2+1:]...) },
		"other producers": func(q *headerchain.EpochProof) {
			q.Epochs[1].Producers = append([]primitives.ValidatorStake{}, c.producers[1:]...)
			q.Epochs[1].Endorsements = q.Epochs[1].Endorsements[1:]
		},
		"old hash of producers": func(q *headerchain.EpochProof) { q.Epochs[epochs-1].Versioned = false },
		"epoch data":            func(q *headerchain.EpochProof) { q.Last.First.Height++ },
	} {
		q, err := statesync.UnpackProof(packed)
		if err != nil {
			t.Fatal(err)
		}
		change(q)
		if err := e.HeaderChain().Jump(q); !errors.Is(err, headerchain.ErrProof) {
			t.Errorf("%s: %v, want %v", what, err, headerchain.ErrProof)
		}
	}
	before, begun := heapMB(), time.Now()
	q, err := statesync.UnpackProof(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.HeaderChain().Jump(q); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d epochs of %d validators: %d KB packed, %v, heap from %d to %d MB", epochs, validators, len(packed)/1000, time.Since(begun), before, heapMB())
	for _, run := range []string{"first", "second"} {
		if at, err := e.HeaderChain().Head(); err != nil || at.Hash != p.Current.First.Hash() {
			t.Errorf("%s run: head %v, %v", run, at, err)
		}
		if apart, err := e.HeaderChain().IsApart(); err != nil || !apart || !e.GenesisOnly() {
			t.Errorf("%s run: apart %v, %v", run, apart, err)
		}
		if got, err := e.HeaderChain().Proof(); err != nil || len(got.Epochs) != epochs || !borshEqual(got, p) {
			t.Errorf("%s run: another proof is stored, %v", run, err)
		}
		if run == "first" {
			if err := errors.Join(e.Close(), e.Store().Close()); err != nil {
				t.Fatal(err)
			}
			e = c.open(t, disk)
		}
	}
}

func borshEqual(a, b *headerchain.EpochProof) bool {
	return string(a.AppendBorsh(nil)) == string(b.AppendBorsh(nil))
}

// TestProofOfNewerProtocolIsNotUsed: a proof that leads to a protocol version that this program does
// not support changes nothing, and is not its sender's fault.
func TestProofOfNewerProtocolIsNotUsed(t *testing.T) {
	c := newOldChain(t, 4)
	e := c.open(t, storage.NewMemDisk())
	newest := parameters.Newest(primitives.NumberingRelease)
	p := c.proof(t, e.Genesis().Hash, 30, newest, newest+1)
	err := e.HeaderChain().Jump(p)
	if !errors.Is(err, headerchain.ErrVersion) || errors.Is(err, headerchain.ErrProof) {
		t.Errorf("%v, want %v", err, headerchain.ErrVersion)
	}
	if at, err := e.HeaderChain().Head(); err != nil || at.Hash != e.Genesis().Hash {
		t.Errorf("head %v, %v", at, err)
	}
	if got, err := e.HeaderChain().Proof(); got != nil || err != nil {
		t.Errorf("a proof is stored: %v", err)
	}
}

func cloneInfo(t testing.TB, x *epoch.EpochInfo) *epoch.EpochInfo {
	t.Helper()
	y := new(epoch.EpochInfo)
	if err := borsh.Unmarshal(x.AppendBorsh(nil), y); err != nil {
		t.Fatal(err)
	}
	return y
}
