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

// Limits of requests to peers about transactions (nearcore
// chain/client/src/view_client_actor.rs:78).
const (
	maxStatuses     = 500              // maximum number of open questions
	statusRetry     = time.Second      // time until a question is sent again
	statusKept      = 2 * time.Second  // time for which an answer is reused
	maxStatus       = 16 << 20         // maximum bytes of one answer, and of one peer's unverified answers
	maxPendingBytes = 64 << 20         // maximum bytes of all unverified answers; one peer may use half of the rest
	minStatusCost   = maxStatus / 128  // minimum number of bytes that an answer counts
	statusOld       = 30 * time.Second // age at which a question is removed
	maxAnswers      = 64 << 20         // maximum bytes of all stored answers
)

// TxStatuses requests the status of transactions from other nodes, if this node does not track the
// signer's shard. As in neard, the requests go to chunk producers of that shard. The engine
// verifies the answers. TxStatuses survives restarts of the actor. Safe for concurrent use.
type TxStatuses struct {
	e       *engine.Engine
	front   *Status
	account primitives.AccountID
	horizon primitives.Height

	mu        sync.Mutex
	asked     map[question]*openQuestion
	since     time.Time               // start of the current period of length statusRetry
	sent      int                     // number of questions sent in the current period
	of        map[messages.Client]int // number of questions sent in the current period, by client
	waiting   fair.Queue[answer]
	bytes     map[wire.PeerID]int // bytes of unverified answers, by peer
	all       int                 // bytes of unverified answers of all peers
	verifying bool                // a goroutine runs verifyAll
}

// question is a client's question. The client names the signer, which determines the shard to ask.
type question struct {
	hash   primitives.Hash
	signer primitives.AccountID
}

// answer is an unverified answer that a peer has sent.
type answer struct {
	from wire.PeerID
	raw  []byte
}

func (x *answer) cost() int { return max(len(x.raw), minStatusCost) }

// openQuestion is the state of a question.
type openQuestion struct {
	sent   time.Time
	came   time.Time
	answer *view.FinalOutcome
	size   int           // size of the encoded answer in bytes
	news   chan struct{} // closed when the next answer is stored
}

// NewTxStatuses returns a TxStatuses. account is the account of this node's validator; horizon is
// Route.Horizon.
func NewTxStatuses(e *engine.Engine, f *Status, account primitives.AccountID, horizon primitives.Height) *TxStatuses {
	if horizon == 0 {
		horizon = 4
	}
	return &TxStatuses{e: e, front: f, account: account, horizon: horizon, asked: map[question]*openQuestion{},
		of: map[messages.Client]int{}, bytes: map[wire.PeerID]int{},
		waiting: fair.Queue[answer]{Limit: maxPendingBytes / minStatusCost}}
}

// Foreign returns whether this node does not track the shard of an account. In that case other
// nodes know more about the account's transactions.
func (s *TxStatuses) Foreign(signer primitives.AccountID) bool {
	return !s.e.Holds(s.e.Head().Layout.ShardOf(signer))
}

// Ask returns the known status of a transaction. If that status may be outdated, Ask also sends the
// question to a node. A nil outcome means that no answer is known yet. The channel is closed when
// the next answer is stored. A nil channel means that there was no node to ask.
func (s *TxStatuses) Ask(client messages.Client, hash primitives.Hash,
	signer primitives.AccountID) (*view.FinalOutcome, <-chan struct{}) {
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
	if a == nil { // too many questions were sent in this period, so this one is not asked
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

// mayAsk returns whether a client's question may be sent now, and counts the question. At most
// maxStatuses questions are sent in statusRetry. A client may use at most half of the questions
// that are left. The caller holds mu.
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

// makeRoom ensures that there are fewer than maxStatuses questions. makeRoom removes the expired
// questions or, if none has expired, the oldest question. The caller holds mu.
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

// send sends a question to the producer of a future chunk of the signer's shard. Repeated sends go
// to different producers. The caller holds mu.
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
	// Errors are ignored, because the producers of an unknown epoch are unknown too.
	_ = s.e.Epochs(func(m *epoch.Manager) error {
		id := head.Header().EpochID
		layout, err := m.ShardLayout(id)
		if err != nil {
			return err
		}
		// This node is skipped, even if it produces the shard's next chunk, because it does not
		// know the answer.
		for d := range s.horizon {
			v, err := m.ForecastChunkProducer(head.Hash, id, layout.ShardOf(signer), head.Height()+s.horizon-1+d)
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

// addAnswer queues a peer's answer if there are open questions. A separate goroutine verifies
// answers one at a time and fairly between peers. So a flood of answers delays only answers of the
// peer that sends it. addAnswer drops excess answers, and the questions are sent again.
func (s *TxStatuses) addAnswer(from wire.PeerID, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := answer{from, raw}
	own := s.bytes[from] + x.cost()
	if len(s.asked) == 0 || len(raw) > maxStatus || own > maxStatus || own > (maxPendingBytes-s.all)/2 ||
		!s.waiting.Push(clientOf(from), x) {
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

// verifyAll verifies queued answers until there are none.
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

// fits removes expired answers. It then returns whether there is space for an answer of the given
// size in place of the answer in a. The caller holds mu.
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

// verify verifies an answer and stores the answer for the questions about its transaction.
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
			s.front.Log.WithError(err).Debug("network: transaction status of a peer rejected")
		}
		return
	}
	now := time.Now()
	for _, a := range s.asking(o.Outcome.ID) {
		s.keep(a, o, len(raw), now)
	}
}

// asking returns the open questions about a transaction. No two of these questions have the same
// signer: clients may have named different signers for one transaction.
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

// keep stores a verified answer for a question, unless a recent answer has a higher level.
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
