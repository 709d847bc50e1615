package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-chain/troupe/primitives"
)

// fakeSource is a Source of a test: records with numbers as positions.
type fakeSource struct {
	mu    sync.Mutex
	list  []Record
	first int // lower ones are gone
	name  string
}

func (s *fakeSource) add(rng *rand.Rand, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(rng.Uint32())
	}
	s.list = append(s.list, Record{At: strconv.Itoa(n), Next: strconv.Itoa(n + 1), Height: primitives.Height(n / 2), Hash: primitives.HashBytes(fmt.Append(nil, s.name, n)),
		Back: n%7 == 6, Payload: payload})
}

func (s *fakeSource) Beginning() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.first), nil
}

func (s *fakeSource) Records(from string, f func(Record) bool) (string, error) {
	at, err := strconv.Atoi(from)
	if err != nil {
		return from, err
	}
	for {
		s.mu.Lock()
		if at < s.first || at > len(s.list) {
			s.mu.Unlock()
			return from, ErrSource
		}
		if at == len(s.list) {
			s.mu.Unlock()
			return strconv.Itoa(at), nil
		}
		r := s.list[at]
		s.mu.Unlock()
		at++
		if !f(r) {
			return strconv.Itoa(at), nil
		}
	}
}

var testNames = NamesOf("test chain.*>", primitives.HashBytes([]byte("genesis")))

