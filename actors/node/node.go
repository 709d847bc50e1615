package node

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/historyimport"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/producer"
	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/actors/subscriptions"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/actors/txtracker"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// Node is a running node. Its methods are safe for concurrent use.
type Node struct {
	o       Options
	engine  *engine.Engine
	spawner *spawner
	root    *actor.RootContext

	chain, producer, tracker, rpc, meter *actor.PID
	subscriptions                        *actor.PID
	network                              *actor.PID // nil: the node has no network
	history                              *actor.PID // nil: the node imports no history
	shards                               shards
	wakeup                               *mempool.Wakeup
	signatures                           *signature.Checker
	stats                                stats
	blocks                               blockpool.Counters // orphans of the chain actor
	imports                              metrics.Set        // metrics of the chain actor's importer
	production                           metrics.Set        // metrics of the shards' chunk producers
	tracer                               *tracer            // nil: tracing is off

	heightCache    heightCache
	rollbacks      rollbackState
	mode           atomic.Int32 // current production.Mode
	tally          mempool.Tally
	drops          dropRecord
	sessionHandles sessionHandles
	parked         atomic.Int64
	admission      waitAdmission
	records        *waiter.Records
	statusGroup    statusGroup
	finalityWaits  finalityWaits
	sessions       atomic.Int64
	// subscribed counts open subscriptions.
	subscribed atomic.Int64
	// followed counts open subscriptions plus other readers of new blocks.
	followed   atomic.Int64
	moves      moves
	patches    patches
	shardMoves validatoractor.Moves
	validator  *validatoractor.Life // nil: this node does not produce blocks together with other validators
	statuses   *network.TxStatuses  // nil: the node does not ask peers for statuses
	// streamed counts subscriptions that are open or whose actor still runs.
	streamed      atomic.Int64
	ids           atomic.Uint64 // last id of a session, waiter or subscription
	ended         chan struct{} // closed when Stop is called
	halted        atomic.Pointer[HaltedError]
	full          atomic.Pointer[HaltedError] // why the disk is full; nil: the disk has space
	wasFull       atomic.Pointer[HaltedError] // last value of full that was not nil
	stopping      atomic.Bool                 // EndWaits was called
	haltedForGood chan struct{}               // closed when the node halts
	haltMu        sync.Mutex
	// haltedNow is closed when the node halts and while the disk is full. Guarded by haltMu.
	haltedNow  chan struct{}
	background sync.WaitGroup // goroutines started by goBackground
	stopOnce   sync.Once
	stopErr    error
}

// chainView adds to the engine the methods that the producer needs.
type chainView struct{ *engine.Engine }

// ChildEpoch returns the epoch of a block's children, and the shard layout of that epoch.
func (c chainView) ChildEpoch(parent primitives.Hash) (id primitives.EpochID, layout primitives.ShardLayout,
	err error) {
	err = c.Epochs(func(m *epoch.Manager) (err error) {
		if id, err = m.EpochIDFromPrev(parent); err == nil {
			layout, err = m.ShardLayout(id)
		}
		return err
	})
	return id, layout, err
}

// Epoch returns the position of a block in its epoch.
func (c chainView) Epoch(block primitives.Hash) (at production.Epoch, err error) {
	err = c.Epochs(func(m *epoch.Manager) error {
		first, length, last, err := m.EpochSpan(block)
		at = production.Epoch{First: first, Length: primitives.Height(length), Last: last}
		return err
	})
	return at, err
}

