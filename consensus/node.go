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
	"github.com/troupe-chain/troupe/chain/optimistic"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// Chain is the part of *engine.Engine that a Node drives.
type Chain interface {
	BlockImporter
	Producer
	EarlyApplier
	WitnessMaker
	Positions
	Blocks
	Validators
	Facts
}

// BlockImporter checks and imports blocks. Only the goroutine that steps the Node calls it.
type BlockImporter interface {
	importer.Engine
	// Stored returns the imported blocks that have reached the disk since the last call.
	Stored() ([]*engine.Imported, error)
}

// Producer builds and signs this validator's chunks, blocks and optimistic blocks.
type Producer interface {
	Prepare(
		parent primitives.Hash,
		shard primitives.ShardIndex,
		waiting apply.Candidates,
		stop func() bool,
	) (*apply.Prepared, error)
	NewCodedChunk(
		parent primitives.Hash,
		shard primitives.ShardIndex,
		txs []*primitives.SignedTransaction,
		key primitives.SecretKey,
	) (*primitives.Chunk, *chain.EncodedBody, error)
	NewBlock(p *engine.Proposal, key primitives.SecretKey) (*primitives.Block, error)
	NewOptimisticBlock(
		parent primitives.Hash,
		height primitives.Height,
		timestamp uint64,
		key primitives.SecretKey,
	) (*primitives.OptimisticBlock, error)
	OptimisticReceivers(head *primitives.BlockHeader) ([]primitives.AccountID, error)
}

// EarlyApplier validates optimistic blocks, and applies their chunks before the block arrives.
type EarlyApplier interface {
	CheckOptimistic(o *primitives.OptimisticBlock, maxHeight primitives.Height) ([]primitives.ShardID, error)
	BeginOptimistic(o *primitives.OptimisticBlock, chunks []*primitives.Chunk) (*engine.OptimisticApply, error)
	DropOptimistic()
}

// WitnessMaker makes the witnesses of this validator's chunks, and handles contract code that other
// validators request or send.
type WitnessMaker interface {
	Witness(c *primitives.Chunk) (*engine.Witness, error)
	CodeOf(k primitives.ChunkKey, at primitives.TransitionKey) (map[primitives.Hash][]byte, error)
	Precompile(codes [][]byte)
	Holds(primitives.ShardID) bool
}

// Positions are the ends of the chain: Head and Final of the blocks on disk, Tip and TipFinal of the
// blocks in memory.
type Positions interface {
	Head() *engine.BlockNode
	Final() storage.BlockRef
	Tip() *engine.BlockNode
	TipFinal() storage.BlockRef
}

// Blocks finds blocks by hash.
type Blocks interface {
	Imported(primitives.Hash) *engine.BlockNode
	BlockNode(primitives.Hash) *engine.BlockNode
	Block(primitives.Hash) (*engine.BlockNode, error)
	Header(primitives.Hash) (*primitives.BlockHeader, error)
}

// Validators says which validators approve, and produce blocks and chunks.
type Validators interface {
	Voted(*primitives.BlockHeader) (bool, error)
	Epochs(func(*epoch.Manager) error) error
	Approvers(parent primitives.Hash) ([]chain.Approver, error)
	BlockProducer(parent primitives.Hash, height primitives.Height) (primitives.ValidatorStake, error)
	ChunkProducer(parent primitives.Hash, shard primitives.ShardID) (primitives.ValidatorStake, error)
}

// Facts is what the Node passes on to the machines of chunk parts and witnesses, and what of the
// chain does not change.
type Facts interface {
	Store() *storage.Store
	Chain() *engine.ChainSpec
	Coding() *primitives.ReedSolomon
	Validation() engine.Validation
	ChunkPartsView(stored func(primitives.Hash) *primitives.Chunk) engine.ChunkPartsView
}

// HeaderChain has the verified headers above the imported blocks. engine.HeaderChain implements it.
// All methods are safe for concurrent use.
type HeaderChain interface {
	Add(list []*primitives.BlockHeader) (taken int, err error)
	Head() (storage.BlockRef, error)
	Highest() *primitives.BlockHeader
}

