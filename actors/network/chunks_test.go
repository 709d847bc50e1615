package network

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// chunkOut implements Out for a test that passes on only chunks.
func chunkOut(chunk func(messages.ChunkReceivedAlone)) Out { return chunkSender{chunk: chunk} }

type chunkSender struct {
	Out
	chunk func(messages.ChunkReceivedAlone)
}

func (s chunkSender) Chunk(m messages.ChunkReceivedAlone) { s.chunk(m) }

// TestSecondBlockReusesChunksOfFirst: a producer that skips a height may make two blocks with the
// same parent and chunks. The chunk bodies of the first serve the second without a request, until a
// block on that parent is final.
func TestSecondBlockReusesChunksOfFirst(t *testing.T) {
	a, _ := newLoneActor(t)
	var given []primitives.Hash
	a.o.Out = chunkOut(func(m messages.ChunkReceivedAlone) { given = append(given, m.Chunk.Hash) })
	c := new(primitives.Chunk)
	c.Header.HeightCreated, c.Header.EncodedLength = 7, 100
	c.Hash = c.Header.ChunkHash()
	a.bodies.add(c)
	blockAt := func(h primitives.Height) *primitives.Block {
		b := blank()
		b.Header.Height = h
		included := c.Header
		included.HeightIncluded = h
		b.Body.Chunks = []*primitives.ChunkHeader{&included}
		return b
	}
	want := func(h primitives.Height, times int) {
		t.Helper()
		given = nil
		a.chunksWanted(&messages.ChunksWanted{Block: blockAt(h), Chunks: []primitives.Hash{c.Hash}})
		if len(given) != times {
			t.Errorf("block %d is given %d bodies", h, len(given))
		}
	}
	imported := func(h, final primitives.Height) {
		a.blockImported(&messages.BlockAccepted{Block: blockAt(h), Final: final,
			Shards: []messages.ShardAccepted{{Chunk: c}}})
	}
	want(7, 1)
	imported(7, 5)
	want(8, 1)
	imported(8, 6) // the parent
	want(9, 1)
	imported(9, 7)
	want(10, 0)
	if len(a.bodies.all)+len(a.bodies.order)+a.bodies.bytes != 0 {
		t.Errorf("kept: %+v", a.bodies)
	}
}

// TestOldChunksComeFromArchives: an old chunk is requested from the archival peers that track its
// shard, if there are any. A newer chunk is requested from any peer that tracks its shard.
func TestOldChunksComeFromArchives(t *testing.T) {
	peer := func(id string, archival bool, height primitives.Height, shards ...primitives.ShardID) near.PeerState {
		return near.PeerState{Info: wire.PeerInfo{ID: wire.PeerID(id)}, Archival: archival, Height: height, HasBlock: true, TrackedShards: shards}
	}
	q := &chunkparts.Ask{Shard: 1, MinHeight: 10}
	for _, x := range []struct {
		name  string
		old   bool
		peers []near.PeerState
		want  []wire.PeerID
	}{
		{"old", true, []near.PeerState{peer("a", false, 50, 1), peer("b", true, 50, 0, 1), peer("c", true, 50, 0), peer("d", true, 9, 1)}, []wire.PeerID{"b"}},
		{"new", false, []near.PeerState{peer("a", false, 50, 1), peer("b", true, 50, 0, 1)}, []wire.PeerID{"a", "b"}},
		{"old, without an archive of the shard", true, []near.PeerState{peer("a", false, 50, 1), peer("c", true, 50, 0)}, []wire.PeerID{"a"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := &Actor{peers: x.peers}
			if got := a.chunkPeers(q, x.old); !slices.Equal(got, x.want) {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// emptyChain is a chain without blocks.
type emptyChain struct{}

func (emptyChain) Tip() blocksync.Ref                { return blocksync.Ref{} }
func (emptyChain) Headers() (blocksync.Ref, error)   { return blocksync.Ref{}, nil }
func (emptyChain) Path(int) ([]blocksync.Ref, error) { return nil, nil }
func (emptyChain) Apart() bool                       { return false }
func (emptyChain) Has(primitives.Hash) bool          { return false }

// TestFalseArchiveDoesNotGetEveryRequest: a peer that claims to be an archive, and to be at a height
// at which every chunk is old, gets most requests for chunks, but not all.
func TestFalseArchiveDoesNotGetEveryRequest(t *testing.T) {
	draws := 0
	a := &Actor{o: Options{Random: func(n int) int { draws++; return draws % n }}}
	a.sync = blocksync.New(emptyChain{}, blocksync.Options{Kept: 100, Random: a.o.Random})
	if a.prefersArchives(1000) {
		t.Error("a chunk is old without a peer")
	}
	if _, err := a.sync.Step(0, blocksync.Peers{List: []blocksync.Peer{{ID: "liar", Height: 1 << 60, Archival: true}}}); err != nil {
		t.Fatal(err)
	}
	const all = 400
	archives := 0
	for range all {
		if a.prefersArchives(1000) {
			archives++
		}
	}
	if archives != all-all/notOldOneIn {
		t.Errorf("%d of %d requests go to archives", archives, all)
	}
}
