package node

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/historyimport"
	"github.com/troupe-chain/troupe/actors/network"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// Limits bound what clients may use at the same time. Zero fields mean the defaults, which
// Options.withDefaults sets.
type Limits struct {
	Sessions int // maximum number of clients with an open session; 0: DefaultSessions
	Parked   int // maximum number of requests that wait for a transaction; 0: DefaultParked
	// Outcomes bounds the number of outcomes that waits hold: the outcomes of the awaited
	// transactions and of their receipts. Above the bound, a wait that would read more than 64
	// outcomes fails. 0: DefaultOutcomes.
	Outcomes   int
	Queue      int // maximum number of unchecked submissions of a shard; 0: DefaultQueue
	QueueBytes int // maximum total size of unchecked submissions of a shard, in bytes; 0: DefaultQueueBytes
	Held       int // maximum number of a shard's transactions that wait for compilation; 0: DefaultHeld
	// HeldBytes bounds the total size of a shard's transactions that wait for compilation.
	// HeldBytes is at most a quarter of Options.Mempool.Bytes, but at least the size of the two
	// largest possible transactions. 0: DefaultHeldBytes.
	HeldBytes int
	Wait      time.Duration // maximum wait for a transaction (rpc.polling_config.polling_timeout); 0: DefaultWait
	// BeginWait is the maximum time that a wait may take to begin (troupe.rpc.max_wait_delay). If
	// waits take longer to begin, the node refuses new waits. 0: the node refuses no wait for this
	// reason.
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
	leastHeldBytes    = 4 << 20 // size of two of the largest possible transactions
	DefaultWait       = 10 * time.Second
)

// DefaultLinger is shorter than neard's block time. A client that waits for execution and reads its
// transaction immediately afterwards finds it executed but not final, as with neard.
const DefaultLinger = 200 * time.Millisecond

