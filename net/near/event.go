package near

import (
	"net/netip"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// ConnID identifies a connection. The caller assigns the ids and never uses an id twice.
type ConnID uint64

// Event is an input of PeerManager.Step.
type Event interface{ event() }

// The events.
type (
	// Dialled: an outbound connection was established.
	Dialled struct {
		Conn ConnID
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Accepted: an inbound connection was established.
	Accepted struct {
		Conn ConnID
		Addr netip.AddrPort // remote address of the socket
	}
	// DialFailed: a Dial did not succeed.
	DialFailed struct {
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Received: a message was decoded. The caller must drop frames that do not decode, and must
	// report frames that are too long as TooLong.
	Received struct {
		Conn ConnID
		Msg  wire.Message
		// Admitted means that an Admission of the caller has admitted the message. Otherwise the
		// PeerManager decides that.
		Admitted bool
	}
	// TooLong: a peer announced a frame longer than wire.MaxFrame.
	TooLong struct{ Conn ConnID }
	// Closed: the peer closed the socket, or the socket failed.
	Closed struct{ Conn ConnID }
	// Gossiped: a message arrived by a transport's gossip instead of a connection. The transport
	// has validated it and delivers it only once. So the message is processed even if the peer was
	// disconnected or banned since.
	Gossiped struct {
		Peer wire.PeerID
		Msg  wire.Message
	}
	// Heard: a transport has discovered peers.
	Heard struct{ Peers []wire.PeerInfo }
	// Tick: the time returned by Wake has come.
	Tick struct{}
	// Head: the chain has a new head.
	Head struct {
		Block         *primitives.Block
		TrackedShards []primitives.ShardID
		// T1 contains the validators' keys of this epoch, followed by the keys of the next epoch.
		T1          map[primitives.AccountID][]primitives.PublicKey
		EpochHeight uint64
		PointEpoch  uint64 // epoch height of the newest epoch with a sync block; 0: unknown
	}
	// Validator: from now on this node signs with Key for AccountID. A zero Key means that this
	// node is no validator.
	Validator struct {
		AccountID primitives.AccountID
		Key       primitives.SecretKey
		// Proxies are the addresses at which other validators reach this node: its own, or those
		// of nodes that forward to it. The node publishes those to which it could connect.
		Proxies []wire.PeerAddr
	}
	// ToPeer: send a message to a connected peer over T2.
	ToPeer struct {
		Peer wire.PeerID
		Msg  wire.Message
	}
	// ToAll: send a message to all T2 peers. Again means that a block is sent once more, because
	// the first broadcast had no effect. The block is then sent over connections instead of gossip,
	// to all peers except those whose connection delivered this block last.
	ToAll struct {
		Msg   wire.Message
		Again bool
	}
	// OptimisticTo: send an optimistic block to the nodes of accounts over T1.
	OptimisticTo struct {
		Accounts []primitives.AccountID
		Msg      *wire.OptimisticBlock
	}
	// RouteTo: send a body to a node along a route.
	RouteTo struct {
		Target wire.Target
		Body   wire.Body
	}
	// RouteToAccount: send a body to the node of an account.
	RouteToAccount struct {
		AccountID primitives.AccountID
		Body      wire.Body
	}
	// AskState: request a state header or part from a host. The response arrives over T3.
	AskState struct {
		Host     wire.PeerID
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		IsHeader bool
		Part     uint64
	}
	// AnswerState: send a state response over T3 to a node that listens at Peer.Addr.
	AnswerState struct {
		Peer wire.PeerInfo
		Msg  *wire.StateResponse
	}
	// AnnouncementsVerified: Good lists the valid announcements of a VerifyAnnouncements.
	AnnouncementsVerified struct {
		From wire.PeerID // peer that sent the announcements; empty: this node
		Good []*wire.Announcement
		Ban  Reason
	}
	// Snapshot: this node serves a state snapshot.
	Snapshot struct {
		SyncHash    primitives.Hash
		EpochHeight uint64
		Shards      []primitives.ShardID
	}
	// Ban: another part of the node found that a peer misbehaves.
	Ban struct {
		Peer   wire.PeerID
		Reason Reason
	}
	// Exclude: close and refuse connections with these peers until the next Exclude, which replaces
	// the list. The peers are neither banned nor forgotten. Tests use this to partition a network.
	Exclude struct{ Peers []wire.PeerID }
)

func (Dialled) event()               {}
func (Accepted) event()              {}
func (DialFailed) event()            {}
func (Received) event()              {}
func (TooLong) event()               {}
func (Closed) event()                {}
func (Gossiped) event()              {}
func (Heard) event()                 {}
func (Tick) event()                  {}
func (Head) event()                  {}
func (Validator) event()             {}
func (ToPeer) event()                {}
func (ToAll) event()                 {}
func (OptimisticTo) event()          {}
func (RouteTo) event()               {}
func (RouteToAccount) event()        {}
func (AskState) event()              {}
func (AnswerState) event()           {}
func (AnnouncementsVerified) event() {}
func (Snapshot) event()              {}
func (Ban) event()                   {}
func (Exclude) event()               {}

// Effect is an output of PeerManager.Step.
type Effect interface{ effect() }

// The effects.
type (
	// Write: send a message over a connection.
	Write struct {
		Conn ConnID
		Msg  wire.Message
	}
	// Close: close a connection after pending writes. The caller need not report Closed for that
	// connection.
	Close struct {
		Conn   ConnID
		Reason CloseReason
		Ban    Reason // reason of the ban; only set if Reason is Banned
	}
	// Dial: open a connection. The caller reports Dialled or DialFailed.
	Dial struct {
		Peer wire.PeerInfo
		Tier wire.Tier
	}
	// Deliver: a message for other parts of the node.
	Deliver struct {
		// From is the neighbour that sent the message and receives a direct response. Empty: this
		// node.
		From      wire.PeerID
		Tier      wire.Tier
		Msg       wire.Message
		Requested bool // Msg is a Block that this node requested from the peer
		Gossiped  bool // the message arrived by gossip, so no other peer will deliver it
	}
	// VerifyAnnouncements: verify these announcements and report AnnouncementsVerified. KnownEpoch
	// contains the epochs of the stored announcements.
	VerifyAnnouncements struct {
		From       wire.PeerID
		List       []*wire.Announcement
		KnownEpoch map[primitives.AccountID]primitives.EpochID
	}
)

func (Write) effect()               {}
func (Close) effect()               {}
func (Dial) effect()                {}
func (Deliver) effect()             {}
func (VerifyAnnouncements) effect() {}

// Verdict is the result of validating a gossip message before relaying the message.
type Verdict byte

// The verdicts.
const (
	// Hold: this node cannot validate the message, or the message is useless. The message is not
	// relayed, but the sender is not at fault.
	Hold   Verdict = iota
	Pass           // the message is valid: it is relayed
	Refuse         // the message is invalid for every node: the sender is at fault
)

// CloseReason is why a connection ends.
type CloseReason byte

// The reasons (nearcore peer_actor.rs:79), with neard's names.
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
	TooLargeSkew
	AccountMismatch
)

var closeNames = [...]string{"", "TooManyInbound", "OutboundNotAllowed", "Ban", "HandshakeFailed",
	"RejectedByPeerManager", "StreamError",
	"DisallowedMessage", "PeerManagerRequest", "DisconnectMessage", "TooLargeClockSkew", "OwnedAccountMismatch"}

// String returns neard's name.
func (r CloseReason) String() string { return closeNames[r] }

// forgets returns whether dialling the peer again is pointless.
func (r CloseReason) forgets() bool {
	switch r {
	case OutboundNotAllowed, Banned, Rejected, DisallowedMessage, TooLargeSkew, AccountMismatch:
		return true
	}
	return false
}
