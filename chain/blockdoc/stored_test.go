package blockdoc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestStoredDocumentIsComplete: the JSON of a document gives the same document again, with the same
// result of Check, but without state changes. That holds for recorded blocks and for those of public
// networks since 2020.
func TestStoredDocumentIsComplete(t *testing.T) {
	t.Parallel()
	all := realDocuments(t)
	for i, line := range readStream(t).lines {
		if i%7 == 0 {
			all["stream "+string(rune('0'+i%10))+string(rune('a'+i/10))] = line
		}
	}
	shards, gathered := 0, 0
	for name, text := range all {
		d, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		stored := d.AppendJSON(nil)
		again, err := Parse(stored)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !json.Valid(stored) || !bytes.Equal(again.AppendJSON(nil), stored) || bytes.Contains(stored, []byte(`"state_changes":[{`)) {
			t.Errorf("%s: the JSON is not stable", name)
		}
		r, err := d.Check(Known{})
		r2, err2 := again.Check(Known{})
		if (err == nil) != (err2 == nil) || err == nil && !reflect.DeepEqual(r, r2) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, r2, err2, r, err)
		}
		if err != nil {
			continue
		}
		// GatherChunks does to a document that is not checked what Check does.
		if again, err = Parse(stored); err != nil {
			t.Fatal(err)
		}
		if len(again.Block.Body.Chunks) < len(d.Block.Body.Chunks) {
			gathered++
		}
		for range 2 {
			if err := again.GatherChunks(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !bytes.Equal(view.AppendBlock(nil, again.Author, again.Block), view.AppendBlock(nil, d.Author, d.Block)) {
			t.Errorf("%s: another block", name)
		}
		for i := range d.Shards {
			s, x := &d.Shards[i], &again.Shards[i]
			shards++
			if !reflect.DeepEqual(s.Outcomes, x.Outcomes) || len(s.Transactions) != len(x.Transactions) || len(s.Receipts) != len(x.Receipts) || len(s.Executed) != len(x.Executed) || len(x.Codes) != 0 {
				t.Errorf("%s: shard %d differs", name, s.ID)
			}
			hash, is := again.NewChunk(s.ID)
			if is != (s.Chunk != nil) || is && hash != s.hash {
				t.Errorf("%s: new chunk of shard %d: %v, %v", name, s.ID, hash, is)
			}
		}
		if _, is := again.NewChunk(primitives.ShardID(99_999)); is {
			t.Errorf("%s: a chunk of no shard", name)
		}
	}
	if shards < 50 {
		t.Errorf("only %d shards", shards)
	}
	t.Logf("%d documents, %d shards, %d without chunk headers in the block", len(all), shards, gathered)
}
