package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// RPCOptions configure RunRPC.
type RPCOptions struct {
	URL         string   `json:"url,omitempty"` // URL of a running node; empty: a node is started in this process
	Scenarios   []string `json:"scenarios"`     // names from RPCScenarios; empty: all scenarios that the node allows
	Connections int      `json:"connections"`   // number of keep-alive connections; each has one request at a time
	Accounts    int      `json:"accounts"`      // number of accounts of a node that is started
	// State is a folder created by RunState. The node runs on that folder, and RunRPC measures only
	// reads.
	State  string `json:"state,omitempty"`
	Memory uint64 `json:"memory_bytes,omitempty"` // memory for the tries with State; 0: the node's default
	// Background is the number of transfers per second that the benchmark submits during the
	// scenarios that do not submit transfers themselves. Without these transfers, blocks would be
	// empty.
	Background float64       `json:"background"`
	Duration   time.Duration `json:"duration_ns"` // duration of each scenario
	// transfers signed in advance, per second of each scenario that submits
	Signed float64 `json:"signed"`
	// Rate is the total number of requests per second in submit scenarios. 0: as many as the
	// connections allow.
	Rate float64 `json:"rate"`
	// KeyFile signs transfers for a node that was not started here. Without it, only reads are
	// measured on such a node.
	KeyFile    *primitives.KeyFile             `json:"-"`
	Commit     string                          `json:"-"`
	Dir        string                          `json:"-"`
	CPUProfile io.Writer                       `json:"-"`
	Progress   func(part float64, what string) `json:"-"`
}

// scenario is one kind of load on the RPC.
type scenario struct {
	name   string
	target float64 // target in requests per second; 0: none
	p50    float64 // target of the median latency in seconds; 0: none
	p99    float64
	writes bool // the scenario needs signed transfers
	token  bool // the scenario needs a NEP-141 token contract
	run    func(l *rpcLoad, ctx context.Context, r *RPCResult) error
}

// scenarios lists all scenarios in the order in which the scenarios run.
var scenarios = []scenario{
	{name: "view_account", target: 60_000, p99: 10e-3, run: (*rpcLoad).viewAccount},
	{name: "call_empty", token: true, run: (*rpcLoad).callEmpty},
	{name: "call_read", token: true, run: (*rpcLoad).callRead},
	{name: "ft_balance_of", target: 25_000, p99: 10e-3, token: true, run: (*rpcLoad).balanceOf},
	{name: "block", target: 50_000, run: reads(`"block","params":{"finality":"final"}`)},
	{name: "status", target: 50_000, run: reads(`"status","params":[]`)},
	{name: "submit", target: 10_000, writes: true, run: (*rpcLoad).submitAsync},
	{name: "final", p50: 2e-3, p99: 10e-3, writes: true, run: (*rpcLoad).submitFinal},
}

// RPCScenarios returns the names of all scenarios.
func RPCScenarios() (names []string) {
	for i := range scenarios {
		names = append(names, scenarios[i].name)
	}
	return names
}