// Witnesses checks what other producers claim about their chunks. engine.WitnessChecker implements
// it. All methods are safe for concurrent use.
type Witnesses interface {
	CheckHeld(w *primitives.ChunkStateWitness, whole *primitives.Chunk) (held bool, err error)
	CheckChunk(c *primitives.Chunk) (held bool, err error)
	CheckWitness(w *primitives.ChunkStateWitness, codes [][]byte) error
}

// Bounds of a Node.
const (
	MaxParked    = 16          // maximum number of an account's approvals for unknown blocks
	MaxMissing   = 256         // maximum number of blocks that are requested at a time
	MaxWaiting   = 4096        // maximum number of transactions in the pool of a shard
	maxPoolBytes = 100_000_000 // maximum total size of the transactions in the pool of a shard
)

// housekeeping is the interval, in ns, at which unanswered requests are repeated (nearcore
// chunk_request_retry_period).
const housekeeping int64 = 400_000_000

// ms is a millisecond in ns.
const ms = 1_000_000

// Options configure a Node. Engine, HeaderChain, Witnesses, Delays and Random are required.
type Options struct {
	// Engine is the engine that the node drives. The node does not close it.
	Engine Chain
	// HeaderChain has the verified headers of Engine.
	HeaderChain HeaderChain
	// Witnesses checks the witnesses and chunks of other producers.
	Witnesses Witnesses

	// The validator.

	// Account is the validator's account. Empty: the node only follows the chain.
	Account primitives.AccountID
	// Key is the signing key of Account. Zero: the node signs nothing, until KeyChanged.
	Key primitives.SecretKey
	// Signed is the last Out.Save that was persisted. nil: the account has never signed anything.
	// With a Signed older than the last persisted Out.Save, the account may sign contradicting
	// messages.
	Signed []byte
	// KeyWait says when Key may sign. The zero value means at once.
	KeyWait KeyWait
	// Vote is the latest_protocol_version in produced blocks. 0: the version of the engine's
	// upgrade schedule.
	Vote primitives.ProtocolVersion
	// Holds returns whether an account is known to hold the state of a shard, so that the account
	// needs no witness. nil: every account needs a witness.
	Holds func(primitives.AccountID, primitives.ShardID) bool
	// Seed determines the order in which the pools return transactions. The zero value is valid.
	Seed primitives.Hash

	// Time.

	// Delays are the timers of doomslug, in ns.
	Delays doomslug.Delays
	// Eager makes the node approve blocks at once while there are transactions or receipts to
	// process. Otherwise the node approves a block after Delays.Endorsement, as neard does.
	Eager bool
	// Wall returns the time of the system's clock, in ns since 1970: the timestamp of a new block, and
	// the time for the wait of the key. It may decrease. nil: the time of the step.
	Wall func() uint64
	// ChooseTimer starts the time limit for choosing the transactions of a chunk. The function that
	// it returns returns whether the time is over (nearcore
	// produce_chunk_add_transactions_time_limit). nil: no time limit.
	ChooseTimer func() (over func() bool)

	// Elapsed returns the time since any point, in ns. It only measures how long parts of steps and
	// jobs take, for Counters. It must be safe for concurrent use. nil: these times are 0.
	Elapsed func() int64

	// NoOptimisticBlocks makes the node neither send nor use optimistic blocks.
	NoOptimisticBlocks bool

	// Signatures.

	// Verifier verifies signatures of validators. nil: PlainVerifier.
	Verifier Verifier
	// Known returns whether the signature of a transaction was verified before. nil: Verifier
	// verifies every transaction.
	Known func(*primitives.SignedTransaction) bool

	// The shell.

	// Random returns a number from 0 to n-1. The node uses it to choose peers. The simulator passes
	// a deterministic function.
	Random func(n int) int
	// OnPersisted is called on any goroutine when imported blocks have reached the disk. The shell
	// must then call Step with Persisted. nil: the shell detects the persisted blocks itself.
	OnPersisted func()
	// Counters count orphans, optimistic blocks, and the results of checking messages that contain
	// an anchor. nil: not counted.
	Counters *Counters

	// Tests.

	// Hooks are for tests. Zero: no hooks.
	Hooks Hooks
}

