package stream

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestPanicInTextIsAnError: if making a block's text panics, in one of its halves or before, the
// caller gets an error, and the process continues.
func TestPanicInTextIsAnError(t *testing.T) {
	o := odd{rand.New(rand.NewPCG(1, 1))}
	chunk := o.digest().Shards[0].Chunk
	for name, change := range map[string]func(*Block, []Details){
		"plan": func(m *Block, _ []Details) {
			m.Shards[1].Chunk = new(primitives.Chunk)
			m.Shards[1].Chunk.Transactions = []*primitives.SignedTransaction{nil}
		},
		"chunk": func(m *Block, d []Details) { m.Shards[1].Chunk, d[1].Local = chunk, []*primitives.Receipt{nil} },
		"executed": func(m *Block, d []Details) {
			x := o.outcome(primitives.Hash{1})
			// Without a body.
			m.Shards[1].Outcomes, d[1].Receipts = append(m.Shards[1].Outcomes, x), map[primitives.Hash]*primitives.Receipt{x.ID: {}}
		},
		"block":   func(m *Block, _ []Details) { m.Block.Body.Chunks = []*primitives.ChunkHeader{nil} },
		"details": nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := o.digest().Block
			d := NewDigest(m, func() ([]Details, error) {
				details := make([]Details, len(m.Shards))
				for i := range m.Shards {
					m.Shards[i].Chunk, m.Shards[i].Outcomes = nil, nil
				}
				if change == nil {
					panic("no details")
				}
				change(m, details)
				return details, nil
			})
			d.MakeAhead()
			for range 2 {
				if _, err := d.MessageJSON(nil); err == nil || !strings.Contains(err.Error(), ".go:") {
					t.Errorf("error %v does not name the place", err)
				}
				if _, err := d.Message(&view.Subscription{Topic: view.TopicMessages}); err == nil {
					t.Error("there is a message")
				}
			}
		})
	}
}

// TestTextMadeAheadIsTheSame: a text is the same whether it is made ahead, alone, or with the help
// of callers that need it meanwhile.
func TestTextMadeAheadIsTheSame(t *testing.T) {
	o := odd{rand.New(rand.NewPCG(2, 1))}
	for n := range 60 {
		d := o.digest()
		details, err := d.details()
		if err != nil {
			t.Fatal(err)
		}
		want, err := AppendMessage(nil, d.Block, details)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range n % 3 {
			all.Go(func() {
				if got, err := d.MessageJSON(nil); err != nil || !bytes.Equal(got, want) {
					t.Errorf("text %d: %v, %d bytes, want %d", n, err, len(got), len(want))
				}
			})
		}
		d.MakeAhead()
		size := d.Size()
		if got, err := d.MessageJSON(nil); err != nil || !bytes.Equal(got, want) || size < len(want) {
			t.Errorf("text %d: %v, %d bytes, want %d; %d were made ahead", n, err, len(got), len(want), size)
		}
		all.Wait()
	}
}