// Start starts the actors at the engine's head. The Options must not change afterwards. Call Stop
// to end the node.
func Start(o Options) (*Node, error) {
	if err := o.withDefaults(); err != nil {
		return nil, err
	}
	newSystem := system.NewSystem
	if o.Small {
		newSystem = system.NewSmallSystem
	}
	sys, s := newSystem(), &supervisor{log: o.Log}
	n := &Node{
		o: o, engine: o.Engine, root: sys.Root.WithGuardian(s), ended: make(chan struct{}),
		haltedForGood: make(chan struct{}), haltedNow: make(chan struct{}),
		spawner: &spawner{root: sys.Root, meter: system.NewMeter(), supervisor: s, hooks: o.hooks,
			waitDispatcher: system.NewBoundedDispatcher(2*runtime.GOMAXPROCS(0), time.Millisecond),
			// Subscribers that read old blocks get half of the cores. One more goroutine serves
			// subscribers at the head.
			subscriberDispatcher: system.NewBoundedDispatcher(max(1, runtime.GOMAXPROCS(0)/2)+1, 0)},
		signatures: o.Signatures,
	}
	n.records = waiter.NewRecords(o.Limits.Outcomes)
	s.onHalt = n.failed
	n.spawner.meter.Crashed = func(id string, c *system.Crash) {
		o.Log.WithField("actor", id).Errorf("actor failed while it ended: %v\n%s", c.Reason, c.Stack)
	}
	n.spawner.meter.Listen(sys, kindOf)
	n.stats.begun = time.Now()
	n.tracer = newTracer(o.OneIn, o.Traced)
	n.rollbacks.turn = make(chan struct{}, 1)
	n.mode.Store(int32(o.Mode))
	n.shards.n = n
	// Actors send messages to each other as soon as they start. So all PIDs are set before the
	// first start.
	for name, pid := range map[string]**actor.PID{
		"chain": &n.chain, "producer": &n.producer, txtracker.Name: &n.tracker, "rpc": &n.rpc, subscriptions.Name: &n.subscriptions,
	} {
		*pid = actor.NewPID(sys.Address(), name)
	}
	if o.Validator != nil { // the validator actor replaces the chain actor and the producer
		n.chain = actor.NewPID(sys.Address(), validatoractor.Name)
		n.producer = n.chain
	}
	if o.Replica {
		n.producer = n.chain
	}
	n.connectNetwork()
	if n.signatures == nil {
		n.signatures = signature.New()
	}
	n.engine.PauseFlatHead(n.pauseBeforeFlatHead)
	n.wakeup = &mempool.Wakeup{Notify: func(m messages.TransactionsWaiting) { n.tell(n.producer, m) }}
	if err := n.spawn(); err != nil {
		n.signatures.Close()
		return nil, err
	}
	n.engine.Store().DiskSpace().Watch(n.diskRoom)
	n.goBackground("watchdog", n.watch)
	return n, nil
}

// hasProducer returns whether the node has a producer actor. Otherwise n.producer is n.chain: the
// validator actor of a validator among others, or the actor of a replica.
func (n *Node) hasProducer() bool { return n.producer != n.chain }

func (n *Node) tell(pid *actor.PID, m any) { n.root.Send(pid, m) }

// spawn starts the actor tree, receivers before senders.
func (n *Node) spawn() (err error) {
	k := n.spawner
	spawn := func(name string, make func(again bool) actor.Actor) {
		if err == nil {
			_, err = k.spawn(name, name, make)
		}
	}
	n.sessionHandles.open(newSessionHandle(DefaultSession, defaultQueue))
	spawn(session.Name, func(again bool) actor.Actor {
		o := session.Options{Owner: sessionOwner{n}}
		if again {
			o.Open = n.sessionHandles.failAll()
		}
		return session.NewSupervisor(o)
	})
	spawn(txtracker.Name, func(bool) actor.Actor {
		return txtracker.New(n.position(), progressSender{n})
	})
	spawn(subscriptions.Name, func(bool) actor.Actor { return subscriptions.New(subscriptions.Options{Subscriber: n.subscriberProps}) })
	switch {
	case n.o.Replica:
		spawn("chain", onlyOnce(n.newReplica()))
	case n.o.Validator == nil:
		spawn("chain", onlyOnce(n.newChainActor()))
	}
	if err != nil {
		return err
	}
	_, layout, err := chainView{n.engine}.ChildEpoch(n.engine.Head().Hash)
	if err == nil {
		err = n.shards.setLayout(layout, nil)
	}
	if err != nil {
		return err
	}
	switch {
	case n.o.Replica:
	case n.o.Validator == nil:
		spawn("producer", onlyOnce(n.newProducer()))
	default:
		life := new(validatoractor.Life)
		n.validator = life
		spawn(validatoractor.Name, func(bool) actor.Actor { return n.newValidator(life) })
	}
	if n.network != nil {
		spawn(network.Name, func(bool) actor.Actor { return network.New(*n.o.Network) })
	}
	if err == nil && n.o.Summary > 0 {
		n.meter, err = k.spawn("meter", "meter", func(bool) actor.Actor { return &meter{n: n} })
	}
	if err == nil && n.o.History != nil {
		n.history, err = k.spawn(historyimport.Name, historyimport.Name, func(bool) actor.Actor { return historyimport.New(n.o.History) })
	}
	if err != nil {
		return err
	}
	n.tell(n.rpc, messages.OpenSession{Session: DefaultSession})
	return nil
}

