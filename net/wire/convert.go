package wire

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// conversion stores the first error of several reads.
type conversion struct{ err error }

func (c *conversion) fail(format string, args ...any) {
	if c.err == nil {
		c.err = invalid(format, args...)
	}
}

// done returns m, or the first error.
func (c *conversion) done(m Message) (Message, error) {
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}

// items yields fields until an error occurs. After an error no more memory is allocated for the
// frame.
func (c *conversion) items(s *schema, in []byte) iter.Seq[item] {
	return func(yield func(item) bool) {
		for it := range s.items(in) {
			if c.err != nil || !yield(it) {
				return
			}
		}
	}
}

// wrappedBytes returns the only field of a wrapper. The result is empty if the field is absent.
func wrappedBytes(in []byte) []byte {
	var out []byte
	for it := range wrapped.items(in) {
		out = it.b
	}
	return out
}

// sub returns the message in field num. The field must be present.
func (c *conversion) sub(s *schema, in []byte, num uint32) []byte {
	var out []byte
	for it := range s.items(in) {
		if it.num == num {
			out = it.b
		}
	}
	if out == nil {
		c.fail("field %d of %s is missing", num, s.name)
	}
	return out
}

// optional returns the message in field num, or nil if the field is absent.
func optional(s *schema, in []byte, num uint32) []byte {
	var out []byte
	for it := range s.items(in) {
		if it.num == num {
			out = it.b
		}
	}
	return out
}

func (c *conversion) hash(b []byte) (h primitives.Hash) {
	if len(b) != len(h) {
		c.fail("hash of %d bytes", len(b))
		return h
	}
	return primitives.Hash(b)
}

// hashOf reads a wrapped hash.
func (c *conversion) hashOf(s *schema, in []byte, num uint32) primitives.Hash {
	if b := c.sub(s, in, num); b != nil {
		return c.hash(wrappedBytes(b))
	}
	return primitives.Hash{}
}

// room returns the maximum memory in bytes of the decoded lists of a message. An absent signature
// and some actions take one byte encoded and sixteen decoded, so the longest frame could otherwise
// take 8 GiB. Messages of up to 5 MiB always fit. These include the longest valid transaction (1.5
// MiB) and the receipts that a chunk sends to a shard (4.5 MiB). A longer message fits if its lists
// take at most four bytes of memory for each of its bytes. Valid messages fit: they consist of byte
// strings, which do not count (chunk bodies, witnesses, state parts, code), or of signatures of 65
// bytes.
func room(in []byte) int { return 64<<20 + 4*len(in) }

// pointerTo is a pointer type that decodes borsh.
type pointerTo[T any] interface {
	*T
	borsh.Decoder
}

// unmarshal decodes exactly one T.
func unmarshal[T any, P pointerTo[T]](c *conversion, in []byte) P {
	v := P(new(T))
	if c.err == nil {
		if err := borsh.UnmarshalWithin(in, v, room(in)); err != nil {
			c.err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return v
}

// borshOf decodes the T wrapped in field num.
func borshOf[T any, P pointerTo[T]](c *conversion, s *schema, in []byte, num uint32) P {
	if b := c.sub(s, in, num); b != nil {
		return unmarshal[T, P](c, wrappedBytes(b))
	}
	return P(new(T))
}

func appendVarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }
