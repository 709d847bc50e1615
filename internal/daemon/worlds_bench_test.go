package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// residentSet is the resident set of this process, bytes.
func residentSet(t testing.TB) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("memory is read from /proc of Linux; mount proc at /proc, or run the benchmark on Linux: %v", err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

// BenchmarkWorlds creates 1,000 worlds by JSON-RPC, sends a transaction to each and waits for
// EXECUTED_OPTIMISTIC, and then drops all. It reports the time, and by how much the process grew
// while all worlds existed.
func BenchmarkWorlds(b *testing.B) {
	const n = 1000
	h := quiet(b, nil)
	key := loaded(b, h.home.Paths.Dir).ValidatorKey
	head := h.Engine.Head().Hash
	txs := make([]string, n)
	for i := range txs {
		txs[i], _ = encode(primitives.Transaction{SignerID: key.AccountID, PublicKey: key.SecretKey.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 1},
			ReceiverID: "near", BlockHash: head, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(uint64(i) + 1)}}}, key)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	post := func(path, method, params, want string) string {
		r, err := client.Post("http://"+h.Addr.String()+path, "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
		if err != nil {
			b.Error(err)
			return ""
		}
		defer func() { _ = r.Body.Close() }()
		text, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Contains(text, []byte(want)) {
			b.Errorf("%s %s: error %v, text %s", path, method, err, text)
		}
		return string(text)
	}
	workers := 4 * runtime.GOMAXPROCS(0)
	each := func(do func(i int)) {
		var all sync.WaitGroup
		for k := range workers {
			all.Go(func() {
				for i := k; i < n; i += workers {
					do(i)
				}
			})
		}
		all.Wait()
	}
	var most uint64
	begun := processorTime(b)
	var made, ran, dropped time.Duration
	for b.Loop() {
		runtime.GC()
		before := residentSet(b)
		ids := make([]string, n)
		begin := time.Now()
		each(func(i int) {
			text := post("", "sandbox_new_world", `{"quiet":true}`, `"path":"/world/`)
			_, text, _ = strings.Cut(text, `"id":"`)
			ids[i], _, _ = strings.Cut(text, `"`)
		})
		made += time.Since(begin)
		begin = time.Now()
		each(func(i int) {
			post("/world/"+ids[i], "send_tx", fmt.Sprintf(`{"signed_tx_base64":%q,"wait_until":"EXECUTED_OPTIMISTIC"}`, txs[i]), `"SuccessValue":""`)
		})
		ran += time.Since(begin)
		most = max(most, residentSet(b)-min(before, residentSet(b)))
		begin = time.Now()
		each(func(i int) { post("", "sandbox_drop_world", fmt.Sprintf(`[%q]`, ids[i]), `"result":{}`) })
		dropped += time.Since(begin)
	}
	for name, d := range map[string]time.Duration{"made-s": made, "ran-s": ran, "dropped-s": dropped} {
		b.ReportMetric(d.Seconds()/float64(b.N), name)
	}
	b.ReportMetric((processorTime(b)-begun).Seconds()/float64(b.N), "cpu-s")
	b.ReportMetric(float64(most)/(1<<20), "MiB")
}
