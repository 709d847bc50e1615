package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// childEnv makes the test's binary run a node until it is killed.
const childEnv = "TROUPE_TEST_REPLICA_NODE"

// childNode is the configuration of that node.
type childNode struct {
	Dir, Listen string
	JetStream   string // where its server listens; empty: it is a replica
	Of, Key     string
}

// runChild runs a node as `troupe run` does; it never returns.
func runChild(raw string) {
	var c childNode
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		panic(err)
	}
	for {
		hm, err := home.Load(c.Dir)
		if err != nil {
			panic(err)
		}
		if c.JetStream != "" {
			hm.Config.JetStream.Enabled, hm.Config.JetStream.Listen = true, c.JetStream
		} else {
			hm.Config.Replica.Of, hm.Config.Replica.Key = c.Of, c.Key
		}
		log := logrus.New()
		log.SetLevel(logrus.WarnLevel)
		h, err := Start(Options{Home: hm, Listen: c.Listen, Restarts: true, Log: log, Version: view.Version{Version: "1", Build: "test"}})
		if err != nil {
			fmt.Fprintln(os.Stderr, "start:", err)
			os.Exit(1)
		}
		err = <-h.Failed()
		fmt.Fprintln(os.Stderr, "again:", err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := h.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop:", err)
			os.Exit(1)
		}
		cancel()
	}
}

// killedNode is a node in a process of its own.
type killedNode struct {
	node childNode
	restartingNode
	mu    sync.Mutex
	cmd   *exec.Cmd
	out   bytes.Buffer
	outMu sync.Mutex
}

type lockedWriter struct{ k *killedNode }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.k.outMu.Lock()
	defer w.k.outMu.Unlock()
	return w.k.out.Write(b)
}

func (k *killedNode) start(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(k.node)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw))
	cmd.Stderr, cmd.Stdout = lockedWriter{k}, lockedWriter{k}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.cmd = cmd
	k.mu.Unlock()
}

func (k *killedNode) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.cmd.Process.Signal(syscall.SIGKILL)
	_ = k.cmd.Wait()
}

// height is a node's head, 0 if it does not answer.
func (k *killedNode) height() primitives.Height {
	raw, err := requireReply(&k.restartingNode, "block", `{"finality":"optimistic"}`)
	if err != nil {
		return 0
	}
	var out struct {
		Result struct {
			Header struct{ Height primitives.Height }
		}
	}
	if json.Unmarshal(raw, &out) != nil {
		return 0
	}
	return out.Result.Header.Height
}

