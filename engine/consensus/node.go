package consensus

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// Chain is the engine as a Node drives it; *engine.Engine is it.
type Chain interface {
	Precheck(b *primitives.Block) (engine.Prechecked, error)
	PrecheckBody(c *primitives.Chunk) (signed bool, need blockpool.Need, err error)
	AddHeaders(list []*primitives.BlockHeader) (taken int, err error)
	HeaderHead() (storage.BlockRef, error)
	BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error)
	Stored() ([]*engine.Accepted, error)
	NewCodedChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction, key primitives.SecretKey) (*primitives.Chunk, *chain.EncodedBody, error)
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	Prepare(parent primitives.Hash, shard primitives.ShardIndex, waiting apply.Candidates, stop func() bool) (*apply.Prepared, error)
	Witness(c *primitives.Chunk) (*engine.Witness, error)
	CheckHeld(w *primitives.ChunkStateWitness, whole *primitives.Chunk) (held bool, err error)
	CheckChunk(c *primitives.Chunk) (held bool, err error)
	CheckWitness(w *primitives.ChunkStateWitness, codes [][]byte) error
	CodeOf(k primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error)
	Precompile(codes [][]byte)

	Holds(primitives.ShardID) bool
	Head() *engine.BlockNode
	Final() storage.BlockRef
	Tip() *engine.BlockNode
	TipFinal() storage.BlockRef
	Imported(primitives.Hash) *engine.BlockNode
	BlockNode(primitives.Hash) *engine.BlockNode
	Block(primitives.Hash) (*engine.BlockNode, error)
	Header(primitives.Hash) (*primitives.BlockHeader, error)
	Store() *storage.Store
	Chain() *engine.ChainSpec
	Coding() *primitives.ReedSolomon
	HighestHeader() *primitives.BlockHeader
	Voted(*primitives.BlockHeader) (bool, error)
	Epochs(func(*epoch.Manager) error) error
	Approvers(parent primitives.Hash) ([]chain.Approver, error)
	BlockProducer(parent primitives.Hash, height primitives.Height) (primitives.ValidatorStake, error)
	ChunkProducer(parent primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
	Validation() engine.Validation
	ChunkPartsView(stored func(primitives.Hash) *primitives.Chunk) engine.ChunkPartsView
}

// Bounds.
const (
	MaxParked    = 16          // votes of an account for blocks that have not come
	MaxMissing   = 256         // blocks that are asked for at once
	MaxWaiting   = 4096        // transactions of a shard
	maxPoolBytes = 100_000_000 // of those
)

// housekeeping is the time between two looks at what was asked for and has not come (nearcore chunk_request_retry_period).
const housekeeping int64 = 400_000_000

// ms is a millisecond.
const ms = 1_000_000

// Options are what a Node works with.
type Options struct {
	Engine  Chain
	Account primitives.AccountID // of the validator; none: it only follows
	Key     primitives.SecretKey
	Delays  doomslug.Delays
	Vote    primitives.ProtocolVersion // latest_protocol_version of its blocks
	Signed  []byte                     // what Out.Save said last; nil: nothing
	Verify  func(primitives.Signature, []byte, primitives.PublicKey) bool
	// OnSigned is told of signatures that this validator has made, so that Verify need not look at them; nil: nobody is.
	OnSigned func(primitives.Signature, []byte, primitives.PublicKey)
	// Known tells whether a transaction's signature was found right before; nil: nobody knows, and Verify is asked.
	Known  func(*primitives.SignedTransaction) bool
	Random func(n int) int // below n, for whom to ask
	Seed   primitives.Hash // of the pools' order
	// Eager has it vote at once, and not after Delays.Endorsement, while there is something to do.
	Eager bool
	// Holds tells whether an account is known to hold a shard's state, so that it judges chunks by that; nil: of nobody is it known.
	Holds       func(primitives.AccountID, primitives.ShardID) bool
	OnPersisted func() // called from any goroutine when adopted blocks have come to the disk
	// Wall is the time that blocks say, ns since 1970; nil: it is that of steps. That one never goes back, whatever a clock is set to.
	Wall    func() uint64
	Planted Planted // for tests of the simulator
}

// Planted are bugs that tests of the simulator put into a node. None: there are none.
type Planted uint32

