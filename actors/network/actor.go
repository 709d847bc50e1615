// Package network is the actor between this node and its peers. It runs the peer manager of package
// near (the host), passes messages of peers to the actors that check them, requests missing blocks,
// chunks and state, and serves requests of peers.
//
//	in      messages of peers; BlockImported, BlockAccepted, BlockRefused, ChunkRefused,
//	        BlockWanted, ChunksWanted from the chain; TransactionPooled from the mempools
//	out     BlockReceived, ChunkReceivedAlone to the chain; transactions to the mempools;
//	        messages to peers
//	state   Actor: the host, the pool of chain/chunkparts, the machine of chain/blocksync,
//	        requests and transactions in progress. Status: the part that other goroutines
//	        read and that survives restarts of the actor
//	units   ms since the actor began
//	bound   messages of peers in the mailbox: maxInbox in all, and as many gossiped blocks;
//	        of these maxInboxEach from one peer or one validator's node; further ones are
//	        dropped; unrequested blocks: blockRate a second from one peer; the server's queue;
//	        maxWaiting blocks with chunks that cannot be requested yet; maxBodies chunk bodies
//	errors  of peers: drop, pause or ban; of this node: logged; a panic restarts the actor
//	        with new connections
//	source  nearcore chain/network/src/peer_manager,
//	        chain/client/src/{client,client_actor,rpc_handler}.rs
//
// On a validator among others, the actor also passes each transaction of TransactionPooled to this
// node's validator actor, from whose pools chunks come.
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
	"github.com/troupe-chain/troupe/primitives/recent"
)

// Name is the name of the actor.
const Name = "network"

// Out sends the actor's messages.
type Out interface {
	Block(messages.BlockReceived)
	Chunk(messages.ChunkReceivedAlone)
	// Submit passes transactions of peers to the mempools. The returned requests end when the
	// mempools have checked the transactions.
	Submit(messages.Client, []*primitives.SignedTransaction) []mempool.Request
	// Failed ends the node. The actor calls Failed with the error when it can no longer write to the
	// store.
	Failed(error)
}

// Listener starts hosts, and stores the peers that they know.
type Listener interface {
	// Listen starts a host. The host calls deliver with each message of a peer, and verify with
	// account announcements. The actor calls Listen each time it starts.
	Listen(
		deliver func(near.Deliver),
		verify func(near.VerifyAnnouncements) near.AnnouncementsVerified,
	) (*tcp.Server, error)
	// Remember stores the known peers for the next start. The actor calls Remember when the known
	// peers have changed.
	Remember([]wire.PeerInfo)
}

// TxVerifier verifies signatures of transactions, and may remember valid ones.
type TxVerifier interface {
	Check(*primitives.SignedTransaction) bool
}

// Options configure the actor.
type Options struct {
	// Engine is the chain. Required.
	Engine *engine.Engine
	// Listener starts the host. Required.
	Listener Listener

	// This node and its peers.

	// Account is the account of this node's validator. Empty: the node is no validator.
	Account primitives.AccountID
	// Key is the validator's key. Zero if Account is empty.
	Key primitives.SecretKey
	// Proxies are the addresses at which other validators reach this validator. At most ten.
	Proxies []wire.PeerAddr
	// Addresses finds this validator's address if there are no Proxies. nil: the address is not
	// searched.
	Addresses AddressSource
	// Peer is the id of this node.
	Peer wire.PeerID
	// BootNodes is the number of configured boot nodes, for the log.
	BootNodes int
	// Random returns a number from 0 to n-1, which chooses among peers. Required.
	Random func(n int) int

	// Blocks and transactions.

	// Eager means that a block is relayed before its import, once its producer's signature is
	// verified.
	Eager bool
	// Route says to which peers a transaction is sent.
	Route Route
	// Verify verifies signatures of blocks. The caller may pass a function that caches results for
	// later checks. nil: verification without a cache.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// Signatures verifies signatures of transactions. nil: Verify does.
	Signatures TxVerifier
	// TxStatuses requests from peers the status of transactions in shards that are not tracked. nil:
	// no such requests.
	TxStatuses *TxStatuses
	// Validator gets the messages for the validator actor. nil: this node takes no part in
	// consensus.
	Validator ConsensusReceiver

	// Synchronisation.

	// Sync has the horizons and timers of block sync. The actor sets its Random.
	Sync blocksync.Options
	// States has the limits and timers of state sync.
	States statesync.Options
	// StateSyncs lets the node replace its chain by a recent state if the chain is more than
	// Sync.Horizon blocks behind. nil: the node syncs only by blocks.
	StateSyncs StateSyncs
	// Shards fetches the state of shards that are caught up while the node runs. nil: the tracked
	// shards do not change.
	Shards *Shards

	// Observers.

	// Status is what other goroutines read of the actor. Required. It survives a failure.
	Status *Status
	// Log receives connections, syncs and failures. Required.
	Log *logrus.Logger
	// Out sends the actor's messages.
	Out Out
}

