//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// TestLargeViewCallsAtOnceAreAnswered: eight concurrent view calls, each of which returns 4 MB of
// the contract's state, are all answered completely. Each call returns a different value, so that a
// reply to another request is detected.
func TestLargeViewCallsAtOnceAreAnswered(t *testing.T) {
	const (
		calls, size  = 8, 4_000_000
		to           = 64 << 16 // end of the contract's memory before it grows
		growth       = 64       // pages
		mostResident = 600.0    // MiB
	)
	p := start(t, newHome(t))
	s := p.signer()
	me := s.key.AccountID
	p.send(s.sign(me, &primitives.DeployContract{Code: contracts.Probe()}), "FINAL")
	stored := func(i int) (key string, value byte) { return fmt.Sprint("large", i), byte(100 + i) }
	for i := range calls {
		key, value := stored(i)
		var w contracts.Program
		w.Grow(growth)
		w.Fill(to, uint64(value), size)
		w.Call("storage_write", key, size, to, 0)
		p.send(s.sign(me, &primitives.FunctionCall{Method: "run", Args: w.Bytes(), Gas: 300e12}), "FINAL")
	}
	before := resident(t, p.cmd.Process.Pid)

	view := func(i int) error {
		key, value := stored(i)
		var r contracts.Program
		r.Grow(growth)
		r.Call("storage_read", key, 0)
		r.Call("read_register", 0, to)
		r.Call("value_return", size, to)
		body := rpcBody("query", fmt.Sprintf(`{"request_type":"call_function","finality":"final","account_id":%q,"method_name":"run","args_base64":%q}`,
			me, base64.StdEncoding.EncodeToString(r.Bytes())))
		h, err := (&http.Client{Timeout: time.Minute}).Post("http://"+p.addr, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer h.Body.Close()
		text, err := io.ReadAll(h.Body)
		if err != nil {
			return err
		}
		var got struct {
			Result struct{ Result json.RawMessage }
		}
		if err := json.Unmarshal(text, &got); err != nil || h.StatusCode != http.StatusOK {
			return fmt.Errorf("view %d: status %d, %v, %.300s", i, h.StatusCode, err, text)
		}
		want := bytes.Repeat(fmt.Appendf(nil, "%d,", value), size)
		want = append(append([]byte{'['}, want[:len(want)-1]...), ']')
		if !bytes.Equal(got.Result.Result, want) {
			return fmt.Errorf("view %d: %d bytes of result, want %d: %.300s", i, len(got.Result.Result), len(want), text)
		}
		return nil
	}
	var all sync.WaitGroup
	began := time.Now()
	for i := range calls {
		all.Go(func() {
			if err := view(i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took, peak := time.Since(began), peakResident(t, p.cmd.Process.Pid)
	t.Logf("%d views of %d bytes in %v; resident before %.0f MiB, peak %.0f MiB", calls, size, took, before, peak)
	if peak > mostResident {
		t.Errorf("peak resident memory %.0f MiB, want at most %.0f", peak, mostResident)
	}
	p.stop(syscall.SIGTERM)
}
