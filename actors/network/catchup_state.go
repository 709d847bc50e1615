package network

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Shards implements engine.PartSource: Shards fetches the state and chunks of a shard that this
// node catches up. State headers and parts come from nodes that announced the sync block
// (chain/statesync). Chunks come from the validators that track the shard (chain/chunkparts).
// Shards survives restarts of the actor. Its methods block until the response arrives or the
// context ends. The methods verify responses on the caller's goroutine.
type Shards struct {
	o     ShardsOptions
	begun time.Time

	verifying chan struct{} // semaphore for verifying state parts

	lottery hostLottery

	mu     sync.Mutex // held while posting to the host, which may block
	hosts  stateHosts
	points []*syncPoint // oldest first

	fetchMu sync.Mutex                        // held only briefly, because the host's goroutines lock it
	fetches map[primitives.Hash][]*chunkFetch // running fetches by hash of the chunk
}

// ShardsOptions configure Shards.
type ShardsOptions struct {
	// Engine is the chain. Required.
	Engine *engine.Engine
	// Account is the account of this node's validator. Empty: none.
	Account primitives.AccountID
	// Self is the id of this node.
	Self wire.PeerID
	// States has the limits and timers of state sync.
	States statesync.Options
	// Random returns a number from 0 to n-1, which chooses among peers. Required.
	Random func(n int) int
	// Status is that of the network actor. Required.
	Status *Status
	// Tell sends a message to the network actor. Required.
	Tell func(any)
	// Log receives progress and failures. Required.
	Log *logrus.Logger
}

// Limits and times.
const (
	maxPoints  = 3 // maximum number of sync points with requests
	retryPause = 200 * time.Millisecond
)

// syncPoint is a block whose state is fetched, with the requests for it.
type syncPoint struct {
	// at is the hash of the block, sync the hash of its child (the sync block), and announced the
	// hash that snapshot hosts announce.
	at, sync, announced primitives.Hash
	epoch               uint64 // height of the block's epoch
	machine             *statesync.Machine
	waits               map[statesync.Item]chan stateAnswer
}

// stateAnswer is a node's response. The goroutine that waits for the response verifies it.
type stateAnswer struct {
	from wire.PeerID
	size int64 // for Status.release, once the response is verified or dropped
	*primitives.StateResponse
}

// NewShards returns a Shards that knows no nodes with state yet.
func NewShards(o ShardsOptions) *Shards {
	return &Shards{o: o, lottery: newHostLottery(o.Random), begun: time.Now(),
		verifying: make(chan struct{}, verifiers()), fetches: map[primitives.Hash][]*chunkFetch{}}
}

func (s *Shards) now() int64 { return time.Since(s.begun).Milliseconds() }

// tick updates the list of nodes that serve state, and repeats overdue requests.
func (s *Shards) tick(info *near.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = stateHostsOf(s.o.Self, info, s.lottery.draw(s.now()))
	for _, p := range s.points {
		s.step(p, statesync.Hosts{List: s.hostsOf(p)})
	}
}

// hostsOf returns the nodes that announced the state of a sync point. The caller holds mu. The
// first two epochs of a chain have the same epoch height, and peers do not propagate a second
// announcement for an epoch height. So a node that announced the first epoch's state is also asked
// for the second's.
func (s *Shards) hostsOf(p *syncPoint) []statesync.Host {
	return s.hosts.list(p.machine, func(h *wire.SnapshotHost) bool { return h.SyncHash == p.announced || h.EpochHeight == p.epoch })
}

// step steps a statesync machine and carries out its effects. The caller holds mu.
func (s *Shards) step(p *syncPoint, ev statesync.Event) {
	out := p.machine.Step(s.now(), ev)
	s.o.Status.stateRequestsEnded(out.Ended)
	host := s.o.Status.host.Load()
	if host == nil { // statesync.Machine repeats the request when it times out
		return
	}
	for _, q := range out.Ask {
		log := s.o.Log.WithField("peer", q.Peer).WithField("shard", q.Item.Shard)
		log.Debugf("network: requests a part of the state at %v: %+v",
			p.at, q.Item)
		host.Post(s.hosts.request(p.machine, q, p.sync))
	}
	for _, id := range out.Ban {
		s.o.Status.bans.Add(1)
		s.o.Log.WithField("peer", id).Infof("peer banned: %v", near.Abusive)
		host.Post(near.Ban{Peer: id, Reason: near.Abusive})
	}
}

