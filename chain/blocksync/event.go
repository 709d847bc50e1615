package blocksync

import "github.com/troupe-chain/troupe/primitives"

// Bounds and times; times are in ms.
const (
	Window = 64 // blocks above the chain that are requested at a time
	// MaxWanted is the number of unknown parents of received blocks that are requested at the same
	// time.
	MaxWanted                   = 256
	MaxLead   primitives.Height = 16_384 // headers above the blocks, at most
	// Horizon is how far below the highest claimed height a peer's claim may be for the peer to be
	// asked, too.
	Horizon primitives.Height = 5
	Eager   primitives.Height = 8 // sync starts at once if the gap is larger, without waiting for gossip
	// Patience is for how long the tip must not have changed before sync starts for a gap of at
	// most Eager.
	Patience  = 1_000
	BlockWait = 2_000 // for a requested block to arrive (nearcore sync/block.rs:14)
	// AdoptWait is the time in which a block that has arrived must be imported; after that it is
	// requested again.
	AdoptWait  = 30_000
	FirstPause = 2_000 // pause of a peer after its first strike; it doubles with each strike
	// MaxStrikes is the number of strikes after which a peer is banned. This takes about two
	// minutes, as header_sync_stall_ban_timeout (120 s) does.
	MaxStrikes = 7
	// MaxMisses is the number of consecutive missed blocks after which a peer is paused.
	MaxMisses = 8
	maxTries  = 8 // requests for one unknown parent
	// WholeAnswer is the number of headers in a full response (nearcore MAX_BLOCK_HEADERS).
	WholeAnswer = 512
	proofFirst  = 5_000  // time for which blocks and headers wait for the first requested proof
	proofAgain  = 10_000 // pause of proof requests after a proof that could not be used
)

// PeerID identifies a peer.
type PeerID = primitives.PublicKey

// Ref identifies a block.
type Ref struct {
	Hash   primitives.Hash
	Height primitives.Height
}

// Options configure a Machine. The zero values mean neard's defaults, except for Random, which is
// required.
type Options struct {
	// Threshold is the number of blocks that the highest peer must be above the tip for sync to
	// start (sync_height_threshold).
	Threshold   primitives.Height
	MaxRequests int   // block requests in flight to one peer (sync_max_block_requests)
	HeadersWait int64 // for a header response (header_sync_initial_timeout)
	// Horizon is the gap in blocks above which sync starts with an epoch sync proof
	// (epoch_sync_horizon_num_epochs). 0: sync never uses a proof.
	Horizon   primitives.Height
	ProofWait int64           // for a proof (timeout_for_epoch_sync)
	Random    func(n int) int // returns a number from 0 to n-1
}

// Chain provides the data about the chain that a Machine needs. The results may differ from call to
// call.
type Chain interface {
	// Tip returns the highest imported block. Headers returns the highest known header.
	Tip() Ref
	Headers() (Ref, error)
	// Tip returns the highest imported block. Headers returns the highest header that is known.
	Path(n int) ([]Ref, error)
	// Apart returns whether there is a gap between the blocks and the headers, because the headers
	// begin after an epoch sync proof. State sync closes this gap, not the download of blocks.
	Apart() bool
	// Has returns whether a block is imported.
	Has(primitives.Hash) bool
}

// Event is an input of Machine.Step: one of the types below.
type Event interface{ event() }

// Peer is a connected peer, and the height of the highest block that it has sent.
type Peer struct {
	ID     PeerID
	Height primitives.Height
}

// The events.
type (
	// Peers lists all connected peers that have sent a block. A peer that is missing has
	// disconnected.
	Peers struct{ List []Peer }
	// Arrived reports that a header response has arrived from the peer that was asked. It is being
	// validated.
	Arrived struct{ From PeerID }
	// HeadersVerified is the result of validating a header response.
	HeadersVerified struct {
		From  PeerID
		Sent  int  // headers in the response
		Taken int  // number of headers that are new and valid
		Bad   bool // one of them is invalid
		Own   bool // not stored because of a fault of this node
	}
	// ProofArrived reports that an epoch sync proof has arrived from the peer that was asked. It is
	// being validated. Proved is the result.
	ProofArrived struct{ From PeerID }
	Proved       struct {
		From PeerID
		Bad  bool // it is invalid
		Used bool // the header chain continues from it
	}
	// Block reports that a block has arrived, from any peer.
	Block struct{ Hash primitives.Hash }
	// Refused reports that a block was not accepted. If Copy is set, only this copy is bad;
	// otherwise the block itself is invalid.
	Refused struct {
		Hash primitives.Hash
		From PeerID
		Copy bool
	}
	// Adopted reports that a block is imported.
	Adopted struct{ Hash primitives.Hash }
	// Wanted reports that the block Hash is the unknown parent of a block from From.
	Wanted struct {
		Hash primitives.Hash
		From PeerID
	}
	// Tick reports that time has passed. The caller sends it at least ten times a second while a
	// request is in flight.
	Tick struct{}
)

func (Peers) event()           {}
func (Arrived) event()         {}
func (HeadersVerified) event() {}
func (ProofArrived) event()    {}
func (Proved) event()          {}
func (Block) event()           {}
func (Refused) event()         {}
func (Adopted) event()         {}
func (Wanted) event()          {}
func (Tick) event()            {}

// Ask is a request for a block.
type Ask struct {
	Peer PeerID
	Hash primitives.Hash
}

// Ban is a peer to ban.
type Ban struct {
	Peer PeerID
	// Bad means that the peer sent an invalid header or proof. If it is false, the peer did not
	// send the headers that it claims to have.
	Bad bool
}

// Out contains the effects of a step, which the caller carries out.
type Out struct {
	Headers PeerID // peer from which to request the headers after the known ones; empty: none
	Proof   PeerID // peer from which to request an epoch sync proof; empty: none
	Blocks  []Ask
	Ban     []Ban
}
