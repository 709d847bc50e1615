package blocksync

import "github.com/troupe-chain/troupe/primitives"

// Bounds and times; times are in ms.
const (
	Window = 64 // blocks above the chain that are requested at a time
	// unknown parents of received blocks that are requested at a time
	MaxWanted                   = 256
	MaxLead   primitives.Height = 16_384 // headers ahead of the blocks
	// a peer at most so far below the highest claim is asked as well
	Horizon primitives.Height = 5
	Eager   primitives.Height = 8 // a larger gap starts sync at once, without waiting for gossip
	// how long the tip must stand still before a smaller gap starts sync
	Patience  = 1_000
	BlockWait = 2_000 // for a block (nearcore sync/block.rs:14)
	// for the import of a block that arrived; then it is requested again
	AdoptWait  = 30_000
	FirstPause = 2_000 // of a peer after its first strike; it doubles with each
	// MaxStrikes is after how many strikes a peer is banned: some two minutes, as
	// header_sync_stall_ban_timeout (120 s).
	MaxStrikes = 7
	// MaxMisses is after how many missed blocks in a row a peer is paused.
	MaxMisses = 8
	maxTries  = 8 // requests for an unknown parent
	// WholeAnswer is the number of headers in a full response (nearcore MAX_BLOCK_HEADERS).
	WholeAnswer = 512
	proofFirst  = 5_000  // how long blocks and headers wait for a requested proof
	proofAgain  = 10_000 // after a proof that was of no use
)

// PeerID identifies a peer.
type PeerID = primitives.PublicKey

// Ref identifies a block.
type Ref struct {
	Hash   primitives.Hash
	Height primitives.Height
}

// Options configures a Machine. Zero values mean neard's defaults. Random is required.
type Options struct {
	// Threshold is how many blocks the highest peer must be above the tip for sync to start
	// (sync_height_threshold).
	Threshold   primitives.Height
	MaxRequests int   // block requests in flight to one peer (sync_max_block_requests)
	HeadersWait int64 // for a header response (header_sync_initial_timeout)
	// Horizon is the gap, in blocks, above which sync starts with an epoch sync proof
	// (epoch_sync_horizon_num_epochs); 0: never.
	Horizon   primitives.Height
	ProofWait int64           // for a proof (timeout_for_epoch_sync)
	Random    func(n int) int // returns a number below n
}

// Chain is what a Machine needs to know of the chain. Each answer is the present one and may
// change.
type Chain interface {
	// Tip returns the highest imported block. Headers returns the highest known header.
	Tip() Ref
	Headers() (Ref, error)
	// Path lists the next blocks on the way to the highest header, lowest first, at most n. The
	// parent of the first is imported.
	Path(n int) ([]Ref, error)
	// Apart returns whether the headers start far above the blocks, after an epoch sync proof. The
	// gap is closed by state sync, not by blocks.
	Apart() bool
	// Has returns whether a block is imported.
	Has(primitives.Hash) bool
}

// Event is an input of Machine.Step: one of the types below.
type Event interface{ event() }

// Peer is a connected peer with the height of the highest block that it sent.
type Peer struct {
	ID     PeerID
	Height primitives.Height
}

// The events.
type (
	// Peers lists all connected peers that have sent a block. A peer that is missing has
	// disconnected.
	Peers struct{ List []Peer }
	// Came reports that headers arrived from the peer that was asked, and are being validated.
	Came struct{ From PeerID }
	// Judged is the result of their validation.
	Judged struct {
		From  PeerID
		Sent  int  // headers in the response
		Taken int  // how many of these are new and valid
		Bad   bool // one of them is invalid
		Own   bool // not stored, for a reason that is this node's own
	}
	// ProofCame reports that a proof arrived from the peer that was asked, and is being validated.
	// Proved is the result.
	ProofCame struct{ From PeerID }
	Proved    struct {
		From PeerID
		Bad  bool // it is invalid
		Used bool // the header chain continues from it
	}
	// Block reports that a block arrived, from any peer.
	Block struct{ Hash primitives.Hash }
	// Refused reports that a block was not accepted: only this copy if Copy is set, otherwise the
	// block itself.
	Refused struct {
		Hash primitives.Hash
		From PeerID
		Copy bool
	}
	// Adopted reports that a block is imported.
	Adopted struct{ Hash primitives.Hash }
	// Wanted reports that a block from From has this unknown parent.
	Wanted struct {
		Hash primitives.Hash
		From PeerID
	}
	// Tick is sent at least ten times a second while a request is in flight.
	Tick struct{}
)

func (Peers) event()     {}
func (Came) event()      {}
func (Judged) event()    {}
func (ProofCame) event() {}
func (Proved) event()    {}
func (Block) event()     {}
func (Refused) event()   {}
func (Adopted) event()   {}
func (Wanted) event()    {}
func (Tick) event()      {}

// Ask is a request for a block.
type Ask struct {
	Peer PeerID
	Hash primitives.Hash
}

// Ban is a peer to ban.
type Ban struct {
	Peer PeerID
	// it sent an invalid header or proof; otherwise it did not send the headers that it claims
	Bad bool
}

// Out is what the caller has to do after a Step.
type Out struct {
	Headers PeerID // peer to ask for headers after the known ones; empty: none
	Proof   PeerID // peer to ask for an epoch sync proof; empty: none
	Blocks  []Ask
	Ban     []Ban
}
