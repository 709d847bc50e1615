package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// restartingNode is a node that is restarted when it asks for that, as `troupe run` does.
type restartingNode struct {
	dir    string
	set    func(*home.Home)
	log    bytes.Buffer
	mu     sync.Mutex
	h      *Daemon
	addr   string
	starts int
	gone   chan struct{} // closed to end the watch
	done   chan struct{}
}

// Write is the log's.
func (l *restartingNode) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

func (l *restartingNode) said(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.log.String(), what)
}

func (l *restartingNode) begin() error {
	hm, err := home.Load(l.dir)
	if err != nil {
		return err
	}
	l.set(hm)
	log := logrus.New()
	log.SetOutput(l)
	h, err := Start(Options{Home: hm, Listen: l.addr, Restarts: true, Log: log, Version: view.Version{Version: "1", Build: "test"}})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.h = h
	l.starts++
	l.mu.Unlock()
	return nil
}

// startRestartingReplica starts a node.
func startRestartingReplica(t testing.TB, dir string, set func(*home.Home)) *restartingNode {
	t.Helper()
	l := &restartingNode{dir: dir, set: set, addr: testutil.Addr(t)}
	l.start(t)
	return l
}

func (l *restartingNode) start(t testing.TB) {
	t.Helper()
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	l.gone, l.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.done)
		for {
			l.mu.Lock()
			h := l.h
			l.mu.Unlock()
			select {
			case <-l.gone:
				return
			case err := <-h.Failed():
				if !errors.Is(err, ErrStateSynced) && !errors.Is(err, ErrRewound) {
					t.Errorf("the node ended: %v", err)
					return
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			err := h.Stop(ctx)
			cancel()
			if err == nil {
				err = l.begin()
			}
			if err != nil {
				t.Errorf("the node does not begin again: %v", err)
				return
			}
		}
	}()
}

func (l *restartingNode) host() *Daemon {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.h
}

// begun returns how often the node has been started.
func (l *restartingNode) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts
}

func (l *restartingNode) stop(t testing.TB) {
	t.Helper()
	close(l.gone)
	<-l.done
	stop(t, l.host())
}

