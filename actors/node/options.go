package node

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/network"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Limits bound what clients may use at once. The zero value means the defaults.
type Limits struct {
	Sessions int // clients with an open session; 0: DefaultSessions
	Parked   int // requests that wait for a transaction; 0: DefaultParked
	// Outcomes bounds the outcomes known for waits, of all awaited transactions and their
	// receipts; 0: DefaultOutcomes. Beyond it a wait that would read more than 64 is refused.
	Outcomes   int
	Queue      int // unchecked submissions of one shard; 0: DefaultQueue
	QueueBytes int // sum of their sizes; 0: DefaultQueueBytes
	Held       int // transactions of one shard that wait for compilation; 0: DefaultHeld
	// HeldBytes bounds the sum of their sizes; 0: DefaultHeldBytes. It is at most a quarter of
	// Options.Mempool.Bytes, but at least enough for two of the largest transactions.
	HeldBytes int
	Wait      time.Duration // longest wait for a transaction (rpc.polling_config.polling_timeout); 0: DefaultWait
	// BeginWait: new waits are refused while a wait takes longer than this to begin
	// (troupe.rpc.max_wait_delay); 0: never.
	BeginWait time.Duration
}

// Defaults of Limits.
const (
	DefaultSessions   = 10_000
	DefaultParked     = 10_000
	DefaultOutcomes   = 1 << 19
	DefaultQueue      = 20_000
	DefaultQueueBytes = 64 << 20
	DefaultHeld       = 4096
	DefaultHeldBytes  = 24 << 20
	leastHeldBytes    = 4 << 20 // two of the largest transactions
	DefaultWait       = 10 * time.Second
)

// DefaultLinger is less than the time of a block in neard. A client that waited for execution
// and asks for its transaction right after finds it executed and not final, as with neard.
const DefaultLinger = 200 * time.Millisecond

// Options configure a node. Engine is required. Either Keys, Validator or Replica decides how
// blocks come: Keys makes them alone; Validator together with others; Replica gets them
// executed from another node; none of them follows the network. Functions are called on any
// goroutine and must not wait, unless their comment says otherwise.
type Options struct {
	// Engine is open, and only the node changes it. The node does not close it.
	Engine *engine.Engine
	// Signatures is the checker with the Check that is the engine's Options.Signature, so that a
	// signature checked at submission is not checked again in the chunk. nil: submissions have a
	// checker of their own. The node closes it.
	Signatures *signature.Checker
	// Keys are the keys of this node's validators, by account, for a chain without other
	// validators. Empty: the node makes no blocks.
	Keys map[primitives.AccountID]primitives.SecretKey
	// Vote is the latest_protocol_version of its blocks. 0: as the engine's upgrade schedule says.
	Vote primitives.ProtocolVersion
	// Mode is when blocks are made; a sandbox may change it. The zero value is production.Instant.
	Mode production.Mode
	// SkipEmpty: no blocks while there is nothing to do (consensus.produce_empty_blocks = false).
	SkipEmpty bool
	// Linger is production.Rules.Linger: how long blocks that only bring finality wait, unless a
	// client waits for it. 0: DefaultLinger; negative: none.
	Linger time.Duration
	// Delays are doomslug's (consensus.* in config.json). There is no default.
	Delays doomslug.Delays
	// Mempool limits each shard's pool. Zero fields mean no limit.
	Mempool txpool.Limits
	// Limits bound what clients use.
	Limits Limits
	// Clock returns the time of blocks, ns since 1970. nil: the system clock.
	Clock func() uint64
	// Small: the process runs many such nodes (sandbox worlds), so that a small actor system is
	// used.
	Small bool
	// Begin is the initial state of a sandbox's clock. nil: as Clock says.
	Begin *messages.Clock
	// Seed orders the groups of pools. Zero: random.
	Seed primitives.Hash
	// Summary is the time between summary lines in the log. 0: none.
	Summary time.Duration
	// OneIn: one in so many transactions is traced, if Traced is set. 0 means 1.
	OneIn uint64
	// Traced gets the trace of each sampled transaction when it is done. nil: tracing is off.
	Traced func(*Trace)
	// Thread starts an extra thread for actors while blocks are followed by a subscriber, and
	// returns what stops it. nil: none.
	Thread func() (done func())
	// Observe is called for each accepted block on the chain's goroutine, which it delays. nil:
	// not called.
	Observe func(*messages.BlockAccepted)
	// Approval and Endorse send votes and endorsements of Keys to the net. nil: there is none. For
	// tests of networks without package network.
	Approval messages.Sender[messages.ApprovalMade]
	Endorse  messages.Sender[messages.EndorsementMade]
	// Net receives what the chain reports to the net, in addition to the network actor.
	Net Net
	// Network configures the network actor. Engine, Log and Out are filled in by the node. nil:
	// there are no other nodes.
	Network *network.Options
	// Validator makes blocks together with other validators, instead of Keys; the node fills in
	// most of it. It needs Network. nil: this node is no validator among others.
	Validator *validatoractor.Options
	// Replica: the node executes nothing and makes no blocks. Its blocks come through Give.
	Replica bool
	// Pooled gets the transactions that clients of this node submit, in addition to the network.
	// nil: not called.
	Pooled messages.Sender[messages.TransactionPooled]
	Log    *logrus.Logger // nil: nothing is logged
	// Failed is the folder for chunks that could not be applied and for stack dumps of the
	// watchdog; empty: none are written. FailedBuild is the program's version in these files.
	Failed, FailedBuild string
	// Exit ends the process because the disk has failed under an actor that owns state. nil: the
	// reason is logged and the process ends with ExitCode.
	Exit func(who string, reason any, stack []byte)

	// Room is called when the disk is full, when it has room again (with nil), and with Reopen set
	// when the store must be reopened for that. nil: not called.
	Room func(*storage.Full)

	// Standstill is how long an actor may spend on one message, or a message may wait, before the
	// watchdog reports it. 0: DefaultStandstill.
	Standstill time.Duration

	// Hooks of tests. dispatcher replaces all dispatchers; tripHook sees each message; onSend sees
	// what a validator sends before it leaves; wrapSource wraps the source of a validator's
	// incoming shards. nil: none.
	dispatcher actor.Dispatcher
	trip       tripHook
	onSend     func([]consensus.Send)
	wrapSource func(engine.PartSource) engine.PartSource
}

