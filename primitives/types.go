package primitives

// Gas counts execution cost. Its users check for overflow (see package runtime/fees).
type Gas uint64

// Height is a block height.
type Height uint64

// ShardID identifies a shard; ids need not be contiguous or ascending.
type ShardID uint64

// ShardIndex is a shard's position in its layout.
type ShardIndex int

// Nonce is an access key's counter.
type Nonce uint64

// ProtocolVersion selects the rules of an epoch.
type ProtocolVersion uint32

// ProdGenesisProtocolVersion is the protocol version of the genesis of mainnet and testnet (nearcore
// PROD_GENESIS_PROTOCOL_VERSION). This version encodes the genesis block and its chunks differently
// than the versions that this program executes.
const ProdGenesisProtocolVersion ProtocolVersion = 29

// Numbering says how a chain numbers its protocol versions. Version 86 of nearcore's June build,
// from which the recordings come, differs from version 86 of the published releases.
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
