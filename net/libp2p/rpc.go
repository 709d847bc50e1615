package libp2p

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/troupe-chain/troupe/net/wire"
)

const (
	maxRPC = maxGossip + 64<<10
	// maxUnmetRPC is the maximum size of an RPC before the handshake, in bytes. Subscriptions are
	// shorter. A longer RPC is skipped.
	maxUnmetRPC = 64 << 10
	// minEntrySize is the minimum number of bytes of an RPC for each message, subscription or
	// control entry. A decoded entry takes three times as much memory.
	minEntrySize = 64
	minNameSize  = 16      // minimum number of bytes of an RPC for each name in a control entry
	spareEntries = 64      // number of entries that an RPC of any length may have
	rpcFirst     = 4 << 10 // initial buffer of an RPC, in bytes
)

var errRPC = errors.New("libp2p: a gossip RPC is too long, or has too many entries")

// gossipHost is the host as gossipsub uses it. gossipHost checks an RPC before gossipsub allocates
// memory for it. gossipsub allocates the length that the peer announces, and a hundred times the
// received bytes if these contain empty messages.
type gossipHost struct {
	host.Host
	transport *Transport
}

// SetStreamHandler implements host.Host.
func (h gossipHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, h.guarded(f))
}

// SetStreamHandlerMatch implements host.Host.
func (h gossipHost) SetStreamHandlerMatch(id protocol.ID, fits func(protocol.ID) bool, f network.StreamHandler) {
	h.Host.SetStreamHandlerMatch(id, fits, h.guarded(f))
}

func (h gossipHost) guarded(f network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		f(&rpcStream{Stream: s, transport: h.transport, from: s.Conn().RemotePeer(), in: bufio.NewReaderSize(s, 4<<10)})
	}
}

// rpcStream delivers complete RPCs.
type rpcStream struct {
	network.Stream
	transport *Transport
	from      peer.ID
	in        *bufio.Reader
	out       []byte // rest of the current RPC that was not returned by Read yet
}

// Read implements network.Stream.
func (s *rpcStream) Read(b []byte) (int, error) {
	for len(s.out) == 0 {
		s.out = nil
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, s.out)
	s.out = s.out[n:]
	return n, nil
}

// next reads an RPC, which must arrive at paceBytes. Before the handshake, next skips an RPC that
// is too long.
func (s *rpcStream) next() error {
	n, err := binary.ReadUvarint(s.in)
	switch {
	case err != nil:
		return err
	case n > maxRPC:
		return errRPC
	}
	if int64(s.in.Buffered()) < int64(n) {
		_ = s.SetReadDeadline(time.Now().Add(s.transport.o.Stall + time.Duration(n/paceBytes)*time.Second))
		defer func() { _ = s.SetReadDeadline(time.Time{}) }()
	}
	if n > maxUnmetRPC && !s.transport.isMet(s.from) {
		s.transport.o.Counters.held.Add(1)
		_, err := io.CopyN(io.Discard, s.in, int64(n))
		return err
	}
	out, err := wire.ReadGrowing(s.in, binary.AppendUvarint(nil, n), int(n), rpcFirst)
	if err != nil {
		return err
	}
	if !isSparse(out[len(out)-int(n):]) {
		return errRPC
	}
	s.out = out
	return nil
}

// controlField is the protobuf field of an RPC with control entries.
const controlField = 3

// isSparse returns whether an RPC has few enough entries for its length. isSparse need not reject
// invalid protobuf, because the decoder does.
func isSparse(rpc []byte) bool {
	ones, names := 0, 0
	eachField(rpc, func(id uint64, inner []byte) {
		if ones++; id != controlField {
			return
		}
		eachField(inner, func(_ uint64, word []byte) {
			ones++
			eachField(word, func(uint64, []byte) { names++ })
		})
	})
	return ones <= spareEntries+len(rpc)/minEntrySize && names <= spareEntries+len(rpc)/minNameSize
}

// eachField calls the function do for each field of a protobuf message. inner is the field's
// contents if the field has a length. eachField stops at the first invalid field.
func eachField(b []byte, do func(id uint64, inner []byte)) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		b = b[n:]
		size := uint64(0)
		var inner []byte
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(b); n <= 0 {
				return
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > math.MaxInt32 {
				return
			}
			b = b[n:]
			size = l
			inner = b[:min(l, uint64(len(b)))]
		case 5:
			size = 4
		default: // protobuf groups do not occur in RPCs, so skip only the tag
		}
		do(tag>>3, inner)
		if size > uint64(len(b)) {
			return
		}
		b = b[size:]
	}
}
