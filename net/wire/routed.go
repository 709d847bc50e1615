package wire

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StartTTL is the maximum number of hops of a message.
const StartTTL = 100

// Target is the destination of a routed message: a node, or the origin of the request with hash
// Back.
type Target struct {
	PeerID PeerID // empty: the target is the origin of Back
	Back   primitives.Hash
}

// ToPeer returns the target for a node.
func ToPeer(id PeerID) Target { return Target{PeerID: id} }

// RouteBack returns the target of a response to the message with this hash.
func RouteBack(request primitives.Hash) Target { return Target{Back: request} }

// AppendBorsh appends 0 ‖ id or 1 ‖ hash.
func (t *Target) AppendBorsh(b []byte) []byte {
	if t.PeerID != "" {
		return t.PeerID.AppendBorsh(append(b, 0))
	}
	return t.Back.AppendBorsh(append(b, 1))
}

// DecodeBorsh reads 0 ‖ id or 1 ‖ hash.
func (t *Target) DecodeBorsh(r *borsh.Reader) {
	*t = Target{}
	switch tag := r.Byte(); tag {
	case 0:
		t.PeerID = primitives.ReadPublicKey(r)
	case 1:
		t.Back = primitives.ReadHash(r)
	default:
		r.BadTag("PeerIdOrHash", tag)
	}
}

// Routed is a message that nodes relay to the message's target. All fields but TTL, CreatedAt and
// Hops are signed, and must not be changed after creation.
type Routed struct {
	Target    Target
	Author    PeerID
	Signature primitives.Signature // signature over Hash; empty: none, so verification fails
	TTL       byte
	Body      Body
	CreatedAt *int64 // creation time in seconds since 1970; nil: absent
	Hops      uint32

	tagged []byte // encoded body with its tag
	proven verdict
	direct bool             // true: Direct was called
	hash   *primitives.Hash // cached hash; nil: not computed yet
	// key signs an own message on first use. key is nil if the message is already signed or comes
	// from another node.
	key *primitives.SecretKey
}

// Kind returns KindRouted, the kind as which the message is sent.
func (*Routed) Kind() Kind { return KindRouted }

// NewRouted returns a signed message of key's node. seconds is the time of creation, in UTC.
func NewRouted(key primitives.SecretKey, target Target, body Body, seconds int64) *Routed {
	m := Unsigned(key, target, body, seconds)
	m.Sign()
	return m
}

// Unsigned does the same as NewRouted, but the message is signed only when it is first encoded with
// its signature. A message needs no signature if its target is this node, or if the connection
// authenticates this node to the target. Until the message is signed, the caller must not use the
// message concurrently.
func Unsigned(key primitives.SecretKey, target Target, body Body, seconds int64) *Routed {
	m := &Routed{Target: target, Author: key.PublicKey(), TTL: StartTTL, Body: body, CreatedAt: &seconds, key: &key}
	primitives.Encoded(tagging{body}, func(b []byte) { m.tagged = bytes.Clone(b) })
	return m
}

// Sign signs a message that Unsigned returned. Sign does nothing if the message is signed.
func (m *Routed) Sign() {
	if m.key == nil || m.Signature != "" {
		return
	}
	h := m.Hash()
	m.hash, m.Signature, m.key = &h, m.key.Sign(h[:]), nil
}

// Bare returns a copy without a signature. The copy is for a target whose connection authenticates
// the author.
func (m *Routed) Bare() *Routed {
	out := *m
	out.Signature, out.key = "", nil
	return &out
}

// IsBare returns whether the message has no signature.
func (m *Routed) IsBare() bool {
	return m.Signature == "" || m.Signature == primitives.ZeroED25519Signature
}

// Hash returns H(target ‖ author ‖ body with its RoutedMessageBody tag). The hash identifies the
// message. The author signs this hash, whatever the form in which the message is sent.
func (m *Routed) Hash() primitives.Hash {
	if m.hash != nil {
		return *m.hash
	}
	return primitives.HashBorsh((*hashed)(m))
}

// Size returns the length of the body with its tag, in bytes.
func (m *Routed) Size() int { return len(m.tagged) }

// tagging is a body preceded by its RoutedMessageBody tag.
type tagging struct{ Body }

// AppendBorsh appends tag and body.
func (t tagging) AppendBorsh(b []byte) []byte {
	return t.Body.AppendBorsh(append(b, byte(t.BodyKind())))
}

// hashed encodes the data that the hash of a message covers.
type hashed Routed

// AppendBorsh appends target, author and body with tag.
func (m *hashed) AppendBorsh(b []byte) []byte {
	return append(m.Author.AppendBorsh(m.Target.AppendBorsh(b)), m.tagged...)
}

// Verify returns whether the author has signed the message.
func (m *Routed) Verify() bool {
	m.Sign()
	return m.proven.or(func() bool {
		h := m.Hash()
		return m.Signature.Verify(h[:], m.Author)
	})
}

// Direct records that the message arrived from its author over a connection that authenticates the
// author. The target then need not verify the signature. A node that relays the message must verify
// the signature.
func (m *Routed) Direct() { m.direct = true }

// VerifyFor returns whether the target may accept the message. The target may accept it if Direct
// was called or the signature is valid.
func (m *Routed) VerifyFor() bool { return m.proven == unproven && m.direct || m.Verify() }

// prove verifies the signature and stores the result.
func (m *Routed) prove(keys *primitives.Verifier) {
	h := m.Hash()
	m.hash = &h
	m.proven.set(keys.Verify(m.Signature, h[:], m.Author))
}

