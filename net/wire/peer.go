package wire

import (
	"net/netip"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// PeerID is a node's public key. String order is neard's order: by scheme, then by bytes.
type PeerID = primitives.PublicKey

// PeerInfo describes a peer.
type PeerInfo struct {
	ID        PeerID
	Addr      netip.AddrPort       // address on which the node listens; zero: unknown
	AccountID primitives.AccountID // validator account of the node; empty: unknown
}

// String returns key@ip:port@account, without unknown parts.
func (p PeerInfo) String() string {
	var s strings.Builder
	s.WriteString(p.ID.String())
	if p.Addr.IsValid() {
		s.WriteString("@" + p.Addr.String())
	}
	if p.AccountID != "" {
		s.WriteString("@" + string(p.AccountID))
	}
	return s.String()
}

// AppendBorsh appends id, Option<SocketAddr>, Option<AccountId>.
func (p *PeerInfo) AppendBorsh(b []byte) []byte {
	b = p.ID.AppendBorsh(b)
	if p.Addr.IsValid() {
		b = primitives.AppendSocketAddr(append(b, 1), p.Addr)
	} else {
		b = append(b, 0)
	}
	if p.AccountID == "" {
		return append(b, 0)
	}
	return p.AccountID.AppendBorsh(append(b, 1))
}

// DecodeBorsh reads id, Option<SocketAddr>, Option<AccountId>.
func (p *PeerInfo) DecodeBorsh(r *borsh.Reader) {
	*p = PeerInfo{ID: primitives.ReadPublicKey(r)}
	if r.Option() {
		p.Addr = primitives.ReadSocketAddr(r)
	}
	if r.Option() {
		p.AccountID = primitives.ReadAccountID(r)
	}
}

// appendProtoAddr appends the protobuf encoding.
func appendProtoAddr(b []byte, num uint32, a netip.AddrPort) []byte {
	return appendMessage(b, num, func(b []byte) []byte {
		return appendUint(appendBytes(b, 1, a.Addr().AsSlice()), 2, uint64(a.Port()))
	})
}

// protoAddr reads the protobuf encoding.
func (c *conversion) protoAddr(in []byte) netip.AddrPort {
	var raw []byte
	var port uint64
	for it := range socketAddr.items(in) {
		if it.num == 1 {
			raw = it.b
		} else {
			port = it.v
		}
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		c.fail("IP of %d bytes", len(raw))
	}
	if port > 0xffff {
		c.fail("port %d", port)
	}
	return netip.AddrPortFrom(ip, uint16(port))
}

// Timestamp is a time in UTC.
type Timestamp struct {
	Seconds int64 // seconds since 1970 UTC
	Nanos   int32 // nanoseconds, 0 to 999,999,999
}

// The range of Rust's time crate in seconds: the years -9999 to 9999.
const minSeconds, maxSeconds = -377_705_116_800, 253_402_300_799

// Compare returns -1, 0 or 1 if t is before, at or after o.
func (t Timestamp) Compare(o Timestamp) int {
	switch {
	case t.Seconds < o.Seconds || t.Seconds == o.Seconds && t.Nanos < o.Nanos:
		return -1
	case t == o:
		return 0
	}
	return 1
}

func appendTimestamp(b []byte, num uint32, t Timestamp) []byte {
	return appendMessage(b, num, func(b []byte) []byte {
		return appendUint(appendUint(b, 1, uint64(t.Seconds)), 2, uint64(t.Nanos))
	})
}

// timestamp reads a time. It normalizes nanoseconds that are negative or exceed a second.
func (c *conversion) timestamp(in []byte) (t Timestamp) {
	var nanos int64
	for it := range timestamp.items(in) {
		if it.num == 1 {
			t.Seconds = int64(it.v)
		} else {
			nanos = int64(it.v)
		}
	}
	carry := nanos / 1e9
	if nanos%1e9 < 0 {
		carry--
	}
	t.Nanos = int32(nanos - carry*1e9)
	if t.Seconds < minSeconds-carry || t.Seconds > maxSeconds-carry {
		c.fail("instant %d is out of range", t.Seconds)
		return Timestamp{}
	}
	t.Seconds += carry
	return t
}
