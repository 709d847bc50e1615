package blockfeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/history"
)

// anchoredChain is a node that has the blocks of a recording from a height on.
type anchoredChain struct {
	list map[primitives.Height]*blockdoc.Document
	low  primitives.Height
	err  error // of Lowest; nil: none
}

func (c *anchoredChain) Lowest() (history.Block, *primitives.Block, error) {
	if c.err != nil {
		return history.Block{}, nil, c.err
	}
	above := c.low + 1
	for c.list[above] == nil {
		above++
	}
	return history.Block{Height: c.low, Hash: c.list[c.low].Hash}, c.list[above].Block, nil
}

func (c *anchoredChain) HashAt(h primitives.Height) (primitives.Hash, error) {
	if h < c.low || c.list[h] == nil {
		return primitives.Hash{}, storage.ErrNotFound
	}
	return c.list[h].Hash, nil
}

// logLines collects log lines.
type logLines struct {
	mu   sync.Mutex
	text []string
}

func (l *logLines) add(level, text string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, level+" "+fmt.Sprintf(text, args...))
}
func (l *logLines) Infof(text string, args ...any)  { l.add("info", text, args...) }
func (l *logLines) Warnf(text string, args ...any)  { l.add("warn", text, args...) }
func (l *logLines) Errorf(text string, args ...any) { l.add("error", text, args...) }

// count returns the number of lines that contain a text.
func (l *logLines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.text {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

// indexEnds is the time after which a closed index has ended its goroutines.
const indexEnds = 2 * time.Second

// imported is an import of a recording into a folder.
type imported struct {
	raw         map[primitives.Height][]byte
	list        map[primitives.Height]*blockdoc.Document
	first, last primitives.Height
	chain       *anchoredChain
	genesis     primitives.Hash
	dir         string
	log         *logLines
}

func newImported(t *testing.T) *imported {
	t.Helper()
	x := &imported{list: map[primitives.Height]*blockdoc.Document{}, dir: t.TempDir(), log: new(logLines)}
	x.raw, x.first, x.last, _ = recorded(t)
	for h, text := range x.raw {
		d := mustParse(t, text)
		x.list[h] = d
		if h == x.first {
			x.genesis = d.Block.Header.PrevHash
		}
	}
	x.chain = &anchoredChain{list: x.list, low: x.last - 5}
	for x.list[x.chain.low] == nil {
		x.chain.low--
	}
	return x
}

func (x *imported) open(t *testing.T) *history.Store {
	t.Helper()
	s, err := history.Open(x.dir, history.Options{Genesis: x.genesis, GroupBlocks: 4})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (x *imported) job(s *history.Store, from Source) *Import {
	return NewImport(ImportOptions{Store: s, Source: from, Chain: x.chain, Log: x.log, Dir: x.dir, Genesis: x.genesis, First: x.first, Fetches: 3, Percent: 100})
}

// complete checks that the store has all blocks below and at the node's lowest one, with what was
// verified of them.
func (x *imported) complete(t *testing.T, s *history.Store, m *Import) {
	t.Helper()
	low, high, ok := s.Bounds()
	st := m.Status()
	if !ok || low != x.first || high != x.chain.low || st.State != ImportDone || st.Share() != 1 || st.Left != 0 || st.Check.Unproven != 0 || st.Check.Outcomes < 10 || !st.Check.Done {
		t.Errorf("%d to %d, %v, %+v; want %d to %d", low, high, ok, st, x.first, x.chain.low)
	}
	n := uint64(0)
	for h, want := range x.list {
		d, err := s.Document(h)
		if h > x.chain.low {
			if !errors.Is(err, history.ErrNone) {
				t.Errorf("block %d, which the node has: %v", h, err)
			}
			continue
		}
		if n++; err != nil || d.Hash != want.Hash || !bytes.Equal(d.AppendJSON(nil), want.AppendJSON(nil)) {
			t.Errorf("block %d: %v", h, err)
		}
		for i := range want.Shards {
			sh := &want.Shards[i]
			for j := range sh.Outcomes {
				find := s.Receipt
				if j < len(sh.Transactions) {
					find = s.Transaction
				}
				if p, has, err := find(sh.Outcomes[j].ID); err != nil || !has || p != (history.Place{Height: h, Shard: sh.ID}) {
					t.Errorf("outcome %v of block %d: %+v, %v, %v", sh.Outcomes[j].ID, h, p, has, err)
				}
			}
		}
	}
	if st.Stats.Blocks != n || st.Check.Blocks != n {
		t.Errorf("%d blocks, %+v", n, st)
	}
}

// TestImportSurvivesBadFeedsAndKills: whatever a feed does for a while (no answers, gaps, broken
// replies), and whenever the process is killed, the import ends with all blocks, each stored once.
func TestImportSurvivesBadFeedsAndKills(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(indexEnds)
				x := newImported(t)
				var mu sync.Mutex
				r := rand.New(rand.NewPCG(seed, 1))
				f := &fake{name: "test", block: func(ctx context.Context, h primitives.Height) (*blockdoc.Document, error) {
					mu.Lock()
					kind, wait := r.IntN(20), time.Duration(r.IntN(500))*time.Millisecond
					mu.Unlock()
					pause(ctx, nil, wait)
					switch {
					case ctx.Err() != nil:
						return nil, ctx.Err()
					case kind < 4:
						return nil, errors.New("no connection")
					case kind == 4 || x.raw[h] == nil:
						return nil, ErrNotYet
					case kind == 5:
						return blockdoc.Parse(x.raw[h][:len(x.raw[h])/2])
					case kind == 6:
						return nil, &statusError{503, "busy"}
					}
					return blockdoc.Parse(x.raw[h])
				}}
				killed := 0
				for {
					s := x.open(t)
					m := x.job(s, f)
					ctx, cancel := context.WithCancel(t.Context())
					mu.Lock()
					kill := time.AfterFunc(time.Duration(1+r.IntN(60))*time.Second, cancel)
					mu.Unlock()
					wait := time.Duration(0)
					for wait >= 0 {
						if wait = m.Run(ctx); wait > importMaxRetry {
							t.Fatalf("a pause of %v", wait)
						}
						pause(ctx, nil, max(wait, 0))
					}
					kill.Stop()
					done := m.Status().State == ImportDone
					if done {
						x.complete(t, s, m)
					} else if killed++; killed > 200 {
						t.Fatalf("it does not end: %+v", m.Status())
					}
					// A kill: what was not committed is lost.
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(x.dir)); err != nil {
						t.Fatal(err)
					}
					x.dir = dir
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if cancel(); done {
						break
					}
				}
				if x.log.count("error") != 0 || killed == 0 {
					t.Errorf("%d kills, %q", killed, x.log.text)
				}
			})
		})
	}
}