// Hop returns the message as the next hop sends it. It returns nil if the TTL is used up.
func (m *Routed) Hop() *Routed {
	if m.TTL <= 1 {
		return nil
	}
	out := *m
	out.TTL--
	if out.Hops < math.MaxUint32 {
		out.Hops++
	}
	return &out
}

// roomBeside is the number of bytes of a frame in addition to body and signature, with Ed25519
// keys.
const roomBeside = 128

// appendFields appends the form that neard sends: the borsh of V1, followed by the fields that V2
// added. As in neard, a missing signature is encoded as zeros.
func (m *Routed) appendFields(b []byte) []byte {
	m.Sign()
	sig := m.Signature
	if sig == "" {
		sig = primitives.ZeroED25519Signature
	}
	b = slices.Grow(b, len(m.tagged)+len(sig)+roomBeside)
	b = appendMessage(b, 1, func(b []byte) []byte {
		b = sig.AppendBorsh(m.Author.AppendBorsh(m.Target.AppendBorsh(b)))
		return append(append(b, m.TTL), m.tagged...)
	})
	if m.CreatedAt != nil && *m.CreatedAt >= minSeconds && *m.CreatedAt <= maxSeconds {
		b = appendTimestamp(b, 2, Timestamp{Seconds: *m.CreatedAt})
	}
	return appendUint(b, 4, uint64(m.Hops))
}

// AppendV3 appends the frame of the third form, which neard accepts but does not send.
func (m *Routed) AppendV3(b []byte) []byte {
	m.Sign()
	return appendMessage(b, uint32(KindRoutedV3), func(b []byte) []byte {
		b = appendMessage(b, 1, func(b []byte) []byte {
			if m.Target.PeerID != "" {
				return appendBorsh(b, 1, m.Target.PeerID)
			}
			return appendHash(b, 2, &m.Target.Back)
		})
		b = appendUint(appendBorsh(b, 2, m.Author), 3, uint64(m.TTL))
		tag := bodies[m.Body.BodyKind()].tieredTag()
		if b = appendBytes(b, 4, append(tag[:], m.tagged[1:]...)); m.Signature != "" {
			b = appendBorsh(b, 5, m.Signature)
		}
		if m.CreatedAt != nil {
			b = appendVarint(appendTag(b, 6, varintType), uint64(*m.CreatedAt))
		}
		return appendUint(b, 7, uint64(m.Hops))
	})
}

// readBody decodes a body after its tag. tagged contains the bytes from the RoutedMessageBody tag
// on. tagged is nil if the input has another tag.
func (m *Routed) readBody(r *borsh.Reader, kind BodyKind, tagged []byte) {
	spec, known := bodies[kind]
	if !known {
		r.BadTag("RoutedMessageBody", byte(kind))
		return
	}
	in := r.Rest()
	m.Body = spec.read(r)
	if r.Err() != nil {
		return
	}
	switch n := len(in) - r.Remaining(); {
	case r.Loose(): // neard hashes the canonical encoding, not the received bytes
		m.tagged = m.Body.AppendBorsh([]byte{byte(kind)})
	case tagged != nil:
		m.tagged = tagged[:1+n]
	default:
		m.tagged = append(append(make([]byte, 0, 1+n), byte(kind)), in[:n]...)
	}
}

func readRouted(in []byte) (Message, error) {
	var c conversion
	var m Routed
	var v1 []byte
	for it := range routed.items(in) {
		switch it.num {
		case 1:
			v1 = it.b
		case 2:
			seconds := c.timestamp(it.b).Seconds
			m.CreatedAt = &seconds
		case 4:
			m.Hops = uint32(it.v)
		}
	}
	r := borsh.NewReaderWithin(v1, room(v1))
	m.Target.DecodeBorsh(r)
	m.Author, m.Signature, m.TTL = primitives.ReadPublicKey(r), primitives.ReadSignature(r), r.Byte()
	tagged := r.Rest()
	m.readBody(r, BodyKind(r.Byte()), tagged)
	return c.routed(&m, r)
}

// routed returns m if all of r was consumed.
func (c *conversion) routed(m *Routed, r *borsh.Reader) (Message, error) {
	if err := r.Close(); err != nil && c.err == nil {
		c.err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.done(m)
}

func readRoutedV3(in []byte) (Message, error) {
	var c conversion
	var m Routed
	target := c.sub(routedV3, in, 1)
	var of item
	for of = range peerIDOrHash.items(target) {
	}
	switch of.num {
	case 1:
		m.Target = ToPeer(*unmarshal[PeerID](&c, wrappedBytes(of.b)))
	case 2:
		m.Target = RouteBack(c.hash(wrappedBytes(of.b)))
	default:
		c.fail("target without a type")
	}
	m.Author = *borshOf[PeerID](&c, routedV3, in, 2)
	var body []byte
	for it := range routedV3.items(in) {
		switch it.num {
		case 3:
			m.TTL = byte(it.v) // truncated, as in neard
		case 4:
			body = it.b
		case 6:
			seconds := int64(it.v)
			m.CreatedAt = &seconds
		case 7:
			m.Hops = uint32(it.v)
		}
	}
	if sig := optional(routedV3, in, 5); sig != nil {
		m.Signature = *unmarshal[primitives.Signature](&c, wrappedBytes(sig))
	}
	if c.err != nil {
		return nil, c.err
	}
	r := borsh.NewReaderWithin(body, room(body))
	tier, inner := r.Byte(), r.Byte()
	if kind, known := tiered[[2]byte{tier, inner}]; known {
		m.readBody(r, kind, nil)
	} else {
		r.BadTag("TieredMessageBody", inner)
	}
	return c.routed(&m, r)
}
