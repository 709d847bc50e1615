package wire

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// GenesisID identifies a chain.
type GenesisID struct {
	ChainID string
	Hash    primitives.Hash
}

// ChainInfo describes a node's chain.
type ChainInfo struct {
	Genesis       GenesisID
	Height        primitives.Height
	TrackedShards []primitives.ShardID // shards whose chunks the node serves; empty: none
	Archival      bool
}

// Handshake is the first message of both sides.
type Handshake struct {
	Tier            Tier
	Version, Oldest uint32 // protocol version to use, and oldest supported protocol version
	Sender, Target  PeerID
	ListenPort      uint16 // TCP port on which the sender listens; 0: none, which neard refuses
	Chain           ChainInfo
	PartialEdge     PartialEdge
	OwnedAccount    *OwnedAccount // signed validator account of the sender; nil: none
}

// FailureReason is why the receiver refuses a handshake.
type FailureReason uint32

// The reasons.
const (
	VersionMismatch FailureReason = 1
	GenesisMismatch FailureReason = 2
	InvalidTarget   FailureReason = 3
)

// String returns neard's name of the reason.
func (r FailureReason) String() string {
	switch r {
	case VersionMismatch:
		return "ProtocolVersionMismatch"
	case GenesisMismatch:
		return "GenesisMismatch"
	case InvalidTarget:
		return "InvalidTarget"
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// HandshakeFailure refuses a handshake. The dialling node may send another handshake on the same
// connection.
type HandshakeFailure struct {
	Peer            PeerInfo // node that refuses the handshake
	Reason          FailureReason
	Version, Oldest uint32    // set if Reason is VersionMismatch
	Genesis         GenesisID // set if Reason is GenesisMismatch
}

// Kind returns the handshake kind of h.Tier.
func (h *Handshake) Kind() Kind {
	switch h.Tier {
	case T1:
		return KindTier1Handshake
	case T3:
		return KindTier3Handshake
	}
	return KindTier2Handshake
}

// Kind returns KindHandshakeFailure.
func (*HandshakeFailure) Kind() Kind { return KindHandshakeFailure }

func (g *GenesisID) appendFields(b []byte) []byte {
	return appendHash(appendBytes(b, 1, g.ChainID), 2, &g.Hash)
}

func (i *ChainInfo) appendFields(b []byte) []byte {
	b = appendUint(appendMessage(b, 1, i.Genesis.appendFields), 2, uint64(i.Height))
	return appendBool(appendShards(b, 3, i.TrackedShards), 4, i.Archival)
}

func (h *Handshake) appendFields(b []byte) []byte {
	b = appendUint(appendUint(b, 1, uint64(h.Version)), 2, uint64(h.Oldest))
	b = appendBorsh(appendBorsh(b, 3, h.Sender), 4, h.Target)
	b = appendMessage(appendUint(b, 5, uint64(h.ListenPort)), 6, h.Chain.appendFields)
	if b = appendBorsh(b, 7, &h.PartialEdge); h.OwnedAccount != nil {
		b = appendMessage(b, 8, h.OwnedAccount.SignedPayload.appendFields)
	}
	return b
}

func (f *HandshakeFailure) appendFields(b []byte) []byte {
	b = appendBorsh(appendUint(b, 1, uint64(f.Reason)), 2, &f.Peer)
	switch f.Reason {
	case VersionMismatch:
		b = appendUint(appendUint(b, 4, uint64(f.Version)), 5, uint64(f.Oldest))
	case GenesisMismatch:
		b = appendMessage(b, 3, f.Genesis.appendFields)
	}
	return b
}

func (c *conversion) genesis(in []byte) (g GenesisID) {
	for it := range genesisID.items(in) {
		if it.num == 1 {
			g.ChainID = string(it.b)
		}
	}
	g.Hash = c.hashOf(genesisID, in, 2)
	return g
}

// maxTrackedShards is the maximum number of shards in a handshake. A shard takes two bytes encoded
// and eight decoded.
const maxTrackedShards = 1 << 16

func readHandshake(tier Tier, in []byte) (Message, error) {
	var c conversion
	h := &Handshake{Tier: tier}
	h.Sender = *borshOf[PeerID](&c, handshake, in, 3)
	h.Target = *borshOf[PeerID](&c, handshake, in, 4)
	for it := range handshake.items(in) {
		switch it.num {
		case 1:
			h.Version = uint32(it.v)
		case 2:
			h.Oldest = uint32(it.v)
		case 5:
			if h.ListenPort = uint16(it.v); it.v > 0xffff {
				c.fail("listen port %d", it.v)
			}
		}
	}
	chain := c.sub(handshake, in, 6)
	h.Chain.Genesis = c.genesis(c.sub(peerChainInfo, chain, 1))
	for it := range c.items(peerChainInfo, chain) {
		switch it.num {
		case 2:
			h.Chain.Height = primitives.Height(it.v)
		case 3:
			if len(h.Chain.TrackedShards) >= maxTrackedShards {
				c.fail("more than %d tracked shards", maxTrackedShards)
				return nil, c.err
			}
			h.Chain.TrackedShards = append(h.Chain.TrackedShards, primitives.ShardID(it.v))
		case 4:
			h.Chain.Archival = it.v != 0
		}
	}
	h.PartialEdge = *borshOf[PartialEdge](&c, handshake, in, 7)
	if owned := optional(handshake, in, 8); owned != nil {
		h.OwnedAccount = c.ownedAccount(owned)
	}
	return c.done(h)
}

func readHandshakeFailure(in []byte) (Message, error) {
	var c conversion
	f := &HandshakeFailure{Peer: *borshOf[PeerInfo](&c, handshakeFailure, in, 2)}
	for it := range handshakeFailure.items(in) {
		switch it.num {
		case 1:
			f.Reason = FailureReason(it.v)
		case 4:
			f.Version = uint32(it.v)
		case 5:
			f.Oldest = uint32(it.v)
		}
	}
	switch f.Reason {
	case VersionMismatch:
	case GenesisMismatch:
		f.Version, f.Oldest = 0, 0
		f.Genesis = c.genesis(c.sub(handshakeFailure, in, 3))
	case InvalidTarget:
		f.Version, f.Oldest = 0, 0
	default:
		c.fail("unknown reason %d", f.Reason)
	}
	return c.done(f)
}
