// Package witness is how chunks' witnesses travel: packed, cut into parts for their validators and signed, and put together again.
//
//	in      witnesses, code, parts that others have sent
//	out     parts, endorsements; witnesses and code, with the first error
//	state   none
//	units   bytes
//	bound   MaxRaw and MaxEncoded bytes a witness, MaxContracts bytes of code
//	errors  ErrCoding: who signed the parts is at fault
//	source  nearcore core/primitives/src/{reed_solomon,utils/compression}.rs, stateless_validation
package witness
