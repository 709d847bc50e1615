package bandwidth

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
)

// Status is the state of a shard according to the chunk headers of a block.
type Status struct {
	Shard primitives.ShardID
	// Missing is set if the block has no new chunk of the shard. The shard then sends no receipts,
	// and has not received the receipts that were sent to the shard.
	Missing        bool
	FullyCongested bool
	AllowedSender  primitives.ShardID // the only shard that may send to Shard while FullyCongested
}

// NewStatus derives the status of a shard from its chunk header in the block.
func NewStatus(shard primitives.ShardID, c *congestion.Control) Status {
	return Status{
		Shard: shard, Missing: c.Missed > 0,
		FullyCongested: c.FullyCongested(), AllowedSender: primitives.ShardID(c.Info.AllowedShard),
	}
}

// SenderRequests are the requests in the header of one shard's chunk, in the order of the header.
type SenderRequests struct {
	Shard    primitives.ShardID
	Requests []primitives.BandwidthRequest
}

// Input is everything that a schedule depends on, except for the State. Statuses and Requests of
// shards outside of the layout are ignored.
type Input struct {
	Params   Params
	Shards   []primitives.ShardID // all shards of the layout, in the order of the layout; at least one
	Statuses []Status             // a shard without a Status receives nothing
	// Requests are the requests in the headers of all chunks in the block, including the old
	// headers of missing chunks. The senders may be in any order. Each sender has at most one
	// entry.
	Requests []SenderRequests
	Seed     primitives.Hash // prev_block_hash: breaks ties
}

// Grants holds the number of bytes that each shard may send to each shard in this chunk.
type Grants struct {
	shards []primitives.ShardID
	bytes  []uint64 // granted bytes by link, at sender index · n + receiver index
}

// Get returns the grant from sender to receiver; 0 for shards outside of the layout.
func (g *Grants) Get(sender, receiver primitives.ShardID) uint64 {
	s, r := slices.Index(g.shards, sender), slices.Index(g.shards, receiver)
	if s < 0 || r < 0 {
		return 0
	}
	return g.bytes[s*len(g.shards)+r]
}

// scheduler is the state of one run. Links are numbered sender index · n + receiver index.
type scheduler struct {
	params        Params
	n             int
	open          []bool   // links that may get grants
	allowances    []uint64 // unused allowance in bytes, by link
	granted       []uint64 // bytes granted so far, by link
	sendBudget    []uint64 // remaining bytes by sender
	receiveBudget []uint64 // remaining bytes by receiver
	values        [NumValues]uint64
	queue         []request // a heap in the order of request.before
	queued        uint64
	batch         []request
	rng           *primitives.ChaChaRng
}

// request is the request of one link. total is the number of bytes that the link has been granted
// so far. bitmap selects the values that were not tried yet.
type request struct {
	link      int
	total     uint64
	bitmap    uint64
	allowance uint64 // allowance of the link when the request was queued
	order     uint64 // number of requests that were queued before this request
}

// Schedule runs the scheduler for one height (nearcore BandwidthScheduler::run and mod.rs:45). It
// returns the grants and the state that follows prev. A shard whose chunk is missing runs the
// scheduler too. Schedule neither keeps nor changes in and prev.
func Schedule(prev *State, in *Input) (State, Grants) {
	n := len(in.Shards)
	s := &scheduler{
		params: in.Params, n: n, values: in.Params.Values(),
		open: make([]bool, n*n), allowances: make([]uint64, n*n), granted: make([]uint64, n*n),
		sendBudget: slices.Repeat([]uint64{in.Params.MaxShard}, n), receiveBudget: slices.Repeat([]uint64{in.Params.MaxShard}, n),
	}
	for _, l := range prev.Links {
		if from, to := slices.Index(in.Shards, l.Sender), slices.Index(in.Shards, l.Receiver); from >= 0 && to >= 0 {
			s.allowances[from*n+to] = l.Allowance
		}
	}
	s.openLinks(in)
	fair := in.Params.MaxShard / uint64(n)
	for link := range s.allowances {
		sum, carry := bits.Add64(s.allowances[link], fair, 0)
		if carry != 0 || sum > in.Params.MaxAllowance {
			sum = in.Params.MaxAllowance
		}
		s.allowances[link] = sum
	}
	for link := range s.granted {
		s.tryGrant(link, in.Params.Base)
	}
	s.enqueue(in)
	if len(s.queue) > 0 {
		s.rng = primitives.NewChaCha20Rng(in.Seed)
		s.grantRequests()
	}
	s.distributeRemaining()

	next := State{Links: make([]LinkAllowance, n*n), SanityCheck: nextSanityCheck(prev.SanityCheck, in.Shards)}
	for link := range next.Links {
		next.Links[link] = LinkAllowance{in.Shards[link/n], in.Shards[link%n], s.allowances[link]}
	}
	return next, Grants{shards: slices.Clone(in.Shards), bytes: s.granted}
}

