// Package network is the shell of everything that other nodes say and are told: it holds the host of package near, hands what peers bring to who
// judges it, asks them for what is lacking, and answers them.
//
//	in      messages of peers; BlockAdopted, BlockAccepted, BlockRefused, ChunkRefused, BlockWanted, ChunksWanted from the chain;
//	        TransactionPooled from the mempools
//	out     BlockReceived, ChunkReceivedAlone to the chain; transactions to the mempools; frames
//	state   Actor: the host; chain/chunkparts' pool; chain/blocksync's machine; what waits to be answered, handed on or asked for. Front: what others
//	        see of it, over its restarts
//	units   ms since the actor began
//	bound   maxInbox messages of all peers in the mailbox, and as many blocks that gossip brings, maxInboxEach of one or of a validator's node, beyond which they are dropped; blockRate blocks a second that
//	        nobody asked for; those of the server for requests; maxWaiting blocks whose chunks can't be asked for yet; maxBodies bodies
//	errors  of peers end in drops, pauses and bans; of this node's own in the log; a panic makes the actor anew, with new connections
//	source  nearcore chain/network/src/peer_manager, chain/client/src/{client,client_actor,rpc_handler}.rs
package network

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Name is the actor's.
const Name = "network"

// Out is whom the actor talks to.
type Out struct {
	Block messages.Sender[messages.BlockReceived]
	Chunk messages.Sender[messages.ChunkReceivedAlone]
	// Submit hands transactions of others to the mempools, and returns what tells when they are done with.
	Submit func(messages.Client, []*primitives.SignedTransaction) []mempool.Request
}

// Options are what the actor works with.
type Options struct {
	Engine *engine.Engine
	// Listen makes a host, each time that the actor begins.
	Listen func(deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) (*tcp.Server, error)
	// Account and Key are those of this node's validator; none: it is none.
	Account primitives.AccountID
	Key     primitives.SecretKey
	Peer    wire.PeerID // this node
	Sync    blocksync.Options
	Route   Route
	Random  func(n int) int
	// Remember is given peers that were connected, when they are others than before; nil: nobody remembers them.
	Remember func([]wire.PeerInfo)
	// Verify and Signed check what is spread, blocks and transactions; nil: by the key. Those that remember spare who is handed it their own look.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	Signed func(*primitives.SignedTransaction) bool
	// Eager has a block handed on as soon as it is known who made it, and not only once it is adopted.
	Eager bool
	// Receive is given what only a validator among validators has to do with; nil: this node follows.
	Receive ReceiveFunc
	// StateSyncs have the node begin in the middle of the chain, if it is beyond the horizon (Sync.Horizon); nil: it never does.
	StateSyncs StateSyncs
	// Shards is what has shards come in beside the chain; nil: they stay.
	Shards *Shards
	// TxStatuses has what others are asked about transactions; nil: nobody is.
	TxStatuses *TxStatuses
	// Failed ends the node because its store takes nothing any more.
	Failed func(error)
	States statesync.Options
	Status  *Status
	Log    *logrus.Logger
	Out    Out
}

// The bounds and times.
const (
	tickPeriod     = 100 * time.Millisecond
	againFirst     = 3000   // ms for which the head stands still before it is told again; each time twice as long
	againMost      = 60_000 // until then: the host tells the head that often (SYNC_LATEST_BLOCK_INTERVAL)
	partsPeriod    = 400    // ms: chunk_request_retry_period
	rememberPeriod = 5000   // ms
	ratePeriod     = 5000   // ms: peer_stats_period
	stopLimit      = 5 * time.Second
	listenAgain    = time.Second
)

// Actor is the shell.
type Actor struct {
	lottery  hostLottery // of hosts of states
	o     Options
	begun time.Time
	self  func(any)
	host  *tcp.Server
	stop  func() // ends host and workers, and waits for them
	timer *time.Timer
	ticker  idleTicker

	inbox *inbox
	validatorInbox validatorInbox
	// gossiped are blocks that were judged and handed on. Gossip brings a block once, from whom it came first: it is taken whatever else that peer has sent, since
	// nobody else will bring it. Its number is bounded by who makes blocks, all of which are signed. Another object of the same hash may have another body.
	gossiped  recentSet[*primitives.Block]
	gossipSlots  recentSet[heightSlot] // places of blocks that gossip hands on
	verifying chan struct{}   // has who looks at a state that came
	server  *server
	dist    engine.ChunkPartsView
	pool    *chunkparts.Pool
	sync    *blocksync.Machine
	path    headerPath

	peers   []near.PeerState
	reached map[primitives.AccountID]bool // accounts that some node is known of
	heights map[wire.PeerID]primitives.Height
	limits   map[wire.PeerID]*blockLimits
	badBlocks  badBlocks
	epoch   primitives.EpochID // whose validators the host was told
	t1      map[primitives.AccountID][]primitives.PublicKey
	seat    validatorSeat

	headersApart   bool     // headers lead on from a proof above the chain
	bootstrap *bootstrap // nil: none is under way
	snapshots  *engine.ServedSnapshots

	waiting []lackingBlock // blocks whose chunks can't be asked for yet
	bodies    chunkBodies
	txs     txForwarder
	routes    txRoutes

	rebroadcast rebroadcast // the head

	nextParts, nextRemember, nextRate, nextSnapshots, nextBootstrap int64
	remembered                                                string
}