func (o *RPCOptions) check() error {
	for _, s := range o.Scenarios {
		if !slices.Contains(RPCScenarios(), s) {
			return fmt.Errorf("bench: the scenario %q is unknown, must be one of %s", s, strings.Join(RPCScenarios(), ", "))
		}
	}
	if o.State != "" {
		at, err := readState(o.State)
		if err != nil {
			return err
		}
		o.Accounts = at.Accounts
	}
	switch {
	case o.Connections < 1 || o.Connections > 16_384:
		return fmt.Errorf("bench: the number of connections is %d, must be 1 to 16,384", o.Connections)
	case o.URL == "" && (o.Accounts < o.Connections || o.Accounts > 10_000_000 && o.State == ""):
		return fmt.Errorf("bench: the number of accounts is %d, must be at least the number of connections and at most 10,000,000", o.Accounts)
	case o.Duration <= 0 || o.Background < 0 || o.Rate < 0 || o.Rate == 0 && o.Signed <= 0:
		return errors.New("bench: duration and signed transfers must be positive; rate and background must not be negative")
	}
	if o.Rate > 0 {
		o.Signed = o.Rate
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	return nil
}

// rpcLoad is the state of one RunRPC.
type rpcLoad struct {
	o    *RPCOptions
	node *fullNode // nil: the node runs in another process
	addr string
	// signed returns signed transfer i of a lane. The transfers of a lane must be submitted in
	// order.
	lanes  int
	next   []int // by worker: number of its next transfer
	signed func(lane, i int) *primitives.SignedTransaction
	view   func(i uint64) primitives.AccountID // returns the i-th account to query
	// account of the token contract in which the accounts have balances; empty: none
	token primitives.AccountID
}

// RunRPC measures a node's JSON-RPC over HTTP, one scenario after another.
func RunRPC(ctx context.Context, o RPCOptions) (_ *RPCReport, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &RPCReport{Command: "bench rpc", Time: time.Now().UTC().Format(time.RFC3339), Commit: o.Commit, Machine: ThisMachine()}
	o.Progress(0, "machine limits")
	if r.Limits, err = MeasureLimits(o.Dir); err != nil {
		return nil, err
	}
	l := &rpcLoad{o: &o}
	if o.URL != "" {
		err = l.remote(ctx)
	} else {
		var dir string
		if dir, err = os.MkdirTemp(o.Dir, "troupe-bench-*"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		defer debug.SetGCPercent(debug.SetGCPercent(daemon.GCPercent))
		o.Progress(0, "accounts")
		if err = l.local(dir); err == nil {
			defer func() { err = errors.Join(err, l.node.stop()) }()
		}
	}
	if err != nil {
		return nil, err
	}
	r.Options = o
	if o.CPUProfile != nil {
		if err := pprof.StartCPUProfile(o.CPUProfile); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	for i := range scenarios {
		s := &scenarios[i]
		if len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, s.name) || s.writes && l.signed == nil || s.token && l.token == "" {
			continue
		}
		x := RPCResult{Scenario: s.name, Target: s.target, TargetP50: s.p50, TargetP99: s.p99}
		if err := l.scenario(ctx, s, &x); err != nil {
			return nil, fmt.Errorf("bench: scenario %s: %w", s.name, err)
		}
		x.finish(&r.Limits)
		r.Results = append(r.Results, x)
	}
	return r, nil
}

// local starts a node in this process.
func (l *rpcLoad) local(dir string) (err error) {
	if l.o.State != "" {
		if l.node, err = reopenState(l.o.State, l.o.Memory, "127.0.0.1:0", nil); err != nil {
			return err
		}
		n := l.node
		l.addr, l.view = n.Addr.String(), func(i uint64) primitives.AccountID { return n.account(scatter(i)) }
		return nil
	}
	if l.node, err = startNode(dir, l.o.Accounts, 1, "127.0.0.1:0", nil); err != nil {
		return err
	}
	n := l.node
	l.addr, l.lanes, l.next = n.Addr.String(), n.accounts, make([]int, n.accounts)
	l.signed = func(lane, i int) *primitives.SignedTransaction {
		return n.transfer(lane, int(scatter(uint64(i)<<32|uint64(lane))%uint64(n.accounts)), primitives.Nonce(i+1))
	}
	l.view = func(i uint64) primitives.AccountID { return n.account(scatter(i)) }
	l.token = n.token()
	return nil
}

// scenario runs one scenario, with background transfers.
func (l *rpcLoad) scenario(ctx context.Context, s *scenario, r *RPCResult) error {
	l.o.Progress(0, s.name)
	runtime.GC()
	from, err := l.height()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*l.o.Duration+time.Minute)
	defer cancel()
	background := make(chan error, 1)
	stop := make(chan struct{})
	if l.signed != nil && !s.writes {
		go func() { background <- l.background(stop) }()
	} else {
		close(background)
	}
	cpu, start := cpuTime(), time.Now()
	err = s.run(l, ctx, r)
	took := time.Since(start)
	r.CPUSeconds = (cpuTime() - cpu).Seconds()
	close(stop)
	if err = errors.Join(err, <-background); err != nil {
		return err
	}
	to, err := l.height()
	r.BlocksPerSecond = float64(to-from) / took.Seconds()
	return err
}

// background submits transfers at a steady rate in lane 0, one at a time.
func (l *rpcLoad) background(stop <-chan struct{}) error {
	if l.o.Background == 0 {
		return nil
	}
	c := newClient(l.addr)
	defer c.close()
	tick := time.NewTicker(time.Duration(float64(time.Second) / l.o.Background))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		if err := c.call(submitBody(nil, "broadcast_tx_async", l.take(0), "")); err != nil {
			return fmt.Errorf("submit background transfers: %w", err)
		}
	}
}