// Periods and limits.
const (
	tickPeriod     = 100 * time.Millisecond
	againFirst     = 3000   // ms until an unchanged head is broadcast again; doubled after each broadcast
	againMost      = 60_000 // after this delay in ms, only the host broadcasts the head, with its own period
	partsPeriod    = 400    // ms until missing chunk parts are requested again (chunk_request_retry_period)
	rememberPeriod = 5000   // ms between calls of Listener.Remember
	ratePeriod     = 5000   // ms over which the transfer rates are measured (peer_stats_period)
	stopLimit      = 5 * time.Second
	listenAgain    = time.Second
)

// Actor is the network actor. Only its own goroutine uses it, except where a method says otherwise.
type Actor struct {
	lottery    hostLottery // orders the snapshot hosts from which state is requested
	o          Options
	begun      time.Time
	self       func(any)
	host       *tcp.Server
	stop       func() // stops the host, the server's workers and the background, and waits until all of them have ended
	background *background
	timer      *time.Timer
	ticker     idleTicker

	inbox          *inbox
	validatorInbox validatorInbox
	// gossiped contains blocks that the host has checked and relayed. Gossip delivers a block only
	// once, from the first peer that has it. So the actor accepts such a block even if the
	// delivering peer has exceeded its limits. Only block producers can sign such blocks, which
	// bounds the number of these blocks. The key is the pointer, because two blocks with the same
	// hash may have different bodies.
	gossiped    recentSet[*primitives.Block]
	gossipSlots recentSet[heightSlot] // counts relayed gossiped blocks by height
	verifying   chan struct{}         // semaphore for verifying received state parts and headers
	server      *server
	dist        engine.ChunkPartsView
	pool        *chunkparts.Pool
	sync        *blocksync.Machine
	path        headerPath

	peers     []near.PeerState
	reached   map[primitives.AccountID]bool // validator accounts whose nodes are known
	heights   map[wire.PeerID]primitives.Height
	limits    map[wire.PeerID]*blockLimits
	badBlocks badBlocks
	epoch     primitives.EpochID // epoch whose validators the host knows
	t1        map[primitives.AccountID][]primitives.PublicKey
	seat      validatorSeat
	address   addressFinder
	clock     clockCheck

	// headersApart means that the verified headers follow an epoch sync proof, and do not connect to
	// the chain yet.
	headersApart bool
	genesisOnly  bool // the chain began with a genesis that cannot be executed, and nothing else
	noProof      proofWaitLog
	// time in ms from which the actor may log again that the network has a newer protocol version than
	// this node knows
	newerLogAt int64
	fullLogAt  int64      // time in ms from which the actor may log again that the disk is full
	bootstrap  *bootstrap // nil: no state sync at start is in progress
	snapshots  *engine.ServedSnapshots

	waiting []lackingBlock // blocks whose missing chunks cannot be requested yet
	bodies  chunkBodies
	txs     txForwarder
	routes  txRoutes

	rebroadcast rebroadcast // state of the repeated broadcast of the head

	nextParts, nextRemember, nextRate, nextSnapshots, nextBootstrap int64
	remembered                                                      string
}