func testServer(t *testing.T, dir, listen string) *Server {
	t.Helper()
	s, err := StartServer(ServerOptions{Dir: dir, Listen: listen, MaxBytes: 1 << 30, Token: "secret", secret: "own"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writing returns the Link of a publisher to a server that may restart.
func writing(s *Server) Link {
	return Link{URL: "nats://" + inProcessUser + ":own@" + s.Addr().String()}
}

// streamsOf returns an unrestricted connection until the test ends.
func streamsOf(t *testing.T, s *Server) js.JetStream {
	t.Helper()
	conn, err := nats.Connect(writing(s).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	j, err := js.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func clientLink(s *Server) Link { return Link{URL: s.URL(), Token: "secret"} }

func next(t *testing.T, f *Follower) Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := f.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(t *testing.T, got Record, want *Record) {
	t.Helper()
	if got.From != got.At || got.At != want.At || got.Next != want.Next || got.Height != want.Height || got.Hash != want.Hash || got.Back != want.Back || !bytes.Equal(got.Payload, want.Payload) {
		t.Fatalf("record %s to %s of block %d, want %s to %s of %d", got.At, got.Next, got.Height, want.At, want.Next, want.Height)
	}
}

// TestFollowerGetsEachRecordOnce: a follower gets each record once and in order, while publisher,
// follower and server restart at any time.
func TestFollowerGetsEachRecordOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	server := testServer(t, dir, "127.0.0.1:0")
	listen := server.Addr().String()
	defer func() { server.Close() }()
	log := &fakeSource{}
	var p *Publisher
	publish := func() {
		p = NewPublisher(PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 256 << 20})
	}
	publish()
	defer func() { p.Close() }()
	var f *Follower
	var after uint64
	name := ""
	follow := func() {
		var err error
		if f, err = Follow(FollowerOptions{Link: clientLink(server), Names: testNames, After: after, Log: name}); err != nil {
			t.Fatal(err)
		}
	}
	follow()
	defer func() { f.Close() }()
	got := 0
	for round := range 60 {
		for range rng.IntN(20) {
			size := rng.IntN(3000)
			if rng.IntN(12) == 0 {
				size = rng.IntN(3*PartSize) + 1
			}
			log.add(rng, size)
			if rng.IntN(3) == 0 {
				p.Wake()
			}
		}
		switch rng.IntN(6) {
		case 0:
			p.Close()
			publish()
		case 1:
			f.Close()
			follow()
		case 2:
			if round%4 == 0 {
				server.Close()
				server = testServer(t, dir, listen)
			}
		case 3:
			for got < len(log.list) {
				r := next(t, f)
				same(t, r, &log.list[got])
				after, name = r.Seq, r.Log
				got++
			}
		}
		for range rng.IntN(5) {
			if got == len(log.list) {
				break
			}
			r := next(t, f)
			same(t, r, &log.list[got])
			after, name = r.Seq, r.Log
			got++
		}
	}
	for got < len(log.list) {
		r := next(t, f)
		same(t, r, &log.list[got])
		got++
	}
	if got < 100 {
		t.Fatalf("only %d records", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r, err := f.Next(ctx); err == nil {
		t.Fatalf("a record more, of block %d", r.Height)
	}
	if f.Behind() != 0 {
		t.Errorf("the follower lags %d messages, want none", f.Behind())
	}
}

// TestHalfRecordIsContinued: a stream that ends in the middle of a record continues with the rest
// of it.
func TestHalfRecordIsContinued(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	o := PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 64 << 20}
	p := NewPublisher(o)
	for deadline := time.Now().Add(time.Minute); p.Published().Log == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no stream")
		}
	}
	name := p.Published().Log
	p.Close()
	log.add(rng, 2*PartSize+7)
	log.add(rng, 10)
	j := streamsOf(t, server)
	r := log.list[0]
	r.Log, r.From = name, r.At
	if _, err := j.PublishMsg(t.Context(), r.parts(testNames.Records, 1, nil)[0]); err != nil {
		t.Fatal(err)
	}
	p = NewPublisher(o)
	defer p.Close()
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range log.list {
		same(t, next(t, f), &log.list[i])
	}
}

// TestTwoPublishersStoreRecordsOnce: two publishers of one log leave each record in the stream
// once.
func TestTwoPublishersStoreRecordsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	for range 2 {
		p := NewPublisher(PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 64 << 20})
		defer p.Close()
	}
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 60 {
		log.add(rng, 100)
		same(t, next(t, f), &log.list[i])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if r, err := f.Next(ctx); err == nil {
		t.Fatalf("a record more, of block %d", r.Height)
	}
}

// TestStreamOfAnotherLogIsReset: if the log is not that of the stream, or lost what comes next, the
// stream is reset, and its followers get ErrLog.
func TestStreamOfAnotherLogIsReset(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	publish := func(log *fakeSource) *Publisher {
		return NewPublisher(PublisherOptions{Link: Link{Server: server}, Names: testNames, Source: log, MaxBytes: 64 << 20})
	}
	first := &fakeSource{}
	for range 5 {
		first.add(rng, 10)
	}
	p := publish(first)
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r Record
	for i := range 5 {
		r = next(t, f)
		same(t, r, &first.list[i])
	}
	p.Close()
	second := &fakeSource{name: "put back"}
	for range 9 {
		second.add(rng, 10)
	}
	p = publish(second)
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("another log: %v", err)
	}
	again, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames, Log: r.Log, After: r.Seq})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Next(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("another log from the start: %v", err)
	}
	again.Close()
	anew, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer anew.Close()
	for i := range 9 {
		same(t, next(t, anew), &second.list[i])
	}
	p.Close()
	for range 9 {
		second.add(rng, 10)
	}
	second.first = 12
	p = publish(second)
	defer p.Close()
	if _, err := anew.Next(t.Context()); !errors.Is(err, ErrLog) {
		t.Fatalf("a log without the next records: %v, want ErrLog", err)
	}
	last, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	for i := 12; i < 18; i++ {
		same(t, next(t, last), &second.list[i])
	}
}

