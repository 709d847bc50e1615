package jetstream

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// TestDeliveredRecordsAreNotRequests: a client with the token may create a consumer that delivers
// records to the request subjects. They are not requests: none is taken for a transaction, or
// occupies a slot.
func TestDeliveredRecordsAreNotRequests(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	log := &fakeSource{}
	p := NewPublisher(PublisherOptions{Link: Link{Server: server}, Names: testNames, Source: log, MaxBytes: 64 << 20})
	defer p.Close()
	for range 20 {
		log.add(rng, 100)
	}
	var submitted, opened atomic.Int64
	a, err := Answer(ResponderOptions{Link: Link{Server: server}, Names: testNames, MaxSnapshots: 1,
		Submit: func(context.Context, []byte) error {
			submitted.Add(1)
			return nil
		},
		Snapshot: func() (*Opened, error) {
			opened.Add(1)
			return nil, errBusy
		},
		Published: func() Published { return Published{Log: "log"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	conn, err := nats.Connect(server.URL(), nats.Token("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for deadline := time.Now().Add(time.Minute); p.Published().Records < 20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", p.Published())
		}
	}
	for i, ack := range []string{"none", "explicit"} {
		for k, subject := range []string{testNames.Transactions, testNames.Snapshots} {
			c := fmt.Appendf(nil, `{"stream_name":%q,"config":{"name":"d%d%d","deliver_policy":"all","ack_policy":%q,"deliver_subject":%q}}`, testNames.Stream, i, k, ack, subject)
			if _, err := conn.Request(fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.d%d%d", testNames.Stream, i, k), c, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := false
	for i := range maxConsumers + 1 {
		c := fmt.Appendf(nil, `{"stream_name":%q,"config":{"name":"e%d","deliver_policy":"new","ack_policy":"none","mem_storage":true,"inactive_threshold":60000000000}}`, testNames.Stream, i)
		m, err := conn.Request(fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.e%d", testNames.Stream, i), c, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		refused = refused || bytes.Contains(m.Data, []byte("maximum consumers limit"))
	}
	if !refused {
		t.Errorf("%d consumers, and no end", maxConsumers+5)
	}
	time.Sleep(300 * time.Millisecond)
	if n, k := submitted.Load(), opened.Load(); n > 0 || k > 0 {
		t.Errorf("%d records were taken for transactions, %d for requests of snapshots", n, k)
	}
	q, err := NewAsker(clientLink(server), testNames, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	key := testKey("signer")
	tx := &primitives.SignedTransaction{Transaction: primitives.Transaction{SignerID: "aa", ReceiverID: "bb", PublicKey: key.PublicKey()}, Signature: key.Sign([]byte("x"))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := q.Submit(ctx, tx); err != nil || submitted.Load() != 1 {
		t.Errorf("a transaction: %v, %d were submitted", err, submitted.Load())
	}
}