// Counters count orphans, optimistic blocks, and the results of checking the anchors in messages
// about chunks. Safe for concurrent use. The zero value is ready to use.
type Counters struct {
	Blocks     blockpool.Counters
	Chunks     anchor.Counters // counts partial chunks
	Witnesses  anchor.Counters // counts witness parts, contract accesses and deployed code
	Produced   ProductionCounters
	Optimistic OptimisticCounters
}

// Node is the state machine of one validator, or of a node that only follows the chain. Not safe
// for concurrent use.
type Node struct {
	o          Options
	e          Chain
	me         primitives.AccountID
	public     primitives.PublicKey // public key of o.Key; empty: the node signs nothing
	held       primitives.SecretKey // the validator's key, which may wait; zero: none
	keyWait    KeyWait
	waiting    KeyWaiting
	stillSince int64 // value of now at the last new head, change of the key, or end of a pause
	// stillEnded is the wall clock's time in ns since 1970 at which the key began to sign because the
	// chain stood still. 0: it did not.
	stillEnded  uint64
	now         int64
	wallAt      uint64 // wall clock at the beginning of the step, in ns since 1970
	out         *Out
	ownMessages []Send // messages of this validator to itself that were not handled yet
	signed      *Signatures
	counters    *ProductionCounters
	measured    *metrics.Set // counters.Measured
	unsaved     bool         // this step has made a signature that is not in Out.Save yet
	tracker     *doomslug.Tracker
	head        *head
	// parked has the approvals of unknown blocks by account, each list by ascending target height.
	parked map[primitives.AccountID][]parked
	again  repeatedVote

	blocks *importer.Importer
	// highestVoted is the highest block above the tip that is known to contain approvals by two
	// thirds of the stake, or nil.
	highestVoted   *primitives.BlockHeader
	produced       map[primitives.Hash]primitives.Height // hash -> height of own blocks above the final block
	missing        map[primitives.Hash]*missing
	route          []primitives.Hash // hashes of headers above the imported blocks, ascending by height
	headersAskedAt int64             // time of the last request for headers; 0: never

	parts    *chunkparts.Pool
	complete map[primitives.Hash]*primitives.Chunk // complete chunks above the final block, by hash
	// ready are the chunks that a block may include, by hash of the parent block and by shard.
	ready map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader
	// waitingChunks has complete chunks whose parent block is unknown, by hash of that block.
	waitingChunks map[primitives.Hash][]*primitives.Chunk
	assigned      *assignments
	optimistic    *optimistic.Pool            // nil: NoOptimisticBlocks
	announced     *primitives.OptimisticBlock // optimistic block that this node produced last, or nil
	expected      nextBlock                   // next block for which beginOptimistic was called last
	// optimisticTimes are measured times by height. sentWitnesses are in the order of sending.
	optimisticTimes map[primitives.Height]*optimisticTimes
	sentWitnesses   []sentWitness
	announcing      nextBlock
	witnesses       *partialwitness.Tracker // nil: this node has no account
	votes           *partialwitness.Endorsements
	// deferred are endorsements of chunks on the head, for the producers of later heights. The node
	// sends deferred endorsements only if a height is skipped.
	deferred []partialwitness.Send
	endorsed int64 // time at which the last endorsement arrived
	pools    map[primitives.ShardID]*txpool.Pool

	jobs        map[uint64]func()
	lastJob     uint64
	sweep       int64             // time of the next housekeeping
	activeUntil primitives.Height // there may be transactions or receipts to process up to this height
	headAt      int64             // time at which the head was set or last broadcast
	fatal       error
}

