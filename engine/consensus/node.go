package consensus

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
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

// Chain is the engine as a Node uses it. *engine.Engine implements it. Its methods have the
// contracts of the engine's.
type Chain interface {
	Precheck(b *primitives.Block) (engine.Prechecked, error)
	PrecheckBody(c *primitives.Chunk) (signed bool, need blockpool.Need, err error)
	AddHeaders(list []*primitives.BlockHeader) (taken int, err error)
	HeaderHead() (storage.BlockRef, error)
	BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error)
	FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error)
	Stored() ([]*engine.Accepted, error)
	NewCodedChunk(
		parent primitives.Hash,
		shard primitives.ShardIndex,
		txs []*primitives.SignedTransaction,
		key primitives.SecretKey,
	) (*primitives.Chunk, *chain.EncodedBody, error)
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	Prepare(
		parent primitives.Hash,
		shard primitives.ShardIndex,
		waiting apply.Candidates,
		stop func() bool,
	) (*apply.Prepared, error)
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

// Bounds of a Node.
const (
	MaxParked    = 16          // votes of one account for unknown blocks
	MaxMissing   = 256         // requested blocks
	MaxWaiting   = 4096        // transactions of one shard's pool
	maxPoolBytes = 100_000_000 // their total size
)

// housekeeping is the interval between checks for unanswered requests, in ns (nearcore
// chunk_request_retry_period).
const housekeeping int64 = 400_000_000

// ms is a millisecond in ns.
const ms = 1_000_000

// Options configure a Node. Engine, Delays, Verify and Random are required.
type Options struct {
	// Engine is the engine that the node drives. Required. The node does not close it.
	Engine Chain
	// Account is the validator's account. Empty: the node only follows the chain.
	Account primitives.AccountID
	// Key is the account's signing key. Zero: the account signs nothing, until KeyChanged.
	Key primitives.SecretKey
	// Delays are the doomslug timers, in ns. Required.
	Delays doomslug.Delays
	// Vote is the latest_protocol_version of its blocks. 0: as the engine's upgrade schedule says.
	Vote primitives.ProtocolVersion
	// Signed is the last Out.Save that was persisted. nil: the account has never signed. Passing
	// nil for an account that has signed permits double signing.
	Signed []byte
	// Verify verifies a signature. Required.
	Verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	// OnSigned is called with each signature that this validator makes, so that a cache behind
	// Verify can add it. nil: not called.
	OnSigned func(primitives.Signature, []byte, primitives.PublicKey)
	// Known reports whether a transaction's signature was verified before. nil: Verify is called
	// for each.
	Known func(*primitives.SignedTransaction) bool
	// Random returns a number below n, to choose peers. Required. It must be deterministic in the
	// simulator.
	Random func(n int) int
	// Seed determines the order of the pools. The zero value is valid.
	Seed primitives.Hash
	// Eager makes the node vote at once instead of after Delays.Endorsement, while there are
	// transactions or receipts to process. false: neard's pace.
	Eager bool
	// Holds reports whether an account is known to hold a shard's state and so needs no witness.
	// nil: unknown for all accounts.
	Holds func(primitives.AccountID, primitives.ShardID) bool
	// OnPersisted is called on any goroutine when imported blocks have reached the disk; the shell
	// then steps Persisted. nil: the shell finds out otherwise.
	OnPersisted func()
	// Wall returns the timestamp of new blocks, ns since 1970. nil: the time of the step, which
	// never goes back whatever the system clock does.
	Wall func() uint64
	// Counters count what becomes of messages that name an anchor. nil: they are not published.
	Counters *Counters
	// Planted are bugs for tests of the simulator. 0: none.
	Planted Planted
}

// Counters count what becomes of messages about chunks that name an anchor. Safe for concurrent use.
// The zero value is ready.
type Counters struct {
	Chunks    anchor.Counters // partial chunks
	Witnesses anchor.Counters // witness parts, contract accesses, deployed code
}

// Planted is a set of bugs that the simulator's tests put into a node.
type Planted uint32

