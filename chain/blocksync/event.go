package blocksync

import "github.com/troupe-chain/troupe/primitives"

// The bounds and times; ms.
const (
	Window                        = 64     // blocks above the chain that are asked for
	MaxWanted                     = 256    // blocks that others build on, and that are asked for
	MaxLead     primitives.Height = 16_384 // how far headers go ahead of the blocks
	Horizon     primitives.Height = 5      // a peer that is so little behind the best is asked as well
	Eager       primitives.Height = 8      // who is so far behind does not wait whether gossip brings the rest
	Patience                      = 1_000  // for which the tip stands still before a smaller gap is one
	BlockWait                     = 2_000  // for a block (nearcore sync/block.rs:14)
	AdoptWait                     = 30_000 // for one that came to become part of the chain; then it is asked for again
	FirstPause                    = 2_000  // of a peer that did not keep its word; each time twice as long
	MaxStrikes                    = 7      // after which a peer is banned: some two minutes (header_sync_stall_ban_timeout is 120 s)
	MaxMisses                     = 8      // blocks that a peer did not send, one after the other, after which it has a pause
	maxTries                      = 8      // for a wanted block
	WholeAnswer                   = 512    // headers of an answer, where there are so many (nearcore's MAX_BLOCK_HEADERS)
	proofFirst                    = 5_000  // for which nothing else is asked for when a proof is
	proofAgain                    = 10_000 // after one that was of no use
)

// PeerID names a peer.
type PeerID = primitives.PublicKey

// Ref names a block.
type Ref struct {
	Hash   primitives.Hash
	Height primitives.Height
}

// Options are what a Machine works with. Zero is what neard has.
type Options struct {
	Threshold   primitives.Height // a peer has to be so many heights above the tip for a sync to begin (sync_height_threshold)
	MaxRequests int               // blocks that one peer is asked for at a time (sync_max_block_requests)
	HeadersWait int64             // for an answer (header_sync_initial_timeout)
	Horizon     primitives.Height // beyond so many heights it begins with a proof of epochs (epoch_sync_horizon_num_epochs); 0: never
	ProofWait   int64             // for that (timeout_for_epoch_sync)
	Random      func(n int) int   // a number below n
}

// Chain is what must be known of the chain. Its answers are of the moment.
type Chain interface {
	// Tip is the highest block of the chain, Headers the highest header that is known.
	Tip() Ref
	Headers() (Ref, error)
	// Path lists the blocks above the chain by their headers, the lowest first, at most n: the first is a child of a block of the chain.
	Path(n int) ([]Ref, error)
	// Apart tells that headers begin far above the chain, with a proof: what is between comes as a state, and not by blocks.
	Apart() bool
	// Has tells whether a block is part of the chain.
	Has(primitives.Hash) bool
}

// Event is one of the types below.
type Event interface{ event() }

// Peer is who is connected, with the height of the highest block that it has sent.
type Peer struct {
	ID     PeerID
	Height primitives.Height
}

// The events.
type (
	// Peers are all that have sent a block; who is not among them is gone.
	Peers struct{ List []Peer }
	// Came says that headers have come from a peer that was asked, and are being judged.
	Came struct{ From PeerID }
	// Judged says what became of them.
	Judged struct {
		From  PeerID
		Sent  int  // headers of the answer
		Taken int  // of them
		Bad   bool // one of them is no header
		Own   bool // they were not taken for a reason of this node's
	}
	// ProofCame says that a proof has come from a peer that was asked, and is being judged; Proved what became of it.
	ProofCame struct{ From PeerID }
	Proved    struct {
		From PeerID
		Bad  bool // it is none
		Used bool // headers go on from it
	}
	// Block says that a block has come, whoever sent it.
	Block struct{ Hash primitives.Hash }
	// Refused says that a block is none: this copy of it, or all.
	Refused struct {
		Hash primitives.Hash
		From PeerID
		Copy bool
	}
	// Adopted says that a block is part of the chain.
	Adopted struct{ Hash primitives.Hash }
	// Wanted says that a block of From builds on this one, which is not known.
	Wanted struct {
		Hash primitives.Hash
		From PeerID
	}
	// Tick comes every now and then, at least ten times a second while something is asked for.
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

// Ban is a peer that is to be banned.
type Ban struct {
	Peer PeerID
	Bad  bool // it has sent what is no header; else it has not sent what it says to have
}

// Out is what the shell is to do.
type Out struct {
	Headers PeerID // to be asked for the headers behind those that are known; "": nobody
	Proof   PeerID // to be asked for a proof of epochs; "": nobody
	Blocks  []Ask
	Ban     []Ban
}