// Net receives what the chain reports to the network, on the chain's goroutine. nil fields are
// not called.
type Net struct {
	Refused      messages.Sender[messages.BlockRefused]
	ChunkRefused messages.Sender[messages.ChunkRefused]
	Wanted       messages.Sender[messages.BlockWanted]
	ChunksWanted messages.Sender[messages.ChunksWanted]
}

// ExitCode is the exit code of a process with a state in doubt after a disk failure.
const ExitCode = 70

// complete fills in the defaults.
func (o *Options) complete() error {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.PanicLevel)
	}
	l := &o.Limits
	l.Sessions, l.Parked = cmp.Or(l.Sessions, DefaultSessions), cmp.Or(l.Parked, DefaultParked)
	l.Queue, l.QueueBytes = cmp.Or(l.Queue, DefaultQueue), cmp.Or(l.QueueBytes, DefaultQueueBytes)
	l.Held, l.HeldBytes = cmp.Or(l.Held, DefaultHeld), cmp.Or(l.HeldBytes, DefaultHeldBytes)
	if most := o.Mempool.Bytes / 4; most > 0 { // held transactions keep others out of the pool
		l.HeldBytes = min(l.HeldBytes, max(int(most), leastHeldBytes))
	}
	l.Wait, l.Outcomes = cmp.Or(l.Wait, DefaultWait), cmp.Or(l.Outcomes, DefaultOutcomes)
	o.Linger = max(cmp.Or(o.Linger, DefaultLinger), 0)
	o.Standstill = cmp.Or(o.Standstill, DefaultStandstill)
	if o.Thread == nil {
		o.Thread = func() func() { return func() {} }
	}
	if o.Clock == nil {
		o.Clock = func() uint64 { return uint64(time.Now().UnixNano()) }
	}
	if o.Seed.IsZero() {
		if _, err := rand.Read(o.Seed[:]); err != nil {
			return err
		}
	}
	if o.Exit == nil {
		log := o.Log
		o.Exit = func(who string, reason any, stack []byte) {
			var errno syscall.Errno
			entry := log.WithField("actor", who)
			if err, ok := reason.(error); ok && errors.As(err, &errno) { // a full disk and the like: a stack would only hide it
				entry.Errorf("the node ends: %v", err)
			} else {
				entry.Errorf("the node ends: %v\n%s", reason, stack)
			}
			os.Exit(ExitCode)
		}
	}
	return nil
}
