package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// traffic is what neards sent each other about blocks, chunks and witnesses, as far as these tests
// use it.
type traffic struct {
	blocks    map[primitives.Hash]*primitives.Block
	chunks    map[primitives.Hash]*primitives.Chunk
	parts     map[chunkKey]*witnessParts
	accesses  map[chunkKey][]primitives.Hash
	witnesses map[primitives.Hash][]*witness // by the block on which the chunk is
	zstd      *zstd.Decoder
}

type chunkKey struct {
	shard, height uint64
}

// witnessParts is a witness in parts.
type witnessParts struct {
	length uint64
	parts  map[uint64][]byte
}

// witness is the part of nearcore's ChunkStateWitness V2 that concerns states.
type witness struct {
	key      chunkKey
	prev     primitives.Hash
	steps    []provenStep // the main one first
	receipts primitives.Hash
}

type provenStep struct {
	block, post primitives.Hash
	state       [][]byte
}

func unzipped(t *testing.T, path string) io.Reader {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("no %s beside this checkout", path)
	}
	t.Cleanup(func() { _ = f.Close() })
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func readTraffic(t *testing.T, path string) *traffic {
	t.Helper()
	x := &traffic{blocks: map[primitives.Hash]*primitives.Block{}, chunks: map[primitives.Hash]*primitives.Chunk{}, parts: map[chunkKey]*witnessParts{},
		accesses: map[chunkKey][]primitives.Hash{}, witnesses: map[primitives.Hash][]*witness{}}
	var err error
	if x.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err != nil {
		t.Fatal(err)
	}
	defer x.zstd.Close()
	lines := bufio.NewScanner(unzipped(t, path))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct{ Kind, Frame string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Kind != "routed" && line.Kind != "block_response" {
			continue
		}
		frame, err := base64.StdEncoding.DecodeString(line.Frame)
		if err != nil {
			t.Fatal(err)
		}
		if raw := testutil.ProtoField(testutil.ProtoField(testutil.ProtoField(frame, 15), 1), 1); raw != nil {
			b := new(primitives.Block)
			if err := borsh.Unmarshal(raw, b); err != nil {
				t.Fatal(err)
			}
			x.blocks[b.Hash()] = b
		} else if raw := testutil.ProtoField(testutil.ProtoField(frame, 17), 1); raw != nil {
			x.routed(t, raw)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for key, c := range x.parts {
		x.decode(t, key, c)
	}
	return x
}

// routed decodes a RoutedMessageV1: target, author, signature, ttl, body.
func (x *traffic) routed(t *testing.T, raw []byte) {
	t.Helper()
	at := 1 + 32 // to a hash
	if raw[0] == 0 {
		at++ // to a key
	}
	at += 33 + 65 + 1
	r := borsh.NewReader(raw[at+1:])
	switch raw[at] {
	case 16: // VersionedPartialEncodedChunk
		x.chunk(t, r)
	case 22, 23: // PartialEncodedStateWitness and its forward
		r.Take(32)
		key := chunkKey{r.Uint64(), r.Uint64()}
		ord, part, length := r.Uint64(), r.BytesCopy(), r.Uint64()
		c := x.parts[key]
		if c == nil {
			c = &witnessParts{length, map[uint64][]byte{}}
			x.parts[key] = c
		}
		c.parts[ord] = part
	case 28: // ChunkContractAccesses
		r.Byte()
		shard := r.Uint64()
		r.Take(32)
		x.accesses[chunkKey{shard, r.Uint64()}] = borsh.Slice(r, 32, primitives.ReadHash)
	}
	if r.Err() != nil {
		t.Fatalf("body %d: %v", raw[at], r.Err())
	}
}

// chunk decodes a PartialEncodedChunk V2. With four validators any one part is the whole body.
func (x *traffic) chunk(t *testing.T, r *borsh.Reader) {
	t.Helper()
	c := new(primitives.Chunk)
	r.Byte()
	c.Header.DecodeBorsh(r)
	if n := r.Uint32(); n == 0 || r.Err() != nil {
		return
	}
	r.Uint64()
	part := r.BytesCopy()
	if err := borsh.Unmarshal(part[:c.Header.EncodedLength], &c.ChunkBody); err != nil {
		t.Fatal(err)
	}
	c.Hash = c.Header.ChunkHash()
	x.chunks[c.Hash] = c
}

// decode joins the parts of a witness, of which the first ones are the data, and reads it.
func (x *traffic) decode(t *testing.T, key chunkKey, c *witnessParts) {
	t.Helper()
	var raw []byte
	for ord := uint64(0); uint64(len(raw)) < c.length; ord++ {
		part := c.parts[ord]
		if part == nil {
			return // it was not sent over a recorded connection
		}
		raw = append(raw, part...)
	}
	raw = raw[:c.length]
	if magic := []byte{0x28, 0xb5, 0x2f, 0xfd}; !bytes.HasPrefix(raw, magic) {
		raw = raw[4:] // of several parts: the length
	}
	raw, err := x.zstd.DecodeAll(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := borsh.NewReader(raw)
	if tag := r.Byte(); tag != 1 {
		t.Fatalf("witness of version tag %d", tag)
	}
	r.Take(32)
	var header primitives.ChunkHeader
	header.DecodeBorsh(r)
	step := func(r *borsh.Reader) (s provenStep) {
		s.block.DecodeBorsh(r)
		r.Byte()
		s.state = borsh.Slice(r, 4, (*borsh.Reader).BytesCopy)
		s.post.DecodeBorsh(r)
		return s
	}
	w := &witness{key: key, prev: header.PrevBlockHash, steps: []provenStep{step(r)}}
	for range r.Uint32() { // source_receipt_proofs
		r.Take(32)
		primitives.ReadReceipts(r)
		r.Take(16)
		new(primitives.MerklePath).DecodeBorsh(r)
	}
	w.receipts.DecodeBorsh(r)
	primitives.ReadTransactions(r)
	w.steps = append(w.steps, borsh.Slice(r, 69, step)...)
	primitives.ReadTransactions(r)
	if err := r.Close(); err != nil {
		t.Fatalf("witness %v: %v", key, err)
	}
	x.witnesses[w.prev] = append(x.witnesses[w.prev], w)
}

// TestStateProofsEqualNeardsWitnesses follows a recorded network of four validators, each with one
// shard. For every chunk it compares the state proof that the engine would send with that of
// neard's witness, string by string, and applies the chunk on the states in neard's proof.
func TestStateProofsEqualNeardsWitnesses(t *testing.T) {
	if !all() {
		t.Skip("TROUPE_REPLAY=all follows the recorded network too")
	}
	folder := filepath.Join(shared, "net")
	raw, err := io.ReadAll(unzipped(t, filepath.Join(folder, "genesis.json.gz")))
	if err != nil {
		t.Fatal(err)
	}
	x := readTraffic(t, filepath.Join(folder, "frames.jsonl.gz"))
	rec := &Recording{Genesis: raw}
	c, err := Genesis(rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := storage.OpenMemory(storage.NewMemDisk(), storage.Options{Identity: storeIdentity(rec, c)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	machine, err := vm.New(vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	e, err := engine.Open(engine.Options{Chain: c, Store: s, VM: machine, Par: par, ProofBytes: keptProofs})
	if err != nil {
		t.Fatal(err)
	}
	blocks := make([]*primitives.Block, 0, len(x.blocks))
	for _, b := range x.blocks {
		blocks = append(blocks, b)
	}
	slices.SortFunc(blocks, func(a, b *primitives.Block) int { return cmp.Compare(a.Header.Height, b.Header.Height) })
	witnesses, steps, codes := 0, 0, 0
	for _, b := range blocks {
		if b.Header.PrevHash.IsZero() {
			continue
		}
		chunks := make([]*primitives.Chunk, len(b.Body.Chunks))
		for i, h := range b.Body.Chunks {
			if h.HeightIncluded == b.Header.Height {
				chunks[i] = x.chunks[h.ChunkHash()]
			}
		}
		if _, err := e.Process(b, chunks, false); err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		for _, w := range x.witnesses[b.Hash()] {
			main, implicit, err := e.Transitions(b.Hash(), primitives.ShardID(w.key.shard))
			if err != nil {
				t.Fatal(err)
			}
			list := append([]*engine.Transition{main}, implicit...)
			if len(list) != len(w.steps) || main.Receipts != w.receipts {
				t.Fatalf("block %d, shard %d: %d steps, receipts %v, neard has %d, %v", b.Header.Height, w.key.shard, len(list), main.Receipts, len(w.steps), w.receipts)
			}
			for i, got := range list {
				want := w.steps[i]
				if got.Block != want.block || got.Post != want.post || !slices.EqualFunc(got.Proof, want.state, bytes.Equal) {
					t.Fatalf("block %d, shard %d, step %d: %d strings of block %v to %v, neard has %d, %v, %v",
						b.Header.Height, w.key.shard, i, len(got.Proof), got.Block, got.Post, len(want.state), want.block, want.post)
				}
				if steps++; got.Proof == nil {
					continue
				}
				code, err := e.Codes(got)
				if err != nil {
					t.Fatal(err)
				}
				theirs := *got
				theirs.Proof = want.state
				if r, err := e.ApplyTransition(&theirs, code); err != nil || r.Trie.Root() != want.post {
					t.Fatalf("block %d, shard %d, step %d on neard's proof: %v", b.Header.Height, w.key.shard, i, err)
				}
			}
			var called []primitives.Hash
			for _, c := range main.Codes {
				called = append(called, c.Hash)
			}
			told := slices.Clone(x.accesses[w.key])
			slices.SortFunc(called, primitives.Hash.Compare)
			slices.SortFunc(told, primitives.Hash.Compare)
			if _, sent := x.accesses[w.key]; sent && !slices.Equal(called, told) {
				t.Errorf("block %d, shard %d: got contracts %v, neard sent %v", b.Header.Height, w.key.shard, called, told)
			}
			witnesses, codes = witnesses+1, codes+len(told)
		}
	}
	t.Logf("%d blocks, %d witnesses, %d steps, %d contracts", len(blocks), witnesses, steps, codes)
	if witnesses < 1000 || codes == 0 {
		t.Errorf("%d witnesses with %d contracts are few", witnesses, codes)
	}
}
