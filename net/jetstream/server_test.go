package jetstream

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestForeignMessageResetsStream: a foreign message in the stream, or a deleted one, does not end
// publishing: the stream is reset.
func TestForeignMessageResetsStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 13))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	p := NewPublisher(PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 64 << 20})
	defer func() { p.Close() }()
	j := streamsOf(t, server)
	reached := func(n uint64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); p.Published().Records < n; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %d records", p.Published(), n)
			}
		}
	}
	log.add(rng, 10)
	reached(1)
	if _, err := j.Publish(t.Context(), testNames.Records, []byte("stray")); err != nil {
		t.Fatal(err)
	}
	log.add(rng, 10)
	reached(3) // both, after the first
	p.Close()
	s, err := j.Stream(t.Context(), testNames.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteMsg(t.Context(), s.CachedInfo().State.LastSeq); err != nil {
		t.Fatal(err)
	}
	p = NewPublisher(PublisherOptions{Link: writing(server), Names: testNames, Source: log, MaxBytes: 64 << 20})
	reached(2)
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range log.list {
		same(t, next(t, f), &log.list[i])
	}
}

// TestTokenIsRequiredToConnect: a client without the token can't connect, one with it can only
// follow and send requests, and without a token the server listens on loopback only.
func TestTokenIsRequiredToConnect(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 15))
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if s, err := StartServer(ServerOptions{Dir: t.TempDir(), Listen: listen, MaxBytes: 1 << 20}); !errors.Is(err, ErrOpen) {
			t.Errorf("%s without a token: %v", listen, err)
			if err == nil {
				s.Close()
			}
		}
	}
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	p := NewPublisher(PublisherOptions{Link: Link{Server: server}, Names: testNames, Source: log, MaxBytes: 64 << 20})
	defer p.Close()
	log.add(rng, 10)
	f, err := Follow(FollowerOptions{Link: clientLink(server), Names: testNames})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	same(t, next(t, f), &log.list[0])
	for name, o := range map[string]nats.Option{"none": nats.Name("x"), "another": nats.Token("Secret"), "another's": nats.UserInfo(inProcessUser, "secret"), "empty": nats.UserInfo(inProcessUser, "")} {
		if c, err := nats.Connect(server.URL(), o); err == nil {
			c.Close()
			t.Errorf("with a token that is %s: let in", name)
		}
	}
	refused := make(chan error, 10)
	conn, err := nats.Connect(server.URL(), nats.Token("secret"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, subject := range []string{testNames.Records, "$JS.API.STREAM.DELETE." + testNames.Stream, "$JS.API.STREAM.PURGE." + testNames.Stream, "$JS.API.STREAM.CREATE.x", "_INBOX.x"} {
		if err := conn.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s may be published to", subject)
		}
	}
	if _, err := conn.SubscribeSync("troupe.>"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-refused:
	case <-time.After(time.Minute):
		t.Error("a client may read the requests of other clients")
	}
	// Nor does the server itself, by a consumer that delivers to these subjects.
	for i, what := range []string{"DELETE", "PURGE"} {
		c := fmt.Appendf(nil, `{"stream_name":%q,"config":{"name":"c%d","deliver_policy":"all","ack_policy":"none","headers_only":true,"deliver_subject":%q}}`,
			testNames.Stream, i, "$JS.API.STREAM."+what+"."+testNames.Stream)
		if _, err := conn.Request(fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.c%d", testNames.Stream, i), c, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	log.add(rng, 10)
	same(t, next(t, f), &log.list[1])
	if m, err := conn.Request("$JS.API.STREAM.INFO."+testNames.Stream, nil, time.Minute); err != nil || !bytes.Contains(m.Data, []byte(`"messages":2,`)) {
		t.Errorf("the stream is %s, %v", m.Data, err)
	}
}

// TestFollowerReportsServerOnce: a follower reports an available server at once, and nothing twice.
func TestFollowerReportsServerOnce(t *testing.T) {
	said := make(chan error, 10)
	f := &Follower{o: FollowerOptions{Said: func(err error) { said <- err }}}
	f.report(nil)
	f.report(nil)
	f.report(errors.New("gone"))
	if first, second := <-said, <-said; first != nil || second == nil || len(said) != 0 {
		t.Errorf("reports: %v, %v and %d more; want nil and an error", first, second, len(said))
	}
}
