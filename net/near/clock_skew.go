package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// maxClockSkews is the maximum number of remembered handshakes that a difference of clocks ended.
const maxClockSkews = 32

// ClockSkew is the last handshake of a peer that this node closed because the peer's clock and this
// node's clock differ too much: by 20 minutes in the nonce of the edge, or by 30 minutes in the
// OwnedAccount of a validator.
//
// Peer and Ahead are claims: a node can invent keys, and repeat an old OwnedAccount. A peer that closes
// this node's handshake for the same cause sends a Disconnect without a reason, so those handshakes are
// not known.
type ClockSkew struct {
	Peer  wire.PeerID
	Ahead time.Duration // the peer's clock minus this node's clock
	At    time.Time
}

// noteSkew remembers the difference of clocks of a handshake. The oldest entry makes room.
func (n *PeerManager) noteSkew(now time.Time, peer wire.PeerID, ahead time.Duration) {
	n.skews = slices.DeleteFunc(n.skews, func(s ClockSkew) bool { return s.Peer == peer })
	if len(n.skews) >= maxClockSkews {
		n.skews = slices.Delete(n.skews, 0, 1)
	}
	n.skews = append(n.skews, ClockSkew{peer, ahead, now})
}

// nonceSkew returns by how much the time of a nonce is ahead of now. It returns false if the nonce
// contains no time that a clock may show (years 2020 to 9999).
func nonceSkew(nonce uint64, now time.Time) (time.Duration, bool) {
	if nonce < 1_577_836_800 || nonce > maxNonce {
		return 0, false
	}
	return time.Unix(int64(nonce), 0).Sub(now), true
}