// Messages to self: the timer's tick, another attempt to listen, the end of the host. Each message
// names the actor or host that sent it, because the actor ignores messages of a failed predecessor.
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
		heights: map[wire.PeerID]primitives.Height{}, limits: map[wire.PeerID]*blockLimits{}, badBlocks: newBadBlocks(),
		gossipSlots: recentSet[heightSlot]{of: recent.Map[heightSlot, struct{}]{Max: maxGossipSlots}},
		reached:     map[primitives.AccountID]bool{}, inbox: newInbox(o.Status), verifying: make(chan struct{}, verifiers())}
	if a.o.Verify == nil {
		a.o.Verify = primitives.Signature.Verify
	}
	if a.o.Signatures == nil {
		a.o.Signatures = txVerifier{a.o.Verify}
	}
	a.dist = o.Engine.ChunkPartsView(o.Engine.FindChunk)
	a.pool = a.newPool()
	a.path.e = o.Engine
	so := o.Sync
	so.Random = o.Random
	if o.StateSyncs == nil {
		so.Horizon = 0
	}
	a.genesisOnly = o.Engine.GenesisOnly()
	so.ProofFirst = a.genesisOnly
	a.snapshots = o.Engine.Snapshots().Served()
	a.sync = blocksync.New(chainView{a}, so)
	a.bodies = newChunkBodies()
	a.txs = newTxForwarder()
	return a
}

// txVerifier implements TxVerifier with a function that verifies any signature.
type txVerifier struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
}

// Check implements TxVerifier.
func (v txVerifier) Check(tx *primitives.SignedTransaction) bool {
	hash := tx.Hash()
	return v.verify(tx.Signature, hash[:], tx.PublicKey)
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

// start starts the host and the server. If the host cannot listen, the actor tries again after
// listenAgain.
func (a *Actor) start() {
	host, err := a.o.Listener.Listen(a.deliver, a.verifyAnnouncements)
	if err != nil {
		a.o.Log.WithError(err).Error("network: cannot listen for peers; trying again")
		self := a.self
		a.timer = time.AfterFunc(listenAgain, func() { self(again{a}) })
		return
	}
	a.host = host
	a.o.Status.setHost(host)
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
		a.o.Log.Errorf("network: the handling of a peer's message panicked, and its connection was closed: %v\n%s",
			reason, stack)
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
	a.background = &background{ctx, &group}
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

// Rekeyed reports that the validator signs with Key from now on. A zero Key means that the
// validator signs nothing.
type Rekeyed struct{ Key primitives.SecretKey }

// validator informs the host which validator this node is.
func (a *Actor) validator() {
	if a.o.Account == "" {
		return
	}
	a.host.Post(near.Validator{AccountID: a.o.Account, Key: a.key(), Proxies: a.proxies()})
}

// key returns the validator's current signing key.
func (a *Actor) key() primitives.SecretKey {
	if k := a.o.Status.key.Load(); k != nil {
		return *k
	}
	return a.o.Key
}

// rekeyed passes the new key to the host. rekeyed also announces the account again, because peers
// verify announcements with the key of the epoch.
func (a *Actor) rekeyed() {
	a.validator()
	a.t1 = nil
	a.headMoved(a.o.Engine.Head())
}

func (a *Actor) arm() {
	if a.timer != nil { // arm may have been called before, by the tick after a new connection
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
	if a.host == nil { // the actor has not started yet, or has ended
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
		a.o.Log.WithError(m.Err).WithField("peer", m.From).Debug("chunk of a peer rejected")
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
	case addressAnswer:
		if m.of == a {
			a.addressAnswered(&m)
		}
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
	case actor.SystemMessage, actor.AutoReceiveMessage: // all lifecycle messages except the ones above need no action
	default:
		panic(fmt.Sprintf("network actor: no case for %T", m))
	}
}

// tick reads the state of the host and runs the periodic tasks that are due.
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
	a.compareHandshakes(&info)
	if now >= a.nextParts {
		a.nextParts = now + partsPeriod
		a.partsTick()
	}
	if now >= a.nextSnapshots {
		a.nextSnapshots = now + snapshotPeriod
		a.announceSnapshots()
	}
	a.logNoProof(now, &info)
	a.advanceBootstrap(now, &info)
	a.findAddress(now, &info)
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

// remember stores the known peers if the list has changed.
func (a *Actor) remember(list []wire.PeerInfo) {
	if len(list) == 0 {
		return
	}
	if s := fmt.Sprint(list); s != a.remembered {
		a.remembered = s
		a.o.Listener.Remember(list)
	}
}

// delivered handles a peer's message, except for blocks and for requests that the store answers.
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
		case *wire.ChunkRequest: // the server found no response in the store
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
