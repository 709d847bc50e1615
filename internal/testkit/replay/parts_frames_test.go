package replay

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage/trie"
)

// neardPart is a state part as a neard sent it.
type neardPart struct {
	shard   primitives.ShardID
	sync    primitives.Hash
	index   uint64
	strings [][]byte
}

// readParts reads the parts, and the blocks, that neards sent.
func readParts(t *testing.T, path string) (parts []neardPart, blocks map[primitives.Hash]*primitives.Block) {
	t.Helper()
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	blocks = map[primitives.Hash]*primitives.Block{}
	lines := bufio.NewScanner(unzipped(t, path))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"state_response"`)) && !bytes.Contains(lines.Bytes(), []byte(`"block_response"`)) {
			continue
		}
		var line struct{ Frame string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
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
			blocks[b.Hash()] = b
		}
		raw := testutil.ProtoField(testutil.ProtoField(testutil.ProtoField(frame, 31), 1), 1)
		if raw == nil {
			continue
		}
		r := borsh.NewReader(raw)
		version, p := r.Byte(), neardPart{shard: primitives.ShardID(r.Uint64()), sync: primitives.ReadHash(r)}
		if form := r.Byte(); version != 1 || form != 3 {
			t.Fatalf("state response of tags %d, %d", version, form)
		}
		if r.Byte() != 0 || r.Byte() != 1 { // with a header, or without a part
			continue
		}
		p.index = r.Uint64()
		packed, body := r.Byte() == 1, r.Bytes()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if packed {
			if body, err = unzip.DecodeAll(body, nil); err != nil {
				t.Fatal(err)
			}
		}
		r = borsh.NewReader(body)
		r.Byte()
		p.strings = borsh.Slice(r, 4, (*borsh.Reader).BytesCopy)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return parts, blocks
}

// TestNeardsStatePartsAreValid: the state parts that neards sent are valid, and a trie built from
// them gives the same parts, string by string.
func TestNeardsStatePartsAreValid(t *testing.T) {
	seen := 0
	for _, name := range []string{"frames.jsonl.gz", "late.jsonl.gz"} {
		parts, blocks := readParts(t, filepath.Join(shared, "net", name))
		for _, p := range parts {
			at := blocks[p.sync]
			if at != nil {
				at = blocks[at.Header.PrevHash]
			}
			if at == nil {
				continue // not sent while the recorder looked
			}
			var root primitives.Hash
			for _, c := range at.Body.Chunks {
				if c.ShardID == p.shard {
					root = c.PrevStateRoot
				}
			}
			id := trie.PartID{Index: p.index, Total: 1}
			got, err := trie.OpenPart(p.strings, root, id, 0)
			if err != nil {
				t.Fatalf("%s: part of shard %d at %v: %v", name, p.shard, p.sync, err)
			}
			whole, err := trie.New(trie.Options{}).Build(func(yield func(key, value []byte) bool) {
				for _, c := range got.Pairs {
					if !yield(c.Key, c.Value) {
						return
					}
				}
			})
			if err != nil || whole.Hash() != root || trie.NumParts(whole.MemoryUsage()) != 1 {
				t.Fatalf("%s: part of shard %d at %v: a trie of root %v, want %v: %v", name, p.shard, p.sync, whole.Hash(), root, err)
			}
			ours, err := whole.Part(id)
			if err != nil || len(ours) != len(p.strings) {
				t.Fatalf("%s: part of shard %d at %v: %d strings, neard has %d: %v", name, p.shard, p.sync, len(ours), len(p.strings), err)
			}
			for i := range ours {
				if !bytes.Equal(ours[i], p.strings[i]) {
					t.Fatalf("%s: part of shard %d at %v: string %d is another", name, p.shard, p.sync, i)
				}
			}
			seen++
		}
	}
	if t.Logf("%d parts", seen); seen == 0 {
		t.Error("no part was seen")
	}
}
