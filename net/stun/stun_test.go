package stun

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// answer returns a binding success response with one XOR-MAPPED-ADDRESS.
func answer(id transactionID, ip netip.Addr) []byte {
	raw, family := ip.AsSlice(), byte(1)
	if ip.Is6() {
		family = 2
	}
	var mask [16]byte
	binary.BigEndian.PutUint32(mask[:], magicCookie)
	copy(mask[4:], id[:])
	for i := range raw {
		raw[i] ^= mask[i]
	}
	return message(bindingSuccess, id, attribute(attrXorMappedAddress, append([]byte{0, family, 0x12, 0x34}, raw...)))
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, kind)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(value))), value...)
	return append(b, make([]byte, -len(value)&3)...)
}

func message(kind uint16, id transactionID, attrs ...[]byte) []byte {
	body := bytes.Join(attrs, nil)
	b := binary.BigEndian.AppendUint16(nil, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	b = binary.BigEndian.AppendUint32(b, magicCookie)
	return append(append(b, id[:]...), body...)
}

// serve runs a STUN server on the loopback interface. reply returns the packets that answer a
// request, of which the server has received count before.
func serve(t *testing.T, reply func(id transactionID, count int) [][]byte) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2000)
		for count := 0; ; count++ {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n != headerSize || !bytes.Equal(buf[:8], []byte{0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42}) {
				t.Errorf("request %x", buf[:n])
			}
			for _, p := range reply(transactionID(buf[8:headerSize]), count) {
				_, _ = conn.WriteTo(p, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return conn.LocalAddr().String()
}

// reports returns a server that reports an address.
func reports(t *testing.T, ip string) string {
	return serve(t, func(id transactionID, _ int) [][]byte { return [][]byte{answer(id, netip.MustParseAddr(ip))} })
}

func silent(t *testing.T) string { return serve(t, func(transactionID, int) [][]byte { return nil }) }

// closedPort returns an address at which no server listens.
func closedPort(t *testing.T) string {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().String()
}

// TestAnswersMustAgree follows nearcore's rule: at least one server answers, and all answers are
// equal (chain/network/src/peer_manager/network_state/tier1.rs:99).
func TestAnswersMustAgree(t *testing.T) {
	a, b := reports(t, "203.0.113.7"), reports(t, "203.0.113.7")
	other, refused := reports(t, "203.0.113.8"), serve(t, func(id transactionID, _ int) [][]byte {
		return [][]byte{message(bindingError, id, attribute(attrErrorCode, []byte{0, 0, 4, 1}))}
	})
	for _, x := range []struct {
		name    string
		servers []string
		want    error
		text    string
	}{
		{"none is configured", nil, ErrNoAnswer, ""},
		{"one", []string{a}, nil, ""},
		{"two agree", []string{a, b}, nil, ""},
		{"one does not answer", []string{closedPort(t), a}, nil, ""},
		{"one is silent", []string{silent(t), a}, nil, ""},
		{"one refuses", []string{refused, a}, nil, ""},
		{"one has no port", []string{"127.0.0.1", a}, nil, ""},
		{"two differ", []string{a, silent(t), other}, ErrDisagree, "203.0.113.8"},
		{"all refuse", []string{refused}, ErrNoAnswer, "code 401"},
		{"all are silent", []string{silent(t)}, ErrNoAnswer, "no answer in time"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			got, err := client{time.Second}.agreed(t.Context(), x.servers, true)
			if !errors.Is(err, x.want) || x.want == nil && (err != nil || got != netip.MustParseAddr("203.0.113.7")) ||
				err != nil && !strings.Contains(err.Error(), x.text) {
				t.Errorf("%v, %v, want %v %q", got, err, x.want, x.text)
			}
		})
	}
}

// TestHostileAnswersAreRefused sends answers that a broken or a hostile server could send.
func TestHostileAnswersAreRefused(t *testing.T) {
	good := netip.MustParseAddr("203.0.113.7")
	flip := func(id transactionID) transactionID {
		id[11]++
		return id
	}
	for _, x := range []struct {
		name  string
		reply func(id transactionID) [][]byte
		text  string // in the error; empty: the good address is found
	}{
		{"another transaction, then the good one", func(id transactionID) [][]byte {
			return [][]byte{answer(flip(id), netip.MustParseAddr("203.0.113.9")), answer(id, good)}
		}, ""},
		{"the request itself, then the good one", func(id transactionID) [][]byte {
			return [][]byte{appendRequest(nil, id), answer(id, good)}
		}, ""},
		{"no cookie, then the good one", func(id transactionID) [][]byte {
			p := answer(id, netip.MustParseAddr("203.0.113.9"))
			p[4]++
			return [][]byte{p, {}, {1, 1}, answer(id, good)}
		}, ""},
		{"unknown attributes before the address", func(id transactionID) [][]byte {
			p := answer(id, good)
			return [][]byte{message(bindingSuccess, id, attribute(0x8022, []byte("server")), p[headerSize:])}
		}, ""},
		{"only another transaction", func(id transactionID) [][]byte { return [][]byte{answer(flip(id), good)} }, "no answer in time"},
		{"oversized", func(id transactionID) [][]byte {
			return [][]byte{message(bindingSuccess, id, answer(id, good)[headerSize:], attribute(0x8022, make([]byte, 8000)))}
		}, "claims"},
		{"cut", func(id transactionID) [][]byte { p := answer(id, good); return [][]byte{p[:len(p)-4]} }, "claims"},
		{"attribute beyond the end", func(id transactionID) [][]byte {
			p := answer(id, good)
			p[headerSize+3] = 200
			return [][]byte{p}
		}, "are left"},
		{"empty address", func(id transactionID) [][]byte {
			return [][]byte{message(bindingSuccess, id, attribute(attrXorMappedAddress, nil))}
		}, "an address of 0 bytes"},
		{"family 3", func(id transactionID) [][]byte {
			return [][]byte{message(bindingSuccess, id, attribute(attrXorMappedAddress, []byte{0, 3, 0, 1, 1, 2, 3, 4}))}
		}, "family 3"},
		{"IPv4 of 16 bytes", func(id transactionID) [][]byte {
			return [][]byte{message(bindingSuccess, id, attribute(attrXorMappedAddress, append([]byte{0, 1, 0, 1}, make([]byte, 16)...)))}
		}, "family 1 with 16 bytes"},
		{"an IPv6 address", func(id transactionID) [][]byte {
			return [][]byte{answer(id, netip.MustParseAddr("2001:db8::1"))}
		}, "wrong family"},
		{"no address", func(id transactionID) [][]byte { return [][]byte{message(bindingSuccess, id)} }, "no XOR-MAPPED-ADDRESS"},
		{"an address in an error", func(id transactionID) [][]byte {
			p := answer(id, good)
			binary.BigEndian.PutUint16(p, bindingError)
			return [][]byte{p}
		}, "refused"},
		{"a flood", func(id transactionID) [][]byte {
			out := make([][]byte, 3*maxIgnored)
			for i := range out {
				out[i] = []byte("flood")
			}
			return out
		}, "packets that are no answer"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(id transactionID, _ int) [][]byte { return x.reply(id) })
			got, err := client{time.Second}.agreed(t.Context(), []string{server}, true)
			if x.text == "" && (err != nil || got != good) || x.text != "" && (err == nil || !strings.Contains(err.Error(), x.text)) {
				t.Errorf("%v, %v, want %q", got, err, x.text)
			}
		})
	}
}