// The bugs.
const (
	PlantedThreshold  Planted = 1 << iota // a block is made with too few approvals
	PlantedForget                         // what was signed is forgotten by a restart
	PlantedEndorse                        // witnesses are endorsed unseen, and a chunk producer lies
	PlantedUnendorsed                     // chunks go into blocks without endorsements
	PlantedEarly                          // it votes for a block before that is on disk
	PlantedStaleHead                      // what was asked for is not asked for again
	PlantedDropReady                      // chunks are forgotten when their block comes late
	PlantedSkip                           // it endorses a height that it has skipped
	PlantedOrphans                        // orphans are dropped and their parents not asked for
	PlantedNoForward                      // own parts are not passed on, nor asked for
)

func (o *Options) planted(p Planted) bool { return o.Planted&p != 0 }

// Node is the state machine. It is not safe for concurrent use.
type Node struct {
	o           Options
	e           Chain
	me          primitives.AccountID
	public      primitives.PublicKey // of the key with which it signs; none: it signs nothing
	now         int64
	out         *Out
	ownMessages []Send // to this validator itself
	signed      *Signatures
	unsaved     bool // the step has signed something
	tracker     *doomslug.Tracker
	head        *head
	parked      map[primitives.AccountID][]parked // by target
	again       repeatedVote

	blocks         *blockpool.Pool
	tip            primitives.Height
	highestVoted   *primitives.BlockHeader // the highest one of a block that two thirds have voted for, nil: none above the tip
	work           *work
	produced       map[primitives.Hash]primitives.Height // blocks of this node, above the final one
	missing        map[primitives.Hash]*missing
	route          []primitives.Hash // of headers ahead of the blocks
	headersAskedAt int64             // when headers were asked for

	parts         *chunkparts.Pool
	complete      map[primitives.Hash]*primitives.Chunk                              // complete chunks above the final block
	ready         map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader // that may go into a block, by the block they are on
	waitingChunks map[primitives.Hash][]*primitives.Chunk                            // complete chunks on blocks that are not here yet, by those
	assigned      *assignments
	witnesses     *partialwitness.Tracker // nil: no validator
	votes         *partialwitness.Endorsements
	deferred      []partialwitness.Send // endorsements of chunks on the head, to who may need them if a height is skipped
	endorsed      int64                 // when an endorsement came last
	pools         map[primitives.ShardID]*txpool.Pool

	jobs        map[uint64]func()
	lastJob     uint64
	sweep       int64             // when housekeeping is due
	activeUntil primitives.Height // up to which there is something to do
	headAt      int64             // when the head came, or was told again
	fatal       error
}

// New returns the node; it is at the engine's head.
func New(o Options, now int64) (*Node, error) {
	signed, err := ReadSignatures(o.Signed)
	if err != nil {
		return nil, err
	}
	e := o.Engine
	signed.begin(e.Tip().Height())
	n := &Node{
		o: o, e: e, me: o.Account, signed: signed, tracker: doomslug.New(o.Delays, signed.Target, now),
		blocks: blockpool.New(e.Tip().Height(), e.TipFinal().Height), tip: e.Tip().Height(), produced: map[primitives.Hash]primitives.Height{},
		parked: map[primitives.AccountID][]parked{}, missing: map[primitives.Hash]*missing{}, complete: map[primitives.Hash]*primitives.Chunk{},
		ready: map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader{}, waitingChunks: map[primitives.Hash][]*primitives.Chunk{},
		pools: map[primitives.ShardID]*txpool.Pool{}, jobs: map[uint64]func(){}, sweep: now + housekeeping,
	}
	n.parts = chunkparts.New(o.Account, e.ChunkPartsView(n.storedChunk), e.Coding(), o.Verify, o.Random)
	n.assigned = &assignments{Validation: e.Validation(), of: map[primitives.ChunkKey][]chain.Assigned{}}
	n.parts.Sparing = o.Eager
	n.votes = partialwitness.NewEndorsements(n.assigned, o.Verify)
	if n.me != "" {
		n.setKey(o.Key)
		n.witnesses = partialwitness.NewTracker(partialwitness.Validator{Account: o.Account, Key: o.Key}, n.assigned, o.Verify)
	}
	return n, nil
}

// Start is the first step: on the engine's head.
func (n *Node) Start(now int64) Out {
	return n.step(now, func() {
		at := n.e.Head()
		n.stepParts(n.partsHead(at.Hash, at.Header()))
		n.setHead(at)
	})
}

