package node

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestManyWaitsForLargeStatusAreServed: many clients wait over connections for FINAL of one
// transaction with 1,300 receipts, and then all read its status at once. All are answered, with at
// most 16 replies of 3 MB in memory.
//
//	TROUPE_SERVED=2000 go test ./actors/node -run TestManyWaitsForLargeStatusAreServed -v
func TestManyWaitsForLargeStatusAreServed(t *testing.T) {
	n := 60
	if x, err := strconv.Atoi(os.Getenv("TROUPE_SERVED")); err == nil {
		n = x
	}
	s := startWide(t, 1300)
	url := servePolled(t, s, 2*time.Minute).url
	tx := s.tx(validator, call())
	hash := tx.Hash()
	idle, _ := heap()
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	var bytesRead int64
	var last time.Time
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}, Timeout: 3 * time.Minute}
	ask := func() {
		all.Go(func() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tx","params":{"tx_hash":"%s","sender_account_id":"%s","wait_until":"FINAL"}}`, hash.String(), validator)
			r, err := client.Post(url, "application/json", bytes.NewReader([]byte(body)))
			what, size := "", int64(0)
			if err != nil {
				what = err.Error()
			} else {
				head := make([]byte, 300)
				k, _ := io.ReadFull(r.Body, head)
				size, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
				if what = fmt.Sprint(r.StatusCode); r.StatusCode != 200 {
					what += " " + string(head[:k])
				}
			}
			mu.Lock()
			defer mu.Unlock()
			got[what]++
			bytesRead += size
			last = time.Now()
		})
	}
	for range n {
		ask()
	}
	until(t, func() bool { return s.Stats().Parked == int64(n) })
	s.settled()
	if _, err := s.Submit(tx); err != nil {
		t.Fatal(err)
	}
	peak := peakOf()
	for level := view.LevelNone; level < view.LevelExecutedOptimistic; {
		mineBlocks(t, s, 1)
		x, _ := s.e.Transactions().Status(hash)
		level = x.Level
	}
	s.settled()
	began, cpu := time.Now(), cpuTime()
	mineBlocks(t, s, 4)
	all.Wait()
	if got["200"] != n {
		t.Errorf("of %d waits: %v", n, got)
	}
	t.Logf("%d waits: %v, %d MiB read, last behind %v, processor %v, most %.0f MiB of heap more than idle", n, got,
		bytesRead>>20, last.Sub(began), cpuTime()-cpu, peak()-idle)
	began, cpu, peak = time.Now(), cpuTime(), peakOf()
	for range n { // the size of the reply is known by now
		ask()
	}
	all.Wait()
	if got["200"] != 2*n {
		t.Errorf("of %d waits and as many looks: %v", n, got)
	}
	t.Logf("%d looks: %v, last behind %v, processor %v, most %.0f MiB of heap more than idle", n, got, last.Sub(began),
		cpuTime()-cpu, peak()-idle)
}