// The bugs.
const (
	PlantedThreshold  Planted = 1 << iota // produces a block with too few approvals
	PlantedForget                         // forgets after a restart what was signed
	PlantedEndorse                        // endorses witnesses unchecked, and produces wrong chunks
	PlantedUnendorsed                     // includes chunks without endorsements
	PlantedEarly                          // votes for a block before it is on disk
	PlantedStaleHead                      // does not repeat requests
	PlantedDropReady                      // forgets chunks if their block arrives late
	PlantedSkip                           // endorses a height that it has skipped
	PlantedOrphans                        // drops orphans and does not request their parents
	PlantedNoForward                      // neither forwards nor requests chunk parts
)

func (o *Options) planted(p Planted) bool { return o.Planted&p != 0 }

// Node is the state machine of one validator or follower. It is not safe for concurrent use.
type Node struct {
	o           Options
	e           Chain
	me          primitives.AccountID
	public      primitives.PublicKey // of the signing key; empty: signs nothing
	now         int64
	out         *Out
	ownMessages []Send // messages to this validator itself
	signed      *Signatures
	unsaved     bool // this step has signed something
	tracker     *doomslug.Tracker
	head        *head
	parked      map[primitives.AccountID][]parked // votes for unknown blocks, by target
	again       repeatedVote

	blocks *blockpool.Pool
	tip    primitives.Height
	// the highest block known to have approvals of two thirds; nil: none above the tip
	highestVoted   *primitives.BlockHeader
	work           *work
	produced       map[primitives.Hash]primitives.Height // blocks of this node above the final one
	missing        map[primitives.Hash]*missing
	route          []primitives.Hash // hashes of headers above the blocks
	headersAskedAt int64             // when headers were requested

	parts    *chunkparts.Pool
	complete map[primitives.Hash]*primitives.Chunk // complete chunks above the final block
	// chunks that may go into a block, by parent
	ready         map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader
	waitingChunks map[primitives.Hash][]*primitives.Chunk // complete chunks with an unknown parent, by parent
	assigned      *assignments
	witnesses     *partialwitness.Tracker // nil: not a validator
	votes         *partialwitness.Endorsements
	// endorsements of chunks on the head, for validators that need them only if a height is skipped
	deferred []partialwitness.Send
	endorsed int64 // when the last endorsement arrived
	pools    map[primitives.ShardID]*txpool.Pool

	jobs        map[uint64]func()
	lastJob     uint64
	sweep       int64             // when housekeeping is due
	activeUntil primitives.Height // up to this height there is something to process
	headAt      int64             // when the head was set or broadcast again
	fatal       error
}

// New returns a node at the engine's head. now is in ns since 1970.
func New(o Options, now int64) (*Node, error) {
	signed, err := ReadSignatures(o.Signed)
	if err != nil {
		return nil, err
	}
	e := o.Engine
	signed.begin(e.Tip().Height())
	n := &Node{
		o: o, e: e, me: o.Account, signed: signed, tracker: doomslug.New(o.Delays, signed.Target, now),
		blocks: blockpool.New(
			e.Tip().Height(),
			e.TipFinal().Height,
		), tip: e.Tip().Height(), produced: map[primitives.Hash]primitives.Height{},
		parked: map[primitives.AccountID][]parked{}, missing: map[primitives.Hash]*missing{},
		complete:      map[primitives.Hash]*primitives.Chunk{},
		ready:         map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader{},
		waitingChunks: map[primitives.Hash][]*primitives.Chunk{},
		pools:         map[primitives.ShardID]*txpool.Pool{}, jobs: map[uint64]func(){}, sweep: now + housekeeping,
	}
	n.parts = chunkparts.New(o.Account, e.ChunkPartsView(n.storedChunk), e.Coding(), o.Verify, o.Random)
	n.assigned = &assignments{Validation: e.Validation(), of: map[primitives.ChunkKey][]chain.Assigned{}}
	n.parts.Sparing = o.Eager
	n.votes = partialwitness.NewEndorsements(n.assigned, o.Verify)
	if n.me != "" {
		n.setKey(o.Key)
		n.witnesses = partialwitness.NewTracker(
			partialwitness.Validator{Account: o.Account, Key: o.Key},
			n.assigned,
			o.Verify,
		)
	}
	if o.Counters != nil {
		n.parts.Count(&o.Counters.Chunks)
		if n.witnesses != nil {
			n.witnesses.Count(&o.Counters.Witnesses)
		}
	}
	return n, nil
}

