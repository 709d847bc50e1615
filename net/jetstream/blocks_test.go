package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// fakeBlockSource is a BlockSource of a test.
type fakeBlockSource struct {
	mu    sync.Mutex
	list  []BlockMessage
	first int // lower ones are gone
	more  chan struct{}
}

func (s *fakeBlockSource) add(rng *rand.Rand, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	m := BlockMessage{BlockPlace: BlockPlace{primitives.Height(n / 2), primitives.HashBytes(fmt.Append(nil, rng.Uint64()))}, Back: n%7 == 6, Text: make([]byte, size)}
	for i := range m.Text {
		m.Text[i] = byte(rng.Uint32())
	}
	s.list = append(s.list, m)
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
}

func (s *fakeBlockSource) Blocks(ctx context.Context, after *BlockPlace, f func(BlockMessage) error) error {
	s.mu.Lock()
	at := s.first
	if after != nil {
		for at = s.first; at <= len(s.list); at++ {
			if at > 0 && s.list[at-1].BlockPlace == *after {
				break
			}
		}
		if at > len(s.list) {
			s.mu.Unlock()
			return ErrSource
		}
	}
	for {
		if at == len(s.list) {
			if s.more == nil {
				s.more = make(chan struct{})
			}
			more := s.more
			s.mu.Unlock()
			select {
			case <-more:
			case <-ctx.Done():
				return ctx.Err()
			}
			s.mu.Lock()
			continue
		}
		m := s.list[at]
		at++
		s.mu.Unlock()
		if err := f(m); err != nil {
			return err
		}
		s.mu.Lock()
	}
}

// published reads the stream from its first message to a block: complete blocks in order.
func published(t *testing.T, s *Server, last BlockPlace) (list []BlockMessage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := errors.New("all")
	if err := ReadBlocks(ctx, clientLink(s), testNames, 0, func(m BlockMessage) error {
		if list = append(list, m); m.BlockPlace == last {
			return done
		}
		return nil
	}); !errors.Is(err, done) {
		t.Fatalf("after %d blocks: %v", len(list), err)
	}
	half := list[len(list)/2] // a reader that stored its number continues after it
	if err := ReadBlocks(ctx, clientLink(s), testNames, half.Seq, func(m BlockMessage) error {
		if m.BlockPlace != list[len(list)/2+1].BlockPlace {
			return fmt.Errorf("%v behind %v", m.BlockPlace, half.BlockPlace)
		}
		return done
	}); !errors.Is(err, done) {
		t.Fatal(err)
	}
	return list
}

// TestEachFinalBlockIsStreamedOnce: each final block is in the stream once and in order, long ones
// in parts, while the publisher stops and restarts at any time, also between parts.
func TestEachFinalBlockIsStreamedOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 13))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	source := new(fakeBlockSource)
	begin := func() *BlockPublisher {
		return NewBlockPublisher(BlocksOptions{Link: writing(server), Names: testNames, Source: source, MaxBytes: 256 << 20})
	}
	p := begin()
	for i := range 60 {
		size := rng.IntN(2000)
		if i%10 == 3 {
			size = 3*PartSize + rng.IntN(1000)
		}
		source.add(rng, size)
		if i%6 == 5 {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			p.Close()
			p = begin()
		}
	}
	for deadline := time.Now().Add(time.Minute); p.Published().Height < source.list[59].Height; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Published())
		}
	}
	time.Sleep(100 * time.Millisecond) // two messages have that height
	p.Close()
	check := func(want []BlockMessage) {
		t.Helper()
		got := published(t, server, want[len(want)-1].BlockPlace)
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].BlockPlace != want[i].BlockPlace || got[i].Back != want[i].Back || !bytes.Equal(got[i].Text, want[i].Text) {
				t.Fatalf("message %d is of %v, want %v", i, got[i].BlockPlace, want[i].BlockPlace)
			}
		}
	}
	check(source.list)

	// Only the first parts of a block are in the stream.
	source.add(rng, 3*PartSize+5)
	half := &blockEnd{after: &source.list[59].BlockPlace}
	j := streamsOf(t, server)
	s, err := j.Stream(t.Context(), testNames.Indexer)
	if err != nil {
		t.Fatal(err)
	}
	half.seq = s.CachedInfo().State.LastSeq
	whole := source.list[60]
	x := &BlockPublisher{o: BlocksOptions{Names: testNames, Now: time.Now}}
	if err := x.publish(t.Context(), j, half, &whole); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		if err := s.DeleteMsg(t.Context(), half.seq-i); err != nil {
			t.Fatal(err)
		}
	}
	// The purge keeps sequence numbers: the stream starts again, from the first block.
	p = begin()
	for deadline := time.Now().Add(time.Minute); p.Published().Records < 61; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Published())
		}
	}
	p.Close()
	if p.Published().Begun != 1 {
		t.Errorf("begun anew %d times", p.Published().Begun)
	}
	check(source.list)

	// After a reorganisation, no block of the old branch follows.
	source.mu.Lock()
	source.list = nil
	source.mu.Unlock()
	for range 5 {
		source.add(rng, 100)
	}
	p = begin()
	for deadline := time.Now().Add(time.Minute); p.Published().Records < 5; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Published())
		}
	}
	p.Close()
	check(source.list)
}

// TestNextPublisherContinuesPartialBlock: between the parts of a block the next publisher continues
// with the following part, and with no other block.
func TestNextPublisherContinuesPartialBlock(t *testing.T) {
	at := BlockPlace{7, primitives.HashBytes([]byte("seven"))}
	before := BlockPlace{6, primitives.HashBytes([]byte("six"))}
	h := nats.Header{headHeight: {"7"}, headHash: {at.Hash.String()}, headAfter: {before.String()}, headPart: {"2/3"}, headKind: {kindBlock}}
	var e blockEnd
	if err := e.read(h); err != nil || *e.after != before || e.part != 2 || e.of != 3 || e.hash != at.Hash {
		t.Errorf("%+v, %v", e, err)
	}
	p := &BlockPublisher{o: BlocksOptions{Names: testNames, Now: time.Now}}
	for name, m := range map[string]*BlockMessage{
		"another block":  {BlockPlace: BlockPlace{7, before.Hash}, Text: make([]byte, 2*PartSize+1)},
		"another length": {BlockPlace: at, Text: make([]byte, PartSize+1)},
	} {
		if err := p.publish(t.Context(), nil, &e, m); err == nil {
			t.Errorf("%s goes on", name)
		}
	}
	e = blockEnd{}
	h.Set(headPart, "3/3")
	if err := e.read(h); err != nil || *e.after != at || e.part != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	for name, value := range map[string]string{headHeight: "x", headHash: "y", headPart: "0/3"} {
		was := h.Get(name)
		h.Set(name, value)
		if err := new(blockEnd).read(h); err == nil {
			t.Errorf("%s %q is read", name, value)
		}
		h.Set(name, was)
	}
}
