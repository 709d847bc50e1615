package near

import (
	"net/netip"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// ConnID names a connection; the shell gives each a new one.
type ConnID uint64

// Event is what a Node is told.
type Event interface{ event() }

// The events.
type (
	// Dialled: a connection of ours came up.
	Dialled struct {
		Conn ConnID
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Accepted: a connection of somebody came up.
	Accepted struct {
		Conn ConnID
		Addr netip.AddrPort // of the socket
	}
	// DialFailed: a Dial led nowhere.
	DialFailed struct {
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Received: a frame that was decoded. One that was not is ignored, and one that was announced
	// too long is TooLong.
	Received struct {
		Conn ConnID
		Msg  wire.Message
	}
	// TooLong: a frame above wire.MaxFrame was announced.
	TooLong struct{ Conn ConnID }
	// Closed: the socket is gone, by the other side or by an error.
	Closed struct{ Conn ConnID }
	// Gossiped: a message came from a peer beside its connection, by a transport that spreads it
	// and has judged it. It counts also of one that is gone, or not yet there, or banned meanwhile:
	// the transport, which has seen it, would not bring it again from anybody else.
	Gossiped struct {
		Peer wire.PeerID
		Msg  wire.Message
	}
	// Heard: somebody was found, by a transport that looks for others.
	Heard struct{ Peers []wire.PeerInfo }
	// Tick: it is the time that Wake has named.
	Tick struct{}
	// Head: the chain has a new head.
	Head struct {
		Block         *primitives.Block
		TrackedShards []primitives.ShardID
		// keys of this epoch's validators, and behind these the next's
		T1          map[primitives.AccountID][]primitives.PublicKey
		EpochHeight uint64
		PointEpoch  uint64 // the height of the newest epoch that has a sync block; 0: not known
	}
	// Validator: this node signs with Key for AccountID from now on; no key: it validates no more.
	Validator struct {
		AccountID primitives.AccountID
		Key       primitives.SecretKey
		Proxies   []wire.PeerAddr
	}
	// ToPeer: send a message to a connected peer over T2.
	ToPeer struct {
		Peer wire.PeerID
		Msg  wire.Message
	}
	// ToAll: send a message to all peers of T2. Again: they were told before, and nothing has come
	// of it, so that nobody is left out who has not told it over his connection last, and nothing
	// that spreads it beside the connections is asked to.
	ToAll struct {
		Msg   wire.Message
		Again bool
	}
	// OptimisticTo: announce a block to accounts over T1.
	OptimisticTo struct {
		Accounts []primitives.AccountID
		Msg      *wire.OptimisticBlock
	}
	// RouteTo: send a body to a node, by route.
	RouteTo struct {
		Target wire.Target
		Body   wire.Body
	}
	// RouteToAccount: send a body to an account.
	RouteToAccount struct {
		AccountID primitives.AccountID
		Body      wire.Body
	}
	// AskState: ask a host for a state header or part; the answer comes over T3.
	AskState struct {
		Host     wire.PeerID
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		IsHeader bool
		Part     uint64
	}
	// AnswerState: send a state response to a node that waits at Addr, over T3.
	AnswerState struct {
		Peer wire.PeerInfo
		Msg  *wire.StateResponse
	}
	// Judged: announcements that JudgeAnnouncements asked about, those that are right.
	Judged struct {
		From wire.PeerID // "": our own
		Good []*wire.Announcement
		Ban  Reason
	}
	// Snapshot: this node serves a snapshot.
	Snapshot struct {
		SyncHash    primitives.Hash
		EpochHeight uint64
		Shards      []primitives.ShardID
	}
	// Ban: the rest of the node has seen a peer misbehave.
	Ban struct {
		Peer   wire.PeerID
		Reason Reason
	}
)

func (Dialled) event()        {}
func (Accepted) event()       {}
func (DialFailed) event()     {}
func (Received) event()       {}
func (TooLong) event()        {}
func (Closed) event()         {}
func (Gossiped) event()       {}
func (Heard) event()          {}
func (Tick) event()           {}
func (Head) event()           {}
func (Validator) event()      {}
func (ToPeer) event()         {}
func (ToAll) event()          {}
func (OptimisticTo) event()   {}
func (RouteTo) event()        {}
func (RouteToAccount) event() {}
func (AskState) event()       {}
func (AnswerState) event()    {}
func (Judged) event()         {}
func (Snapshot) event()       {}
func (Ban) event()            {}

// Effect is what a Node wants done.
type Effect interface{ effect() }

// The effects.
type (
	// Write: send a frame.
	Write struct {
		Conn ConnID
		Msg  wire.Message
	}
	// Close: end a connection after what was written; Closed need not be told.
	Close struct {
		Conn   ConnID
		Reason CloseReason
		Ban    Reason // if Reason is Banned
	}
	// Dial: open a connection; answered by Dialled or DialFailed.
	Dial struct {
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Deliver: a message for the rest of the node.
	Deliver struct {
		From      wire.PeerID // the neighbour it came from, and to whom a plain answer goes; "": ourselves
		Tier      wire.Tier
		Msg       wire.Message
		Requested bool // of a Block: this peer was asked for it
		Gossiped  bool // it came beside the connection, and nobody else will bring it
	}
	// JudgeAnnouncements: verify these, answered by Judged. KnownEpoch holds the epochs of those
	// that are known.
	JudgeAnnouncements struct {
		From       wire.PeerID
		List       []*wire.Announcement
		KnownEpoch map[primitives.AccountID]primitives.EpochID
	}
)

func (Write) effect()              {}
func (Close) effect()              {}
func (Dial) effect()               {}
func (Deliver) effect()            {}
func (JudgeAnnouncements) effect() {}

// Verdict is what is said of a message that a transport spreads, before it is handed on.
type Verdict byte

// The verdicts.
const (
	Hold   Verdict = iota // it can't be judged, or is of no use: handed on to nobody
	Pass                  // handed on
	Refuse                // rubbish, which nobody who looked would have handed on
)

// CloseReason is why a connection ends.
type CloseReason byte

// The reasons (peer_actor.rs:79), with the names of neard.
const (
	TooManyInbound CloseReason = iota + 1
	OutboundNotAllowed
	Banned
	HandshakeFailed
	Rejected
	StreamError
	DisallowedMessage
	Requested
	Disconnected
	ClockSkew
	AccountMismatch
)

var closeNames = [...]string{"", "TooManyInbound", "OutboundNotAllowed", "Ban", "HandshakeFailed", "RejectedByPeerManager", "StreamError",
	"DisallowedMessage", "PeerManagerRequest", "DisconnectMessage", "TooLargeClockSkew", "OwnedAccountMismatch"}

// String returns neard's name.
func (r CloseReason) String() string { return closeNames[r] }

// forgets tells whether it makes no sense to dial the peer again.
func (r CloseReason) forgets() bool {
	switch r {
	case OutboundNotAllowed, Banned, Rejected, DisallowedMessage, ClockSkew, AccountMismatch:
		return true
	}
	return false
}