// Start is the first step, on the engine's head. It must be called once, before Step.
func (n *Node) Start(now int64) Out {
	return n.step(now, func() {
		at := n.e.Head()
		n.stepParts(n.partsHead(at.Hash, at.Header()))
		n.setHead(at)
	})
}

// Step handles an event. now is in ns since 1970 and must not be less than in the step before.
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

// Idle reports whether no block is between BeginImport and FinishImport. Then shards may be added
// and removed.
func (n *Node) Idle() bool { return n.work == nil }

// advance does what is due by time and handles the messages to this node itself.
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

// partsDue returns when missing chunk parts are to be requested, in ns; 0: none are.
func (n *Node) partsDue() int64 {
	if n.o.planted(PlantedStaleHead) {
		return 0
	}
	return n.parts.Due() * ms
}

// deliverOwn handles the messages to this node itself.
func (n *Node) deliverOwn() {
	for len(n.ownMessages) > 0 && n.fatal == nil {
		s := n.ownMessages[0]
		n.ownMessages = n.ownMessages[1:]
		n.receive("", s.Message)
	}
}

// noteActivity records that there is something to process at a height. Its receipts execute one
// block later, and that is final after two more.
func (n *Node) noteActivity(h primitives.Height) { n.activeUntil = max(n.activeUntil, h+4) }

// note adds a note to the output.
func (n *Node) note(err error, format string, args ...any) {
	n.out.Notes = append(n.out.Notes, Note{fmt.Sprintf(format, args...), err})
}

// refuseChunk reports an invalid chunk or witness.
func (n *Node) refuseChunk(h *primitives.ChunkHeader, err error) {
	n.out.Refused = append(n.out.Refused, &ChunkRefusal{h.ChunkHash(), h.ShardID, h.HeightCreated, err})
}

// refuseBlock reports an invalid block.
func (n *Node) refuseBlock(from Peer, b *primitives.Block, err error) {
	n.out.Refused = append(n.out.Refused, &Refusal{b.Hash(), b.Header.Height, from, err})
}

// Abandon releases the block being imported. The node must not be stepped again, and its jobs must
// have ended.
func (n *Node) Abandon() {
	if n.work != nil {
		n.work.pending.Drop()
		n.work = nil
	}
}

// fail stops the node with an error.
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

// sendPeer sends a message to a neighbour; empty: to all.
func (n *Node) sendPeer(to Peer, m Message) {
	n.out.Send = append(n.out.Send, Send{Peer: to, Message: m})
}

// save requests that Signatures are persisted before this step's messages are sent. All signatures
// of a step share one write.
func (n *Node) save() { n.unsaved = true }

// run hands out a job and calls then after it.
func (n *Node) run(work, then func()) {
	n.lastJob++
	n.jobs[n.lastJob] = then
	n.out.Jobs = append(n.out.Jobs, Job{n.lastJob, work})
}

func (n *Node) done(id uint64) {
	then := n.jobs[id]
	if then == nil {
		n.note(nil, "unknown job %d is done", id)
		return
	}
	delete(n.jobs, id)
	then()
}

// receive handles a message of a peer, or of this node.
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
	case *primitives.WitnessAck: // only the producer's metrics use it
	default:
		n.witnessMessage(m)
	}
}

// housekeep repeats requests and broadcasts the head again if it has not moved.
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

// assignments caches the validators of chunks, which are drawn for each shard and height.
type assignments struct {
	engine.Validation
	of    map[primitives.ChunkKey][]chain.Assigned
	order []primitives.ChunkKey
}

// maxAssignments bounds the cache.
const maxAssignments = 256

// Validators implements partialwitness.Chain.
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
