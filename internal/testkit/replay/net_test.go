package replay

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// network is what a recorded network sent about blocks, chunks and witnesses.
type network struct {
	genesis      []byte
	keys         map[primitives.AccountID]primitives.SecretKey
	blocks       []*primitives.Block // by height
	chunks       map[primitives.Hash]*primitives.Chunk
	partial      map[primitives.Hash][]*primitives.PartialChunk // by chunk hash, all that were sent
	parts        map[primitives.ChunkKey]map[uint64]*primitives.PartialWitness
	endorsements map[primitives.ChunkKey][]*primitives.ChunkEndorsement
	// by sender and receiver, as far as it was sent directly
	endorsedTo map[primitives.ChunkKey]map[primitives.AccountID][]primitives.AccountID
	forwards   map[primitives.Hash][]forwarded // by chunk hash
	accesses   map[primitives.ChunkKey]*primitives.ContractAccesses
	deploys    map[primitives.ChunkKey]map[uint64]*primitives.PartialContractDeploys
}

// forwarded is a forward of chunk parts as it was sent.
type forwarded struct {
	from, to primitives.AccountID
	raw      []byte
}

// netPath returns the whole recording if it exists and is requested, otherwise the cut.
func netPath() string {
	if all() {
		return filepath.Join(shared, "net", "frames.jsonl.gz")
	}
	return filepath.Join("testdata", "net.jsonl.gz")
}

func readNetwork(t testing.TB, path string) *network {
	t.Helper()
	n := &network{keys: map[primitives.AccountID]primitives.SecretKey{}, chunks: map[primitives.Hash]*primitives.Chunk{},
		partial: map[primitives.Hash][]*primitives.PartialChunk{}, forwards: map[primitives.Hash][]forwarded{},
		endorsedTo: map[primitives.ChunkKey]map[primitives.AccountID][]primitives.AccountID{},
		parts:      map[primitives.ChunkKey]map[uint64]*primitives.PartialWitness{}, endorsements: map[primitives.ChunkKey][]*primitives.ChunkEndorsement{},
		accesses: map[primitives.ChunkKey]*primitives.ContractAccesses{}, deploys: map[primitives.ChunkKey]map[uint64]*primitives.PartialContractDeploys{}}
	nodes, frames := testutil.Frames(t, path, func(kind string) bool { return kind == "routed" || kind == "block_response" })
	for _, node := range nodes {
		key, err := primitives.ParseSecretKey(node.ValidatorKey.SecretKey)
		if err != nil {
			t.Fatal(err)
		}
		n.keys[primitives.AccountID(node.ValidatorKey.AccountID)] = key
	}
	var first struct{ Genesis json.RawMessage }
	for _, line := range testutil.Lines(t, path) {
		if err := json.Unmarshal(line, &first); err != nil {
			t.Fatal(err)
		}
		break
	}
	if n.genesis = first.Genesis; n.genesis == nil {
		n.genesis = testutil.Read(t, filepath.Join(filepath.Dir(path), "genesis.json.gz"))
	}
	seen := map[primitives.Hash]bool{}
	decode := func(f *testutil.Frame, raw []byte, v borsh.Decoder) {
		if err := borsh.Unmarshal(raw, v); err != nil {
			t.Fatalf("line %d: %v", f.Line, err)
		}
	}
	for f := range frames {
		if f.Kind == "block_response" {
			raw := testutil.ProtoField(f.Message(15), 1)
			if hash := primitives.HashBytes(raw); !seen[hash] {
				seen[hash] = true
				b := new(primitives.Block)
				decode(f, raw, b)
				n.blocks = append(n.blocks, b)
			}
			continue
		}
		tag, raw, ok := f.Routed()
		if !ok {
			continue
		}
		switch tag {
		case 16:
			n.chunk(t, f, raw)
		case 18:
			x := new(primitives.ChunkForward)
			decode(f, raw, x)
			n.forwards[x.ChunkHash] = append(n.forwards[x.ChunkHash], forwarded{primitives.AccountID(f.From), primitives.AccountID(f.To), raw})
		case 22, 23:
			p := new(primitives.PartialWitness)
			decode(f, raw, p)
			if n.parts[p.Key()] == nil {
				n.parts[p.Key()] = map[uint64]*primitives.PartialWitness{}
			}
			n.parts[p.Key()][p.Ord] = p
		case 24:
			x := new(primitives.ChunkEndorsement)
			decode(f, raw, x)
			key := primitives.ChunkKey{ShardID: x.Metadata.ShardID, EpochID: x.Metadata.EpochID, HeightCreated: x.Metadata.HeightCreated}
			n.endorsements[key] = append(n.endorsements[key], x)
			if by := x.Metadata.AccountID; f.From == string(by) {
				if n.endorsedTo[key] == nil {
					n.endorsedTo[key] = map[primitives.AccountID][]primitives.AccountID{}
				}
				n.endorsedTo[key][by] = append(n.endorsedTo[key][by], primitives.AccountID(f.To))
			}
		case 28:
			x := new(primitives.ContractAccesses)
			decode(f, raw, x)
			n.accesses[x.Key] = x
		case 31:
			x := new(primitives.PartialContractDeploys)
			decode(f, raw, x)
			if n.deploys[x.Key] == nil {
				n.deploys[x.Key] = map[uint64]*primitives.PartialContractDeploys{}
			}
			n.deploys[x.Key][x.Ord] = x
		}
	}
	slices.SortFunc(n.blocks, func(a, b *primitives.Block) int { return cmp.Compare(a.Header.Height, b.Header.Height) })
	return n
}

