package wire

import (
	"fmt"
	"io"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// MaxFrame is the maximum length of a frame in bytes, as in neard. A peer that announces a longer
// frame is banned.
const MaxFrame = 512 << 20

// Message is a PeerMessage.
type Message interface {
	Kind() Kind
	appendFields(b []byte) []byte // appends the protobuf fields of the message
}

// The plain messages. Only the frame length bounds their lists here.
type (
	// LastEdge rejects a handshake whose nonce is not above the nonce of the existing edge.
	// LastEdge contains the existing edge.
	LastEdge struct{ Edge *Edge }
	// RoutingTable contains edges and announcements: all known ones, or new ones.
	RoutingTable struct {
		Edges    []*Edge
		Accounts []*Announcement
	}
	// NonceRequest asks the peer to sign an edge with a nonce above the present edge's.
	NonceRequest struct{ PartialEdge PartialEdge }
	// PeersRequest requests addresses; nil: no limit.
	PeersRequest struct{ MaxPeers, MaxDirectPeers *uint32 }
	// PeersResponse carries known and connected peers.
	PeersResponse struct{ Peers, DirectPeers []PeerInfo }
	// HeadersRequest requests the headers after the first known hash.
	HeadersRequest struct{ Hashes []primitives.Hash }
	// Headers answers a HeadersRequest, in order of height.
	Headers struct{ Headers []*primitives.BlockHeader }
	// BlockRequest requests a block.
	BlockRequest struct{ Hash primitives.Hash }
	// Block is a requested block, a new block, or the sender's head.
	Block struct{ Block *primitives.Block }
	// Transaction is a transaction as a client submits it.
	Transaction struct {
		Transaction *primitives.SignedTransaction
	}
	// Disconnect precedes the end of a connection.
	Disconnect struct{ RemoveFromStore bool }
	// Challenge is obsolete. Its contents are not decoded.
	Challenge struct{ Borsh []byte }
	// StateHeaderRequest requests a state header over the same connection.
	StateHeaderRequest struct {
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
	}
	// StatePartRequest requests a state part over the same connection.
	StatePartRequest struct {
		ShardID  primitives.ShardID
		SyncHash primitives.Hash
		Part     uint64
	}
	// EpochSyncRequest requests an epoch sync proof.
	EpochSyncRequest struct{}
	// EpochSyncResponse is an epoch sync proof, compressed with zstd and not decoded.
	EpochSyncResponse struct{ Compressed []byte }
	// OptimisticBlock announces a block before the block is complete. WireHash is the hash that the
	// sender claims. Like neard, the receiver keeps WireHash and checks the signature over it.
	OptimisticBlock struct {
		Block    *primitives.OptimisticBlock
		WireHash primitives.Hash
	}
)

// Kind returns the field number in PeerMessage.
func (*LastEdge) Kind() Kind           { return KindLastEdge }
func (*RoutingTable) Kind() Kind       { return KindRoutingTable }
func (*NonceRequest) Kind() Kind       { return KindNonceRequest }
func (*PeersRequest) Kind() Kind       { return KindPeersRequest }
func (*PeersResponse) Kind() Kind      { return KindPeersResponse }
func (*HeadersRequest) Kind() Kind     { return KindHeadersRequest }
func (*Headers) Kind() Kind            { return KindHeaders }
func (*BlockRequest) Kind() Kind       { return KindBlockRequest }
func (*Block) Kind() Kind              { return KindBlock }
func (*Transaction) Kind() Kind        { return KindTransaction }
func (*Disconnect) Kind() Kind         { return KindDisconnect }
func (*Challenge) Kind() Kind          { return KindChallenge }
func (*StateHeaderRequest) Kind() Kind { return KindStateHeaderRequest }
func (*StatePartRequest) Kind() Kind   { return KindStatePartRequest }
func (*EpochSyncRequest) Kind() Kind   { return KindEpochSyncRequest }
func (*EpochSyncResponse) Kind() Kind  { return KindEpochSyncResponse }
func (*OptimisticBlock) Kind() Kind    { return KindOptimisticBlock }

// Append appends the frame of m, without its length prefix.
func Append(b []byte, m Message) []byte { return appendMessage(b, uint32(m.Kind()), m.appendFields) }

// appendBorsh appends a wrapper with the borsh of v.
func appendBorsh(b []byte, num uint32, v borsh.Appender) []byte {
	return appendMessage(b, num, func(b []byte) []byte { return appendBytes(b, 1, v.AppendBorsh(nil)) })
}

func appendHash(b []byte, num uint32, h *primitives.Hash) []byte {
	return appendMessage(b, num, func(b []byte) []byte { return appendBytes(b, 1, h[:]) })
}

func (m *LastEdge) appendFields(b []byte) []byte { return appendBorsh(b, 1, m.Edge) }

func (m *RoutingTable) appendFields(b []byte) []byte {
	for _, e := range m.Edges {
		b = appendBorsh(b, 1, e)
	}
	for _, a := range m.Accounts {
		b = appendBorsh(b, 2, a)
	}
	return b
}

func (m *NonceRequest) appendFields(b []byte) []byte { return appendBorsh(b, 1, &m.PartialEdge) }

func (m *PeersRequest) appendFields(b []byte) []byte {
	for i, v := range [...]*uint32{m.MaxPeers, m.MaxDirectPeers} {
		if v != nil { // write 0 too, because the field is optional
			b = appendTag(b, uint32(i+1), varintType)
			b = appendVarint(b, uint64(*v))
		}
	}
	return b
}

func (m *PeersResponse) appendFields(b []byte) []byte {
	for i := range m.Peers {
		b = appendBorsh(b, 1, &m.Peers[i])
	}
	for i := range m.DirectPeers {
		b = appendBorsh(b, 2, &m.DirectPeers[i])
	}
	return b
}

func (m *HeadersRequest) appendFields(b []byte) []byte {
	for i := range m.Hashes {
		b = appendHash(b, 1, &m.Hashes[i])
	}
	return b
}

func (m *Headers) appendFields(b []byte) []byte {
	for _, h := range m.Headers {
		b = appendBorsh(b, 1, h)
	}
	return b
}

func (m *BlockRequest) appendFields(b []byte) []byte { return appendHash(b, 1, &m.Hash) }

func (m *Block) appendFields(b []byte) []byte { return appendBorsh(b, 1, m.Block) }

func (m *Transaction) appendFields(b []byte) []byte {
	return appendBytes(b, 1, m.Transaction.AppendBorsh(nil))
}

func (m *Disconnect) appendFields(b []byte) []byte { return appendBool(b, 1, m.RemoveFromStore) }

func (m *Challenge) appendFields(b []byte) []byte { return appendBytes(b, 1, m.Borsh) }

func (m *StateHeaderRequest) appendFields(b []byte) []byte {
	return appendHash(appendUint(b, 1, uint64(m.ShardID)), 2, &m.SyncHash)
}

func (m *StatePartRequest) appendFields(b []byte) []byte {
	return appendUint(appendHash(appendUint(b, 1, uint64(m.ShardID)), 2, &m.SyncHash), 3, m.Part)
}

func (m *EpochSyncRequest) appendFields(b []byte) []byte { return b }

func (m *EpochSyncResponse) appendFields(b []byte) []byte { return appendBytes(b, 1, m.Compressed) }

func (m *OptimisticBlock) appendFields(b []byte) []byte {
	whole := m.Block.AppendBorsh(nil)
	b = appendBytes(b, 1, whole[:len(whole)-len(m.Block.Signature)])
	return appendHash(appendBorsh(b, 2, m.Block.Signature), 3, &m.WireHash)
}

// Decode decodes a frame without its length prefix. As in neard, the last message in the frame is
// used, and trace contexts are ignored. Errors: ErrInvalid.
func Decode(frame []byte) (Message, error) {
	if err := peerMessage.check(frame); err != nil {
		return nil, err
	}
	var last item
	for it := range peerMessage.items(frame) {
		if it.num != traceField {
			last = it
		}
	}
	if last.num == 0 {
		return nil, invalid("the message has no kind")
	}
	m, err := convert(Kind(last.num), last.b)
	if err != nil {
		return nil, fmt.Errorf("message %v: %w", Kind(last.num), err)
	}
	return m, nil
}

// convert decodes a message from its checked bytes.
func convert(k Kind, in []byte) (Message, error) {
	switch k {
	case KindTier1Handshake:
		return readHandshake(T1, in)
	case KindTier2Handshake:
		return readHandshake(T2, in)
	case KindTier3Handshake:
		return readHandshake(T3, in)
	case KindHandshakeFailure:
		return readHandshakeFailure(in)
	case KindRouted:
		return readRouted(in)
	case KindRoutedV3:
		return readRoutedV3(in)
	case KindAccountsData:
		return readAccountsData(in)
	case KindSnapshotHosts:
		return readSnapshotHosts(in)
	case KindStateResponse:
		return readStateResponse(in)
	case KindRoutingTable:
		return readRoutingTable(in)
	case KindPeersRequest:
		m := new(PeersRequest)
		for it := range peersRequest.items(in) {
			v := uint32(it.v)
			if it.num == 1 {
				m.MaxPeers = &v
			} else {
				m.MaxDirectPeers = &v
			}
		}
		return m, nil
	case KindPeersResponse:
		return readPeersResponse(in)
	}
	return convertPlain(k, in)
}

// convertPlain decodes messages of up to three simple fields.
func convertPlain(k Kind, in []byte) (Message, error) {
	var c conversion
	switch k {
	case KindLastEdge:
		return c.done(&LastEdge{borshOf[Edge](&c, oneMessage, in, 1)})
	case KindNonceRequest:
		return c.done(&NonceRequest{*borshOf[PartialEdge](&c, oneMessage, in, 1)})
	case KindNonceResponse:
		return c.done(&RoutingTable{Edges: []*Edge{borshOf[Edge](&c, oneMessage, in, 1)}})
	case KindHeadersRequest:
		m := new(HeadersRequest)
		for it := range c.items(oneMessage, in) {
			m.Hashes = append(m.Hashes, c.hash(wrappedBytes(it.b)))
		}
		return c.done(m)
	case KindHeaders:
		m := new(Headers)
		for it := range c.items(oneMessage, in) {
			m.Headers = append(m.Headers, unmarshal[primitives.BlockHeader](&c, wrappedBytes(it.b)))
		}
		return c.done(m)
	case KindBlockRequest:
		return c.done(&BlockRequest{c.hashOf(oneMessage, in, 1)})
	case KindBlock:
		return c.done(&Block{borshOf[primitives.Block](&c, oneMessage, in, 1)})
	case KindTransaction:
		return c.done(&Transaction{unmarshal[primitives.SignedTransaction](&c, wrappedBytes(in))})
	case KindDisconnect:
		m := new(Disconnect)
		for it := range disconnect.items(in) {
			m.RemoveFromStore = it.v != 0
		}
		return m, nil
	case KindChallenge:
		return &Challenge{wrappedBytes(in)}, nil
	case KindStateHeaderRequest, KindStatePartRequest:
		var shard, part uint64
		for it := range statePart.items(in) {
			switch it.num {
			case 1:
				shard = it.v
			case 3:
				part = it.v
			}
		}
		hash := c.hashOf(statePart, in, 2)
		if k == KindStateHeaderRequest {
			return c.done(&StateHeaderRequest{primitives.ShardID(shard), hash})
		}
		return c.done(&StatePartRequest{primitives.ShardID(shard), hash, part})
	case KindEpochSyncRequest:
		return &EpochSyncRequest{}, nil
	case KindEpochSyncResponse:
		return &EpochSyncResponse{wrappedBytes(in)}, nil
	case KindOptimisticBlock:
		return readOptimisticBlock(in)
	}
	panic(fmt.Sprintf("wire: no case for %v", k))
}

func readRoutingTable(in []byte) (Message, error) {
	m, c := new(RoutingTable), conversion{}
	for it := range c.items(twoMessages, in) {
		if it.num == 1 {
			m.Edges = append(m.Edges, unmarshal[Edge](&c, wrappedBytes(it.b)))
		} else {
			m.Accounts = append(m.Accounts, unmarshal[Announcement](&c, wrappedBytes(it.b)))
		}
	}
	return c.done(m)
}

func readPeersResponse(in []byte) (Message, error) {
	m, c := new(PeersResponse), conversion{}
	for it := range c.items(twoMessages, in) {
		p := *unmarshal[PeerInfo](&c, wrappedBytes(it.b))
		if it.num == 1 {
			m.Peers = append(m.Peers, p)
		} else {
			m.DirectPeers = append(m.DirectPeers, p)
		}
	}
	return c.done(m)
}

func readOptimisticBlock(in []byte) (Message, error) {
	var inner []byte
	for it := range optimisticBlock.items(in) {
		if it.num == 1 {
			inner = it.b
		}
	}
	var c conversion
	sig := *borshOf[primitives.Signature](&c, optimisticBlock, in, 2)
	hash := c.hashOf(optimisticBlock, in, 3)
	whole := append(append(make([]byte, 0, len(inner)+len(sig)), inner...), sig...)
	m := &OptimisticBlock{unmarshal[primitives.OptimisticBlock](&c, whole), hash}
	if c.err == nil && m.Block.Signature != sig {
		c.fail("inner of %d bytes", len(inner))
	}
	return c.done(m)
}

// StateResponse answers a request for a state header or a state part.
type StateResponse struct{ primitives.StateResponse }

// Kind returns KindStateResponse.
func (*StateResponse) Kind() Kind { return KindStateResponse }

func (s *StateResponse) appendFields(b []byte) []byte { return appendBorsh(b, 1, s) }

func readStateResponse(in []byte) (Message, error) {
	var c conversion
	return c.done(borshOf[StateResponse](&c, oneMessage, in, 1))
}

// ReadGrowing reads n bytes of r and appends them to b. n is only the sender's claim. So
// ReadGrowing first allocates `first` bytes, and then at most twice the bytes that have arrived.
// The result is nil only if there is an error.
func ReadGrowing(r io.Reader, b []byte, n, first int) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, min(n, first))
	}
	for left := n; left > 0; {
		at := len(b)
		k := min(left, max(first, at))
		if cap(b) < at+k {
			b = append(make([]byte, 0, at+k), b...)
		}
		b = b[:at+k]
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return nil, err
		}
		left -= k
	}
	return b, nil
}