// TestKilledReplicasReplyLikeWriter: a writer and two replicas are killed and restarted at random
// times, while each receives transactions. All replies about a block are always equal.
// TROUPE_REPLICA_KILLS=10m sets the duration; on a busy machine it lasts until each kind of event
// has happened.
func TestKilledReplicasReplyLikeWriter(t *testing.T) {
	lasts := 12 * time.Second
	if s := os.Getenv("TROUPE_REPLICA_KILLS"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if testing.Short() {
		t.Skip("it kills processes for seconds")
	}
	dir := made(t)
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	key := hm.ValidatorKey
	server := testutil.Addr(t)
	nodes := []*killedNode{{node: childNode{Dir: dir, Listen: testutil.Addr(t), JetStream: server}}}
	for range 2 {
		nodes = append(nodes, &killedNode{node: childNode{Dir: followerHome(t, dir), Listen: testutil.Addr(t), Of: "nats://" + server, Key: hm.NodeKey.PublicKey().String()}})
	}
	for _, k := range nodes {
		k.addr = k.node.Listen
		k.start(t)
		defer k.kill()
	}
	up := func(k *killedNode) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); k.height() == 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				k.outMu.Lock()
				defer k.outMu.Unlock()
				t.Fatalf("a node does not begin again:\n%s", k.out.String())
			}
		}
	}
	for _, k := range nodes {
		up(k)
	}
	var stopped atomic.Bool
	var sent, taken, compared, kills atomic.Int64
	var mu sync.Mutex
	type known struct {
		hash primitives.Hash
		tx   primitives.Hash
		at   primitives.Height
	}
	var finals []known // blocks with a transaction that is final
	answers := map[string][]byte{}
	var work sync.WaitGroup
	work.Go(func() { // the sender
		rng := rand.New(rand.NewPCG(1, 1))
		nonce := primitives.Nonce(0)
		for !stopped.Load() {
			k := nodes[rng.IntN(len(nodes))]
			base, err := requireReply(&nodes[rng.IntN(len(nodes))].restartingNode, "block", `{"finality":"final"}`)
			var b struct {
				Result struct {
					Header struct{ Hash primitives.Hash }
				}
			}
			if err != nil || json.Unmarshal(base, &b) != nil || b.Result.Header.Hash.IsZero() {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			nonce++
			signed, hash := encode(primitives.Transaction{
				SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: "near",
				BlockHash: b.Result.Header.Hash, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Balance{Lo: uint64(nonce)}}},
			}, key)
			sent.Add(1)
			reply, err := requireReply(&k.restartingNode, "send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":"FINAL"}`, signed))
			if err != nil || !bytes.Contains(reply, []byte(`"SuccessValue"`)) {
				continue
			}
			taken.Add(1)
			var out struct {
				Result struct {
					Outcome struct {
						Hash primitives.Hash `json:"block_hash"`
					} `json:"transaction_outcome"`
				}
			}
			if json.Unmarshal(reply, &out) != nil {
				t.Errorf("reply %s", reply)
				return
			}
			block, err := requireReply(&k.restartingNode, "block", fmt.Sprintf(`{"block_id":"%v"}`, out.Result.Outcome.Hash))
			var at struct {
				Result struct {
					Header struct{ Height primitives.Height }
				}
			}
			if err != nil || json.Unmarshal(block, &at) != nil || at.Result.Header.Height == 0 {
				continue // it was killed
			}
			mu.Lock()
			finals = append(finals, known{out.Result.Outcome.Hash, hash, at.Result.Header.Height})
			mu.Unlock()
		}
	})
	for i := range 2 { // the readers
		work.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for !stopped.Load() {
				mu.Lock()
				n := len(finals)
				var x known
				if n > 0 {
					x = finals[n-1-rng.IntN(min(n, 1+rng.IntN(200)))]
				}
				mu.Unlock()
				k := nodes[rng.IntN(len(nodes))]
				if n == 0 || k.height() < x.at+4 { // it lacks the blocks that make the transaction final
					time.Sleep(time.Millisecond)
					continue
				}
				list := mixed(x.at, x.hash, key.AccountID, x.tx, false)
				list = slices.DeleteFunc(list, func(q [2]string) bool { return q[0] == "EXPERIMENTAL_light_client_proof" })
				q := list[rng.IntN(len(list))]
				got, err := requireReply(&k.restartingNode, q[0], q[1])
				if err != nil {
					continue
				}
				// it ends
				if bytes.Contains(got, []byte("INTERNAL_ERROR")) || bytes.Contains(got, []byte("TIMEOUT_ERROR")) {
					continue
				}
				mu.Lock()
				want, there := answers[q[0]+q[1]]
				if !there {
					answers[q[0]+q[1]] = got
				}
				mu.Unlock()
				if there {
					compared.Add(1)
					if !bytes.Equal(got, want) {
						t.Errorf("%s %s at %s:\ngot %s\nanother node replied:\n%s", q[0], q[1], k.addr, got, want)
						return
					}
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 3))
	little := func() bool { return taken.Load() < 4 || compared.Load() < 100 || kills.Load() < 3 }
	begun := time.Now()
	for (time.Since(begun) < lasts || little() && time.Since(begun) < lasts+5*time.Minute) && !t.Failed() {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		k := nodes[rng.IntN(len(nodes))]
		k.kill()
		kills.Add(1)
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		k.start(t)
		if rng.IntN(3) > 0 {
			up(k)
		}
	}
	for _, k := range nodes {
		up(k)
	}
	stopped.Store(true)
	work.Wait()
	top := nodes[0].height()
	for i, k := range nodes[1:] {
		for deadline := time.Now().Add(60 * time.Second); k.height() < top; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				k.outMu.Lock()
				t.Fatalf("replica %d is at %d, want %d:\n%s", i, k.height(), top, k.out.String())
			}
		}
	}
	t.Logf("%d kills, %d transactions sent, %d final, %d replies compared, at block %d", kills.Load(), sent.Load(), taken.Load(), compared.Load(), top)
	if little() {
		t.Error("it hardly did anything")
	}
}