// tick is the timer's note to self; ended says that the host has; again asks to listen once more. Those of an actor before this one are
// nothing to it.
type (
	tick  struct{ of *Actor }
	again struct{ of *Actor }
	ended struct {
		host *tcp.Server
		err  error
	}
)

// New returns the actor.
func New(o Options) *Actor {
	a := &Actor{o: o, lottery: newHostLottery(o.Random), begun: time.Now(), self: func(any) {}, stop: func() {}, heights: map[wire.PeerID]primitives.Height{}, limits: map[wire.PeerID]*blockLimits{}, badBlocks: newBadBlocks(), gossipSlots: recentSet[heightSlot]{most: maxGossipSlots},
		reached: map[primitives.AccountID]bool{}, inbox: newInbox(o.Status), verifying: make(chan struct{}, maxVerifying)}
	if a.o.Verify == nil {
		a.o.Verify = primitives.Signature.Verify
	}
	if a.o.Signed == nil {
		a.o.Signed = func(tx *primitives.SignedTransaction) bool {
			hash := tx.Hash()
			return a.o.Verify(tx.Signature, hash[:], tx.PublicKey)
		}
	}
	a.dist = o.Engine.ChunkPartsView(o.Engine.FindChunk)
	a.pool = a.newPool()
	a.path.e = o.Engine
	so := o.Sync
	so.Random = o.Random
	if o.StateSyncs == nil {
		so.Horizon = 0
	}
	a.snapshots = o.Engine.ServedSnapshots()
	a.sync = blocksync.New(chainView{a}, so)
	a.bodies = newChunkBodies()
	a.txs = newTxForwarder()
	return a
}

func (a *Actor) now() int64 { return time.Since(a.begun).Milliseconds() }

// Receive is the only way to the actor's state.
func (a *Actor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, pid := c.ActorSystem().Root, c.Self()
		a.self = func(m any) { root.Send(pid, m) }
		a.start()
	case *actor.Stopping, *actor.Restarting:
		a.end()
	default:
		a.Handle(c.Message())
	}
}

// start listens, and dials.
func (a *Actor) start() {
	host, err := a.o.Listen(a.deliver, a.judge)
	if err != nil {
		a.o.Log.WithError(err).Error("network: it can't listen, and tries again")
		self := a.self
		a.timer = time.AfterFunc(listenAgain, func() { self(again{a}) })
		return
	}
	a.host = host
	a.o.Status.host.Store(host)
	a.server = newServer(a.o.Engine, host, func(d near.Deliver) {
		if p := a.inbox.admit(&d); p != nil {
			a.self(delivered{d, p})
		}
	}, a.o.Status)
	host.Check = a.check
	self := a.self
	a.ticker.wake = func() { self(tick{a}) }
	host.Opened = a.ticker.opened
	host.Alarm = func(reason any, stack []byte) {
		a.o.Status.panics.Add(1)
		a.o.Log.Errorf("network: a peer's message ended its connection: %v\n%s", reason, stack)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		err := host.Run(ctx)
		a.self(ended{host, err})
	})
	for range serverWorkers {
		group.Go(func() { a.server.run(ctx) })
	}
	a.stop = func() {
		cancel()
		a.server.close()
		over := make(chan struct{})
		go func() {
			group.Wait()
			close(over)
		}()
		select {
		case <-over:
		case <-time.After(stopLimit):
			a.o.Log.Warn("network: connections have not ended in time")
		}
	}
	a.validator()
	a.headMoved(a.o.Engine.Head())
	a.arm()
}

// Rekeyed says that the validator signs with another key from here on; none: it signs nothing.
type Rekeyed struct{ Key primitives.SecretKey }

// validator tells the host whose node this is.
func (a *Actor) validator() {
	if a.o.Account == "" {
		return
	}
	a.host.Post(near.Validator{AccountID: a.o.Account, Key: a.key()})
}

// key is the one with which the validator signs now.
func (a *Actor) key() primitives.SecretKey {
	if k := a.o.Status.key.Load(); k != nil {
		return *k
	}
	return a.o.Key
}

// rekeyed tells the host, and all others by another announcement, which they verify by the key of its epoch.
func (a *Actor) rekeyed() {
	a.validator()
	a.t1 = nil
	a.headMoved(a.o.Engine.Head())
}

func (a *Actor) arm() {
	if a.timer != nil { // one is under way after a tick that a connection has caused
		a.timer.Stop()
	}
	self := a.self
	a.timer = time.AfterFunc(a.ticker.period(), func() { self(tick{a}) })
}

func (a *Actor) end() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.o.Status.host.Store(nil)
	a.stop()
	a.host, a.stop = nil, func() {}
	a.o.Status.reset()
}

