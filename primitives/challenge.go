package primitives

import (
	"bytes"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// minChallenge is the size in bytes of the shortest encoding of a challenge: two empty headers, an
// account id of two bytes and a signature.
const minChallenge = 1 + 4 + 4 + 4 + 2 + 65

// readChallenges reads a vector of challenges (nearcore core/primitives/src/challenge.rs) and
// returns its bytes, nil if the vector is empty. Challenges are obsolete and not processed, but a
// body with challenges is valid and the body's hash covers the challenges. So readChallenges parses
// the challenges to find where they end.
func readChallenges(r *borsh.Reader) []byte {
	raw := r.Rest()
	n := r.Len(minChallenge)
	if n == 0 {
		return nil
	}
	for range n {
		if readChallenge(r); r.Err() != nil {
			return nil
		}
	}
	return bytes.Clone(raw[:len(raw)-r.Remaining()])
}

func readChallenge(r *borsh.Reader) {
	var path MerklePath
	switch tag := r.Byte(); tag {
	case 0: // double sign: two headers of one block producer
		r.Bytes()
		r.Bytes()
	case 1: // invalid chunk body: a chunk whose body does not match its header
		r.Bytes()
		path.DecodeBorsh(r)
		switch tag := r.Byte(); tag {
		case 0:
			readEncodedChunk(r)
		case 1:
			readAnyChunk(r)
		default:
			r.BadTag("MaybeEncodedShardChunk", tag)
		}
	case 2: // invalid chunk state: a chunk that claims a wrong outcome
		r.Bytes()
		r.Uint64()
		path.DecodeBorsh(r)
		readAnyChunk(r)
		path.DecodeBorsh(r)
		readAnyChunkHeader(r)
		if tag := r.Byte(); tag != 0 {
			r.BadTag("PartialState", tag)
		}
		readEach(r, 4, func() { r.Bytes() })
	default:
		r.BadTag("ChallengeBody", tag)
	}
	ReadAccountID(r)
	ReadSignature(r)
}

// readEach reads a vector. The function one reads and discards an item, which has at least `least`
// bytes.
func readEach(r *borsh.Reader, least int, one func()) {
	for range r.Len(least) {
		if one(); r.Err() != nil {
			return
		}
	}
}

// readEncodedChunk reads nearcore's EncodedShardChunk.
func readEncodedChunk(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		readOldChunkHeader(r)
	case 1:
		readAnyChunkHeader(r)
	default:
		r.BadTag("EncodedShardChunk", tag)
	}
	readEach(r, 1, func() {
		if r.Option() {
			r.Bytes()
		}
	})
}

// readAnyChunk reads nearcore's ShardChunk.
func readAnyChunk(r *borsh.Reader) {
	tag := r.Byte()
	ReadHash(r)
	switch tag {
	case 0:
		readOldChunkHeader(r)
	case 1:
		readAnyChunkHeader(r)
	default:
		r.BadTag("ShardChunk", tag)
	}
	ReadTransactions(r)
	ReadReceipts(r)
}

// readAnyChunkHeader reads nearcore's ShardChunkHeader of any version.
func readAnyChunkHeader(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0, 1:
		readOldChunkHeader(r)
	case 2:
		switch v := r.Byte(); v {
		case 0, 1, 2, 3, 4:
			readChunkInner(r, ChunkInnerVersion(v))
		case 5: // V6 of the inner part, which has no outcome of the previous chunk
			for range 2 {
				ReadHash(r)
			}
			r.Take(3 * 8)
			for range 2 {
				ReadHash(r)
			}
		default:
			r.BadTag("ShardChunkHeaderInner", v)
		}
		r.Uint64()
		ReadSignature(r)
	default:
		r.BadTag("ShardChunkHeader", tag)
	}
}

// readOldChunkHeader reads nearcore's ShardChunkHeader V1 or V2.
func readOldChunkHeader(r *borsh.Reader) {
	readChunkInner(r, ChunkInnerV1)
	r.Uint64()
	ReadSignature(r)
}

// readChunkInner reads the inner part of a chunk's header, V1 to V5, without its tag.
func readChunkInner(r *borsh.Reader, v ChunkInnerVersion) {
	r.Take(4*32 + 5*8 + 16 + 2*32)
	readEach(r, 2, func() {
		var p ValidatorStake
		if v == ChunkInnerV1 {
			p.decodeUntagged(r)
		} else {
			p.DecodeBorsh(r)
		}
	})
	if v >= ChunkInnerV3 {
		var c CongestionInfo
		c.DecodeBorsh(r)
	}
	if v >= ChunkInnerV4 {
		ReadBandwidthRequests(r)
	}
	if v >= ChunkInnerV5 && r.Option() {
		var s TrieSplit
		s.DecodeBorsh(r)
	}
}
