package network

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// The bounds and times of what is asked about transactions (nearcore chain/client/src/view_client_actor.rs:78).
const (
	maxStatuses  = 500              // transactions about which somebody is asked
	statusAgain  = time.Second      // after which somebody is asked again
	statusKept   = 2 * time.Second  // an answer, for whoever asks next
	statusJudged = 2                // answers that are looked at at once
	maxStatus    = 16 << 20         // bytes of an answer
	statusOld    = 30 * time.Second // nobody waits any more
	maxAnswers   = 64 << 20         // bytes of all answers that are kept, as they came
)

// Statuses asks other nodes what became of transactions whose signers' shards are not held here: who makes the shard's chunks, as neard does. What they say
// is judged by the engine. It stays over the actor's restarts, and is safe from any goroutine.
type Statuses struct {
	e       *engine.Engine
	front   *Front
	account primitives.AccountID
	horizon primitives.Height

	judging chan struct{} // has who looks at an answer

	mu    sync.Mutex
	asked map[primitives.Hash]*asking
}

// asking is a transaction about which somebody is asked.
type asking struct {
	signer primitives.AccountID
	sent   time.Time
	came   time.Time
	answer *view.FinalOutcome
	size   int           // of the answer, as it came
	news   chan struct{} // closed with the next answer
}

// NewStatuses returns one; account is that of this node's validator, horizon Route's.
func NewStatuses(e *engine.Engine, f *Front, account primitives.AccountID, horizon primitives.Height) *Statuses {
	if horizon == 0 {
		horizon = 4
	}
	return &Statuses{e: e, front: f, account: account, horizon: horizon, judging: make(chan struct{}, statusJudged), asked: map[primitives.Hash]*asking{}}
}

// Foreign tells whether the shard of an account is not held here, so that others know more of its transactions.
func (s *Statuses) Foreign(signer primitives.AccountID) bool {
	return !s.e.Holds(s.e.Head().Layout.ShardOf(signer))
}

// Ask returns what is told of a transaction, nil: nothing yet; and what is closed when more is. If need be somebody is asked.
func (s *Statuses) Ask(hash primitives.Hash, signer primitives.AccountID) (*view.FinalOutcome, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	a := s.asked[hash]
	if a == nil || a.signer != signer {
		s.room(now)
		a = &asking{signer: signer, news: make(chan struct{})}
		s.asked[hash] = a
	}
	out := a.answer
	if now.Sub(a.came) > statusKept {
		out = nil
	}
	if now.Sub(a.sent) >= statusAgain {
		a.sent = now
		s.send(hash, signer)
	}
	return out, a.news
}

// room forgets what nobody asks about any more, or else what was asked first; the caller holds mu.
func (s *Statuses) room(now time.Time) {
	if len(s.asked) < maxStatuses {
		return
	}
	var first primitives.Hash
	var at time.Time
	for hash, a := range s.asked {
		if now.Sub(a.sent) > statusOld {
			delete(s.asked, hash)
		} else if at.IsZero() || a.sent.Before(at) {
			first, at = hash, a.sent
		}
	}
	if len(s.asked) >= maxStatuses {
		delete(s.asked, first)
	}
}

// send asks who makes the chunk of the signer's shard some heights from now, so that each time it may be another; the caller holds mu.
func (s *Statuses) send(hash primitives.Hash, signer primitives.AccountID) {
	host := s.front.host.Load()
	if host == nil {
		return
	}
	if to := s.maker(signer); to != "" {
		host.Post(near.RouteToAccount{AccountID: to, Body: &wire.TxStatusRequest{Signer: signer, Hash: hash}})
	}
}

func (s *Statuses) maker(signer primitives.AccountID) (to primitives.AccountID) {
	head := s.e.Head()
	_ = s.e.Epochs(func(m *epoch.Manager) error { // nobody, of an epoch that is not known
		id := head.Header().EpochID
		layout, err := m.ShardLayout(id)
		if err != nil {
			return err
		}
		for d := range s.horizon { // this node does not know, though it may make chunks of it next
			v, err := m.ChunkProducer(id, layout.ShardOf(signer), head.Height()+s.horizon-1+d)
			if err != nil {
				return err
			}
			if to = v.AccountID; to != s.account {
				return nil
			}
		}
		to = ""
		return nil
	})
	return to
}

// took takes an answer if somebody was asked at all. It is looked at beside the caller; what is too much is dropped, and asked for again.
func (s *Statuses) took(raw []byte) {
	s.mu.Lock()
	none := len(s.asked) == 0
	s.mu.Unlock()
	if none || len(raw) > maxStatus {
		s.front.dropped.Add(1)
		return
	}
	select {
	case s.judging <- struct{}{}:
	default:
		s.front.dropped.Add(1)
		return
	}
	go func() {
		defer func() { <-s.judging }()
		defer s.front.recovered("an answer about a transaction")
		s.judge(raw)
	}()
}

// fits lets answers go that are too old for anybody, and tells whether there is room for one of a, in place of what it has; the caller holds mu.
func (s *Statuses) fits(a *asking, size int, now time.Time) bool {
	for _, x := range s.asked {
		if now.Sub(x.came) > statusKept {
			x.answer, x.size = nil, 0
		}
		if x != a {
			size += x.size
		}
	}
	return size <= maxAnswers
}

// judge looks at an answer, and keeps it if it is about what was asked and holds.
func (s *Statuses) judge(raw []byte) {
	o, err := view.ReadFinalOutcome(raw)
	if err != nil {
		s.front.dropped.Add(1)
		return
	}
	s.mu.Lock()
	a := s.asked[o.Outcome.ID]
	s.mu.Unlock()
	if a == nil {
		s.front.dropped.Add(1)
		return
	}
	if err := s.e.Told(o, o.Outcome.ID, a.signer); err != nil {
		s.front.dropped.Add(1)
		if s.front.Log != nil {
			s.front.Log.WithError(err).Debug("network: an answer about a transaction is not taken")
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[o.Outcome.ID] != a || a.answer != nil && time.Since(a.came) <= statusKept && a.answer.Level > o.Level {
		return
	}
	if !s.fits(a, len(raw), time.Now()) {
		s.front.dropped.Add(1)
		return
	}
	a.answer, a.size, a.came = o, len(raw), time.Now()
	close(a.news)
	a.news = make(chan struct{})
}
