package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// NodeOptions configure RunNode.
type NodeOptions struct {
	Accounts int     `json:"accounts"`
	Signers  int     `json:"signers"` // number of sending accounts; 0: all
	Skew     float64 `json:"skew"`    // exponent of the Zipf distribution of senders and receivers; 0: uniform
	Shards   int     `json:"shards"`
	Senders  int     `json:"senders"` // number of goroutines that submit
	Batch    int     `json:"batch"`   // number of transfers in one submission
	Window   int     `json:"window"`  // maximum number of submitted transfers that no block includes yet
	// Rate is the number of transfers submitted per second. 0: as many as Window allows.
	Rate     float64       `json:"rate"`
	Warm     time.Duration `json:"warm_ns"`     // duration of the warm-up
	Duration time.Duration `json:"duration_ns"` // duration of the measurement
	// number of transfers signed before the run, per second of its duration
	Signed float64 `json:"signed"`
	// folder that RunState has created, with the chain to use; empty: a new chain
	State  string `json:"state,omitempty"`
	Memory uint64 `json:"memory_bytes,omitempty"` // memory for the tries with State; 0: the node's default
	Commit string `json:"-"`
	Dir    string `json:"-"` // folder for the new chain; empty: the system's temporary folder
	// CPUProfile receives a CPU profile of the measured time. nil: no profile.
	CPUProfile io.Writer                       `json:"-"`
	Progress   func(part float64, what string) `json:"-"`
}

func (o *NodeOptions) check() error {
	if o.State != "" {
		at, err := readState(o.State)
		if err != nil {
			return err
		}
		o.Accounts, o.Shards = at.Accounts, 1
	}
	if o.Signers == 0 {
		o.Signers = o.Accounts
	}
	switch {
	case o.Accounts < 2 || o.Accounts > 10_000_000 && o.State == "":
		return fmt.Errorf("bench: the number of accounts is %d, must be 2 to 10,000,000", o.Accounts)
	case o.Senders < 1 || o.Senders > 1024:
		return fmt.Errorf("bench: the number of senders is %d, must be 1 to 1024", o.Senders)
	case o.Signers < o.Senders || o.Signers > o.Accounts:
		return fmt.Errorf("bench: the number of signers is %d, must be from %d (senders) to %d (accounts)", o.Signers, o.Senders, o.Accounts)
	case o.Skew < 0 || o.Skew > 5:
		return fmt.Errorf("bench: the skew is %v, must be 0 to 5", o.Skew)
	case o.Batch < 1 || o.Window < o.Batch*o.Senders:
		return fmt.Errorf("bench: the window is %d, must be at least %d, one batch of %d transfers for each of %d senders",
			o.Window, o.Batch*o.Senders, o.Batch, o.Senders)
	case o.Duration <= 0 || o.Warm < 0 || o.Rate < 0:
		return errors.New("bench: the duration must be positive; warm-up and rate must not be negative")
	case o.Rate == 0 && o.Signed <= 0:
		return errors.New("bench: the number of transfers to sign is 0")
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

// RunNode measures a complete node under signed transfers that are submitted in this process.
// Signatures and state are checked on admission. As in `troupe run`, chunks and blocks are
// produced, applied and synced to disk.
func RunNode(ctx context.Context, o NodeOptions) (_ *NodeReport, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &NodeReport{Command: "bench node", Time: time.Now().UTC().Format(time.RFC3339), Commit: o.Commit, Machine: ThisMachine(), Options: o}
	o.Progress(0, "machine limits")
	if r.Limits, err = MeasureLimits(o.Dir); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "troupe-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	defer debug.SetGCPercent(debug.SetGCPercent(daemon.GCPercent))
	count := int(o.Signed * (o.Warm + o.Duration).Seconds())
	p := newPlan(count, o.Accounts, o.Signers, o.Skew)
	f := newFollower(p)
	if o.State != "" {
		return r, r.onState(ctx, &o, p, f)
	}
	o.Progress(0, "accounts")
	start := time.Now()
	n, err := startNode(dir, o.Accounts, o.Shards, "", f.observe)
	if err != nil {
		return nil, err
	}
	// stop the node first: a stopped node observes no more blocks
	defer func() { err = errors.Join(err, n.stop()); close(f.blocks) }()
	r.Result.SetupSeconds = time.Since(start).Seconds()
	o.Progress(0, "signatures")
	start = time.Now()
	t := n.sign(p, func(part float64) { o.Progress(part, "signatures") })
	r.Result.SignSeconds = time.Since(start).Seconds()
	load := &nodeLoad{o: &o, n: n, p: p, t: t, f: f, r: &r.Result}
	if err := load.run(ctx); err != nil {
		return nil, err
	}
	r.finish()
	return r, nil
}

// onState measures on a stored state. onState signs all transfers before the node starts, so that
// signing does not disturb the measurement.
func (r *NodeReport) onState(ctx context.Context, o *NodeOptions, p *plan, f *follower) (err error) {
	at, err := readState(o.State)
	if err != nil {
		return err
	}
	signer := &fullNode{accounts: at.Accounts, keys: make([]primitives.SecretKey, min(someKeys, at.Accounts)),
		first: primitives.Nonce(at.Runs) * runNonces}
	spread(len(signer.keys), func(i int) { signer.keys[i] = keyOf(i) })
	p.first = signer.first
	if signer.base, err = genesisOf(o.State); err != nil {
		return err
	}
	o.Progress(0, "signatures")
	start := time.Now()
	t := signer.sign(p, func(part float64) { o.Progress(part, "signatures") })
	r.Result.SignSeconds = time.Since(start).Seconds()
	debug.FreeOSMemory()
	start = time.Now()
	n, err := reopenState(o.State, o.Memory, "", f.observe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()); close(f.blocks) }()
	r.Result.SetupSeconds = time.Since(start).Seconds()
	load := &nodeLoad{o: o, n: n, p: p, t: t, f: f, r: &r.Result}
	if err := load.run(ctx); err != nil {
		return err
	}
	r.finish()
	return nil
}

// nodeLoad is the state of one RunNode.
type nodeLoad struct {
	o *NodeOptions
	n *fullNode
	p *plan
	t *transfers
	f *follower
	r *NodeResult

	begun     time.Time
	stop      atomic.Bool
	submitted atomic.Int64 // number of accepted and refused transfers
	refused   atomic.Int64
	firstBad  atomic.Pointer[error]
}

// run submits transfers and measures.
func (l *nodeLoad) run(ctx context.Context) error {
	runtime.GC()
	l.begun = l.f.begin()
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for s := range l.o.Senders {
		wg.Go(func() { l.send(s) })
	}
	go func() { wg.Wait(); close(ended) }()
	defer func() { l.stop.Store(true); l.f.wake(); <-ended }()
	if err := l.wait(ctx, ended, l.o.Warm, "warming up"); err != nil {
		return err
	}
	if l.o.CPUProfile != nil {
		if err := pprof.StartCPUProfile(l.o.CPUProfile); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	m := startMeter(l.n)
	first := l.submitted.Load()
	l.f.measure(true)
	err := l.wait(ctx, ended, l.o.Duration, "measuring")
	l.f.measure(false)
	m.stop(l.r)
	if err != nil {
		return err
	}
	l.r.Submitted = int(l.submitted.Load() - first)
	l.r.Refused = int(l.refused.Load())
	l.r.LoadBytes = uint64(len(l.t.bytes)+8*len(l.t.ends)) + l.p.bytes() + l.f.bytes()
	l.f.report(l.r)
	if bad := l.firstBad.Load(); bad != nil {
		l.r.Refusal = (*bad).Error()
	}
	return nil
}

// wait waits for d, or until all signed transfers have been submitted.
func (l *nodeLoad) wait(ctx context.Context, ended <-chan struct{}, d time.Duration, what string) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	start, last := time.Now(), l.f.included.Load()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return nil
		case <-end.C:
			return nil
		case <-tick.C:
			now := l.f.included.Load()
			l.o.Progress(min(time.Since(start).Seconds()/d.Seconds(), 1), fmt.Sprintf("%s, %d transfers/s", what, (now-last)*4))
			last = now
		}
	}
}

