// Package network is the actor of everything between this node and its peers: it runs the host
// of package near, passes what peers send to the actor that checks it, requests what is
// missing, and answers requests.
//
//	in      messages of peers; BlockImported, BlockAccepted, BlockRefused, ChunkRefused,
//	        BlockWanted, ChunksWanted from the chain; TransactionPooled from the mempools
//	out     BlockReceived, ChunkReceivedAlone to the chain; transactions to the mempools;
//	        frames to peers
//	state   Actor: the host, chain/chunkparts' pool, chain/blocksync's machine, what waits to
//	        be answered, forwarded or requested. Status: what others read of it, across
//	        restarts
//	units   ms since the actor began
//	bound   maxInbox messages of all peers in the mailbox and as many gossiped blocks,
//	        maxInboxEach of one peer or validator's node, beyond which messages are dropped;
//	        blockRate unrequested blocks a second of a peer; the server's queue; maxWaiting
//	        blocks with chunks that cannot be requested yet; maxBodies chunk bodies
//	errors  of peers: drops, pauses and bans; of this node: the log; a panic restarts the
//	        actor with new connections
//	source  nearcore chain/network/src/peer_manager,
//	        chain/client/src/{client,client_actor,rpc_handler}.rs
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

// Name is the name of the actor.
const Name = "network"

// Out are the receivers of the actor's messages.
type Out struct {
	Block messages.Sender[messages.BlockReceived]
	Chunk messages.Sender[messages.ChunkReceivedAlone]
	// Submit passes transactions of peers to the mempools, and returns requests that end when they
	// are checked.
	Submit func(messages.Client, []*primitives.SignedTransaction) []mempool.Request
}

// Options configure the actor.
type Options struct {
	Engine *engine.Engine
	// Listen starts a host. It is called each time the actor starts.
	Listen func(deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) (*tcp.Server, error)
	// Account and Key are this node's validator's. Empty: it has none.
	Account primitives.AccountID
	Key     primitives.SecretKey
	Peer    wire.PeerID // of this node
	Sync    blocksync.Options
	Route   Route
	Random  func(n int) int
	// Remember stores the connected peers when they have changed. nil: they are not stored.
	Remember func([]wire.PeerInfo)
	// Verify and Signed check signatures of blocks and transactions. A version that caches results
	// saves the later check. nil: by the key.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	Signed func(*primitives.SignedTransaction) bool
	// Eager relays a block as soon as its producer is known, before it is imported.
	Eager bool
	// Receive gets the messages that only a validator among others handles. nil: this node
	// follows.
	Receive ReceiveFunc
	// StateSyncs lets the node start from a recent state if it is beyond the horizon
	// (Sync.Horizon). nil: it never does.
	StateSyncs StateSyncs
	// Shards supplies shards that are caught up beside the chain. nil: the shards do not change.
	Shards *Shards
	// TxStatuses asks peers about transactions. nil: they are not asked.
	TxStatuses *TxStatuses
	// Failed ends the node because its store cannot be written any more.
	Failed func(error)
	States statesync.Options
	Status *Status
	Log    *logrus.Logger
	Out    Out
}

// Periods and limits.
const (
	tickPeriod     = 100 * time.Millisecond
	againFirst     = 3000   // ms without a new head after which it is broadcast again; doubled each time
	againMost      = 60_000 // up to this; the host itself sends the head that often (SYNC_LATEST_BLOCK_INTERVAL)
	partsPeriod    = 400    // ms: chunk_request_retry_period
	rememberPeriod = 5000   // ms
	ratePeriod     = 5000   // ms: peer_stats_period
	stopLimit      = 5 * time.Second
	listenAgain    = time.Second
)