// take returns the next signed transfer of a lane.
func (l *rpcLoad) take(lane int) *primitives.SignedTransaction {
	l.next[lane]++
	return l.signed(lane, l.next[lane]-1)
}

// all calls do on every connection until the time is over, and collects latencies. rate is the
// total rate of all connections; 0: each connection sends as fast as it gets replies. With a rate,
// the latency is measured from the due time of a request. The arguments of do are the connection,
// the connection's number, and a counter.
func (l *rpcLoad) all(ctx context.Context, connections int, rate float64, r *RPCResult,
	do func(c *client, lane int, i uint64) (more bool, err error)) error {
	took := make([][]int64, connections)
	errs := make([]error, connections)
	var failed atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	for k := range connections {
		wg.Go(func() {
			c := newClient(l.addr)
			defer c.close()
			list := make([]int64, 0, 1<<14)
			for i := uint64(0); !failed.Load() && ctx.Err() == nil; i++ {
				begin := time.Now()
				if rate > 0 {
					due := start.Add(time.Duration((float64(i)*float64(connections) + float64(k)) / rate * float64(time.Second)))
					time.Sleep(due.Sub(begin))
					begin = due
				}
				if begin.Sub(start) > l.o.Duration {
					break
				}
				more, err := do(c, k, i)
				if err != nil {
					errs[k] = err
					failed.Store(true)
					break
				}
				if !more {
					break
				}
				list = append(list, int64(time.Since(begin)))
			}
			took[k] = list
		})
	}
	wg.Wait()
	r.Seconds = time.Since(start).Seconds()
	r.Connections = connections
	r.latencies(slices.Concat(took...))
	return errors.Join(errors.Join(errs...), ctx.Err())
}

// reads returns a scenario that repeats the same request.
func reads(call string) func(*rpcLoad, context.Context, *RPCResult) error {
	body := []byte(`{"jsonrpc":"2.0","id":"dontcare","method":` + call + `}`)
	return func(l *rpcLoad, ctx context.Context, r *RPCResult) error {
		return l.all(ctx, l.o.Connections, 0, r, func(c *client, _ int, _ uint64) (bool, error) { return true, c.call(body) })
	}
}

// viewAccount queries random accounts.
func (l *rpcLoad) viewAccount(ctx context.Context, r *RPCResult) error {
	return l.all(ctx, l.o.Connections, 0, r, func(c *client, k int, i uint64) (bool, error) {
		c.body = append(c.body[:0], `{"jsonrpc":"2.0","id":"dontcare","method":"query","params":{"request_type":"view_account","finality":"final","account_id":"`...)
		c.body = append(append(c.body, l.view(i*uint64(l.o.Connections)+uint64(k))...), `"}}`...)
		return true, c.call(c.body)
	})
}

// callEmpty and callRead call contract methods that do nothing or read one entry. They show the
// cost of a view call compared with a query of an account.
func (l *rpcLoad) callEmpty(ctx context.Context, r *RPCResult) error {
	return l.callPlain(ctx, r, "empty")
}
func (l *rpcLoad) callRead(ctx context.Context, r *RPCResult) error {
	return l.callPlain(ctx, r, "read")
}