// TestLostRequestIsSentAgain: UDP loses packets.
func TestLostRequestIsSentAgain(t *testing.T) {
	t.Parallel()
	server := serve(t, func(id transactionID, count int) [][]byte {
		if count == 0 {
			return nil
		}
		return [][]byte{answer(id, netip.MustParseAddr("203.0.113.7"))}
	})
	if got, err := Agreed(t.Context(), []string{server}, true); err != nil || got.String() != "203.0.113.7" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCanceledQueryEnds: the end of the context ends the wait for silent servers.
func TestCanceledQueryEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := serve(t, func(transactionID, int) [][]byte {
		cancel() // the request has arrived
		return nil
	})
	if _, err := (client{time.Hour}).agreed(ctx, []string{server, server}, true); !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
}

// TestServersAreBounded: of a long list, only the first servers are asked.
func TestServersAreBounded(t *testing.T) {
	t.Parallel()
	list := make([]string, MaxServers+1)
	for i := range MaxServers {
		list[i] = "no port"
	}
	list[MaxServers] = reports(t, "203.0.113.7")
	if _, err := Agreed(t.Context(), list, true); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("the server after the last one was asked: %v", err)
	}
}

// TestVectorsOfRFC5769 decodes the sample responses of RFC 5769, sections 2.2 and 2.3.
func TestVectorsOfRFC5769(t *testing.T) {
	id := transactionID{0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae}
	for _, x := range []struct{ packet, want string }{
		{"0101003c2112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220" +
			"002000080001a147e112a643000800142b91f599fd9e90c38c7489f92af9ba53f06be7d780280004c07d4c96", "192.0.2.1"},
		{"010100482112a442b7e7a701bc34d686fa87dfae8022000b7465737420766563746f7220" +
			"002000140002a1470113a9faa5d3f179bc25f4b5bed2b9d900080014a382954e4be67bf11784c97c8292c275bfe3ed4180280004c8fb0b4c",
			"2001:db8:1234:5678:11:2233:4455:6677"},
	} {
		raw, err := hex.DecodeString(x.packet)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(raw, id); err != nil || got.String() != x.want {
			t.Errorf("%v, %v, want %s", got, err, x.want)
		}
	}
}

// FuzzParse: no packet makes parse panic, and no packet with another transaction id is an answer.
func FuzzParse(f *testing.F) {
	id := transactionID{1, 2, 3}
	f.Add(answer(id, netip.MustParseAddr("203.0.113.7")))
	f.Add(answer(id, netip.MustParseAddr("2001:db8::1")))
	f.Add(message(bindingError, id, attribute(attrErrorCode, []byte{0, 0, 4, 1})))
	f.Fuzz(func(t *testing.T, packet []byte) {
		if addr, err := parse(packet, id); err == nil && !addr.IsValid() {
			t.Error("no error and no address")
		}
		other := id
		other[11]++
		if _, err := parse(packet, other); !errors.Is(err, errNoAnswer) && !bytes.HasPrefix(packet[8:], other[:]) {
			t.Errorf("an answer to another request: %v", err)
		}
	})
}
