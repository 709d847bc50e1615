package wire

import "github.com/troupe-chain/troupe/primitives"

// StateResponse answers a request for a state header or a part of a state.
type StateResponse struct{ primitives.StateResponse }

// Kind returns KindStateResponse.
func (*StateResponse) Kind() Kind { return KindStateResponse }

func (s *StateResponse) appendFields(b []byte) []byte { return appendBorsh(b, 1, s) }

func readStateResponse(in []byte) (Message, error) {
	var c conversion
	return c.done(borshOf[StateResponse](&c, oneMessage, in, 1))
}
