package network

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// newTestShards returns a Shards with one sync point and two nodes. Requests are not sent.
func newTestShards() (*Shards, *syncPoint) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := NewShards(ShardsOptions{Status: new(Status), Log: log})
	p := &syncPoint{at: primitives.Hash{1}, sync: primitives.Hash{2}, machine: statesync.New(nil, statesync.Options{}),
		waits: map[statesync.Item]chan stateAnswer{}}
	s.points = append(s.points, p)
	s.step(p, statesync.Hosts{List: []statesync.Host{{ID: "a", Shards: []primitives.ShardID{7}},
		{ID: "b", Shards: []primitives.ShardID{7}}}})
	return s, p
}

// awaitRequest waits until a node other than not is asked for the item, and returns it.
func (s *Shards) awaitRequest(t *testing.T, p *syncPoint, item statesync.Item, not wire.PeerID) wire.PeerID {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		for _, id := range []wire.PeerID{"a", "b"} {
			if id != not && p.machine.Expects(id, item) {
				s.mu.Unlock()
				return id
			}
		}
		s.mu.Unlock()
	}
	t.Fatalf("no node but %q is asked for %+v", not, item)
	return ""
}

// TestWrongStateAnswerAsksAnotherNode: after a wrong answer another node is asked, and the first
// one is not asked again. Unrequested answers are ignored. A cancelled request leaves no state.
func TestWrongStateAnswerAsksAnotherNode(t *testing.T) {
	s, p := newTestShards()
	item := statesync.Item{Shard: 7, Part: 3}
	part := func(n uint64, body string) *primitives.StateResponse {
		return &primitives.StateResponse{ShardID: 7, SyncHash: p.sync,
			Part: &primitives.StatePart{Number: n, Body: []byte(body)}}
	}
	judge := func(r *primitives.StateResponse) error {
		switch string(r.Part.Body) {
		case "wrong":
			return chain.InvalidChunk
		case "worse":
			panic("over what came")
		case "own":
			return errors.New("the disk is full")
		}
		return nil
	}
	begin := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { done <- s.ask(ctx, p, item, judge) }()
		return done
	}
	done := begin(t.Context())
	first := s.awaitRequest(t, p, item, "")
	if s.addResponse(first, part(4, "good")) || s.addResponse("c", part(3, "good")) {
		t.Error("an unrequested part was accepted")
	}
	if !s.addResponse(first, part(3, "wrong")) {
		t.Error("a requested part was not accepted")
	}
	second := s.awaitRequest(t, p, item, first)
	s.addResponse(second, part(3, "good"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	done = begin(t.Context())
	if again := s.awaitRequest(t, p, item, ""); again != second {
		t.Errorf("%s is asked again after a wrong answer", again)
	}
	s.addResponse(second, part(3, "worse"))
	if err := <-done; err == nil || s.o.Status.panics.Load() != 1 {
		t.Errorf("a panic is %v, and counted %d times", err, s.o.Status.panics.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done = begin(ctx)
	cancel()
	if err := <-done; !errors.Is(err, engine.ErrNotYet) {
		t.Errorf("not waited for: %v", err)
	}
	if len(p.waits) > 0 {
		t.Errorf("%d still wait", len(p.waits))
	}
	if n := s.o.Status.statesWaiting.Load(); n != 0 {
		t.Errorf("%d bytes still count as waiting", n)
	}
}

// TestBytesOfWaitingPartsAreBounded: a part above the limit of a part is the host's fault. While too
// many bytes wait to be verified, a part is dropped and requested again, and its host is not at fault.
func TestBytesOfWaitingPartsAreBounded(t *testing.T) {
	s, p := newTestShards()
	item := statesync.Item{Shard: 7, Part: 3}
	part := func(size int) *primitives.StateResponse {
		return &primitives.StateResponse{ShardID: 7, SyncHash: p.sync, Part: &primitives.StatePart{Number: 3, Body: make([]byte, size)}}
	}
	judged := 0
	done := make(chan error, 1)
	go func() {
		done <- s.ask(t.Context(), p, item, func(*primitives.StateResponse) error { judged++; return nil })
	}()
	bad := s.awaitRequest(t, p, item, "")
	s.addResponse(bad, part(statesync.MaxPart+1))
	good := s.awaitRequest(t, p, item, bad)
	const others = maxWaitingParts - 1
	s.o.Status.statesWaiting.Store(others)
	s.addResponse(good, part(2))
	if n := s.o.Status.statesWaiting.Load(); n != others {
		t.Errorf("%d bytes count as waiting, want %d", n, others)
	}
	s.o.Status.statesWaiting.Store(0)
	s.mu.Lock()
	s.begun = s.begun.Add(-2 * time.Second) // after the pause
	s.step(p, statesync.Tick{})
	s.mu.Unlock()
	if again := s.awaitRequest(t, p, item, bad); again != good {
		t.Fatalf("%s is asked, want %s", again, good)
	}
	s.addResponse(good, part(2))
	if err := <-done; err != nil || judged != 1 {
		t.Errorf("%v, %d parts judged, want 1", err, judged)
	}
	if n := s.o.Status.statesWaiting.Load(); n != 0 {
		t.Errorf("%d bytes count as waiting at the end", n)
	}
}

// TestPanicOfStateMachineUnlocks: a panic of the state machine, before the request or after the
// answer, leaves neither a locked mutex nor a request that blocks the next one.
func TestPanicOfStateMachineUnlocks(t *testing.T) {
	for _, when := range []string{"request", "answer"} {
		t.Run(when, func(t *testing.T) {
			s, p := newTestShards()
			item := statesync.Item{Shard: 7, Part: 3}
			broken := func() { p.machine = nil } // the next step panics
			judge := func(*primitives.StateResponse) error { broken(); return nil }
			if when == "request" {
				broken()
			}
			panicked := make(chan bool)
			go func() {
				defer func() { panicked <- recover() != nil }()
				_ = s.ask(t.Context(), p, item, judge)
			}()
			if when == "answer" {
				first := s.awaitRequest(t, p, item, "")
				s.addResponse(first, &primitives.StateResponse{ShardID: 7, SyncHash: p.sync, Part: &primitives.StatePart{Number: 3}})
			}
			if !<-panicked {
				t.Fatal("no panic")
			}
			if !s.mu.TryLock() {
				t.Fatal("the mutex is locked")
			}
			defer s.mu.Unlock()
			if len(p.waits) > 0 {
				t.Errorf("%d still wait", len(p.waits))
			}
		})
	}
}

// TestEachChunkHolderGetsTwiceTheTime: each holder asked for a chunk gets twice the time of the
// previous one, until a part of the chunk arrives.
func TestEachChunkHolderGetsTwiceTheTime(t *testing.T) {
	hash := primitives.Hash{1}
	f := &chunkFetch{asked: map[primitives.Hash]int64{hash: 0}, wait: map[primitives.Hash]int64{}}
	asked := func(from, to int64) (at []int64) {
		for now := from; now <= to; now += fetchPeriod.Milliseconds() {
			if f.isOverdue(now, hash) {
				f.asked[hash] = now
				at = append(at, now)
			}
		}
		return at
	}
	if at := asked(200, 12_200); !slices.Equal(at, []int64{200, 600, 1400, 3000, 6000, 9000, 12_000}) {
		t.Errorf("requests at %d", at)
	}
	f.progress(12_250, hash)
	if at := asked(12_400, 13_000); !slices.Equal(at, []int64{12_600, 13_000}) {
		t.Errorf("requests at %d, want later ones because a part arrived at 12250", at)
	}
}