// requireReply posts a request. An error is one of the connection.
func requireReply(l *restartingNode, method, params string) ([]byte, error) {
	l.mu.Lock()
	addr := l.addr
	l.mu.Unlock()
	r, err := http.Post("http://"+addr, "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	return io.ReadAll(r.Body)
}

// mixed returns requests about a block and its contents. Proofs exist only for states in memory, so
// not for every block on every node.
func mixed(height primitives.Height, hash primitives.Hash, account primitives.AccountID, tx primitives.Hash, proof bool) [][2]string {
	at := fmt.Sprintf(`"block_id":%d`, height)
	return [][2]string{
		{"block", fmt.Sprintf(`{"block_id":"%v"}`, hash)},
		{"block", fmt.Sprintf(`{"block_id":%d}`, height)},
		{"chunk", fmt.Sprintf(`{"block_id":%d,"shard_id":0}`, height)},
		{"query", fmt.Sprintf(`{"request_type":"view_account",%s,"account_id":%q}`, at, account)},
		{"query", fmt.Sprintf(`{"request_type":"view_access_key_list",%s,"account_id":%q}`, at, account)},
		{"query", fmt.Sprintf(`{"request_type":"view_state",%s,"account_id":%q,"prefix_base64":"","include_proof":%t}`, at, account, proof)},
		{"query", fmt.Sprintf(`{"request_type":"view_account",%s,"account_id":"nobody.near"}`, at)},
		{"changes", fmt.Sprintf(`{"changes_type":"all_access_key_changes","account_ids":[%q],"block_id":%d}`, account, height)},
		{"changes", fmt.Sprintf(`{"changes_type":"account_changes","account_ids":[%q],"block_id":%d}`, account, height)},
		{"block_effects", fmt.Sprintf(`{"block_id":%d}`, height)},
		{"gas_price", fmt.Sprintf(`[%d]`, height)},
		{"EXPERIMENTAL_protocol_config", fmt.Sprintf(`{"block_id":%d}`, height)},
		{"EXPERIMENTAL_tx_status", fmt.Sprintf(`{"tx_hash":"%v","sender_account_id":%q,"wait_until":"FINAL"}`, tx, account)},
		{"tx", fmt.Sprintf(`{"tx_hash":"%v","sender_account_id":%q,"wait_until":"NONE"}`, tx, account)},
		{"EXPERIMENTAL_light_client_proof", fmt.Sprintf(`{"type":"transaction","transaction_hash":"%v","sender_id":%q,"light_client_head":"%v"}`, tx, account, hash)},
		{"EXPERIMENTAL_congestion_level", fmt.Sprintf(`{"block_id":%d,"shard_id":0}`, height)},
		{"genesis_config", `{}`},
	}
}

// agree requires that all nodes give the same bytes.
func agree(t *testing.T, of *restartingNode, others []*restartingNode, requests [][2]string) (n int) {
	t.Helper()
	for _, q := range requests {
		for i, o := range others {
			if got, want := requireSameReplies(t, of, o, q); !bytes.Equal(got, want) {
				t.Fatalf("replica %d: %s %s:\n%s\nwriter:\n%s", i, q[0], q[1], got, want)
			}
			n++
		}
	}
	return n
}

// requireSameReplies sends the same request to two nodes. Some replies depend on the final block,
// and a block may be produced in between. If the replies differ and there was a new block, or the
// replica has not received all blocks, it repeats the requests.
func requireSameReplies(t *testing.T, of, o *restartingNode, q [2]string) (got, want []byte) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		before := of.host().Engine.Head().Hash
		level := o.host().Engine.Head().Hash == before
		var err error
		if want, err = requireReply(of, q[0], q[1]); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(want) {
			t.Fatalf("%s %s: want %s", q[0], q[1], want)
		}
		if got, err = requireReply(o, q[0], q[1]); err != nil {
			t.Fatal(err)
		}
		still := of.host().Engine.Head().Hash == before && o.host().Engine.Head().Hash == before
		if bytes.Equal(got, want) || level && still || time.Now().After(limit) {
			return got, want
		}
	}
}

// reaches waits until a node's chain contains a block.
func (l *restartingNode) reaches(t *testing.T, height primitives.Height, hash primitives.Hash) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		h := l.host()
		if got, err := h.store.HashAt(height); err == nil && got == hash && h.Engine.Head().Height() >= height {
			return
		}
		if time.Now().After(deadline) {
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("the replica is at block %d, want %v; its log:\n%s", l.h.Engine.Head().Height(), hash, l.log.String())
		}
	}
}