// Actor is the network actor.
type Actor struct {
	lottery hostLottery // orders hosts of states
	o       Options
	begun   time.Time
	self    func(any)
	host    *tcp.Server
	stop    func() // ends host and workers, and waits for them
	timer   *time.Timer
	ticker  idleTicker

	inbox          *inbox
	validatorInbox validatorInbox
	// gossiped are blocks that the host has checked and relayed. Gossip brings a block only once,
	// from the first peer that has it, so it is accepted whatever else that peer has sent. Only
	// block producers can create such blocks, which bounds them. The pointer identifies them,
	// since another object with this hash may have another body.
	gossiped    recentSet[*primitives.Block]
	gossipSlots recentSet[heightSlot] // heights of relayed gossip
	verifying   chan struct{}         // semaphore for received state parts in verification
	server      *server
	dist        engine.ChunkPartsView
	pool        *chunkparts.Pool
	sync        *blocksync.Machine
	path        headerPath

	peers     []near.PeerState
	reached   map[primitives.AccountID]bool // accounts with a known node
	heights   map[wire.PeerID]primitives.Height
	limits    map[wire.PeerID]*blockLimits
	badBlocks badBlocks
	epoch     primitives.EpochID // of the validators that the host knows
	t1        map[primitives.AccountID][]primitives.PublicKey
	seat      validatorSeat

	headersApart bool       // headers continue from an epoch sync proof above the chain
	bootstrap    *bootstrap // nil: no state sync is under way
	snapshots    *engine.ServedSnapshots

	waiting []lackingBlock // blocks with chunks that cannot be requested yet
	bodies  chunkBodies
	txs     txForwarder
	routes  txRoutes

	rebroadcast rebroadcast // of the head

	nextParts, nextRemember, nextRate, nextSnapshots, nextBootstrap int64
	remembered                                                      string
}

// Messages to self: tick of the timer, a retry to listen, the end of the host. Those of a
// failed predecessor are ignored.
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
	a := &Actor{o: o, lottery: newHostLottery(o.Random), begun: time.Now(), self: func(any) {}, stop: func() {},
		heights: map[wire.PeerID]primitives.Height{}, limits: map[wire.PeerID]*blockLimits{}, badBlocks: newBadBlocks(), gossipSlots: recentSet[heightSlot]{most: maxGossipSlots},
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

// Receive handles lifecycle messages and passes the rest to Handle.
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

// start listens and dials.
func (a *Actor) start() {
	host, err := a.o.Listen(a.deliver, a.judge)
	if err != nil {
		a.o.Log.WithError(err).Error("network: listen failed, trying again")
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

// Rekeyed makes the validator sign with another key from now on, or with none if it is zero.
type Rekeyed struct{ Key primitives.SecretKey }

// validator tells the host which validator this node is.
func (a *Actor) validator() {
	if a.o.Account == "" {
		return
	}
	a.host.Post(near.Validator{AccountID: a.o.Account, Key: a.key()})
}

// key returns the current signing key.
func (a *Actor) key() primitives.SecretKey {
	if k := a.o.Status.key.Load(); k != nil {
		return *k
	}
	return a.o.Key
}

// rekeyed tells the host, and the peers by a new announcement, which they verify with the key
// of its epoch.
func (a *Actor) rekeyed() {
	a.validator()
	a.t1 = nil
	a.headMoved(a.o.Engine.Head())
}

func (a *Actor) arm() {
	if a.timer != nil { // a tick caused by a connection may have left one
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

// Handle handles one message.
func (a *Actor) Handle(msg any) {
	if a.host == nil { // it is starting or has ended
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
		panic(fmt.Errorf("network: the peer manager has ended: %w", m.err))
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("network actor: no case for %T", m))
	}
}

// tick reads the state of the host and does what is due.
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

// remember stores the connected peers for the next start.
func (a *Actor) remember(list []wire.PeerInfo) {
	if a.o.Remember == nil || len(list) == 0 {
		return
	}
	if s := fmt.Sprint(list); s != a.remembered {
		a.remembered = s
		a.o.Remember(list)
	}
}

// delivered handles a message of a peer that is no request to the store.
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
		case *wire.ChunkRequest: // the store has no answer
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