// New returns a node at the engine's head. now is in ns since 1970. New fails if o.Signed cannot be
// decoded.
func New(o Options, now int64) (*Node, error) {
	signed, err := ReadSignatures(o.Signed)
	if err != nil {
		return nil, err
	}
	if o.Verifier == nil {
		o.Verifier = PlainVerifier{}
	}
	e := o.Engine
	signed.begin(e.Tip().Height())
	n := &Node{
		o: o, e: e, me: o.Account, now: now, signed: signed, tracker: doomslug.New(o.Delays, signed.Target, now),
		produced: map[primitives.Hash]primitives.Height{},
		parked:   map[primitives.AccountID][]parked{}, missing: map[primitives.Hash]*missing{},
		complete:      map[primitives.Hash]*primitives.Chunk{},
		ready:         map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader{},
		waitingChunks: map[primitives.Hash][]*primitives.Chunk{},
		pools:         map[primitives.ShardID]*txpool.Pool{}, jobs: map[uint64]func(){}, sweep: now + housekeeping,
	}
	blocks := importer.Options{
		Engine: e, Emit: n.emit, Tip: e.Tip().Height(), Final: e.TipFinal().Height,
		Hooks: importer.Hooks{DropOrphans: o.Hooks.planted(PlantedOrphans)},
	}
	if o.Counters != nil {
		blocks.Counters, blocks.Measured = &o.Counters.Blocks, &o.Counters.Produced.Measured
	}
	n.blocks = importer.New(blocks)
	if o.Counters == nil {
		n.o.Counters = new(Counters)
	}
	if !o.NoOptimisticBlocks {
		n.optimistic = optimistic.New(e.TipFinal().Height)
		n.optimisticTimes = map[primitives.Height]*optimisticTimes{}
	}
	n.parts = chunkparts.New(o.Account, e.ChunkPartsView(n.storedChunk), e.Coding(), o.Verifier.Verify, o.Random)
	n.wallAt = n.wall()
	n.assigned = &assignments{Validation: e.Validation(), of: map[primitives.ChunkKey][]chain.Assigned{}}
	n.parts.Sparing = o.Eager
	n.votes = partialwitness.NewEndorsements(n.assigned, o.Verifier.Verify)
	if n.me != "" {
		n.takeKey(o.Key, o.KeyWait)
		n.witnesses = partialwitness.NewTracker(
			partialwitness.Validator{Account: o.Account},
			n.assigned,
			o.Verifier.Verify,
		)
		n.witnesses.Clock = n.elapsed
	}
	n.counters = new(ProductionCounters)
	if o.Counters != nil {
		n.counters = &o.Counters.Produced
		n.parts.Count(&o.Counters.Chunks)
		if n.witnesses != nil {
			n.witnesses.Count(&o.Counters.Witnesses)
		}
	}
	n.measured = &n.counters.Measured
	return n, nil
}

// Start returns the effects of starting at the engine's head. The caller must call Start once,
// before Step.
func (n *Node) Start(now int64) Out {
	return n.step(now, func() {
		at := n.e.Head()
		n.e.DropOptimistic() // of a node that has failed; its jobs have ended
		n.stepParts(n.partsHead(at.Hash, at.Header()))
		n.setHead(at)
	})
}

// Step handles an event and returns the effects. now is in ns since 1970, and must not be less than in
// the previous step. It may be behind Options.Wall, by the time for which the machine was suspended.
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
			n.blocks.Refresh(uint64(n.now))
			n.importNext()
		case KeyChanged:
			n.rekey(ev)
		default:
			panic(fmt.Sprintf("consensus: no case for %T", ev))
		}
	})
}

func (n *Node) step(now int64, what func()) Out {
	pause := n.passTime(now)
	n.out = new(Out)
	if n.fatal == nil {
		if pause > 0 {
			n.resumeKey(pause)
		}
		what()
		n.advance()
	}
	n.countHeights()
	if n.fatal != nil {
		n.out.Fatal, n.out.Send, n.out.Jobs = n.fatal, nil, nil
	}
	if n.unsaved {
		n.recordKey()
		n.out.Save, n.unsaved = n.signed.AppendBorsh(make([]byte, 0, n.signed.size())), false
	}
	out := *n.out
	n.out = nil
	return out
}

// Idle returns whether no block is between BeginImport and FinishImport. Only while Idle returns
// true may the shell add shards to the engine or remove shards.
func (n *Node) Idle() bool { return n.blocks.Running() == nil }

// Pooled returns the number of transactions in the pools of all shards.
func (n *Node) Pooled() (count int) {
	for _, p := range n.pools {
		count += p.Len()
	}
	return count
}

// advance does everything that is due by now, handles this node's messages to itself, and sets
// Out.Wake.
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
			n.makeOptimisticBlock()
			n.expectNext()
		}
		if len(n.ownMessages) == 0 {
			n.out.Wake = max(n.out.Wake, n.now+1)
			return
		}
	}
}