// chunk decodes a PartialChunk. With four validators any one part is the whole body.
func (n *network) chunk(t testing.TB, f *testutil.Frame, raw []byte) {
	t.Helper()
	p := new(primitives.PartialChunk)
	if err := borsh.Unmarshal(raw, p); err != nil {
		t.Fatalf("line %d: %v", f.Line, err)
	}
	hash := p.Header.ChunkHash()
	n.partial[hash] = append(n.partial[hash], p)
	if len(p.Parts) == 0 || n.chunks[hash] != nil {
		return
	}
	c := &primitives.Chunk{Hash: hash, Header: p.Header}
	if err := borsh.Unmarshal(p.Parts[0].Part[:p.Header.EncodedLength], &c.ChunkBody); err != nil {
		t.Fatalf("line %d: %v", f.Line, err)
	}
	n.chunks[hash] = c
}

// bodies are the new chunks of a block, by shard index.
func (n *network) bodies(b *primitives.Block) []*primitives.Chunk {
	out := make([]*primitives.Chunk, len(b.Body.Chunks))
	for i, h := range b.Body.Chunks {
		if h.HeightIncluded == b.Header.Height {
			out[i] = n.chunks[h.ChunkHash()]
		}
	}
	return out
}

// open starts an engine on the network's genesis.
func (n *network) open(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	e, _ := n.openStored(t, o)
	return e
}

// openStored is open, with the store.
func (n *network) openStored(t testing.TB, o engine.Options) (*engine.Engine, *storage.Store) {
	t.Helper()
	rec := &Recording{Genesis: n.genesis}
	c, err := Genesis(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := storage.OpenMemory(storage.NewMemDisk(), storage.Options{Identity: storeIdentity(rec, c)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	machine, err := vm.New(vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	o.Chain, o.Store, o.VM = c, s, machine
	e, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

// payload puts a recorded witness together from its parts, as it was compressed; nil if too few are
// there.
func (n *network) payload(t testing.TB, key primitives.ChunkKey, validators int) []byte {
	t.Helper()
	c, err := partialwitness.WitnessCoder(validators)
	if err != nil {
		t.Fatal(err)
	}
	parts, length := make([][]byte, validators), uint64(0)
	for ord, p := range n.parts[key] {
		parts[ord], length = p.Part, p.EncodedLength
	}
	if len(n.parts[key]) < c.DataParts() {
		return nil
	}
	payload, err := c.Join(parts, length)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// none is the shard list of nodes that track no shard.
func none(primitives.ShardLayout, primitives.ShardID) bool { return false }