// Step takes an event at a time that is never before the last one.
func (n *Node) Step(now int64, ev Event) Out {
	return n.step(now, func() {
		switch ev := ev.(type) {
		case Received:
			n.receive(ev.From, ev.Message)
		case Submitted:
			n.submit(ev.Tx)
		case Tick:
		case Done:
			n.done(ev.Job)
		case Persisted:
			n.persisted()
		case ShardsChanged:
			n.renewNeeds()
		case KeyChanged:
			n.rekey(ev.Key)
		default:
			panic(fmt.Sprintf("consensus: no case for %T", ev))
		}
	})
}

func (n *Node) step(now int64, what func()) Out {
	n.now, n.out = now, new(Out)
	if n.fatal == nil {
		what()
		n.advance()
	}
	if n.fatal != nil {
		n.out.Fatal, n.out.Send, n.out.Jobs = n.fatal, nil, nil
	}
	if n.unsaved {
		n.out.Save, n.unsaved = n.signed.AppendBorsh(make([]byte, 0, n.signed.size())), false
	}
	out := *n.out
	n.out = nil
	return out
}

// Idle tells that no block is between Begin and Adopt: then shards may come in and go.
func (n *Node) Idle() bool { return n.work == nil }

// advance does what time brings, and what this node has said to itself.
func (n *Node) advance() {
	for n.deliverOwn(); n.fatal == nil; n.deliverOwn() {
		if n.now >= n.sweep {
			n.sweep = n.now + housekeeping
			n.housekeep()
		}
		if due := n.partsDue(); due > 0 && n.now >= due {
			n.stepParts(chunkparts.Tick{})
		}
		n.out.Wake = n.sweep
		if due := n.partsDue(); due > 0 {
			n.out.Wake = min(n.out.Wake, due)
		}
		if n.head != nil {
			for _, p := range n.tracker.Tick(n.now, n.isEager()) {
				n.vote(p)
			}
			n.voteAgain()
			if wait := n.makeBlock(); wait > 0 {
				n.out.Wake = min(n.out.Wake, wait)
			}
			n.out.Wake = min(n.out.Wake, n.tracker.Next())
			if n.again.vote != nil {
				n.out.Wake = min(n.out.Wake, n.again.at)
			}
		}
		if len(n.ownMessages) == 0 {
			n.out.Wake = max(n.out.Wake, n.now+1)
			return
		}
	}
}

// partsDue is when parts are to be asked for that nobody passes on; 0: there are none.
func (n *Node) partsDue() int64 {
	if n.o.planted(PlantedStaleHead) {
		return 0
	}
	return n.parts.Due() * ms
}

// deliverOwn hears what this node has said to itself.
func (n *Node) deliverOwn() {
	for len(n.ownMessages) > 0 && n.fatal == nil {
		s := n.ownMessages[0]
		n.ownMessages = n.ownMessages[1:]
		n.receive("", s.Message)
	}
}

// noteActivity notes that there is something to do at a height: what it brings is executed one block later, and final two blocks behind that.
func (n *Node) noteActivity(h primitives.Height) { n.activeUntil = max(n.activeUntil, h+4) }

// add says that something happened.
func (n *Node) note(err error, format string, args ...any) {
	n.out.Notes = append(n.out.Notes, Note{fmt.Sprintf(format, args...), err})
}

// refuseChunk says that a chunk or its witness is bad, whoever judges it.
func (n *Node) refuseChunk(h *primitives.ChunkHeader, err error) {
	n.out.Refused = append(n.out.Refused, &ChunkRefusal{h.ChunkHash(), h.ShardID, h.HeightCreated, err})
}

func (n *Node) refuseBlock(from Peer, b *primitives.Block, err error) {
	n.out.Refused = append(n.out.Refused, &Refusal{b.Hash(), b.Header.Height, from, err})
}

// Abandon gives back what the block in work holds, of a node that is not stepped any more and whose jobs have ended.
func (n *Node) Abandon() {
	if n.work != nil {
		n.work.pending.Drop()
		n.work = nil
	}
}

// fail ends all work.
func (n *Node) fail(err error) {
	if n.fatal == nil {
		n.fatal = err
	}
}