// TestImportStaysAtALie: at a block with which a feed contradicts the chain, the import says the reason
// and the remedy, stores nothing and asks again, ever less often. When the feed has corrected the block,
// the import goes on without a restart, and another feed can continue it, too.
func TestImportStaysAtALie(t *testing.T) {
	for first := range 2 {
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(indexEnds)
			x := newImported(t)
			lie := x.first + 20
			for x.raw[lie] == nil {
				lie++
			}
			corrected := false
			bad := parsed(map[primitives.Height][]byte{})
			bad.block = func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
				text := x.raw[h]
				if h == lie && !corrected {
					text = bytes.Replace(text, []byte(`"total_supply":"`), []byte(`"total_supply":"1`), 1)
				}
				if text == nil {
					return nil, ErrSkipped
				}
				return blockdoc.Parse(text)
			}
			s := x.open(t)
			m := x.job(s, bad)
			if wait := m.Run(t.Context()); wait != importRefusal {
				t.Fatalf("it wants to run again after %v", wait)
			}
			st := m.Status()
			if low, _, _ := s.Bounds(); low <= lie || st.State != ImportRefused || st.Next != lie || !strings.Contains(st.Reason, fmt.Sprintf("block %d of test", lie)) || st.Errors != 1 {
				t.Errorf("%+v", st)
			}
			if x.log.count("error import of history: the feed contradicts the chain") != 1 || x.log.count("troupe.history.source") != 1 {
				t.Errorf("%q", x.log.text)
			}
			if st.Share() <= 0 || st.Share() >= 1 {
				t.Errorf("share %v", st.Share())
			}
			last := importRefusal
			for range 2*importRefusals - 1 {
				wait := m.Run(t.Context())
				if wait < last || wait > importMaxRefusal || m.Status().State != ImportRefused {
					t.Fatalf("a pause of %v after one of %v, %+v", wait, last, m.Status())
				}
				last = wait
			}
			if n := x.log.count("contradicts"); last != importMaxRefusal || n != 2 {
				t.Errorf("a pause of %v, %d lines", last, n)
			}
			if first%2 == 0 {
				corrected = true
			} else {
				m = x.job(s, parsed(x.raw))
			}
			if wait := m.Run(t.Context()); wait >= 0 {
				t.Fatalf("%v, %+v", wait, m.Status())
			}
			x.complete(t, s, m)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestImportWaitsForTheNode: the import begins once the node has its lowest block. A node with all
// blocks imports nothing.
func TestImportWaitsForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		m := x.job(s, parsed(x.raw))
		x.chain.err = ErrNoLowest
		if wait := m.Run(t.Context()); wait != importWait || m.Status().State != ImportWaiting || m.Status().Errors != 0 {
			t.Errorf("%v, %+v", wait, m.Status())
		}
		x.chain.err = ErrHasAll
		if wait := m.Run(t.Context()); wait >= 0 || m.Status().State != ImportDone {
			t.Errorf("%v, %+v", wait, m.Status())
		}
		x.chain.err = nil
		if wait := m.Run(t.Context()); wait >= 0 {
			t.Errorf("%v, %+v", wait, m.Status())
		}
		x.complete(t, s, m)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestImportRefusesAnotherChainsBlocks: if the node's lowest block does not adjoin the stored ones any
// more, the import says so and how to begin again. A lower lowest block is no reason to stop.
func TestImportRefusesAnotherChainsBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		if m := x.job(s, parsed(x.raw)); m.Run(t.Context()) >= 0 || m.Status().State != ImportDone {
			t.Fatalf("%+v", m.Status())
		}
		low := x.chain.low
		x.chain.low = x.last - 1
		for x.list[x.chain.low] == nil {
			x.chain.low--
		}
		if x.chain.low == low {
			t.Fatal("the recording is too short")
		}
		m := x.job(s, parsed(x.raw))
		if wait := m.Run(t.Context()); wait >= 0 || m.Status().State != ImportStopped || x.log.count("do not adjoin") != 1 || x.log.count("remove "+x.dir) != 1 {
			t.Errorf("%v, %+v, %q", wait, m.Status(), x.log.text)
		}
		x.chain.low = low - 4
		for x.list[x.chain.low] == nil {
			x.chain.low--
		}
		if m := x.job(s, parsed(x.raw)); m.Run(t.Context()) >= 0 || m.Status().State != ImportDone {
			t.Errorf("%+v", m.Status())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestImportLeavesRoomOnTheDisk: the import pauses while the disk has less room than its reserve, says
// so once, and continues by itself.
func TestImportLeavesRoomOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		m := x.job(s, parsed(x.raw))
		m.o.Reserve = math.MaxUint64
		for range 3 {
			if wait := m.Run(t.Context()); wait != importDiskWait || m.Status().State != ImportDiskFull || !strings.Contains(m.Status().Reason, "troupe.history.disk_reserve_bytes") {
				t.Errorf("%v, %+v", wait, m.Status())
			}
		}
		if n := x.log.count("paused"); n != 1 {
			t.Errorf("%d lines: %q", n, x.log.text)
		}
		m.o.Reserve = 1
		if wait := m.Run(t.Context()); wait >= 0 {
			t.Errorf("%v, %+v", wait, m.Status())
		}
		x.complete(t, s, m)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPacerRests: work takes at most the configured share of a core.
func TestPacerRests(t *testing.T) {
	for _, x := range []struct {
		percent int
		want    time.Duration // for four jobs of a second, from two goroutines
	}{{50, 8 * time.Second}, {100, 4 * time.Second}, {10, 40 * time.Second}, {200, 2 * time.Second}, {150, 8 * time.Second / 3}} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := newPacer(x.percent), time.Now()
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					for range 2 {
						p.do(t.Context(), func() { time.Sleep(time.Second) })
					}
				})
			}
			if all.Wait(); (time.Since(begin) - x.want).Abs() > time.Millisecond {
				t.Errorf("%d %%: %v, want %v", x.percent, time.Since(begin), x.want)
			}
		})
	}
}