func epochHeight(e *engine.Engine, id primitives.EpochID) (height uint64, err error) {
	err = e.Epochs(func(m *epoch.Manager) error {
		info, err := m.EpochInfo(id)
		if err == nil {
			height = info.EpochHeight
		}
		return err
	})
	return height, err
}

// findPoint returns the sync point at a block, and creates the sync point if there is none.
func (s *Shards) findPoint(at primitives.Hash) (*syncPoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.points, func(p *syncPoint) bool { return p.at == at }); i >= 0 {
		return s.points[i], nil
	}
	x, err := s.o.Engine.Block(at)
	if err != nil {
		return nil, err
	}
	child, err := s.o.Engine.Store().NextBlock(x.Height() + 1)
	if err != nil {
		return nil, err
	}
	h, err := s.o.Engine.Header(child.Hash)
	if err != nil {
		return nil, err
	}
	height, err := epochHeight(s.o.Engine, x.Header().EpochID)
	if err != nil {
		return nil, err
	}
	if h.PrevHash != at {
		return nil, fmt.Errorf("%w: block %v is not on the chain", engine.ErrUnknown, at)
	}
	p := &syncPoint{at: at, sync: child.Hash, announced: x.Header().PrevHash, epoch: height,
		machine: statesync.New(nil, s.o.States), waits: map[statesync.Item]chan stateAnswer{}}
	s.points = append(s.points, p)
	if len(s.points) > maxPoints {
		s.points = s.points[1:]
	}
	s.step(p, statesync.Hosts{List: s.hostsOf(p)})
	return p, nil
}

// addResponse passes a requested state header or part to the goroutine that waits for it.
// addResponse returns false if catchup did not request the item.
func (s *Shards) addResponse(from wire.PeerID, r *primitives.StateResponse) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.points, func(p *syncPoint) bool { return p.sync == r.SyncHash })
	if i < 0 {
		return false
	}
	p, item := s.points[i], statesync.Item{Shard: r.ShardID, Header: r.Header != nil}
	switch {
	case r.Header == nil && r.Part == nil:
		i, is := p.machine.Asked(from, r.ShardID)
		if is {
			s.step(p, statesync.None{From: from, Item: i})
		}
		return is
	case r.Header == nil:
		item.Part = r.Part.Number
	}
	if !p.machine.Expects(from, item) {
		return false
	}
	s.step(p, statesync.Arrived{From: from, Item: item})
	wait := p.waits[item]
	if wait == nil { // the caller no longer waits
		s.step(p, statesync.ItemVerified{From: from, Item: item, Own: true})
		return true
	}
	size, err := s.o.Status.admit(r)
	if err != nil {
		s.o.Log.WithError(err).WithField("peer", from).WithField("shard", item.Shard).Info("network: state part rejected")
		s.step(p, statesync.ItemVerified{From: from, Item: item, Bad: isPeersFault(err), Own: !isPeersFault(err)})
		return true
	}
	wait <- stateAnswer{from, size, r} // never blocks: an item is requested from one node at a time
	return true
}

