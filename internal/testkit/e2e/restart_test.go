//go:build e2e

package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRestartedNodeKeepsItsChain: a node stops within a second after SIGTERM. After the restart it
// continues on the same chain, with the same blocks and all outcomes.
func TestRestartedNodeKeepsItsChain(t *testing.T) {
	home := newHome(t)
	p := start(t, home)
	var sent []primitives.Hash
	var account primitives.AccountID
	height, hash := uint64(0), ""
	for round, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		s := p.signer()
		account = s.key.AccountID
		for range 5 {
			encoded, id := s.next()
			if got := p.send(encoded, "FINAL").Level; got != "FINAL" {
				t.Fatalf("level %s, want FINAL", got)
			}
			sent = append(sent, id)
		}
		now := p.head("final").Header
		if now.Height <= height {
			t.Errorf("round %d: final height %d, was %d before", round, now.Height, height)
		}
		height, hash = now.Height, now.Hash
		if took := p.stop(signal); took > time.Second {
			t.Errorf("%v: ended after %v, want less than a second", signal, took)
		}
		p = start(t, home)
		if p.ready > time.Second {
			t.Errorf("served again after %v, want less than a second", p.ready)
		}
		var same head
		p.get("block", map[string]any{"block_id": height}, &same)
		if same.Header.Hash != hash {
			t.Errorf("block %d is %s, was %s", height, same.Header.Hash, hash)
		}
		for i, id := range sent {
			if got := p.tx(id, account, "NONE"); got.Level != "FINAL" {
				t.Errorf("round %d: transaction %d is %s, want FINAL", round, i, got.Level)
			}
		}
	}
	p.stop(syscall.SIGINT)
}

// TestSignalEndsNodeDespiteWaiters: a signal ends the process at once, even with waiting requests.
func TestSignalEndsNodeDespiteWaiters(t *testing.T) {
	p := start(t, newHome(t), "--block-production", "manual")
	s := p.signer()
	var waiting sync.WaitGroup
	for range 8 {
		encoded, _ := s.next()
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			// no block is produced
			_, _ = p.call("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": "FINAL"})
		}()
	}
	time.Sleep(200 * time.Millisecond) // so that the requests are waiting; if not, the test is weaker, not wrong
	if took := p.stop(syscall.SIGTERM); took > time.Second {
		t.Errorf("ended after %v, want less than a second", took)
	}
	waiting.Wait()
}

// reportedTx is a transaction and the block in which it was reported.
type reportedTx struct {
	hash  primitives.Hash
	block string
}

// TestKillLosesNoReportedTransaction: after a crash at a random moment with transactions in flight,
// no transaction that was reported INCLUDED or better is missing. TROUPE_KILLS is the number of
// crashes; if it is set, start times are not checked, since such a run is long and shares the
// machine.
func TestKillLosesNoReportedTransaction(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	kills, _ := strconv.Atoi(os.Getenv("TROUPE_KILLS"))
	if kills > 0 {
		rounds = kills
	}
	home := newHome(t, "--num-shards", "2")
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))) // any moment will do
	var all []reportedTx
	var account primitives.AccountID
	for round := range rounds {
		p := start(t, home)
		if p.ready > time.Second && kills == 0 {
			t.Errorf("round %d: served after %v, want less than a second", round, p.ready)
		}
		s := p.signer()
		account = s.key.AccountID
		for _, x := range all {
			got := p.tx(x.hash, account, "NONE")
			if got.Level == "NONE" || x.block != "" && got.Outcome.Block != x.block {
				t.Fatalf("round %d: transaction %v is %+v, was reported in block %s", round, x.hash, got, x.block)
			}
		}
		var mu sync.Mutex
		var load sync.WaitGroup
		work := make(chan string)
		hashes := map[string]primitives.Hash{}
		levels := []string{"INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"}
		for i := range 16 {
			load.Add(1)
			go func() {
				defer load.Done()
				for encoded := range work {
					r, err := p.call("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": levels[i%len(levels)]})
					if err != nil || r.Error != nil {
						continue // the node was down, or the nonce was used: nothing was reported
					}
					var st status
					if json.Unmarshal(r.Result, &st) == nil && st.Level != "NONE" {
						mu.Lock()
						all = append(all, reportedTx{hashes[encoded], st.Outcome.Block})
						mu.Unlock()
					}
				}
			}()
		}
		before := len(all)
		for end := time.Now().Add(time.Duration(100+rng.IntN(700)) * time.Millisecond); time.Now().Before(end); {
			mu.Lock()
			encoded, hash := s.next()
			hashes[encoded] = hash
			mu.Unlock()
			work <- encoded
		}
		p.stop(syscall.SIGKILL)
		close(work)
		load.Wait()
		t.Logf("round %d: ready after %v, %d reported before the kill", round, p.ready.Round(time.Millisecond), len(all)-before)
	}
	p := start(t, home)
	for _, x := range slices.Backward(all) {
		if got := p.tx(x.hash, account, "FINAL"); got.Level != "FINAL" || x.block != "" && got.Outcome.Block != x.block {
			t.Errorf("transaction %v is %+v, was reported in block %s", x.hash, got, x.block)
		}
	}
	p.stop(syscall.SIGTERM)
}
