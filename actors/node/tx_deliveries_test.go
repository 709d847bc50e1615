package node

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var rewriteDeliveries = flag.Bool("rewrite-deliveries", false, "write the files that TestTransactionDeliveries compares")

// deliveryOrder lists the messages that one transaction may cause, in the order in which the
// transcript shows them within one block. A message that is not in the list fails the test, so that
// no delivery is added unnoticed.
var deliveryOrder = []string{
	"FinalityWanted", "session.Request", "Watch", "SubmitTransactions", "mempool.checked", "Submitted", "TransactionsWaiting",
	"ProduceChunk", "Candidates", "ChunkChosen", "ChunkMade", "MakeBlock", "ApplyChunk", "ChunkApplied",
	"BlockImported", "chain.stored", "BlockAccepted", "Progress", "Unwatch",
}

// deliveries records the messages that the actors of a node receive.
type deliveries struct {
	mu   sync.Mutex
	on   bool
	base primitives.Height
	at   map[primitives.Hash]primitives.Height

	disk  int // number of stored so far
	count map[delivery]int
	order []string // unknown messages
}

// delivery is a kind of message to a kind of actor, about a block. block 0: about no block.
type delivery struct {
	block    int
	kind, of string
}

// nameOf returns the name of a message in the transcript.
func nameOf(m any) string {
	name := fmt.Sprintf("%T", m)
	return strings.TrimPrefix(name, "messages.")
}

// hook is a tripHook.
func (d *deliveries) hook(kind string, m any, after bool) {
	if after {
		return
	}
	switch m.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.on {
		return
	}
	var h primitives.Height
	child := func(parent primitives.Hash) {
		if at, ok := d.at[parent]; ok {
			h = at + 1
		}
	}
	switch m := m.(type) {
	case messages.ProduceChunk:
		child(m.Parent)
	case messages.Candidates:
		child(m.For.Parent)
	case messages.ChunkMade:
		child(m.Chunk.Header.PrevBlockHash)
	case messages.ChunkChosen:
		h = d.base + 1
	case messages.MakeBlock:
		h = m.Height
	case messages.ApplyChunk:
		h, d.at[m.Block] = m.Height, m.Height
	case messages.ChunkApplied:
		h = d.at[m.Block]
	case messages.BlockImported:
		h, d.at[m.Hash] = m.Height(), m.Height()
	case messages.BlockAccepted:
		h = m.Height()
	case messages.Progress:
		if !m.Watched {
			h = m.At.Head
		}
	default:
		if nameOf(m) == "chain.stored" {
			d.disk++
			h = d.base + primitives.Height(d.disk)
		}
		if nameOf(m) == "producer.tick" { // the timer of the idle interval
			return
		}
	}
	x := delivery{kind: kind, of: nameOf(m)}
	if h > d.base {
		x.block = int(h - d.base)
	}
	if !slices.Contains(deliveryOrder, x.of) {
		d.order = append(d.order, x.of)
	}
	d.count[x]++
}

func (d *deliveries) begin(head primitives.Hash, at primitives.Height) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on, d.base, d.at, d.disk = true, at, map[primitives.Hash]primitives.Height{head: at}, 0
	d.count, d.order = map[delivery]int{}, nil
}

func (d *deliveries) total() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.count {
		n += c
	}
	return n
}

// transcript returns the deliveries as text, by block.
func (d *deliveries) transcript() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out bytes.Buffer
	list := make([]delivery, 0, len(d.count))
	n, kinds := 0, map[string]bool{}
	for x, c := range d.count {
		list = append(list, x)
		n, kinds[x.kind] = n+c, true
	}
	slices.SortFunc(list, func(a, b delivery) int {
		if a.block != b.block {
			return a.block - b.block
		}
		if a.of != b.of {
			return slices.Index(deliveryOrder, a.of) - slices.Index(deliveryOrder, b.of)
		}
		return strings.Compare(a.kind, b.kind)
	})
	fmt.Fprintf(&out, "%d deliveries to %d kinds of actors\n", n, len(kinds))
	last := -1
	for _, x := range list {
		if x.block != last {
			if last = x.block; last == 0 {
				fmt.Fprintf(&out, "\nsubmission and end of the wait\n")
			} else {
				fmt.Fprintf(&out, "\nblock %d\n", last)
			}
		}
		times := ""
		if c := d.count[x]; c > 1 {
			times = fmt.Sprintf(" x%d", c)
		}
		fmt.Fprintf(&out, "  %-14s %s%s\n", x.kind, x.of, times)
	}
	return out.String()
}