// ask requests an item from one node after another until judge accepts a response. If judge returns
// an error that is not the peer's fault, ask returns that error. When ctx ends, ask returns
// ErrNotYet.
func (s *Shards) ask(ctx context.Context, p *syncPoint, item statesync.Item,
	judge func(*primitives.StateResponse) error) error {
	wait := make(chan stateAnswer, 1)
	locked := func(f func()) { // unlocks also if f panics
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	taken := false
	defer locked(func() { // also after a panic, so that the item can be requested again
		if p.waits[item] == wait {
			delete(p.waits, item)
		}
	})
	locked(func() {
		if taken = p.waits[item] != nil; !taken {
			p.waits[item] = wait
			s.step(p, statesync.Want{Item: item})
		}
	})
	if taken {
		return fmt.Errorf("network: state item %+v is requested already", item)
	}
	done := func(x stateAnswer, err error) {
		s.step(p, statesync.ItemVerified{From: x.from, Item: item, Bad: err != nil && isPeersFault(err),
			Own: err != nil && !isPeersFault(err)})
	}
	drop := func() {
		delete(p.waits, item)
		s.step(p, statesync.Dropped{Item: item})
	}
	for {
		var x stateAnswer
		select {
		case x = <-wait:
		case <-ctx.Done():
			locked(func() {
				select {
				case x = <-wait: // the response arrived just before ctx ended
					s.o.Status.release(x.size)
					done(x, ctx.Err())
				default:
				}
				drop()
			})
			return engine.ErrNotYet
		}
		err := s.verify(judge, x)
		ended := err == nil || !isPeersFault(err)
		locked(func() {
			if ended {
				drop()
			}
			done(x, err)
		})
		if ended {
			return err
		}
		s.o.Log.WithError(err).WithField("peer", x.from).WithField("shard",
			item.Shard).Info("network: state part rejected")
	}
}

// verify calls judge. At most verifiers() calls run concurrently. A panic becomes an error.
func (s *Shards) verify(judge func(*primitives.StateResponse) error, x stateAnswer) (err error) {
	s.verifying <- struct{}{}
	defer func() {
		<-s.verifying
		s.o.Status.release(x.size)
		if p := recover(); p != nil {
			s.o.Status.note("a part of a state", p)
			err = fmt.Errorf("network: verify a state part: %v", p)
		}
	}()
	return judge(x.StateResponse)
}

// pause waits for retryPause and returns err, so that the engine does not retry at once.
func pause(ctx context.Context, err error) error {
	t := time.NewTimer(retryPause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return err
}

// State implements engine.PartSource.
func (s *Shards) State(ctx context.Context, at primitives.Hash, shard primitives.ShardID) (*engine.StateHeader, error) {
	p, err := s.findPoint(at)
	if err != nil {
		return nil, pause(ctx, err)
	}
	var out *engine.StateHeader
	err = s.ask(ctx, p, statesync.Item{Shard: shard, Header: true}, func(r *primitives.StateResponse) (err error) {
		out, err = s.header(at, shard, r.Header)
		return err
	})
	if err != nil {
		return nil, pause(ctx, err)
	}
	return out, nil
}

// header verifies a state header and converts it for the engine.
func (s *Shards) header(at primitives.Hash, shard primitives.ShardID,
	h *primitives.StateHeader) (*engine.StateHeader, error) {
	x, err := s.o.Engine.Block(at)
	if err != nil {
		return nil, err
	}
	index, err := x.Layout.Index(shard)
	if err != nil {
		return nil, err
	}
	before, err := engine.VerifyStateHeader(h, x.Block, x.Layout, index, shard,
		func(hash primitives.Hash) *primitives.Block {
			y, err := s.o.Engine.Block(hash)
			if err != nil {
				return nil
			}
			return y.Block
		})
	if err != nil {
		return nil, err
	}
	return &engine.StateHeader{Chunk: &h.Chunk, Before: before, Root: h.Root.Data}, nil
}

// Part implements engine.PartSource.
func (s *Shards) Part(ctx context.Context, at primitives.Hash, shard primitives.ShardID, id trie.PartID,
	take func([][]byte) error) error {
	p, err := s.findPoint(at)
	if err == nil {
		err = s.ask(ctx, p, statesync.Item{Shard: shard, Part: id.Index}, func(r *primitives.StateResponse) error {
			strings, err := statesync.UnpackPart(r.Part)
			if err != nil {
				return err
			}
			return take(strings)
		})
	}
	if err != nil {
		return pause(ctx, err)
	}
	return nil
}

// Refused implements engine.PartSource. Refused bans no peer: this node has already verified the
// headers and chunks against their blocks, so a refusal is not the fault of one peer.
func (s *Shards) Refused(at primitives.Hash, shard primitives.ShardID, err error) {
	s.o.Log.WithError(err).WithField("shard",
		shard).Warnf("network: data of a shard at %v rejected; it is requested again", at)
}