// send runs in each submitting goroutine. send submits the transfers of the goroutine's signers in
// order.
func (l *nodeLoad) send(s int) {
	o := l.o
	batch := make([]*primitives.SignedTransaction, 0, o.Batch)
	for i := 0; i < l.t.len() && !l.stop.Load(); i++ {
		if int(l.p.from[i])%o.Senders != s {
			continue
		}
		if len(batch) == 0 {
			l.f.room(func() bool {
				waiting := l.submitted.Load() - l.refused.Load() - l.f.included.Load()
				return waiting <= int64(o.Window-o.Batch*o.Senders) || l.stop.Load()
			})
		}
		due := time.Since(l.begun)
		if o.Rate > 0 { // the latency begins at the due time, so that a slow node increases the latency
			at := time.Duration(float64(i) / o.Rate * float64(time.Second))
			if at > due {
				l.submit(&batch)
				time.Sleep(at - time.Since(l.begun))
			}
			due = at
		}
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(l.t.at(i), tx); err != nil {
			l.bad(err)
			return
		}
		l.f.sent[i] = int64(due)
		if batch = append(batch, tx); len(batch) == o.Batch {
			l.submit(&batch)
		}
	}
	l.submit(&batch)
}

func (l *nodeLoad) submit(batch *[]*primitives.SignedTransaction) {
	if len(*batch) == 0 {
		return
	}
	for _, err := range l.n.Node.SubmitAll(*batch) {
		if err != nil {
			l.bad(err)
		}
	}
	l.submitted.Add(int64(len(*batch)))
	*batch = (*batch)[:0]
}

func (l *nodeLoad) bad(err error) {
	l.refused.Add(1)
	l.firstBad.CompareAndSwap(nil, &err)
}