// deliveriesOf sends a transfer on an idle node, waits for a level, and returns the transcript of
// all deliveries until the node is idle again.
func deliveriesOf(t *testing.T, shards int, until view.ExecutionLevel) string {
	d := new(deliveries)
	s := start(t, shards, func(o *Options) {
		o.hooks.trip = d.hook
		o.Delays.Endorsement, o.Linger = int64(time.Hour), time.Hour // no blocks that nothing waits for
	})
	send := func() {
		if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)), WaitUntil: until}); err != nil {
			t.Fatal(err)
		}
	}
	rest := func() {
		for last, quiet := -1, 0; quiet < 20; time.Sleep(5 * time.Millisecond) {
			if n := d.total() + int(s.e.Tip().Height()); n != last || s.Stats().Parked > 0 || s.e.Head() != s.e.Tip() {
				last, quiet = n, 0
			} else {
				quiet++
			}
		}
	}
	send() // starts the session's actor
	rest()
	d.begin(s.e.Head().Hash, s.e.Head().Height())
	send()
	rest()
	if len(d.order) > 0 {
		t.Errorf("messages that deliveryOrder does not list: %q", d.order)
	}
	return d.transcript()
}

// TestTransactionDeliveries pins each mailbox delivery on a transaction's way, from the submission
// until the client has its answer. docs/design/transaction-lifecycle.md draws the way.
func TestTransactionDeliveries(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards int
		until  view.ExecutionLevel
	}{
		{"final_1_shard", 1, view.LevelFinal}, {"final_4_shards", 4, view.LevelFinal},
		{"executed_optimistic", 1, view.LevelExecutedOptimistic}, {"not_awaited", 1, view.LevelNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := deliveriesOf(t, c.shards, c.until)
			file := filepath.Join("testdata", "deliveries", c.name+".txt")
			if *rewriteDeliveries {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("deliveries changed; if that is intended, run the test with -rewrite-deliveries:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// BenchmarkAwaitFinal measures transfers that are waited for until FINAL: deliveries and processor
// time per transfer, and the median from the submission to the reply.
//
//	go test ./actors/node -run - -bench AwaitFinal -benchtime 500x
func BenchmarkAwaitFinal(b *testing.B) {
	for _, shards := range []int{1, 4} {
		for _, clients := range []int{1, 256} {
			b.Run(fmt.Sprintf("shards=%d/clients=%d", shards, clients), func(b *testing.B) {
				s := start(b, shards, nil)
				handled := func() (n int64) {
					for _, x := range s.Meter() {
						n += x.Messages
					}
					return n
				}
				took := make([]time.Duration, 0, b.N*clients)
				var mu sync.Mutex
				var next atomic.Int64
				run := func(count int) {
					var wg sync.WaitGroup
					next.Store(0)
					for range clients {
						ctx, done, err := s.OpenSession(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						wg.Go(func() {
							defer done()
							for next.Add(1) <= int64(count) {
								begun := time.Now()
								tx := s.tx("near", transfer(1))
								if _, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal}); err != nil {
									b.Error(err)
									return
								}
								mu.Lock()
								took = append(took, time.Since(begun))
								mu.Unlock()
							}
						})
					}
					wg.Wait()
				}
				run(clients)
				took = took[:0]
				runtime.GC()
				n, cpu, head, begun := handled(), cpuTime(), s.e.Head().Height(), time.Now()
				b.ResetTimer()
				count := b.N * clients
				run(count)
				b.StopTimer()
				passed := time.Since(begun)
				slices.Sort(took)
				b.ReportMetric(float64(handled()-n)/float64(count), "deliveries/tx")
				b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(count), "cpu-us/tx")
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
				b.ReportMetric(float64(count)/passed.Seconds(), "tx/s")
				b.ReportMetric(float64(s.e.Head().Height()-head)/float64(count), "blocks/tx")
			})
		}
	}
}
