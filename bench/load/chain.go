package load

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives"
)

// ChainOptions configure load on a chain through the JSON-RPC of one node.
type ChainOptions struct {
	URL         string
	Funder      *primitives.KeyFile // key of the account that funds the senders; nil: only read requests are sent
	Workload    Workload
	Accounts    int                // number of sending accounts; each has at most one operation in progress
	Fund        primitives.Balance // initial balance of each new account
	Connections int                // maximum number of concurrent operations
	Until       string             // wait_until of the transactions
	Timeout     time.Duration      // time limit of one request
	Progress    func(part float64, what string)
}

// Chain is a Target that calls a node by JSON-RPC. Concurrent calls with different lanes are safe.
type Chain struct {
	o      ChainOptions
	c      *Client
	Status *Status
	crowd  *crowd
	sends  sends
	free   chan int // indices of the accounts without an operation in progress
	block  atomic.Pointer[primitives.Hash]
	reads  [][]byte
	again  atomic.Int64
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// refresh is the interval at which the block hash that new transactions name is updated.
const refresh = 500 * time.Millisecond

// OpenChain connects to the node and creates the missing accounts and contracts of the workload.
func OpenChain(ctx context.Context, o ChainOptions) (_ *Chain, err error) {
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	if o.Connections < 1 || o.Connections > 1<<16 || !o.Workload.Reads() && (o.Accounts < 2 || o.Accounts > 1<<20) {
		return nil, fmt.Errorf("load: there are %d connections and %d accounts, must be 1 to 65,536 and 2 to 1,048,576",
			o.Connections, o.Accounts)
	}
	if !o.Workload.Reads() && o.Funder == nil {
		return nil, errors.New("load: without a key (--key-file) only reads can be measured")
	}
	t := &Chain{o: o}
	if t.c, err = NewClient(o.URL, o.Connections+askers, o.Timeout); err != nil {
		return nil, err
	}
	if t.Status, err = t.c.Status(ctx); err != nil {
		return nil, err
	}
	if o.Workload.Reads() {
		return t, t.questions(ctx)
	}
	if t.crowd, err = newCrowd(t.c, o.Funder, o.Accounts, o.Fund, o.Workload, o.Progress); err != nil {
		return nil, err
	}
	if err := t.crowd.make(ctx); err != nil {
		return nil, err
	}
	t.sends = sends{ft: t.crowd.ft, hog: t.crowd.hog, all: t.crowd.all}
	if o.Workload.uses(transferFar) {
		boundaries, err := t.boundaries(ctx)
		if err != nil {
			return nil, err
		}
		if err := t.sends.settle(boundaries); err != nil {
			return nil, err
		}
	}
	base, err := t.c.base(ctx)
	if err != nil {
		return nil, err
	}
	t.block.Store(&base)
	t.free = make(chan int, o.Accounts)
	for i := range o.Accounts {
		t.free <- i
	}
	following, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.done.Go(func() {
		for sleep(following, refresh) {
			// Keep the previous base block after an error. A persistent error makes the
			// transactions fail, and the report shows that.
			if base, err := t.c.base(following); err == nil {
				t.block.Store(&base)
			}
		}
	})
	return t, nil
}

// Close stops the background requests and closes the connections.
func (t *Chain) Close() {
	if t.stop != nil {
		t.stop()
	}
	t.done.Wait()
	t.c.Close()
}

// Lanes implements Target. The result is the number of concurrent operations.
func (t *Chain) Lanes() int {
	if t.o.Workload.Reads() {
		return t.o.Connections
	}
	return min(t.o.Connections, t.o.Accounts)
}

// boundaries returns the boundary accounts of the shard layout.
func (t *Chain) boundaries(ctx context.Context) ([]string, error) {
	var p struct {
		Layout map[string]struct {
			Boundaries []string `json:"boundary_accounts"`
		} `json:"shard_layout"`
	}
	if err := t.c.Call(ctx, "EXPERIMENTAL_protocol_config", map[string]string{"finality": "final"}, &p); err != nil {
		return nil, err
	}
	for _, l := range p.Layout {
		return l.Boundaries, nil
	}
	return nil, errors.New("load: the node's protocol configuration has no shard layout")
}

// Do implements Target. Do performs the operation with the given number.
func (t *Chain) Do(ctx context.Context, lane int, number uint64) error {
	if t.reads != nil {
		return t.c.ask(ctx, t.reads[int(scatter(number)%uint64(len(t.reads)))], func([]byte) error { return nil })
	}
	var i int
	select { // never blocks, because at most Accounts operations run concurrently
	case i = <-t.free:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { t.free <- i }()
	m := &t.sends.all[i]
	if !m.known {
		if err := m.refresh(ctx, t.c); err != nil {
			return err
		}
		if !m.known {
			return fmt.Errorf("account %s has lost its access key", m.id)
		}
	}
	to, actions := t.sends.make(&t.o.Workload, i, number)
	m.nonce++
	tx := sign(m.id, m.key, to, m.nonce, *t.block.Load(), actions)
	err := t.submit(ctx, tx)
	m.known = err == nil // after an error, the nonce may or may not have been used
	return err
}

// send submits a transaction and waits for the level ChainOptions.Until. send returns an error if
// the transaction failed.
func (t *Chain) send(ctx context.Context, tx *primitives.SignedTransaction) error {
	body := append(make([]byte, 0, 512), `{"jsonrpc":"2.0","id":"bench","method":"send_tx","params":{"signed_tx_base64":"`...)
	body = base64.StdEncoding.AppendEncode(body, tx.AppendBorsh(nil))
	return t.await(ctx, append(append(append(body, `","wait_until":"`...), t.o.Until...), `"}}`...))
}

// await sends a transaction request and checks that the transaction succeeded.
func (t *Chain) await(ctx context.Context, body []byte) error {
	return t.c.ask(ctx, body, func(reply []byte) error {
		if !bytes.Contains(reply, []byte(`"Failure"`)) {
			return nil
		}
		var r struct {
			Result struct {
				Status struct{ Failure json.RawMessage }
			}
		}
		if err := json.Unmarshal(reply, &r); err == nil && r.Result.Status.Failure != nil {
			return fmt.Errorf("the transaction failed: %s", r.Result.Status.Failure)
		}
		return nil
	})
}

// questions sets the requests of the workload that only reads. A request occurs in the list in
// proportion to its frequency. Requests name the block at the start of the run, so that every node
// can answer the requests.
func (t *Chain) questions(ctx context.Context) error {
	var b struct {
		Chunks []struct {
			Hash string `json:"chunk_hash"`
		}
		Header struct{ Height uint64 }
	}
	if err := t.c.Call(ctx, "block", map[string]string{"finality": "final"}, &b); err != nil {
		return err
	}
	accounts := []primitives.AccountID{"near"}
	var v struct {
		Current []struct {
			Account primitives.AccountID `json:"account_id"`
		} `json:"current_validators"`
	}
	if err := t.c.Call(ctx, "validators", []any{nil}, &v); err == nil && len(v.Current) > 0 {
		accounts = accounts[:0]
		for _, x := range v.Current {
			accounts = append(accounts, x.Account)
		}
	}
	for i := range 10 {
		a := accounts[i%len(accounts)]
		t.reads = append(t.reads, question("query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": a}))
		if i%2 == 0 {
			t.reads = append(t.reads, question("query", map[string]any{"request_type": "view_access_key_list",
				"finality": "final", "account_id": a}),
				question("block", map[string]any{"finality": "final"}), question("gas_price", []any{nil}))
		}
	}
	t.reads = append(t.reads, question("status", []any{}), question("block", map[string]any{"block_id": b.Header.Height}),
		question("validators", []any{nil}))
	if len(b.Chunks) > 0 {
		t.reads = append(t.reads, question("chunk", map[string]any{"chunk_id": b.Chunks[0].Hash}))
	}
	for _, q := range t.reads {
		if err := t.c.ask(ctx, q, func([]byte) error { return nil }); err != nil {
			return fmt.Errorf("load: send request %s once before the load: %w", q, err)
		}
	}
	return nil
}

func question(method string, params any) []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "bench", "method": method, "params": params})
	if err != nil {
		panic(err) // cannot fail: the parameters are strings
	}
	return b
}

// metrics is the HTTP client for /metrics. This client connects by IPv4 or IPv6.
var metrics = fasthttp.Client{DialDualStack: true}

// Included returns the number of transactions that the node has included in blocks since its start,
// according to its metrics. Included returns false if the metrics do not contain this number.
func (t *Chain) Included() (int, bool) {
	_, reply, err := metrics.GetTimeout(nil, strings.TrimSuffix(t.o.URL, "/")+"/metrics", 5*time.Second)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(reply)) {
		for _, name := range []string{"troupe_transactions_included_total ", "near_transaction_processed_total "} {
			if v, ok := strings.CutPrefix(line, name); ok {
				if n, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
					return int(n), true
				}
			}
		}
	}
	return 0, false
}

// Height returns the height of the node's head.
func (t *Chain) Height(ctx context.Context) (primitives.Height, error) {
	s, err := t.c.Status(ctx)
	if err != nil {
		return 0, err
	}
	return s.Sync.Height, nil
}
