package workload

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/storage"
)

// importRecord appends a record of another chain's log to a chain.
func importRecord(c *Chain, payload []byte) error {
	b, err := storage.Unpack(payload)
	if err != nil {
		return err
	}
	g, err := engine.ReadExecutedBlock(b)
	if err != nil {
		return err
	}
	p, err := c.Engine.BeginExecuted(g)
	if err != nil {
		return err
	}
	for i := range p.Jobs() {
		p.Jobs()[i].Run()
	}
	if err := p.Err(); err != nil {
		p.Drop()
		return err
	}
	_, err = c.Engine.Commit(p)
	return err
}

// TestReplicaRecordsEqualTheWriters: a node that receives the results of blocks and executes
// nothing has the same chain: the records of its log have the same bytes, on all forks, over
// missing chunks, splits and restarts.
func TestReplicaRecordsEqualTheWriters(t *testing.T) {
	n, blocks := 8, 60
	if full() {
		n = 100
	}
	if testing.Short() || testutil.Racing {
		n, blocks = 3, 30
	}
	for seed := range uint64(n) {
		for name, random := range map[string]func(uint64, int) (ChainOptions, Course){"one layout": RandomChain, "splits": RandomSplits} {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				t.Parallel()
				o, course := random(seed, blocks)
				writer, err := OpenChain(o)
				if err != nil {
					t.Fatal(err)
				}
				defer writer.Close()
				other := o
				other.StateBytes, other.Store.FlatHeadBlocks = 1, 1+int(seed%5)
				replica, err := OpenChain(other)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { replica.Close() }()
				script := NewScript(writer, course)
				var at, theirs storage.LogPlace
				for i := range course.Blocks {
					if _, err := script.Step(); err != nil && o.Splitting != nil && strings.Contains(err.Error(), "all buffers are empty, yet") {
						break
					} else if err != nil {
						t.Fatal(err)
					}
					var want [][]byte
					if at, err = writer.Store.Log().Records(at, func(x storage.LogRecord) bool {
						want = append(want, x.Payload)
						return true
					}); err != nil {
						t.Fatal(err)
					}
					for _, payload := range want {
						if err := importRecord(replica, payload); err != nil {
							t.Fatalf("record %d: %v", i, err)
						}
					}
					k := 0
					if theirs, err = replica.Store.Log().Records(theirs, func(x storage.LogRecord) bool {
						if k >= len(want) {
							t.Fatalf("block %v was not in the writer's log", x.Ref)
						}
						if !bytes.Equal(x.Payload, want[k]) {
							equalRecords(t, writer, replica, want[k], x.Payload)
						}
						k++
						return true
					}); err != nil || k != len(want) {
						t.Fatalf("%d records of %d: %v", k, len(want), err)
					}
					if got, want := replica.Engine.Final(), writer.Engine.Final(); got != want || replica.Engine.Head().Hash != writer.Engine.Head().Hash {
						t.Fatalf("head %v, final %v; want %v, %v", replica.Engine.Head().Hash, got, writer.Engine.Head().Hash, want)
					}
					if i%(3+int(seed)) == 2 {
						if err := replica.Restart(); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// equalRecords requires that two records of a block are equal, except that the receipts of a chunk
// may be inside or named by the block that created them.
func equalRecords(t *testing.T, writer, replica *Chain, want, got []byte) {
	t.Helper()
	var list [2]*storage.Block
	for i, payload := range [][]byte{want, got} {
		b, err := storage.Unpack(payload)
		if err != nil {
			t.Fatal(err)
		}
		for k := range b.Shards {
			c := b.Shards[k].Chunk
			if c == nil {
				continue
			}
			rec, err := []*Chain{writer, replica}[i].Store.Block(b.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if c.Receipts, err = rec.ChunkReceipts(b.Shards[k].ID); err != nil {
				t.Fatal(err)
			}
			c.ReceiptsOf = nil
		}
		list[i] = b
	}
	for i, x := range list[0].Shards {
		v, w := reflect.ValueOf(x), reflect.ValueOf(list[1].Shards[i])
		for f := range v.NumField() {
			if !reflect.DeepEqual(v.Field(f).Interface(), w.Field(f).Interface()) {
				t.Fatalf("block %v shard %d %s: %+v, want %+v", list[0].Ref, x.ID, v.Type().Field(f).Name, w.Field(f), v.Field(f))
			}
		}
	}
	if !reflect.DeepEqual(list[0], list[1]) {
		t.Fatalf("block %v: %+v, want %+v", list[0].Ref, list[1], list[0])
	}
}

// TestReplicaRefusesOtherResults: changes, outcomes and receipts other than those of the block are
// refused before anything of them is stored, or with the chunk that follows.
func TestReplicaRefusesOtherResults(t *testing.T) {
	o := ChainOptions{Options: Options{Seed: 3, Accounts: 20, Shards: 2}, Rules: Rules{EpochLength: 60}}
	writer, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	script := NewScript(writer, Course{Blocks: 40, PerStep: 20})
	replica, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	refused := map[string]int{}
	var at storage.LogPlace
	for range 40 {
		if _, err := script.Step(); err != nil {
			t.Fatal(err)
		}
		at, err = writer.Store.Log().Records(at, func(x storage.LogRecord) bool {
			for name, spoil := range map[string]func(*storage.Shard) bool{
				"a value": func(s *storage.Shard) bool {
					for i := range s.Changes {
						if c := s.Changes[i].Changes; len(c[len(c)-1].Value) > 0 {
							c[len(c)-1].Value[0] ^= 1
							return true
						}
					}
					return false
				},
				"a change that is left out": func(s *storage.Shard) bool {
					i := slices.IndexFunc(s.Changes, func(c storage.Change) bool { return !bytes.Equal(c.Last(), c.Old) })
					if i < 0 {
						return false
					}
					s.Changes = slices.Delete(s.Changes, i, i+1)
					return true
				},
				"an outcome": func(s *storage.Shard) bool {
					if len(s.Outcomes) == 0 {
						return false
					}
					s.Outcomes[0].Value[4] ^= 1
					return true
				},
				"an outcome that is left out": func(s *storage.Shard) bool {
					if len(s.Outcomes) == 0 {
						return false
					}
					s.Outcomes = s.Outcomes[1:]
					return true
				},
				"a transaction": func(s *storage.Shard) bool {
					if s.Chunk == nil || len(s.Chunk.Transactions) == 0 {
						return false
					}
					s.Chunk.Transactions = s.Chunk.Transactions[1:]
					return true
				},
				"a root": func(s *storage.Shard) bool { s.Extra[1] ^= 1; return true },
			} {
				b, err := storage.Unpack(bytes.Clone(x.Payload))
				if err != nil {
					t.Fatal(err)
				}
				for i := range b.Shards {
					if !spoil(&b.Shards[i]) {
						continue
					}
					g, err := engine.ReadExecutedBlock(b)
					if err == nil {
						var p *engine.BlockImport
						if p, err = replica.Engine.BeginExecuted(g); err == nil {
							for i := range p.Jobs() {
								p.Jobs()[i].Run()
							}
							err = p.Err()
							p.Drop()
						}
					}
					if err == nil {
						t.Fatalf("%s of shard %d in block %v: the change was not refused", name, b.Shards[i].ID, x.Ref)
					}
					if !errors.Is(err, engine.ErrExecutedBlock) && engine.VerdictOf(err) != engine.VerdictInvalid {
						t.Fatalf("%s: error %v", name, err)
					}
					refused[name]++
					break
				}
			}
			if err := importRecord(replica, x.Payload); err != nil {
				t.Fatal(err)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(refused) != 6 {
		t.Errorf("only %v were tried", refused)
	}
}
