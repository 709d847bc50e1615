package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// lagOf reads how many of a replica's records took at most so long, and how many there were.
func lagOf(t *testing.T, addr, le string) (in, all float64) {
	t.Helper()
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), " ")
		v, _ := strconv.ParseFloat(value, 64)
		switch name {
		case `troupe_replica_record_seconds_bucket{le="` + le + `"}`:
			in = v
		case "troupe_replica_record_seconds_count":
			all = v
		}
	}
	return in, all
}

// TestReplicaStoresEachRecord: while transfers are executed, each block's record gets to the
// replicas' disks, and its delay is counted. TROUPE_REPLICA_LAG=30s measures the delays for that time
// at TROUPE_REPLICA_RATE transfers a second (1000), and requires 99 of 100 within 100 ms.
func TestReplicaStoresEachRecord(t *testing.T) {
	lasts, rate, within, share := 2*time.Second, 200, "1", 0.0
	if s := os.Getenv("TROUPE_REPLICA_LAG"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		rate, within, share = 1000, "0.1", 0.99
		if s := os.Getenv("TROUPE_REPLICA_RATE"); s != "" {
			if rate, err = strconv.Atoi(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := made(t)
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := testutil.Addr(t)
	nodes := []*killedNode{{node: childNode{Dir: dir, Listen: testutil.Addr(t), JetStream: server}}}
	for range 2 {
		nodes = append(nodes, &killedNode{node: childNode{Dir: followerHome(t, dir), Listen: testutil.Addr(t), Of: "nats://" + server}})
	}
	for _, k := range nodes {
		k.addr = k.node.Listen
		k.start(t)
		defer k.kill()
	}
	for _, k := range nodes {
		eventually(t, "up", func() bool { return k.height() > 0 })
	}
	key := hm.ValidatorKey
	raw, err := requireReply(&nodes[0].restartingNode, "block", `{"finality":"final"}`)
	var b struct {
		Result struct {
			Header struct{ Hash primitives.Hash }
		}
	}
	if err != nil || json.Unmarshal(raw, &b) != nil {
		t.Fatalf("raw %s, error %v", raw, err)
	}
	nonce := primitives.Nonce(0)
	send := func() {
		begin, first := time.Now(), nonce
		for time.Since(begin) < lasts {
			var list []string
			for due := first + primitives.Nonce(time.Since(begin).Seconds()*float64(rate)); nonce < due && len(list) < 50; {
				nonce++
				signed, _ := encode(primitives.Transaction{
					SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: "near",
					BlockHash: b.Result.Header.Hash, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Balance{Lo: 1}}},
				}, key)
				list = append(list, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_async","params":[%q]}`, signed))
			}
			if len(list) > 0 {
				r, err := http.Post("http://"+nodes[0].addr, "application/json", strings.NewReader("["+strings.Join(list, ",")+"]"))
				if err != nil {
					t.Fatal(err)
				}
				_ = r.Body.Close()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	var in, before [2]float64
	var first [2]primitives.Height
	for i, k := range nodes[1:] {
		in[i], before[i] = lagOf(t, k.addr, within)
		first[i] = k.height()
	}
	send()
	top := nodes[0].height()
	for i, k := range nodes[1:] {
		eventually(t, "with it", func() bool { return k.height() >= top })
		var got, all float64
		eventually(t, "counting a record of each block", func() bool {
			got, all = lagOf(t, k.addr, within)
			got, all = got-in[i], all-before[i]
			return all >= float64(top-first[i])
		})
		t.Logf("replica %d: %.0f records of %d transfers, heights %d to %d, %.2f %% within %s s", i, all, nonce, first[i], top, 100*got/all, within)
		if top < first[i]+5 || got/all < share {
			t.Errorf("replica %d: %.0f of %.0f records came within %s s", i, got, all, within)
		}
	}
}
