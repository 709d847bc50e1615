package stun

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Parts of a message (RFC 8489, sections 5 and 14).
const (
	headerSize     = 20
	bindingRequest = 0x0001
	bindingSuccess = 0x0101
	bindingError   = 0x0111
	magicCookie    = 0x2112a442

	attrErrorCode        = 0x0009
	attrXorMappedAddress = 0x0020
)

// transactionID identifies a request. A server repeats it in the answer.
type transactionID [12]byte

// errNoAnswer means that a packet is no answer to the request.
var errNoAnswer = errors.New("no answer to the request")

// appendRequest appends a binding request without attributes.
func appendRequest(b []byte, id transactionID) []byte {
	b = binary.BigEndian.AppendUint16(b, bindingRequest)
	b = binary.BigEndian.AppendUint16(b, 0) // length of the attributes
	b = binary.BigEndian.AppendUint32(b, magicCookie)
	return append(b, id[:]...)
}

// parse returns the address in the answer to the request id. parse returns errNoAnswer for a packet
// that does not answer this request, and another error for an answer without an address.
func parse(packet []byte, id transactionID) (netip.Addr, error) {
	if len(packet) < headerSize || binary.BigEndian.Uint32(packet[4:]) != magicCookie ||
		transactionID(packet[8:headerSize]) != id {
		return netip.Addr{}, errNoAnswer
	}
	kind, attrs := binary.BigEndian.Uint16(packet), packet[headerSize:]
	if kind != bindingSuccess && kind != bindingError {
		return netip.Addr{}, errNoAnswer
	}
	if n := int(binary.BigEndian.Uint16(packet[2:])); n != len(attrs) || n%4 != 0 {
		return netip.Addr{}, fmt.Errorf("the answer has %d bytes of attributes and claims %d", len(attrs), n)
	}
	for len(attrs) > 0 { // a multiple of 4 bytes is left
		attr, n := binary.BigEndian.Uint16(attrs), int(binary.BigEndian.Uint16(attrs[2:]))
		padded := (n + 3) &^ 3
		if attrs = attrs[4:]; padded > len(attrs) {
			return netip.Addr{}, fmt.Errorf("attribute %#04x claims %d bytes, %d are left", attr, n, len(attrs))
		}
		value := attrs[:n]
		attrs = attrs[padded:]
		switch {
		case kind == bindingError && attr == attrErrorCode && n >= 4:
			return netip.Addr{}, fmt.Errorf("the server refused the request with code %d", int(value[2]&7)*100+int(value[3]))
		case kind == bindingSuccess && attr == attrXorMappedAddress:
			return xorMapped(value, id)
		}
	}
	if kind == bindingError {
		return netip.Addr{}, errors.New("the server refused the request")
	}
	return netip.Addr{}, errors.New("the answer has no XOR-MAPPED-ADDRESS")
}

// xorMapped decodes an XOR-MAPPED-ADDRESS. Its port is ignored: it belongs to the request's socket.
func xorMapped(value []byte, id transactionID) (netip.Addr, error) {
	var mask [16]byte
	binary.BigEndian.PutUint32(mask[:], magicCookie)
	copy(mask[4:], id[:])
	if len(value) < 4 {
		return netip.Addr{}, fmt.Errorf("an address of %d bytes", len(value))
	}
	family, ip := value[1], value[4:]
	if family == 1 && len(ip) != 4 || family == 2 && len(ip) != 16 || family != 1 && family != 2 {
		return netip.Addr{}, fmt.Errorf("an address of family %d with %d bytes", family, len(ip))
	}
	var raw [16]byte
	for i := range ip {
		raw[i] = ip[i] ^ mask[i]
	}
	addr, _ := netip.AddrFromSlice(raw[:len(ip)])
	return addr.Unmap(), nil
}