// send submits a transfer to a node and waits for it.
func send(l *restartingNode, key *primitives.KeyFile, nonce primitives.Nonce, wait string) (hash primitives.Hash, reply []byte, err error) {
	signed, hash := encode(draft(l.host(), key, nonce, "near", &primitives.Transfer{Deposit: primitives.Balance{Lo: uint64(nonce)}}), key)
	reply, err = requireReply(l, "send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":%q}`, signed, wait))
	return hash, reply, err
}

// TestReplicaStartsFromSnapshot: a replica of a writer with only the newest records in its stream
// starts from a snapshot and answers about all blocks; so does one that was away for longer than
// the stream lasts.
func TestReplicaStartsFromSnapshot(t *testing.T) {
	dir := made(t)
	publishes := false
	writer := startRestartingReplica(t, dir, func(hm *home.Home) {
		hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen, hm.Config.JetStream.MaxBytes = publishes, "127.0.0.1:0", 30_000
		// only the test's transactions create blocks, however slow the machine is
		hm.Config.Consensus.ProduceEmptyBlocks = false
	})
	key := writer.host().home.ValidatorKey
	nonce := primitives.Nonce(0)
	var txs []primitives.Hash
	fill := func(n int) {
		t.Helper()
		for range n {
			nonce++
			tx, reply, err := send(writer, key, nonce, "FINAL")
			if err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
				t.Fatalf("reply %s, error %v", reply, err)
			}
			txs = append(txs, tx)
		}
	}
	published := func() { // the stream contains all records
		t.Helper()
		head := writer.host().Engine.Head().Height()
		eventually(t, "published", func() bool { return writer.host().publishing.Load().publisher.Published().Height >= head })
	}
	fill(30) // before there is a stream
	writer.stop(t)
	publishes = true
	writer.start(t)
	url := writer.host().publishing.Load().server.URL()
	// A replica that is configured for another writer accepts nothing from this one.
	stranger := startRestartingReplica(t, followerHome(t, dir), func(hm *home.Home) {
		hm.Config.Replica.Of, hm.Config.Replica.Key = url, primitives.SecretKeyFromSeed(primitives.ED25519, "another").PublicKey().String()
	})
	eventually(t, "refused", func() bool { return stranger.said("not signed by") })
	if stranger.starts != 1 || stranger.said("received a snapshot of the writer") {
		t.Errorf("the replica started %d times", stranger.starts)
	}
	stranger.stop(t)
	replica := startRestartingReplica(t, followerHome(t, dir), func(hm *home.Home) {
		hm.Config.Replica.Of, hm.Config.Replica.Key = url, writer.host().home.NodeKey.PublicKey().String()
	})
	check := func() {
		t.Helper()
		head := writer.host().Engine.Head()
		replica.reaches(t, head.Height(), head.Hash)
		for i, h := 0, primitives.Height(1); h < head.Height(); i, h = i+1, h+7 {
			hash, err := writer.host().store.HashAt(h)
			if err != nil {
				continue
			}
			agree(t, writer, []*restartingNode{replica}, mixed(h, hash, key.AccountID, txs[i%len(txs)], false))
		}
	}
	check()
	if n := replica.begun(); !replica.said("received a snapshot of the writer") || n != 2 {
		t.Errorf("the replica started %d times without a snapshot", n)
	}
	eventually(t, "its lag is told", func() bool {
		reply, err := requireReply(replica, "status", "[]")
		return err == nil && bytes.Contains(reply, []byte(`"replica":{"behind":0,"connected":true,"lag_ms":`))
	})
	if reply, err := requireReply(writer, "status", "[]"); err != nil || bytes.Contains(reply, []byte(`"replica"`)) {
		t.Errorf("the writer: %s, %v", reply, err)
	}
	replica.stop(t)
	fill(60)
	published()
	replica.start(t)
	check()
	if n := replica.begun(); n != 4 {
		t.Errorf("the replica started %d times after an absence longer than the stream lasts", n)
	}
	// The stream advanced while the snapshot was copied: the records at the replica's position have
	// been removed, those after the snapshot have not.
	r := replica.host().replica
	r.mu.Lock()
	r.cursor.Seq = 1
	r.mu.Unlock()
	replica.stop(t)
	fill(1)
	published()
	replica.start(t)
	check()
	if n := replica.begun(); n != 5 {
		t.Errorf("the replica started %d times although the stream has all records after its snapshot", n)
	}
	replica.stop(t)
	writer.stop(t)
}

// TestReplicaRefusesChangedRecord: a replica that receives a changed byte refuses the record,
// reports it, and serves reads up to its position. It continues when the published record is
// correct.
func TestReplicaRefusesChangedRecord(t *testing.T) {
	dir := made(t)
	writer := startRestartingReplica(t, dir, func(hm *home.Home) { hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen = true, "127.0.0.1:0" })
	key := writer.host().home.ValidatorKey
	for n := range primitives.Nonce(10) {
		if _, reply, err := send(writer, key, n+1, "FINAL"); err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
			t.Fatalf("reply %s, error %v", reply, err)
		}
	}
	head := writer.host().Engine.Head()
	h := writer.host()
	for name, spoil := range map[string]func(r *jetstream.Record){
		"a byte of a frame":  func(r *jetstream.Record) { r.Payload[len(r.Payload)-3] ^= 1 },
		"a byte of the head": func(r *jetstream.Record) { r.Payload[60] ^= 1 },
		"its end":            func(r *jetstream.Record) { r.Payload = r.Payload[:len(r.Payload)-1] },
		"another value, with all sums right": func(r *jetstream.Record) {
			b, err := storage.Unpack(r.Payload)
			if err != nil {
				t.Error(err)
				return
			}
			c := b.Shards[0].Changes
			last := c[len(c)-1].Changes
			last[len(last)-1].Value = append(last[len(last)-1].Value, 0)
			r.Payload = storage.Pack(b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := jetstream.StartServer(jetstream.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			liar := &corruptLog{Source: logSource{h.store, 1 << 30}, at: 12, spoil: spoil}
			publish := func(s jetstream.Source) *jetstream.Publisher {
				return jetstream.NewPublisher(jetstream.PublisherOptions{Link: jetstream.Link{Server: server}, Names: jetstream.NamesOf(h.home.Genesis.ChainID, h.Engine.Genesis().Hash),
					Source: s, MaxBytes: 1 << 28})
			}
			p := publish(liar)
			url := server.URL()
			replica := startRestartingReplica(t, followerHome(t, dir), func(hm *home.Home) { hm.Config.Replica.Of = url })
			eventually(t, "refused", func() bool {
				_, halted := replica.host().Node.Halted()
				return halted
			})
			at := liar.at - 1
			// earlier records are still being executed
			eventually(t, "at the block before", func() bool { return replica.host().Engine.Head().Height() == at })
			if liar.at >= head.Height() {
				t.Fatalf("the writer is at %d", head.Height())
			}
			hash, err := h.store.HashAt(at)
			if err != nil || replica.host().Engine.Head().Hash != hash {
				t.Errorf("the replica's head is not the writer's: %v", err)
			}
			agree(t, writer, []*restartingNode{replica}, mixed(at, hash, key.AccountID, primitives.Hash{}, false)[:5])
			if reply, err := requireReply(replica, "health", "{}"); err != nil || bytes.Contains(reply, []byte(`"result"`)) {
				t.Errorf("health: %s, %v", reply, err)
			}
			eventually(t, "said so", func() bool { return replica.said("is rejected") || replica.said("refuses the record") }) // it halts first
			replica.stop(t)
			p.Close()
			server.Close()
			server, err = jetstream.StartServer(jetstream.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			p = publish(logSource{h.store, 1 << 30})
			defer p.Close()
			answers, err := jetstream.Answer(jetstream.ResponderOptions{Link: jetstream.Link{Server: server}, Names: jetstream.NamesOf(h.home.Genesis.ChainID, h.Engine.Genesis().Hash),
				Submit: h.submitForReplica, Snapshot: h.snapshotForReplica, MaxSnapshots: 1, Published: p.Published})
			if err != nil {
				t.Fatal(err)
			}
			defer answers.Close()
			url = server.URL()
			replica.start(t)
			replica.reaches(t, head.Height(), head.Hash)
			replica.stop(t)
		})
	}
	writer.stop(t)
}

// corruptLog is a log of which the record of one block is another than it was, whenever it is read.
type corruptLog struct {
	jetstream.Source
	at    primitives.Height
	spoil func(*jetstream.Record)
}

func (s *corruptLog) Records(from string, f func(jetstream.Record) bool) (string, error) {
	return s.Source.Records(from, func(r jetstream.Record) bool {
		if r.Height == s.at {
			r.Payload = bytes.Clone(r.Payload)
			s.spoil(&r)
		}
		return f(r)
	})
}

// TestReplicasHaveTheWritersBytes: two replicas have the same bytes as the writer, forward
// transactions and wait for them, and follow the writer over a revert and over restarts of all
// three.
func TestReplicasHaveTheWritersBytes(t *testing.T) {
	dir := made(t)
	writer := startRestartingReplica(t, dir, func(hm *home.Home) { hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen = true, "127.0.0.1:0" })
	url := writer.host().publishing.Load().server.URL()
	key := writer.host().home.ValidatorKey
	keyOf := writer.host().home.NodeKey.PublicKey().String()
	var replicas []*restartingNode
	for range 2 {
		replicas = append(replicas, startRestartingReplica(t, followerHome(t, dir), func(hm *home.Home) { hm.Config.Replica.Of, hm.Config.Replica.Key = url, keyOf }))
	}
	nonce := primitives.Nonce(0)
	asked := 0
	round := func(n int) {
		t.Helper()
		for i := range n {
			nonce++
			to := []*restartingNode{writer, replicas[0], replicas[1]}[i%3]
			tx, reply, err := send(to, key, nonce, "FINAL")
			if err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
				t.Fatalf("transaction %d by node %d: %s, %v\n%s", nonce, i%3, reply, err, to.log.String())
			}
			head := writer.host().Engine.Head()
			for _, r := range replicas {
				r.reaches(t, head.Height(), head.Hash)
			}
			asked += agree(t, writer, replicas, mixed(head.Height(), head.Hash, key.AccountID, tx, true))
		}
	}
	round(9)
	if replicas[0].host().replica.passer.passed.Load() == 0 {
		t.Error("no transaction was passed on")
	}
	// The chain is reverted and continues differently.
	if reply, err := requireReply(writer, "sandbox_snapshot", `{"name":"x"}`); err != nil || !bytes.Contains(reply, []byte(`"result"`)) {
		t.Fatalf("reply %s, error %v", reply, err)
	}
	before, at := nonce, writer.host().Engine.Head()
	round(4)
	if reply, err := requireReply(writer, "sandbox_revert", `{"id":"x"}`); err != nil || !bytes.Contains(reply, []byte(`"result"`)) {
		t.Fatalf("reply %s, error %v", reply, err)
	}
	for _, r := range replicas {
		r.reaches(t, at.Height(), at.Hash)
	}
	nonce = before + 100 // not the nonces of removed transactions
	round(5)
	// A replica is stopped and restarted.
	replicas[0].stop(t)
	alone := replicas[:1]
	replicas = replicas[1:]
	for range 20 {
		nonce++
		if _, reply, err := send(writer, key, nonce, "FINAL"); err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
			t.Fatalf("reply %s, error %v", reply, err)
		}
	}
	alone[0].start(t)
	replicas = append(alone, replicas...)
	for _, r := range replicas {
		head := writer.host().Engine.Head()
		r.reaches(t, head.Height(), head.Hash)
	}
	eventually(t, "caught up", func() bool {
		lag, behind := replicas[0].host().replica.lag()
		return lag < time.Second && behind == 0
	})
	for _, r := range replicas {
		if reply, err := requireReply(r, "sandbox_mine", `{"blocks":1}`); err != nil || !bytes.Contains(reply, []byte("METHOD_NOT_FOUND")) {
			t.Errorf("a replica mines: %s, %v", reply, err)
		}
		if reply, err := requireReply(r, "health", `{}`); err != nil || !bytes.Contains(reply, []byte(`"result":null`)) {
			t.Errorf("health: %s, %v", reply, err)
		}
		r.stop(t)
	}
	writer.stop(t)
	if asked < 500 {
		t.Errorf("only %d replies were compared", asked)
	}
}

// TestWriterIsLoggedWithoutToken: the URL of a writer may contain its token, which is a secret.
func TestWriterIsLoggedWithoutToken(t *testing.T) {
	for in, want := range map[string]string{
		"nats://h:4222": "nats://h:4222", "nats://secret@h:4222": "nats://h:4222", "tls://a:b@c@h:1,nats://x": "tls://h:1,nats://x",
	} {
		if got := withoutToken(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
