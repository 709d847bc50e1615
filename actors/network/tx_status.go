package network

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/primitives/view"
)

// The bounds and times of what is asked about transactions (nearcore chain/client/src/view_client_actor.rs:78).
const (
	maxStatuses = 500              // transactions about which somebody is asked
	statusRetry = time.Second      // after which somebody is asked again
	statusKept  = 2 * time.Second  // an answer, for whoever asks next
	maxStatus   = 16 << 20         // bytes of an answer, and of those of a neighbour that wait to be looked at
	maxPendingBytes  = 64 << 20         // bytes of all that wait; of what is left a neighbour has at most as much as he leaves
	minStatusCost = maxStatus / 128  // bytes as which one counts at least
	statusOld   = 30 * time.Second // nobody waits any more
	maxAnswers  = 64 << 20         // bytes of all answers that are kept, as they came
)

// TxStatuses asks other nodes what became of transactions whose signers' shards are not held here: who makes the shard's chunks, as neard does. What they say
// is judged by the engine. It stays over the actor's restarts, and is safe from any goroutine.
type TxStatuses struct {
	e       *engine.Engine
	front   *Status
	account primitives.AccountID
	horizon primitives.Height

	mu      sync.Mutex
	asked   map[question]*openQuestion
	since   time.Time               // of when sent counts
	sent    int                     // questions
	of      map[messages.Client]int // of them, by whose they are
	waiting fair.Queue[answer]
	bytes   map[wire.PeerID]int // of answers that wait, by who has brought them
	all     int                 // of them together
	verifying bool                // somebody looks at them
}

// question is what a client asks about: whose shard is asked follows from the signer that he names.
type question struct {
	hash   primitives.Hash
	signer primitives.AccountID
}

// answer is what a neighbour has brought, of whomever it is.
type answer struct {
	from wire.PeerID
	raw  []byte
}

func (x *answer) cost() int { return max(len(x.raw), minStatusCost) }

// openQuestion is a transaction about which somebody is asked.
type openQuestion struct {
	sent   time.Time
	came   time.Time
	answer *view.FinalOutcome
	size   int           // of the answer, as it came
	news   chan struct{} // closed with the next answer
}

// NewTxStatuses returns one; account is that of this node's validator, horizon Route's.
func NewTxStatuses(e *engine.Engine, f *Status, account primitives.AccountID, horizon primitives.Height) *TxStatuses {
	if horizon == 0 {
		horizon = 4
	}
	return &TxStatuses{e: e, front: f, account: account, horizon: horizon, asked: map[question]*openQuestion{}, of: map[messages.Client]int{}, bytes: map[wire.PeerID]int{}, waiting: fair.Queue[answer]{Limit: maxPendingBytes / minStatusCost}}
}

// Foreign tells whether the shard of an account is not held here, so that others know more of its transactions.
func (s *TxStatuses) Foreign(signer primitives.AccountID) bool {
	return !s.e.Holds(s.e.Head().Layout.ShardOf(signer))
}

// Ask returns what is told of a transaction, nil: nothing yet; and what is closed when more is, nil: nobody could be asked now. If need be somebody is asked.
func (s *TxStatuses) Ask(client messages.Client, hash primitives.Hash, signer primitives.AccountID) (*view.FinalOutcome, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	q := question{hash, signer}
	a := s.asked[q]
	again := a == nil || now.Sub(a.sent) >= statusRetry
	if again = again && s.mayAsk(now, client); again && a == nil {
		s.makeRoom(now)
		a = &openQuestion{news: make(chan struct{})}
		s.asked[q] = a
	}
	if a == nil { // it takes no place from those whose answers are on their way
		return nil, nil
	}
	out := a.answer
	if now.Sub(a.came) > statusKept {
		out = nil
	}
	if again {
		a.sent = now
		s.send(hash, signer)
	}
	return out, a.news
}

// mayAsk tells whether somebody may be asked now for a client: as often as there is room for questions in the time after which one is asked again, and of what is left of that
// a client has as much as he leaves to others; the caller holds mu.
func (s *TxStatuses) mayAsk(now time.Time, client messages.Client) bool {
	if now.Sub(s.since) >= statusRetry {
		s.since, s.sent = now, 0
		clear(s.of)
	}
	if s.of[client] >= maxStatuses-s.sent {
		return false
	}
	s.sent++
	s.of[client]++
	return true
}