// partsDue returns the time in ns at which missing chunk parts must be requested. 0: no parts are
// missing.
func (n *Node) partsDue() int64 {
	if n.o.Hooks.planted(PlantedStaleHead) {
		return 0
	}
	return n.parts.Due() * ms
}

// deliverOwn handles the messages that this node has sent to itself.
func (n *Node) deliverOwn() {
	for len(n.ownMessages) > 0 && n.fatal == nil {
		s := n.ownMessages[0]
		n.ownMessages = n.ownMessages[1:]
		n.receive("", s.Message)
	}
}

// noteActivity records that a block of height h has transactions or receipts to process. The
// receipts of that block execute in the next block, at height h+1 or above. That next block is
// final after two more blocks.
func (n *Node) noteActivity(h primitives.Height) { n.activeUntil = max(n.activeUntil, h+4) }

// note adds a note to the output.
func (n *Node) note(err error, format string, args ...any) {
	n.out.Notes = append(n.out.Notes, Note{fmt.Sprintf(format, args...), err})
}

// refuseChunk adds a ChunkRefusal to the output.
func (n *Node) refuseChunk(h *primitives.ChunkHeader, err error) {
	n.out.Refused = append(n.out.Refused, &ChunkRefusal{h.ChunkHash(), h.ShardID, h.HeightCreated, err})
}

// refuseBlock adds a Refusal to the output.
func (n *Node) refuseBlock(from Peer, b *primitives.Block, err error) {
	n.out.Refused = append(n.out.Refused, &Refusal{b.Hash(), b.Header.Height, from, err})
}

// Abandon releases the states of the block that is being imported and of optimistic blocks. All jobs
// must have ended. The caller must not call Step afterwards.
func (n *Node) Abandon() {
	if r := n.blocks.Stop(); r != nil {
		r.Import.Drop()
	}
	n.e.DropOptimistic()
}

// fail stops the node because of an error. Errors after the first are ignored.
func (n *Node) fail(err error) {
	if n.fatal == nil {
		n.fatal = err
	}
}

// sendTo sends a message to a validator. The validator may be this node.
func (n *Node) sendTo(to primitives.AccountID, m Message) {
	if to == n.me {
		n.ownMessages = append(n.ownMessages, Send{To: to, Message: m})
		return
	}
	n.out.Send = append(n.out.Send, Send{To: to, Message: m})
}

// sendPeer sends a message to a connected peer, or to all connected peers if to is empty.
func (n *Node) sendPeer(to Peer, m Message) {
	n.out.Send = append(n.out.Send, Send{Peer: to, Message: m})
}

// save makes the step return Out.Save, so that the shell writes the Signatures to disk before it
// sends the step's messages. All signatures of a step share one write.
func (n *Node) save() { n.unsaved = true }

// run adds a job to the output: the function work. The function then runs in the step that handles
// the job's Done.
func (n *Node) run(work, then func()) {
	n.lastJob++
	n.jobs[n.lastJob] = then
	n.out.Jobs = append(n.out.Jobs, Job{ID: n.lastJob, Run: work})
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

// receive handles a message from a peer, or from this node itself if from is empty.
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
	case *primitives.OptimisticBlock:
		n.optimisticBlock(m)
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
			n.countEndorsement(&m.Metadata, nil)
		case !errors.Is(err, partialwitness.ErrKnown):
			n.countEndorsement(&m.Metadata, err)
			n.note(err, "endorsement of %s dropped", m.Metadata.AccountID)
		}
	case *primitives.WitnessAck:
		n.witnessAcked(m)
	default:
		n.witnessMessage(m)
	}
}

// housekeep repeats unanswered requests, and drops data at or below the final block. If the head
// has not changed for Delays.Skip, housekeep broadcasts the head again.
func (n *Node) housekeep() {
	if !n.o.Hooks.planted(PlantedStaleHead) {
		n.stepParts(chunkparts.Tick{})
		n.retryRequests()
	}
	n.watchKey()
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

// assignments caches the validators of chunks, because computing them takes time.
type assignments struct {
	engine.Validation
	of    map[primitives.ChunkKey][]chain.Assigned
	order []primitives.ChunkKey
}

// maxAssignments is the capacity of assignments.
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
