package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// Rate is a limit on one kind of message that a peer sends: a bucket of tokens, of which each message
// takes one (nearcore chain/network/src/rate_limits).
type Rate struct {
	Maximum uint32  // number of tokens that the bucket holds
	Initial uint32  // number of tokens in the bucket of a new connection; at most Maximum
	Refill  float32 // tokens a second
}

// rateKeys are the names that neard's configuration has for the kinds of messages
// (RateLimitedPeerMessageKey). This node accepts all of them, and receives none of the Spice messages.
var rateKeys = map[string]bool{
	"SyncRoutingTable": true, "RequestUpdateNonce": true, "SyncAccountsData": true, "PeersRequest": true,
	"PeersResponse": true, "BlockHeadersRequest": true, "BlockHeaders": true, "BlockRequest": true, "Block": true,
	"Transaction": true, "SyncSnapshotHosts": true, "StateRequestHeader": true, "StateRequestPart": true,
	"VersionedStateResponse": true, "BlockApproval": true, "ForwardTx": true, "TxStatusRequest": true,
	"TxStatusResponse": true, "StateResponse": true, "PartialEncodedChunkRequest": true,
	"PartialEncodedChunkResponse": true, "VersionedPartialEncodedChunk": true, "PartialEncodedChunkForward": true,
	"ChunkEndorsement": true, "ChunkStateWitnessAck": true, "PartialEncodedStateWitness": true,
	"PartialEncodedStateWitnessForward": true, "ChunkContractAccesses": true, "ContractCodeRequest": true,
	"ContractCodeResponse": true, "PartialEncodedContractDeploys": true, "EpochSyncRequest": true,
	"EpochSyncResponse": true, "OptimisticBlock": true, "SpicePartialData": true, "SpiceChunkEndorsement": true,
	"SpicePartialDataRequest": true, "SpiceChunkContractAccesses": true, "SpiceContractCodeRequest": true,
	"SpiceContractCodeResponse": true,
}

// IsRateKey returns whether neard's configuration can limit messages of this name.
func IsRateKey(name string) bool { return rateKeys[name] }

// rateKeyOf returns the name by which a message is limited; empty: neard limits no such message.
func rateKeyOf(m wire.Message) string {
	name := wire.Variant(m)
	switch name {
	case "VersionedChunkEndorsement":
		name = "ChunkEndorsement"
	case "VersionedPartialEncodedStateWitness":
		name = "PartialEncodedStateWitness"
	case "VersionedPartialEncodedStateWitnessForward":
		name = "PartialEncodedStateWitnessForward"
	}
	if !rateKeys[name] {
		return ""
	}
	return name
}

// StandardRates returns neard's default limits (messages_limits.rs standard_preset). A proof for
// epoch sync is long, and the request has no argument.
func StandardRates() map[string]Rate {
	each30s := Rate{Maximum: 1, Initial: 1, Refill: 1.0 / 30}
	return map[string]Rate{"EpochSyncRequest": each30s, "EpochSyncResponse": each30s}
}

// tokenParts is the number of parts of a token. A refill adds whole parts.
const tokenParts = 1 << 31

// bucket is the state of a limit for one connection.
type bucket struct {
	parts uint64 // tokens times tokenParts
	last  time.Time
}

// take refills the bucket and returns whether it held a token, which take removes.
func (b *bucket) take(now time.Time, r Rate) bool {
	if d := now.Sub(b.last); d > 0 {
		full := uint64(r.Maximum) * tokenParts
		// A large product does not fit uint64, and the conversion would be undefined.
		if add := float64(d.Seconds()*float64(r.Refill)) * tokenParts; add >= float64(full) {
			b.parts, b.last = full, now
		} else if add >= 1 {
			b.parts, b.last = min(b.parts+uint64(add), full), now
		}
	}
	if b.parts < tokenParts {
		return false
	}
	b.parts -= tokenParts
	return true
}

// Admission decides which messages of one connection are handled, before any of their signatures is
// verified. It drops the messages above Config.Rates, and copies of routed messages, in the order of
// neard (chain/network/src/peer/peer_actor.rs:1598 and 1262). A reader of a connection that verifies
// signatures asks its own Admission first, and sets Received.Admitted. Not safe for concurrent use.
type Admission struct {
	rates   map[string]Rate
	meter   *Meter
	opened  time.Time
	buckets map[string]*bucket // state of the limits that have applied to the peer
	seen    seenMessages
}

// NewAdmission returns the admission of a connection that was opened at a time. Safe for concurrent use.
func (n *PeerManager) NewAdmission(opened time.Time) *Admission {
	return &Admission{rates: n.Rates, meter: n.Meter, opened: opened}
}

// Admit returns whether to handle a message. It counts the message, and a dropped one for
// Info.RateLimited.
func (a *Admission) Admit(now time.Time, m wire.Message) bool {
	if !a.allowRate(now, m) {
		a.meter.limited(m)
		return false
	}
	r, ok := m.(*wire.Routed)
	return !ok || !a.seen.again(now, r)
}

// allowRate returns whether a message is within the configured limit of its kind. If so, allowRate
// counts the message.
func (a *Admission) allowRate(now time.Time, m wire.Message) bool {
	key := rateKeyOf(m)
	r, limited := a.rates[key]
	if !limited {
		return true
	}
	b := a.buckets[key]
	if b == nil {
		if a.buckets == nil {
			a.buckets = map[string]*bucket{}
		}
		b = &bucket{uint64(min(r.Initial, r.Maximum)) * tokenParts, a.opened}
		a.buckets[key] = b
	}
	return b.take(now, r)
}
