package blocksync

import "github.com/troupe-chain/troupe/primitives"

// Bounds and times; times are in ms.
const (
	Window = 64 // maximum number of requested blocks above the chain
	// MaxWanted is the maximum number of requests in flight for unknown parents of received blocks.
	MaxWanted                   = 256
	MaxLead   primitives.Height = 16_384 // maximum height of the highest known header above the tip
	// Horizon is how far below the highest claimed height a peer's claim may be for header requests
	// to go to that peer too.
	Horizon primitives.Height = 5
	Eager   primitives.Height = 8 // a gap above which sync starts at once; a smaller gap waits for gossip
	// Patience is for how long the tip must not have changed before sync starts for a gap of at
	// most Eager.
	Patience  = 1_000
	BlockWait = 2_000 // time for a requested block to arrive (nearcore sync/block.rs:14)
	// AdoptWait is the time in which an arrived block must be imported. After AdoptWait the block
	// is requested again.
	AdoptWait  = 30_000
	FirstPause = 2_000 // pause of a peer after its first strike; it doubles with each strike
	// MaxStrikes is the number of strikes after which a peer is banned. A peer reaches MaxStrikes
	// after about two minutes, as with nearcore's header_sync_stall_ban_timeout (120 s).
	MaxStrikes = 7
	// MaxMisses is the number of consecutive missed blocks after which a peer is paused for
	// FirstPause.
	MaxMisses = 8
	// MaxAvoided is the maximum time for which other peers replace a peer that sends no blocks. It is
	// FirstPause after its first pause, and doubles with each.
	MaxAvoided = 128_000
	maxTries   = 8 // maximum number of requests for one unknown parent
	// WholeAnswer is the number of headers in a full response (nearcore MAX_BLOCK_HEADERS).
	WholeAnswer = 512
	proofFirst  = 5_000  // time for which block and header requests wait for the first proof
	proofAgain  = 10_000 // pause of proof requests after a useless proof
	// proofNewer is the pause of proof requests after a proof of a newer protocol version. A proof
	// of a large network has tens of megabytes.
	proofNewer = 600_000
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
	// Threshold is the minimum height of the highest peer above the tip at which sync starts
	// (sync_height_threshold).
	Threshold   primitives.Height
	MaxRequests int   // maximum number of block requests in flight to one peer (sync_max_block_requests)
	HeadersWait int64 // timeout of a header request in ms (header_sync_initial_timeout)
	// Horizon is the gap in blocks above which sync starts with an epoch sync proof
	// (epoch_sync_horizon_num_epochs). If it is 0, sync never uses a proof.
	Horizon primitives.Height
	// ProofBelow is the height of the tip from which on no proof is requested, unless a state sync has
	// begun already. So sync never replaces the blocks of a node that keeps them. If it is 0, the tip
	// may have any height.
	ProofBelow primitives.Height
	// ProofFirst means that headers and blocks are requested only after this node has accepted an
	// epoch sync proof. It is for a chain whose first blocks this node cannot validate.
	ProofFirst bool
	// Kept is the number of blocks below the highest claimed height that all peers are expected to
	// keep. Older blocks are requested from archival peers. If it is 0, all peers have all blocks.
	Kept      primitives.Height
	ProofWait int64           // timeout of a proof request in ms (timeout_for_epoch_sync)
	Random    func(n int) int // returns a number from 0 to n-1
}

// Chain provides the data about the chain that a Machine needs. The results may differ from call to
// call.
type Chain interface {
	// Tip returns the highest imported block. Headers returns the highest known header.
	Tip() Ref
	Headers() (Ref, error)
	// Path returns the first n blocks, or fewer, of the path from the imported blocks to the
	// highest header.
	Path(n int) ([]Ref, error)
	// Apart returns whether headers are missing between the imported blocks and the lowest header
	// of the header chain, as after an epoch sync proof. State sync closes this gap; block requests
	// do not.
	Apart() bool
	// Has returns whether a block is imported.
	Has(primitives.Hash) bool
}

// Event is an input of Machine.Step: one of the types below.
type Event interface{ event() }

// Peer is a connected peer, and the height of the highest block that it has sent. Archival means that
// it keeps old blocks.
type Peer struct {
	ID       PeerID
	Height   primitives.Height
	Archival bool
}

// The events.
type (
	// Peers lists all connected peers that have sent a block. A peer that is missing has
	// disconnected.
	Peers struct{ List []Peer }
	// Arrived reports that the requested header response has arrived. Its validation has begun.
	Arrived struct{ From PeerID }
	// HeadersVerified is the result of validating a header response.
	HeadersVerified struct {
		From  PeerID
		Sent  int  // headers in the response
		Taken int  // number of headers that are new and valid
		Bad   bool // one of them is invalid
		Own   bool // the headers were not stored because of a fault of this node
	}
	// ProofArrived reports that the requested epoch sync proof has arrived. Its validation has
	// begun. Proved reports the result.
	ProofArrived struct{ From PeerID }
	Proved       struct {
		From PeerID
		Bad  bool // the proof is invalid
		Used bool // the header chain now continues from the proof
		// Newer means that the proof leads to a protocol version that this program does not
		// support. The proofs of other peers will lead to that version too.
		Newer bool
	}
	// Block reports that a block has arrived, from any peer.
	Block struct{ Hash primitives.Hash }
	// Refused reports that this node did not accept a block. If Copy is set, only the received copy
	// is bad, and another copy may be valid. Otherwise the block itself is invalid.
	Refused struct {
		Hash primitives.Hash
		From PeerID
		Copy bool
	}
	// Imported reports that a block is imported.
	Imported struct{ Hash primitives.Hash }
	// Wanted reports that a block from peer From has the unknown parent Hash.
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
func (Imported) event()        {}
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
	// Bad means that the peer sent an invalid header or proof. If Bad is not set, the peer is
	// banned because it did not send the headers that it claims to have.
	Bad bool
}

// Out contains the effects of a step, which the caller carries out.
type Out struct {
	Headers PeerID // peer from which to request the headers after this node's highest header; empty: none
	Proof   PeerID // peer from which to request an epoch sync proof; empty: none
	Blocks  []Ask
	Ban     []Ban
}