func (l *rpcLoad) callPlain(ctx context.Context, r *RPCResult, method string) error {
	return reads(fmt.Sprintf(`"query","params":{"request_type":"call_function","finality":"final","account_id":%q,"method_name":%q,"args_base64":""}`,
		l.node.plain(), method))(l, ctx, r)
}

// balanceOf calls ft_balance_of of the token for random accounts.
func (l *rpcLoad) balanceOf(ctx context.Context, r *RPCResult) error {
	head := fmt.Sprintf(`{"jsonrpc":"2.0","id":"dontcare","method":"query","params":{"request_type":"call_function","finality":"final","account_id":%q,`+
		`"method_name":"ft_balance_of","args_base64":"`, l.token)
	return l.all(ctx, l.o.Connections, 0, r, func(c *client, k int, i uint64) (bool, error) {
		args := fmt.Appendf(nil, `{"account_id":%q}`, l.view(i*uint64(l.o.Connections)+uint64(k)))
		c.body = append(appendBase64(append(c.body[:0], head...), args), `"}}`...)
		if err := c.call(c.body); err != nil {
			return true, err
		}
		if !bytes.Contains(c.response.Body(), heldResult) {
			return true, fmt.Errorf("ft_balance_of returned an unexpected reply: %.300s", c.response.Body())
		}
		return true, nil
	})
}

// heldResult is the start of a correct result of ft_balance_of. The result is an array of byte
// values. The first two are a quote and the digit 1.
var heldResult = fmt.Appendf(nil, `"result":[%d,%d,`, '"', '1')

// submitAsync submits transfers that were signed in advance. Each connection submits the transfers
// of its own lanes.
func (l *rpcLoad) submitAsync(ctx context.Context, r *RPCResult) error {
	connections := min(l.o.Connections, l.lanes)
	each := int(l.o.Signed*l.o.Duration.Seconds()) / connections
	bodies := make([][][]byte, connections)
	l.o.Progress(0, "submit: signatures")
	spread(connections, func(k int) {
		lane := k
		for range each {
			bodies[k] = append(bodies[k], submitBody(nil, "broadcast_tx_async", l.take(lane), ""))
			if lane += connections; lane >= l.lanes {
				lane = k
			}
		}
	})
	before, err := l.included()
	if err != nil {
		return err
	}
	l.o.Progress(0.5, "submit")
	err = l.all(ctx, connections, l.o.Rate, r, func(c *client, k int, i uint64) (bool, error) {
		if i == uint64(each) {
			return false, nil
		}
		return true, c.call(bodies[k][i])
	})
	if err != nil {
		return err
	}
	// A reply only means that the node has received a transfer. No block includes the transfer yet,
	// and the node may drop it without notice. So wait until the number of included transfers stops
	// growing.
	last, lastAt := before, time.Now()
	for time.Since(lastAt) < time.Second {
		time.Sleep(20 * time.Millisecond)
		now, err := l.included()
		if err != nil {
			return err
		}
		if now != last {
			last, lastAt = now, time.Now()
			r.IncludedSeconds = r.Seconds + time.Since(r.end).Seconds()
		}
	}
	r.Included = last - before
	return nil
}

// submitFinal submits one transfer after another and waits until each is FINAL.
func (l *rpcLoad) submitFinal(ctx context.Context, r *RPCResult) error {
	lane := 0
	return l.all(ctx, 1, 0, r, func(c *client, _ int, _ uint64) (bool, error) {
		lane = (lane + 1) % l.lanes
		return true, c.call(submitBody(nil, "send_tx", l.take(lane), "FINAL"))
	})
}

// submitBody appends the request that submits a transaction.
func submitBody(b []byte, method string, tx *primitives.SignedTransaction, until string) []byte {
	b = append(append(append(b, `{"jsonrpc":"2.0","id":"dontcare","method":"`...), method...), `","params":`...)
	if until == "" {
		return append(appendBase64(append(b, `["`...), borsh.Marshal(tx)), `"]}`...)
	}
	b = appendBase64(append(b, `{"signed_tx_base64":"`...), borsh.Marshal(tx))
	return append(append(append(b, `","wait_until":"`...), until...), `"}}`...)
}
