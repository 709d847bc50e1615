package daemon

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// lag returns the age of the replica's data as far as it is known. behind is the number of messages
// of the stream that the replica has not stored yet.
func (r *replica) lag() (lag time.Duration, behind uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if f := r.follower; f != nil {
		behind = f.Behind()
	}
	behind += uint64(len(r.inFlight))
	if len(r.inFlight) > 0 {
		lag = time.Duration(now.UnixNano() - r.inFlight[0].r.Published)
	}
	if !r.gapAt.IsZero() {
		lag = max(lag, now.Sub(r.gapAt))
	}
	switch {
	case !r.cutAt.IsZero():
		lag = max(lag, now.Sub(r.cutAt))
	case behind == 0:
		r.caught = true
	}
	return max(lag, 0), behind
}

// Syncing implements backend.Network. Syncing returns true if the lag exceeds its limit, or if the
// replica has not caught up yet.
func (r *replica) Syncing() (bool, primitives.Height) {
	lag, behind := r.lag()
	r.mu.Lock()
	defer r.mu.Unlock()
	return lag > r.maxLag || r.cursor.Lost || behind > 0 && !r.caught || !r.caught && !r.cutAt.IsZero(), r.seen
}

// Lag implements backend.Lagging.
func (r *replica) Lag() *view.Replica {
	lag, behind := r.lag()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &view.Replica{Connected: r.cutAt.IsZero(), Behind: behind, LagMS: uint64(lag.Milliseconds())}
}

// Info implements backend.Network: there are no peers.
func (r *replica) Info() *view.NetworkInfo { return &view.NetworkInfo{PeerMaxCount: 40} }

// lagBounds are the upper bounds of the histogram in ms.
var lagBounds = [...]int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000}

// lagCounts is a histogram of the time from a record's publication to its storage on this node.
type lagCounts struct {
	counts [len(lagBounds) + 1]atomic.Uint64
	sum    atomic.Int64 // sum of all times in ns
}