// newChainActor returns the chain actor of a node without other validators.
func (n *Node) newChainActor() actor.Actor {
	return chain.New(chain.Options{
		Engine: n.engine, Keys: n.o.Keys, Vote: n.o.Vote, Log: n.o.Log, Clock: n.o.Clock,
		Tip: n.engine.Tip().Height(), Final: n.engine.TipFinal().Height, Counters: &n.blocks, Measured: &n.imports, Out: chain.Out{
			BlockSender: blockSender{n}, ShardSender: blockSender{n}, RevertSender: blockSender{n}, NetworkSender: n.o.Net,
		},
	})
}

// newProducer returns the producer actor of a node without other validators.
func (n *Node) newProducer() actor.Actor {
	var stopped error
	if n.engine.GenesisOnly() {
		stopped = engine.ErrGenesisOnly
	}
	return producer.New(producer.Options{
		Times:   &n.production,
		Stopped: stopped,
		Chain:   chainView{n.engine}, Keys: n.o.Keys, Delays: n.o.Delays,
		Rules: production.Rules{Mode: n.o.Mode, Interval: n.o.Delays.Endorsement,
			Validity: n.engine.Chain().ValidityPeriod, SkipEmpty: n.o.SkipEmpty, Linger: int64(n.o.Linger)},
		Demand: demand{n}, Clock: n.o.Clock, Begin: n.o.Begin, Log: n.o.Log, Out: productionSender{n},
	})
}

// demand implements producer.Demand.
type demand struct{ n *Node }

// IsIdle implements producer.Demand.
func (d demand) IsIdle(shard primitives.ShardID) bool { return d.n.shards.isIdle(shard) }

// HasTransactions implements producer.Demand.
func (d demand) HasTransactions() bool { return d.n.wakeup.HasOffers() }

// WantsFinality implements producer.Demand.
func (d demand) WantsFinality() bool { return d.n.finalityWaits.any() }

// position returns the persisted position of the chain.
func (n *Node) position() messages.Position {
	head := n.engine.Head()
	return messages.Position{Head: head.Height(), Final: n.engine.Final().Height}
}

func (n *Node) finalHeight() primitives.Height { return n.engine.Final().Height }

// blockImported reports a block that was imported and is not on disk yet. blockImported runs on the
// chain's goroutine. It sends the message first to the mempools and then to the producer. So the
// producer's requests reach the mempools after this message.
func (n *Node) blockImported(m messages.BlockImported) {
	n.tracer.block(m.BlockAccepted, imported)
	if m.IsHead && m.Reorganised {
		n.drops.reorganised(m.Height())
	}
	for _, t := range n.shards.set.Load().list {
		n.tell(t.mempool, m)
	}
	if m.IsHead {
		_, layout, err := chainView{n.engine}.ChildEpoch(m.Hash)
		if err == nil {
			err = n.shards.setLayout(layout, m.BlockAccepted)
		}
		if err != nil {
			panic(fmt.Errorf("node: set up the shards after block %d: %w", m.Height(), err))
		}
	}
	if n.hasProducer() {
		n.tell(n.producer, m)
	}
	if n.network != nil {
		n.tell(n.network, m)
	}
	if n.subscribed.Load() > 0 {
		n.tell(n.subscriptions, m)
	}
}

// blockAccepted reports a block that is on disk. blockAccepted runs on the chain's goroutine.
func (n *Node) blockAccepted(m messages.BlockAccepted) {
	n.stats.count(&m)
	n.stats.measureLag(&m, time.Now())
	n.tracer.block(&m, persisted)
	n.shards.retire(m.Final)
	n.tell(n.tracker, m)
	if n.hasProducer() {
		n.tell(n.producer, m)
	}
	if n.network != nil {
		n.tell(n.network, m)
	}
	n.notifyMoved()
	if n.o.Observe != nil {
		n.o.Observe(&m)
	}
	if n.subscribed.Load() > 0 {
		runtime.Gosched() // let subscribers run now; otherwise they would run only when the chain's goroutine is idle
	}
}

// Receive passes a message of the network to the chain actor: messages.BlockReceived or
// ChunkReceivedAlone. Receive panics if m has another type.
func (n *Node) Receive(m any) {
	switch m := m.(type) {
	case messages.BlockReceived, messages.ChunkReceivedAlone:
		if n.refuseBlocks() != nil {
			if b, is := m.(messages.BlockReceived); is && b.Taken != nil {
				b.Taken()
			}
			return
		}
		n.tell(n.chain, m)
	default:
		panic(fmt.Sprintf("node: the net brought a %T", m))
	}
}
