package primitives

// Gas counts execution cost; arithmetic on it is checked by its users (see package runtime/fees).
type Gas uint64

// Height is a block height.
type Height uint64

// ShardID names a shard; ids need be neither contiguous nor ascending.
type ShardID uint64

// ShardIndex is a shard's place in its layout's order.
type ShardIndex int

// Nonce is an access key's counter.
type Nonce uint64

// ProtocolVersion is the number that selects the rules of an epoch.
type ProtocolVersion uint32

// Numbering says which line of protocol numbers a chain's versions belong to, since 86 means two
// things (reference next.md 2): that of the June build the recordings come from, or that of the
// published releases.
type Numbering string

// The two numberings.
const (
	NumberingJune    Numbering = "june"
	NumberingRelease Numbering = "release"
)

// NonceRangeMultiplier is ACCESS_KEY_NONCE_RANGE_MULTIPLIER: nonces stay below height times this.
const NonceRangeMultiplier = 1_000_000

// InitialNonce is the nonce of a key added in a block of the given height: (height-1)·10^6.
func InitialNonce(h Height) Nonce { return Nonce(h-1) * NonceRangeMultiplier }