func (l *lagCounts) add(d time.Duration) {
	i := 0
	for i < len(lagBounds) && d > time.Duration(lagBounds[i])*time.Millisecond {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *lagCounts) append(b []byte) []byte {
	const name = "troupe_replica_record_seconds"
	b = append(b, "# HELP "+name+" Time from the publication of a record to its storage by this node, by both "+
		"machines' clocks\n# TYPE "+name+" histogram\n"...)
	var sum uint64
	for i := range l.counts {
		sum += l.counts[i].Load()
		le := "+Inf"
		if i < len(lagBounds) {
			le = strconv.FormatFloat(float64(lagBounds[i])/1000, 'g', -1, 64)
		}
		b = append(b, name+`_bucket{le="`+le+`"} `...)
		b = append(strconv.AppendUint(b, sum, 10), '\n')
	}
	b = append(b, name+"_sum "...)
	b = append(strconv.AppendFloat(b, time.Duration(l.sum.Load()).Seconds(), 'g', -1, 64), '\n')
	b = append(b, name+"_count "...)
	return append(strconv.AppendUint(b, sum, 10), '\n')
}

// metrics appends the replica's metrics.
func (r *replica) metrics(b []byte) []byte {
	lag, behind := r.lag()
	r.mu.Lock()
	connected := 0.
	if r.cutAt.IsZero() {
		connected = 1
	}
	r.mu.Unlock()
	b = appendMetric(b, "gauge", "troupe_replica_connected", "1 while the replica is connected to the writer's records", connected)
	b = appendMetric(b, "gauge", "troupe_replica_behind", "Messages of the writer's stream that the replica has not stored", float64(behind))
	b = appendMetric(b, "gauge", "troupe_replica_lag_seconds", "Age of the replica's data relative to the newest known record", lag.Seconds())
	b = appendMetric(b, "counter", "troupe_replica_records", "Records that the replica has stored", float64(r.records.Load()))
	b = appendMetric(b, "counter", "troupe_replica_records_refused", "Damaged records that were refused", float64(r.changed.Load()))
	b = appendMetric(b, "counter", "troupe_replica_transactions_passed",
		"Transactions of clients that the writer accepted", float64(r.passer.passed.Load()))
	b = appendMetric(b, "counter", "troupe_replica_transactions_refused",
		"Transactions of clients that the writer refused", float64(r.passer.refused.Load()))
	b = appendMetric(b, "counter", "troupe_replica_transactions_lost",
		"Transactions of clients that did not reach the writer", float64(r.passer.lost.Load()))
	return r.lags.append(b)
}

// metrics appends the writer's metrics.
func (p *publishing) metrics(b []byte) []byte {
	s := p.publisher.Published()
	failing := 0.
	if s.Failing {
		failing = 1
	}
	if p.blocks != nil {
		told := p.blocks.Published()
		failing := 0.
		if told.Failing {
			failing = 1
		}
		b = appendMetric(b, "gauge", "troupe_jetstream_blocks_failing", "1 while publishing to the indexers' stream fails", failing)
		b = appendMetric(b, "counter", "troupe_jetstream_blocks", "Blocks published for indexers", float64(told.Records))
		b = appendMetric(b, "gauge", "troupe_jetstream_blocks_height", "Height of the last block published for indexers", float64(told.Height))
	}
	b = appendMetric(b, "gauge", "troupe_jetstream_failing", "1 while publishing records fails", failing)
	b = appendMetric(b, "gauge", "troupe_jetstream_height", "Height of the last published block", float64(s.Height))
	b = appendMetric(b, "counter", "troupe_jetstream_records", "Records published", float64(s.Records))
	b = appendMetric(b, "counter", "troupe_jetstream_bytes", "Bytes of records published", float64(s.Bytes))
	return appendMetric(b, "counter", "troupe_jetstream_begun_anew",
		"How often the stream was emptied because it belonged to another log", float64(s.Begun))
}

// Bounds of forwarded transactions.
const (
	maxPassing  = 20_000
	passWorkers = 16
	passTries   = 3
	passTimeout = 3 * time.Second
	passPause   = time.Second
)

// passer forwards transactions of clients to the writer.
type passer struct {
	asker *jetstream.Asker
	log   *logrus.Logger
	queue chan *primitives.SignedTransaction
	// The passer calls refuse for a transaction that does not reach the writer's pool. refuse
	// removes the transaction from this node's pool, and gives the error to the transaction's
	// waiters.
	refuse func(tx *primitives.SignedTransaction, why error)

	mu  sync.Mutex
	out map[primitives.Hash]bool // hashes of forwarded transactions that no block known to this node includes

	passed, refused, lost atomic.Uint64
}

func newPasser(a *jetstream.Asker, log *logrus.Logger) *passer {
	return &passer{asker: a, log: log, queue: make(chan *primitives.SignedTransaction, maxPassing), out: map[primitives.Hash]bool{}}
}

// pass forwards a transaction of this node's pool. pass does not block.
func (p *passer) pass(m messages.TransactionPooled) {
	tx := m.Tx
	hash := tx.Hash()
	p.mu.Lock()
	known, full := p.out[hash], len(p.out) >= maxPassing
	if !full {
		p.out[hash] = true
	}
	p.mu.Unlock()
	if known {
		return
	}
	if !full {
		select {
		case p.queue <- tx:
			return
		default:
			p.forget(hash)
		}
	}
	p.lost.Add(1)
	p.refuse(tx, errPassing)
}

// errPassing rejects a transaction while maxPassing transactions are being forwarded.
var errPassing = &view.LookupError{Kind: view.ErrNoRoom,
	Reason: fmt.Sprintf("%d transactions are being forwarded to the writer; retry later", maxPassing)}

func (p *passer) forget(hash primitives.Hash) {
	p.mu.Lock()
	delete(p.out, hash)
	p.mu.Unlock()
}

func (p *passer) waits(hash primitives.Hash) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out[hash]
}

func (p *passer) run(ctx context.Context) {
	for range passWorkers {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case tx := <-p.queue:
					p.one(ctx, tx)
				}
			}
		}()
	}
}

// one forwards one transaction, and retries until a block contains the transaction.
func (p *passer) one(ctx context.Context, tx *primitives.SignedTransaction) {
	hash := tx.Hash()
	defer p.forget(hash)
	for try := range passTries {
		ask, cancel := context.WithTimeout(ctx, passTimeout)
		err := p.asker.Submit(ask, tx)
		cancel()
		switch {
		case err == nil:
			p.passed.Add(1)
			return
		case errors.Is(err, jetstream.ErrRefused):
			p.refused.Add(1)
			p.log.WithError(err).WithField("tx", hash).Debug("the writer refused a forwarded transaction")
			p.refuse(tx, err)
			return
		}
		if !p.waits(hash) || ctx.Err() != nil {
			return
		}
		if try == passTries-1 {
			p.lost.Add(1)
			p.log.WithError(err).WithField("tx", hash).Warn("a transaction did not reach the writer")
			p.refuse(tx, fmt.Errorf("it did not reach the writer: %w", err))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(passPause << try):
		}
	}
}

// included stops forwarding transactions that a block contains.
func (r *replica) included(m *messages.BlockAccepted) {
	p := r.passer
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) == 0 {
		return
	}
	for i := range m.Shards {
		if c := m.Shards[i].Chunk; c != nil {
			for _, tx := range c.Transactions {
				delete(p.out, tx.Hash())
			}
		}
	}
}
