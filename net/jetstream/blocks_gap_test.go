package jetstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

// TestMissingBlocksGiveErrGap: a reader gets ErrGap if the next messages are gone, if the stream
// has not reached its number, or if the stream was reset just after it. A message that no publisher
// sends is refused before it takes memory.
func TestMissingBlocksGiveErrGap(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 7))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	source := new(fakeBlockSource)
	for range 10 {
		source.add(rng, 100)
	}
	publish := func(records uint64) {
		t.Helper()
		p := NewBlockPublisher(BlocksOptions{Link: writing(server), Names: testNames, Source: source, MaxBytes: 64 << 20})
		defer p.Close()
		for deadline := time.Now().Add(30 * time.Second); p.Published().Records < records; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v", p.Published())
			}
		}
	}
	publish(10)
	j := streamsOf(t, server)
	s, err := j.Stream(t.Context(), testNames.Indexer)
	if err != nil {
		t.Fatal(err)
	}
	one := errors.New("one")
	read := func(behind uint64, want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := ReadBlocks(ctx, clientLink(server), testNames, behind, func(BlockMessage) error { return one }); !errors.Is(err, want) {
			t.Errorf("after %d: %v, want %v", behind, err, want)
		}
	}
	read(3, one)
	// all below 6, as age and size limits do
	if err := s.Purge(t.Context(), js.WithPurgeSequence(6)); err != nil {
		t.Fatal(err)
	}
	read(0, one)
	read(5, one)
	read(3, ErrGap)
	read(99, ErrGap)
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(10) // from the first block on: the stream lost its position
	read(10, ErrGap)
	read(11, one)

	for name, m := range map[string]struct {
		part string
		size int
	}{"parts": {"1/3000", 10}, "bytes": {"1/1", PartSize + 1}} {
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := nats.NewMsg(testNames.Blocks)
		out.Data = make([]byte, m.size)
		out.Header = nats.Header{headHeight: {"7"}, headHash: {source.list[0].Hash.String()}, headPart: {m.part}, headKind: {kindBlock}, headAfter: {source.list[0].String()}}
		if _, err := j.PublishMsg(t.Context(), out); err != nil {
			t.Fatal(name, err)
		}
		read(0, ErrChanged)
	}
}
