package blockdoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestRecordedStreamProvesItsOutcomes: all blocks of neard's recorded stream pass, and each proves
// the outcomes of the block before. Only the code of global contracts is missing, which no document
// contains. Four shards list their outcomes in another order than the root has, so it is not proven
// that these are complete.
func TestRecordedStreamProvesItsOutcomes(t *testing.T) {
	t.Parallel()
	s := readStream(t)
	b := newBooks()
	b.blocks = s.before
	roots := map[primitives.ShardID]primitives.Hash{}
	n := map[string]int{}
	for i, line := range s.lines {
		d, err := Parse(line)
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		proven, err := d.CheckNext(roots)
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		n["roots of outcomes named by the next block"] += len(proven)
		b.learn(d)
		r, err := d.Check(b.known(&s.layout))
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		for id, root := range r.Outcomes {
			roots[id] = root
		}
		for _, err := range r.Lacking {
			n["lacking"]++
			if e := (*CodeError)(nil); !errors.As(err, &e) {
				t.Errorf("block %d: %v", d.Block.Header.Height, err)
			}
		}
		for _, x := range []struct {
			name string
			of   map[primitives.ShardID]bool
		}{{"roots of transactions", r.Transactions}, {"roots of receipts", r.Receipts}, {"roots of outcomes", r.Whole}} {
			for _, ok := range x.of {
				if ok {
					n[x.name]++
				}
			}
		}
		for i := range d.Shards {
			n["transactions"] += len(d.Shards[i].Transactions)
			n["receipts"] += len(d.Shards[i].Receipts)
			n["outcomes"] += len(d.Shards[i].Outcomes)
		}
	}
	t.Logf("%d blocks: %v", len(s.lines), n)
	for what, want := range map[string]int{"transactions": 500, "receipts": 1654, "outcomes": 2174, "lacking": 10, "roots of transactions": 5174,
		"roots of receipts": 5172, "roots of outcomes": 5180, "roots of outcomes named by the next block": 5176} {
		if n[what] != want {
			t.Errorf("%d %s, want %d", n[what], what, want)
		}
	}
}

// TestPublicNetworkBlocksPass: blocks of mainnet and testnet of the protocol versions 29 to 86 pass
// in the layouts of their time. In the two pairs of consecutive blocks, the second proves the
// outcomes of the first.
func TestPublicNetworkBlocksPass(t *testing.T) {
	t.Parallel()
	list := realDocuments(t)
	headers, chunks := map[primitives.HeaderVersion]int{}, map[chunkLayout]int{}
	for name, text := range list {
		d, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b := newBooks()
		b.learn(d)
		if _, err := d.Check(b.known(nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		headers[d.Block.Header.Version]++
		var again primitives.BlockHeader
		if err := borsh.Unmarshal(d.Block.Header.AppendBorsh(nil), &again); err != nil || again.Hash() != d.Hash {
			t.Errorf("%s: the header of version %d decodes as block %v: %v", name, d.Block.Header.Version, again.Hash(), err)
		}
		for _, c := range d.Block.Body.Chunks {
			chunks[chunkLayout{c.Version, c.Form}]++
		}
	}
	t.Logf("%d blocks, headers by version %v, chunk headers by layout %v", len(list), headers, chunks)
	if len(list) < 22 || len(headers) < 5 {
		t.Errorf("%d blocks of %d versions of headers", len(list), len(headers))
	}
	first, err := Parse(list["lake-000107503704"])
	if err != nil {
		t.Fatal(err)
	}
	r, err := first.Check(newBooks().known(nil))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Parse(list["lake-000107503705"])
	if err != nil {
		t.Fatal(err)
	}
	if proven, err := second.CheckNext(r.Outcomes); err != nil || len(proven) != 4 {
		t.Errorf("the second of a pair proves the outcomes of shards %v: %v", proven, err)
	}
}

func TestParseOfNonDocumentIsErrForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `[]`, `7`, `{}`, `{"block":null}`, `{"block":{}}`, `{"block":{"header":null,"chunks":null},"shards":null}`, `{"block":[1],"shards":[]}`,
		`{"block":{"header":{"timestamp":1,"timestamp_nanosec":"x"}},"shards":[]}`, `{"block":` + strings.Repeat("[", 20_000),
	} {
		var lie *MismatchError
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrForm) && !errors.As(err, &lie) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	if (&Document{}).AddShard(json.RawMessage(`{"chunk":{"header":7}}`)) == nil || (&Document{}).AddChunk(json.RawMessage(`{"transactions":[1]}`)) == nil {
		t.Error("an invalid shard or chunk is accepted")
	}
}
