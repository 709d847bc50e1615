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

// Limits bound what the edges may ask for at the same time. Zero means the default.
type Limits struct {
	Sessions   int           // clients with an open session
	Parked     int           // transactions that are waited for
	Outcomes   int           // known of them and their receipts
	Queue      int           // submissions that nobody has looked at, for each shard
	QueueBytes int           // the sum of their sizes
	Held       int           // transactions that wait until their code is compiled, for each shard
	HeldBytes  int           // the sum of their sizes
	Wait       time.Duration // longest wait for a transaction (rpc.polling_config.polling_timeout)
	BeginWait  time.Duration // while waits take longer until they begin, no more are taken (troupe.rpc.max_wait_delay); 0: all are
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
	leastHeldBytes    = 4 << 20 // of the largest transactions, two
	DefaultWait       = 10 * time.Second
)

// DefaultLinger is less than a block takes in neard. A client that has waited for execution, and asks for its transaction right
// then, finds it executed and not final, as it does there.
const DefaultLinger = 200 * time.Millisecond

// Options are what a node is made of. Engine is open and nobody else changes it.
type Options struct {
	Engine *engine.Engine
	// Signatures is the checker whose Check is the engine's Options.Signature, so that a signature that was good at the door
	// is not checked again. nil: the door has one of its own. The node closes it.
	Signatures *signature.Checker
	Keys       map[primitives.AccountID]primitives.SecretKey // of validators; none: the node makes no blocks
	Vote       primitives.ProtocolVersion                    // the newest version this node knows in full
	Mode       production.Mode
	SkipEmpty  bool            // no blocks while there is nothing to do (consensus.produce_empty_blocks = false)
	Linger     time.Duration   // of production.Rules; negative: none; the default is DefaultLinger
	Delays     doomslug.Delays // consensus.* of config.json
	Mempool    txpool.Limits   // of each shard's pool
	Limits     Limits
	Clock      func() uint64                             // ns since 1970, for blocks; nil: the system's
	Small      bool                                      // it is one of many in a process
	Begin      *messages.Clock                           // what time blocks have at first, of a sandbox; nil: as Clock says
	Seed       primitives.Hash                           // orders the pools' groups; zero: random
	Summary    time.Duration                             // between summary lines; 0: none
	OneIn      uint64                                    // of so many transactions one is traced
	Traced     func(*Trace)                              // told of each that was, from any goroutine, and does not wait; nil: none is
	Thread     func() (done func())                      // has a thread more run actors while somebody subscribes; nil: there is none
	Observe    func(*messages.BlockAccepted)             // called for each accepted block, on the chain's goroutine; nil: nobody
	Approval   messages.Sender[messages.ApprovalMade]    // to the net; nil: there is none
	Endorse    messages.Sender[messages.EndorsementMade] // to the net; nil: there is none
	Net        Net
	Network    *network.Options // other nodes; its Engine, Log and Out are the node's to fill in; nil: there are none
	// Validator is what makes blocks together with others, instead of Keys; most of it is the node's to fill in. It needs a Network. nil: there is none.
	Validator *validatoractor.Options
	// Replica: the node executes nothing and makes no blocks. It has what Give brings.
	Replica bool
	// Pooled is told of transactions that clients of this node have submitted, beside the network; nil: nobody.
	Pooled messages.Sender[messages.TransactionPooled]
	Log    *logrus.Logger // nil: nothing is said
	// Failed is the folder for chunks that could not be applied and for the stacks of standstills, FailedBuild what the program calls
	// itself there; empty: none are kept.
	Failed, FailedBuild string
	// Exit ends the process because the disk has failed an actor that owns state. nil: the reason goes to the log, and the exit code
	// is ExitCode.
	Exit func(who string, reason any, stack []byte)

	// Room is told when the disk is full, when it has room again (nil), and where the store is to be opened again for that. It may not wait;
	// nil: nobody is told.
	Room func(*storage.Full)

	// Standstill is how long an actor may be with one message, or one wait for it, before the watchdog says so; 0: DefaultStandstill.
	Standstill time.Duration

	dispatcher actor.Dispatcher // of tests; nil: the process's
	trip       tripHook             // of tests; nil: nobody asks
	// onSend is told of what a validator says, before it leaves; of tests; nil: nobody asks.
	onSend func([]consensus.Send)
	// wrapSource stands between a validator and where its shards come from; of tests; nil: nothing does.
	wrapSource func(engine.PartSource) engine.PartSource
}

// Net is what the chain says to the network, on its own goroutine; nil: there is none.
type Net struct {
	Refused      messages.Sender[messages.BlockRefused]
	ChunkRefused messages.Sender[messages.ChunkRefused]
	Wanted       messages.Sender[messages.BlockWanted]
	ChunksWanted messages.Sender[messages.ChunksWanted]
}

// ExitCode is that of a process whose state is in doubt.
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
	if most := o.Mempool.Bytes / 4; most > 0 { // what waits for the compiler keeps others out of the pool
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
