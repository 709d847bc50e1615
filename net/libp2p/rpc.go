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
	// of who has not shaken hands: what he may say of topics is shorter, and the rest is dropped
	maxUnmetRPC = 64 << 10
	// bytes of an RPC for each message, subscription or word of control in it, each of which is one
	// of three times that in memory
	leastOfOne   = 64
	leastOfName  = 16      // and for each name in a word of control
	spareEntries = 64      // beside that
	rpcFirst     = 4 << 10 // the memory that an RPC has before any of it has come
)

var errRPC = errors.New("libp2p: an RPC of gossip that is too long, or has too much in it")

// gossipHost is the host as gossipsub sees it: what comes over its streams is looked at before
// gossipsub takes memory for it, which is as much as the sender says, and a hundred times as much
// as he sends where he sends nothing but empty messages.
type gossipHost struct {
	host.Host
	way *Transport
}

// SetStreamHandler is of host.Host.
func (h gossipHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	h.Host.SetStreamHandler(id, h.guarded(f))
}

// SetStreamHandlerMatch is of host.Host.
func (h gossipHost) SetStreamHandlerMatch(id protocol.ID, fits func(protocol.ID) bool, f network.StreamHandler) {
	h.Host.SetStreamHandlerMatch(id, fits, h.guarded(f))
}

func (h gossipHost) guarded(f network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		f(&rpcStream{Stream: s, way: h.way, from: s.Conn().RemotePeer(), in: bufio.NewReaderSize(s, 4<<10)})
	}
}

// rpcStream gives one RPC after the other, each when it is here as a whole.
type rpcStream struct {
	network.Stream
	way  *Transport
	from peer.ID
	in   *bufio.Reader
	out  []byte // of an RPC with its length, what has not been taken
}

// Read is of network.Stream.
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

// next reads an RPC, which has to come as fast as a frame does. One that is longer than its sender
// may send is skipped.
func (s *rpcStream) next() error {
	n, err := binary.ReadUvarint(s.in)
	switch {
	case err != nil:
		return err
	case n > maxRPC:
		return errRPC
	}
	if int64(s.in.Buffered()) < int64(n) {
		_ = s.SetReadDeadline(time.Now().Add(s.way.o.Stall + time.Duration(n/paceBytes)*time.Second))
		defer func() { _ = s.SetReadDeadline(time.Time{}) }()
	}
	if n > maxUnmetRPC && !s.way.isMet(s.from) {
		s.way.o.Counters.held.Add(1)
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

// controlField is the field of an RPC under which words of control stand.
const controlField = 3

// isSparse tells whether an RPC has no more in it than its length bears. What is no protobuf is for
// who decodes it.
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
	return ones <= spareEntries+len(rpc)/leastOfOne && names <= spareEntries+len(rpc)/leastOfName
}

// eachField calls do for each field of a protobuf message, with the content of one that has a
// length, up to what is none.
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
		default: // groups, which nobody uses: the tags alone
		}
		do(tag>>3, inner)
		if size > uint64(len(b)) {
			return
		}
		b = b[size:]
	}
}