// openLinks decides which links may carry receipts. All links to and from a shard that missed its
// chunk are closed. The links to a fully congested shard are closed, except the link from its
// allowed sender.
func (s *scheduler) openLinks(in *Input) {
	byIndex := make([]*Status, s.n)
	for i := range in.Statuses {
		if at := slices.Index(in.Shards, in.Statuses[i].Shard); at >= 0 {
			byIndex[at] = &in.Statuses[i]
		}
	}
	for from := range s.n {
		if st := byIndex[from]; st != nil && st.Missing {
			continue
		}
		for to := range s.n {
			st := byIndex[to]
			s.open[from*s.n+to] = st != nil && !st.Missing && (!st.FullyCongested || st.AllowedSender == in.Shards[from])
		}
	}
}

// tryGrant grants bytes on a link if the link is open and each of its two ends has at least that
// budget left.
func (s *scheduler) tryGrant(link int, bytes uint64) bool {
	send, receive := &s.sendBudget[link/s.n], &s.receiveBudget[link%s.n]
	if !s.open[link] || *send < bytes || *receive < bytes {
		return false
	}
	*send -= bytes
	*receive -= bytes
	s.allowances[link] -= min(bytes, s.allowances[link])
	s.granted[link] += bytes // cannot overflow: at most MaxShard
	return true
}

// enqueue queues the requests. Senders are queued by ascending id, as in nearcore's map, and the
// requests of one sender in their order.
func (s *scheduler) enqueue(in *Input) {
	senders := slices.Clone(in.Requests)
	slices.SortStableFunc(senders, func(a, b SenderRequests) int { return cmp.Compare(a.Shard, b.Shard) })
	for i := range senders {
		from := slices.Index(in.Shards, senders[i].Shard)
		if from < 0 {
			continue
		}
		for _, r := range senders[i].Requests {
			to := slices.Index(in.Shards, primitives.ShardID(r.ToShard))
			if to < 0 {
				continue
			}
			q := request{link: from*s.n + to, total: s.params.Base}
			for i, b := range r.Bitmap {
				q.bitmap |= uint64(b) << (8 * i)
			}
			if s.settle(&q) {
				s.push(q)
			}
		}
	}
}

// settle removes from q.bitmap the values that are at most q.total. settle returns false if no
// value is left.
func (s *scheduler) settle(q *request) bool {
	for q.bitmap != 0 && s.values[bits.TrailingZeros64(q.bitmap)] <= q.total {
		q.bitmap &= q.bitmap - 1
	}
	return q.bitmap != 0
}

// grantRequests grants requests in rounds. A round takes the requests whose links have the greatest
// allowance and shuffles them. The round raises each grant to the next value of the request's
// bitmap, and queues the request again. If the value exceeds a budget, the request is dropped.
func (s *scheduler) grantRequests() {
	for len(s.queue) > 0 {
		top := s.queue[0].allowance
		s.batch = s.batch[:0]
		for len(s.queue) > 0 && s.queue[0].allowance == top {
			s.batch = append(s.batch, s.pop()) // the shuffle needs the requests in the order of queueing
		}
		primitives.Shuffle(s.rng, s.batch)
		for _, q := range s.batch {
			value := s.values[bits.TrailingZeros64(q.bitmap)]
			if !s.tryGrant(q.link, value-q.total) {
				continue
			}
			q.total = value
			if s.settle(&q) {
				s.push(q)
			}
		}
	}
}

// before returns whether q is served before o: the greater allowance first, then the lower order.
func (q *request) before(o *request) bool {
	if q.allowance != o.allowance {
		return q.allowance > o.allowance
	}
	return q.order < o.order
}

// push queues q with the current allowance of its link.
func (s *scheduler) push(q request) {
	q.allowance, q.order = s.allowances[q.link], s.queued
	s.queued++
	s.queue = append(s.queue, q)
	h := s.queue
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// pop removes and returns the first request.
func (s *scheduler) pop() request {
	h := s.queue
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	s.queue = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return first
		}
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			return first
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