// makeRoom forgets what nobody asks about any more, or else what was asked first; the caller holds mu.
func (s *TxStatuses) makeRoom(now time.Time) {
	if len(s.asked) < maxStatuses {
		return
	}
	var first question
	var at time.Time
	for q, a := range s.asked {
		if now.Sub(a.sent) > statusOld {
			delete(s.asked, q)
		} else if at.IsZero() || a.sent.Before(at) {
			first, at = q, a.sent
		}
	}
	if len(s.asked) >= maxStatuses {
		delete(s.asked, first)
	}
}

// send asks who makes the chunk of the signer's shard some heights from now, so that each time it may be another; the caller holds mu.
func (s *TxStatuses) send(hash primitives.Hash, signer primitives.AccountID) {
	host := s.front.host.Load()
	if host == nil {
		return
	}
	if to := s.chunkProducer(signer); to != "" {
		host.Post(near.RouteToAccount{AccountID: to, Body: &wire.TxStatusRequest{Signer: signer, Hash: hash}})
	}
}

func (s *TxStatuses) chunkProducer(signer primitives.AccountID) (to primitives.AccountID) {
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

// addAnswer takes an answer that a neighbour has brought, if somebody was asked at all. Answers are looked at beside the caller, one at a time, neighbours in turns: who floods
// this node with such waits for himself. What is too much is dropped, and asked for again.
func (s *TxStatuses) addAnswer(from wire.PeerID, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := answer{from, raw}
	own := s.bytes[from] + x.cost()
	if len(s.asked) == 0 || len(raw) > maxStatus || own > maxStatus || own > (maxPendingBytes-s.all)/2 || !s.waiting.Push(clientOf(from), x) {
		s.front.dropped.Add(1)
		return
	}
	s.bytes[from] = own
	s.all += x.cost()
	if !s.verifying {
		s.verifying = true
		go s.verifyAll()
	}
}

// verifyAll looks at answers until none waits.
func (s *TxStatuses) verifyAll() {
	for {
		s.mu.Lock()
		x, c, ok := s.waiting.Pop()
		if !ok {
			s.verifying = false
			s.mu.Unlock()
			return
		}
		if s.bytes[x.from] -= x.cost(); s.bytes[x.from] == 0 {
			delete(s.bytes, x.from)
		}
		s.all -= x.cost()
		s.mu.Unlock()
		begun := time.Now()
		func() {
			defer s.front.recovered("an answer about a transaction")
			s.verify(x.raw)
		}()
		s.mu.Lock()
		s.waiting.Charge(c, int64(time.Since(begun)))
		s.mu.Unlock()
	}
}

// fits lets answers go that are too old for anybody, and tells whether there is room for one of a, in place of what it has; the caller holds mu.
func (s *TxStatuses) fits(a *openQuestion, size int, now time.Time) bool {
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

// verify looks at an answer, and keeps it if it is about what was asked and holds.
func (s *TxStatuses) verify(raw []byte) {
	o, err := view.ReadFinalOutcome(raw)
	if err != nil {
		s.front.dropped.Add(1)
		return
	}
	if len(s.asking(o.Outcome.ID)) == 0 {
		s.front.dropped.Add(1)
		return
	}
	if err := s.e.RemoteStatus(o, o.Outcome.ID); err != nil {
		s.front.dropped.Add(1)
		if s.front.Log != nil {
			s.front.Log.WithError(err).Debug("network: an answer about a transaction is not taken")
		}
		return
	}
	now := time.Now()
	for _, a := range s.asking(o.Outcome.ID) {
		s.keep(a, o, len(raw), now)
	}
}

// openQuestion lists who is asked about a transaction: of several signers, if clients name such.
func (s *TxStatuses) asking(hash primitives.Hash) (out []*openQuestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q, a := range s.asked {
		if q.hash == hash {
			out = append(out, a)
		}
	}
	return out
}

// keep keeps what holds, unless more was told just before.
func (s *TxStatuses) keep(a *openQuestion, o *view.FinalOutcome, size int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.answer != nil && now.Sub(a.came) <= statusKept && a.answer.Level > o.Level {
		return
	}
	if !s.fits(a, size, now) {
		s.front.dropped.Add(1)
		return
	}
	a.answer, a.size, a.came = o, size, now
	close(a.news)
	a.news = make(chan struct{})
}