// sendTo sends a message to a validator, which may be this one.
func (n *Node) sendTo(to primitives.AccountID, m Message) {
	if to == n.me {
		n.ownMessages = append(n.ownMessages, Send{To: to, Message: m})
		return
	}
	n.out.Send = append(n.out.Send, Send{To: to, Message: m})
}

// sendPeer sends a message to a neighbour; none: to all.
func (n *Node) sendPeer(to Peer, m Message) {
	n.out.Send = append(n.out.Send, Send{Peer: to, Message: m})
}

// save has what was signed written before anything is sent: with all that the step signs besides.
func (n *Node) save() { n.unsaved = true }

// run hands out work; then comes behind it.
func (n *Node) run(work, then func()) {
	n.lastJob++
	n.jobs[n.lastJob] = then
	n.out.Jobs = append(n.out.Jobs, Job{n.lastJob, work})
}

func (n *Node) done(id uint64) {
	then := n.jobs[id]
	if then == nil {
		n.note(nil, "job %d, which is not under way", id)
		return
	}
	delete(n.jobs, id)
	then()
}

// receive takes a message of another node, or of this one.
func (n *Node) receive(from Peer, m Message) {
	switch m := m.(type) {
	case *primitives.Block:
		n.block(from, m)
	case BlockRequest:
		if at, err := n.e.Block(m.Hash); err == nil {
			n.sendPeer(from, at.Block)
		}
	case HeadersRequest:
		n.answerHeaders(from, m.Hashes)
	case Headers:
		n.headers(from, m.List)
	case *primitives.Approval:
		n.approval(m, "")
	case *primitives.SignedTransaction:
		n.transaction(m)
	case *primitives.PartialChunk:
		n.stepParts(chunkparts.Partial{PartialChunk: m})
	case *primitives.ChunkForward:
		n.stepParts(chunkparts.Forward{ChunkForward: m})
	case *primitives.ChunkRequest:
		n.stepParts(chunkparts.Request{ChunkRequest: m, From: from})
	case *primitives.ChunkResponse:
		n.stepParts(chunkparts.Response{ChunkResponse: m})
	case *primitives.ChunkEndorsement:
		switch err := n.votes.Add(m); {
		case err == nil:
			n.endorsed = n.now
		case !errors.Is(err, partialwitness.ErrKnown):
			n.note(err, "endorsement of %s dropped", m.Metadata.AccountID)
		}
	case *primitives.WitnessAck: // the producer's meters
	default:
		n.witnessMessage(m)
	}
}

// housekeep asks again for what has not come, and tells the head again where nothing moves.
func (n *Node) housekeep() {
	if !n.o.planted(PlantedStaleHead) {
		n.stepParts(chunkparts.Tick{})
		n.retryRequests()
	}
	if n.head != nil && n.now-n.headAt >= n.o.Delays.Skip {
		n.headAt = n.now
		n.out.Send = append(n.out.Send, Send{Message: n.head.block, Again: true})
	}
	final := n.e.Final().Height
	for hash, c := range n.complete {
		if c.Header.HeightCreated <= final {
			delete(n.complete, hash)
		}
	}
	for hash, h := range n.produced {
		if h <= final {
			delete(n.produced, hash)
		}
	}
	for on, list := range n.waitingChunks {
		if list[0].Header.HeightCreated <= final {
			delete(n.waitingChunks, on)
		}
	}
	for prev, of := range n.ready {
		for _, h := range of {
			if h.HeightCreated <= final {
				delete(n.ready, prev)
			}
			break
		}
	}
}

// assignments remembers who judges which chunk: that is drawn for each shard and height.
type assignments struct {
	engine.Validation
	of    map[primitives.ChunkKey][]chain.Assigned
	order []primitives.ChunkKey
}

// maxAssignments bounds them.
const maxAssignments = 256

// Validators is witness.Chain's.
func (a *assignments) Validators(k primitives.ChunkKey) ([]chain.Assigned, error) {
	if list, ok := a.of[k]; ok {
		return list, nil
	}
	list, err := a.Validation.Validators(k)
	if err != nil {
		return nil, err
	}
	if len(a.order) >= maxAssignments {
		delete(a.of, a.order[0])
		a.order = slices.Delete(a.order, 0, 1)
	}
	a.of[k] = list
	a.order = append(a.order, k)
	return list, nil
}