// TestPanicOfAFeedStopsTheImport: a panic in the check of a block reaches the caller of Run, and the
// import counts as stopped.
func TestPanicOfAFeedStopsTheImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		m := x.job(s, &fake{name: "test", block: func(context.Context, primitives.Height) (*blockdoc.Document, error) { panic("broken") }})
		func() {
			defer func() {
				if p := recover(); p == nil || m.Status().State != ImportStopped || !strings.Contains(m.Status().Reason, "broken") {
					t.Errorf("%v, %+v", p, m.Status())
				}
			}()
			m.Run(t.Context())
		}()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAbsentFeedIsReportedAtOnce: after the first failed request for the next block the import is
// retrying, and the log says so once. It stays so over the pauses until the feed delivers a block.
func TestAbsentFeedIsReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(indexEnds)
		x := newImported(t)
		s := x.open(t)
		var mu sync.Mutex
		var m *Import
		away := true
		var states []ImportState // at the requests while the feed is away, after the first of each height
		asked := map[primitives.Height]bool{}
		f := &fake{name: "test", block: func(_ context.Context, h primitives.Height) (*blockdoc.Document, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				if asked[h] {
					states = append(states, m.Status().State)
				}
				asked[h] = true
				return nil, errors.New("no connection")
			}
			if x.raw[h] == nil {
				return nil, ErrSkipped
			}
			return blockdoc.Parse(x.raw[h])
		}}
		m = x.job(s, f)
		for range 2 {
			if wait := m.Run(t.Context()); wait <= 0 || m.Status().State != ImportAway {
				t.Errorf("wait %v, %+v", wait, m.Status())
			}
		}
		for _, state := range states {
			if state != ImportAway {
				t.Errorf("the state is %s while the feed is away", state)
				break
			}
		}
		if n := x.log.count("no connection"); len(states) == 0 || n != 1 {
			t.Errorf("%d repeated requests, %d lines in the log %q, want 1", len(states), n, x.log.text)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		for wait := time.Duration(0); wait >= 0; {
			wait = m.Run(t.Context())
		}
		x.complete(t, s, m)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
