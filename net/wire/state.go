package wire

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StateResponse answers a request for a state header or a part of a state. What it brings is passed on as bytes, Content: nearcore's
// ShardStateSyncResponse with its tag; who asked reads them.
type StateResponse struct {
	ShardID  primitives.ShardID
	SyncHash primitives.Hash
	Content  []byte
}

// stateResponseV2 is the tag of StateResponseInfo that is in use; V1 holds states of chunks before mainnet's second year.
const stateResponseV2 = 1

// Kind returns KindStateResponse.
func (*StateResponse) Kind() Kind { return KindStateResponse }

// AppendBorsh appends StateResponseInfo.
func (s *StateResponse) AppendBorsh(b []byte) []byte {
	b = s.SyncHash.AppendBorsh(borsh.AppendUint64(append(b, stateResponseV2), uint64(s.ShardID)))
	return append(b, s.Content...)
}

// DecodeBorsh reads StateResponseInfo; the content is whatever is left, with one of the four tags that there are.
func (s *StateResponse) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != stateResponseV2 {
		r.BadTag("StateResponseInfo", tag)
		return
	}
	s.ShardID, s.SyncHash = primitives.ShardID(r.Uint64()), primitives.ReadHash(r)
	if tag, ok := r.Peek(0); !ok || tag > 3 {
		r.BadTag("ShardStateSyncResponse", tag)
		return
	}
	s.Content = r.Take(r.Remaining())
}

func (s *StateResponse) appendFields(b []byte) []byte { return appendBorsh(b, 1, s) }

func readStateResponse(in []byte) (Message, error) {
	var c conversion
	return c.done(borshOf[StateResponse](&c, oneMessage, in, 1))
}