// TestFollowerLearnsOfDroppedRecords: a follower that was away until the next records were dropped
// learns of it.
func TestFollowerLearnsOfDroppedRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	p := NewPublisher(PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 200_000})
	defer p.Close()
	log.add(rng, 1000)
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	r := next(t, f)
	f.Close()
	for range 300 {
		log.add(rng, 10_000)
	}
	f, err = Follow(FollowerOptions{Link: clientLink(server), Names: testNames}) // it sees the drop
	if err != nil {
		t.Fatal(err)
	}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got, err := f.Next(ctx)
		cancel()
		if errors.Is(err, ErrGap) { // it was too slow
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Next == "301" {
			break
		}
	}
	f.Close()
	for deadline := time.Now().Add(time.Minute); p.Published().Height != 150; {
		if time.Now().After(deadline) {
			t.Fatalf("published to %d", p.Published().Height)
		}
		time.Sleep(10 * time.Millisecond)
	}
	f, err = Follow(FollowerOptions{Link: clientLink(server), Names: testNames, After: r.Seq, Log: r.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The next records are gone. A follower that has them from a snapshot continues with the first
	// available one; otherwise From shows the gap.
	at, err := strconv.Atoi(next(t, f).From)
	if err != nil || at <= 1 {
		t.Fatalf("the follower continues after record %d, %v", at, err)
	}
	for i := at + 1; i < 301; i++ {
		same(t, next(t, f), &log.list[i])
	}
}

// TestFullServerFailsOnlyThePublisher: a full server fails the publisher only, is reported once,
// and gets all records when it has space.
func TestFullServerFailsOnlyThePublisher(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	small, err := StartServer(ServerOptions{Dir: dir, Listen: "127.0.0.1:0", MaxBytes: 1 << 20, secret: "own"})
	if err != nil {
		t.Fatal(err)
	}
	listen := small.Addr().String()
	log := &fakeSource{}
	said := make(chan error, 100)
	p := NewPublisher(PublisherOptions{Link: writing(small), Names: testNames, Source: log, MaxBytes: 64 << 20, Said: func(err error) { said <- err }})
	defer p.Close()
	for range 20 {
		log.add(rng, 1000)
	}
	if err := <-said; err == nil {
		t.Fatal("a server without room took a stream")
	}
	if !p.Published().Failing {
		t.Error("it does not say that it fails")
	}
	small.Close()
	large, err := StartServer(ServerOptions{Dir: dir, Listen: listen, MaxBytes: 1 << 30, secret: "own"})
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	f, err := Follow(FollowerOptions{Link: Link{URL: large.URL()}, Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 20 {
		same(t, next(t, f), &log.list[i])
	}
	if n := len(said); n > 4 { // full, disconnected, back
		t.Errorf("%d more reports, want at most 4", n)
	}
}

// TestChangedMessageIsRefused: a message with any changed byte is refused, and so is one with
// another signer.
func TestChangedMessageIsRefused(t *testing.T) {
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	key, other := testKey("writer"), testKey("other")
	by := key.PublicKey()
	r := Record{From: "0.8", At: "0.8", Next: "0.90", Height: 7, Hash: primitives.HashBytes([]byte("block")), Payload: []byte("what it did"), Log: "log"}
	spoil := map[string]func(m *nats.Msg){
		"nothing":         func(*nats.Msg) {},
		"a byte":          func(m *nats.Msg) { m.Data[3] ^= 1 },
		"its end":         func(m *nats.Msg) { m.Data = m.Data[:4] },
		"its height":      func(m *nats.Msg) { m.Header[headHeight] = []string{"8"} },
		"its hash":        func(m *nats.Msg) { m.Header[headHash] = []string{primitives.HashBytes(nil).String()} },
		"its kind":        func(m *nats.Msg) { m.Header[headKind] = []string{kindBack} },
		"what it follows": func(m *nats.Msg) { m.Header[headFrom] = []string{"0.1"} },
		"its place":       func(m *nats.Msg) { m.Header[headNext] = []string{"0.91"} },
		"a signature":     func(m *nats.Msg) { m.Header[headSignature] = []string{other.Sign([]byte("x")).String()} },
		"no signature": func(m *nats.Msg) {
			delete(m.Header, headSignature)
		},
		"no digest": func(m *nats.Msg) { delete(m.Header, headDigest) },
		"part of":   func(m *nats.Msg) { m.Header[headPart] = []string{"2/2"} },
	}
	j := streamsOf(t, server)
	for name, change := range spoil {
		// a stream created again at once may still have its messages
		names := NamesOf(name, primitives.HashBytes([]byte(name)))
		if _, err := j.CreateStream(t.Context(), js.StreamConfig{Name: names.Stream, Subjects: []string{names.Records}, Metadata: map[string]string{metadataLog: "log"}}); err != nil {
			t.Fatal(err)
		}
		good := r
		good.At, good.Next = "0.1", "0.8" // before it
		for _, x := range []Record{good, r} {
			m := x.parts(names.Records, 5, key.Sign)[0]
			m.Data = bytes.Clone(m.Data)
			if x.At == r.At {
				change(m)
			}
			if _, err := j.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		f, err := Follow(FollowerOptions{Link: clientLink(server), Names: names, By: &by})
		if err != nil {
			t.Fatal(err)
		}
		next(t, f)
		_, err = f.Next(t.Context())
		f.Close()
		if name == "nothing" {
			if err != nil {
				t.Errorf("as it was published: %v", err)
			}
			continue
		}
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

func testKey(name string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, name)
}