// Handle takes one message.
func (a *Actor) Handle(msg any) {
	if a.host == nil { // it begins, or has ended
		switch m := msg.(type) {
		case again:
			if m.of == a {
				a.start()
			}
		case delivered:
			m.in.done()
		}
		return
	}
	switch m := msg.(type) {
	case delivered:
		if a.routeToValidator(&m) {
			return
		}
		if b, is := m.Msg.(*wire.Block); is {
			a.block(m.From, b.Block, m.Gossiped, m.in)
			return
		}
		m.in.done()
		a.delivered(&m.Deliver)
	case messages.BlockImported:
		a.blockImported(m.BlockAccepted)
	case messages.BlockAccepted:
		a.blockAccepted(&m)
	case messages.BlockRefused:
		a.refused(&m)
	case messages.ChunkRefused:
		a.o.Log.WithError(m.Err).WithField("peer", m.From).Debug("chunk refused")
	case messages.BlockWanted:
		a.step(blocksync.Wanted{Hash: m.Hash, From: peerOf(m.From)})
	case messages.ChunksWanted:
		a.chunksWanted(&m)
	case messages.TransactionPooled:
		a.pooled(m.Tx, m.Routed)
	case Rekeyed:
		a.rekeyed()
	case partsRequest:
		a.askParts(m.Ask)
	case submitted:
		a.submitted()
	case headersResult:
		a.headersDone(&m)
	case proofResult:
		a.proofDone(&m)
	case bootstrapDone:
		a.bootstrapDone(&m)
	case tick:
		if m.of == a {
			a.tick()
			a.arm()
		}
	case again:
	case ended:
		if m.host != a.host {
			return
		}
		var p *tcp.PanicError
		if errors.As(m.err, &p) {
			panic(fmt.Sprintf("%v\n%s", p.Reason, p.Stack))
		}
		panic(fmt.Errorf("network: the host has ended: %w", m.err))
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("network actor: no case for %T", m))
	}
}

// tick looks who is there, and does what is due.
func (a *Actor) tick() {
	now := a.now()
	a.ticker.begin()
	info := a.host.Info()
	a.o.Status.show(&info, a.host)
	a.peers = info.Peers
	a.inbox.setSeats(info.Seats)
	clear(a.reached)
	for _, id := range info.Accounts {
		a.reached[id] = true
	}
	a.updatePeers(&info)
	if now >= a.nextParts {
		a.nextParts = now + partsPeriod
		a.partsTick()
	}
	if now >= a.nextSnapshots {
		a.nextSnapshots = now + snapshotPeriod
		a.announceSnapshots()
	}
	a.advanceBootstrap(now, &info)
	if a.o.Shards != nil {
		a.o.Shards.tick(&info)
	}
	if now >= a.nextRemember {
		a.nextRemember = now + rememberPeriod
		a.remember(info.Known)
	}
	if now >= a.nextRate {
		a.o.Status.measure(a.host, ratePeriod)
		a.nextRate = now + ratePeriod
	}
	a.txs.resend(now, a.send)
	a.rebroadcastHead(now)
	if !a.isIdle(&info) {
		a.ticker.end()
	}
}

// remember keeps who was connected, for the next run.
func (a *Actor) remember(list []wire.PeerInfo) {
	if a.o.Remember == nil || len(list) == 0 {
		return
	}
	if s := fmt.Sprint(list); s != a.remembered {
		a.remembered = s
		a.o.Remember(list)
	}
}

// delivered takes a message of a peer that is not the server's.
func (a *Actor) delivered(d *near.Deliver) {
	switch m := d.Msg.(type) {
	case *wire.Headers:
		a.headers(d.From, m.Headers)
	case *wire.EpochSyncResponse:
		a.epochProof(d.From, m.Compressed)
	case *wire.StateResponse:
		if a.o.Shards == nil || !a.o.Shards.addResponse(d.From, &m.StateResponse) {
			a.bootstrapResponse(d.From, &m.StateResponse)
		}
	case *wire.Transaction:
		a.received(d.From, m.Transaction, true)
	case *wire.Routed:
		switch b := m.Body.(type) {
		case *wire.ForwardTx:
			a.received(d.From, &b.SignedTransaction, false)
		case *wire.StateRequestAck:
			if a.o.Shards == nil || !a.o.Shards.addAck(m.Author, &b.StateRequestAck) {
				a.bootstrapAck(m.Author, &b.StateRequestAck)
			}
		case *wire.PartialChunk:
			a.partsStep(chunkparts.Partial{PartialChunk: &b.PartialChunk}, d.From)
		case *wire.ChunkForward:
			a.partsStep(chunkparts.Forward{ChunkForward: &b.ChunkForward}, d.From)
		case *wire.ChunkResponse:
			a.partsStep(chunkparts.Response{ChunkResponse: &b.ChunkResponse}, d.From)
		case *wire.ChunkRequest: // the store has none
			a.partsStep(chunkparts.Request{ChunkRequest: &b.ChunkRequest, From: m.Hash()}, d.From)
		}
	}
}

func peerOf(s string) wire.PeerID {
	k, err := primitives.ParsePublicKey(s)
	if err != nil {
		return ""
	}
	return k
}