// Options configure a node. Engine is required. Keys, Validator and Replica determine where blocks
// come from; at most one of them is set. With Keys this node makes blocks alone. With Validator it
// makes blocks together with the validators of other nodes. With Replica it gets executed blocks
// from another node. With none of the three, it follows the network. The node calls the functions
// in Options on any goroutine. Such a function must not block, unless its comment says otherwise.
type Options struct {
	// Engine must be open. Once the node is started, only the node changes the engine. The node
	// does not close the engine.
	Engine *engine.Engine
	// Signatures caches verified transaction signatures. Its Check should be the engine's
	// Options.Signature, so that a signature checked at submission is not checked again in the
	// chunk. nil: the node creates a Checker. The node closes the Checker in both cases.
	Signatures *signature.Checker

	// Where blocks come from.

	// Keys are the signing keys of this node's validators by account, for a chain without other
	// validators. Empty: the node makes no blocks.
	Keys map[primitives.AccountID]primitives.SecretKey
	// Validator makes this node produce blocks together with other validators. It replaces Keys,
	// and needs Network. The node sets most fields of Validator. With an empty Key, the node signs
	// nothing: such a Validator runs a follower whose tracked shards change. nil: the node produces
	// no blocks together with others.
	Validator *validatoractor.Options
	// Replica means that the node executes nothing and makes no blocks. Give passes blocks to such
	// a node.
	Replica bool
	// Vote is the protocol version that this node's blocks announce (latest_protocol_version). 0:
	// the version of the engine's upgrade schedule.
	Vote primitives.ProtocolVersion
	// Network configures the network actor. The node sets Engine, Log and Out. nil: the node has no
	// network.
	Network *network.Options
	// Net gets the chain actor's messages for the network, in addition to the network actor, on the
	// chain's goroutine. nil: only the network actor gets them.
	Net messages.NetworkSender
	// History imports older blocks in the background. nil: the node imports none.
	History historyimport.Job

	// When blocks are made.

	// Mode says when blocks are made. A sandbox may change the mode. The zero value is
	// production.Instant.
	Mode production.Mode
	// SkipEmpty: make no blocks while there is nothing to do (consensus.produce_empty_blocks =
	// false).
	SkipEmpty bool
	// Linger is production.Rules.Linger: the delay of blocks that are only needed for finality,
	// unless a client waits for finality. 0: DefaultLinger; negative: no delay.
	Linger time.Duration
	// Delays are the timers of doomslug (consensus.* in config.json). These timers have no default.
	Delays doomslug.Delays
	// ChooseLimit is the maximum time for choosing the transactions of a chunk. 0: no limit.
	ChooseLimit time.Duration
	// Clock returns the time for timestamps of blocks, in ns since 1970. nil: the system clock.
	Clock func() uint64
	// Begin is the initial state of the sandbox clock. nil: the sandbox clock follows Clock.
	Begin *messages.Clock

	// Pools and limits.

	// Mempool limits each shard's pool. Zero fields mean no limit.
	Mempool txpool.Limits
	// Limits bound what clients use.
	Limits Limits
	// Seed determines the order of transaction groups in the pools. Zero: random.
	Seed primitives.Hash
	// Pooled gets the transactions of clients and of peers that the mempools accept, in addition to
	// the network actor. nil: not called.
	Pooled messages.Sender[messages.TransactionPooled]

	// The process.

	// Small means that the process runs many such nodes (sandbox worlds). The node then uses a
	// small actor system.
	Small bool
	// The node calls Thread when clients begin to subscribe to blocks. Thread starts an additional
	// thread for actors, and returns the function that stops that thread. nil: no thread.
	Thread func() (done func())
	// Failed is the folder for chunks that could not be applied and for the watchdog's stack dumps.
	// Empty: the node writes no such files. FailedBuild is the program version in these files.
	Failed, FailedBuild string
	// Exit ends the process after the disk has failed under an actor. nil: the reason is logged and
	// the process exits with ExitCode.
	Exit func(who string, reason any, stack []byte)
	// The node calls Room with the details when the disk is full, and with nil when the disk has
	// space again. If the store must be reopened first, Room is called with Reopen set. nil: not
	// called.
	Room func(*storage.Full)
	// Standstill is the time after which the watchdog reports a running handler or a waiting
	// message. 0: DefaultStandstill.
	Standstill time.Duration

	// Observers.

	// Log receives the node's log. nil: nothing is logged.
	Log *logrus.Logger
	// Summary is the time between summary lines in the log. 0: none.
	Summary time.Duration
	// OneIn is the sampling rate of traces: one in OneIn transactions is traced, if Traced is set.
	// 0 means 1.
	OneIn uint64
	// Traced gets the trace of each sampled transaction when the trace is complete. nil: tracing is
	// off.
	Traced func(*Trace)
	// Observe is called for each accepted block, on the chain's goroutine; the chain waits until
	// Observe returns. nil: not called.
	Observe func(*messages.BlockAccepted)

	// Tests.

	// hooks let tests of this package observe and change the node. Zero: no hooks.
	hooks Hooks
}

// ExitCode is the exit code after a disk failure that leaves the state in doubt.
const ExitCode = 70

// withDefaults sets the fields that are zero and have a default.
func (o *Options) withDefaults() error {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetLevel(logrus.PanicLevel)
	}
	l := &o.Limits
	l.Sessions, l.Parked = cmp.Or(l.Sessions, DefaultSessions), cmp.Or(l.Parked, DefaultParked)
	l.Queue, l.QueueBytes = cmp.Or(l.Queue, DefaultQueue), cmp.Or(l.QueueBytes, DefaultQueueBytes)
	l.Held, l.HeldBytes = cmp.Or(l.Held, DefaultHeld), cmp.Or(l.HeldBytes, DefaultHeldBytes)
	if most := o.Mempool.Bytes / 4; most > 0 { // held transactions are in the pool too
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
			if err, ok := reason.(error); ok && errors.As(err, &errno) { // a stack would hide the reason
				entry.Errorf("the node ends: %v", err)
			} else {
				entry.Errorf("the node ends: %v\n%s", reason, stack)
			}
			os.Exit(ExitCode)
		}
	}
	return nil
}
