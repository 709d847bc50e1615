package near

import "github.com/troupe-chain/troupe/net/wire"

// Priority is the urgency of a frame.
type Priority byte

// The priorities, most urgent first. Frames of the same priority keep their order.
const (
	Consensus Priority = iota
	Gossip
	Sync
	priorities
)

// maxQueued is the maximum number of bytes of frames that wait for a connection, as in neard
// (peer/stream.rs:18). If a frame would exceed maxQueued, the connection is closed.
const maxQueued = 1 << 30

// starvationLimit is the number of more urgent frames that may be sent before a waiting frame.
const starvationLimit = 32

// PriorityOf returns the priority of a message. Handshake messages have the highest priority, so
// that this node sends handshake messages first.
func PriorityOf(m wire.Message) Priority {
	switch m := m.(type) {
	case *wire.Routed:
		if m.Body.BodyKind().IsT1() || m.Body.BodyKind() == wire.BodyChunkRequest ||
			m.Body.BodyKind() == wire.BodyChunkResponse {
			return Consensus
		}
		return Gossip
	case *wire.Handshake, *wire.HandshakeFailure, *wire.LastEdge, *wire.Block, *wire.BlockRequest, *wire.OptimisticBlock:
		return Consensus
	case *wire.Headers, *wire.HeadersRequest, *wire.StateResponse, *wire.StateHeaderRequest, *wire.StatePartRequest,
		*wire.EpochSyncRequest,
		*wire.EpochSyncResponse, *wire.Disconnect:
		return Sync
	}
	return Gossip
}

// Queue holds the frames that wait to be written to a connection. Not safe for concurrent use.
type Queue struct {
	waiting [priorities][][]byte
	skipped [priorities]int // by priority: number of more urgent frames sent since the last frame of this priority
	bytes   int
}

// Put adds a frame. It returns false if the queue is full. The caller must then close the
// connection.
func (q *Queue) Put(frame []byte, p Priority) bool {
	if q.bytes+len(frame) > maxQueued {
		return false
	}
	q.waiting[p] = append(q.waiting[p], frame)
	q.bytes += len(frame)
	return true
}

// Next removes and returns the next frame; nil: none.
func (q *Queue) Next() []byte {
	best := priorities
	for p := range priorities {
		if len(q.waiting[p]) > 0 && (best == priorities || q.skipped[p] >= starvationLimit) {
			best = p
		}
	}
	if best == priorities {
		return nil
	}
	q.skipped[best] = 0
	for p := best + 1; p < priorities; p++ {
		if len(q.waiting[p]) > 0 {
			q.skipped[p]++
		}
	}
	frame := q.waiting[best][0]
	q.waiting[best][0] = nil
	q.waiting[best] = q.waiting[best][1:]
	q.bytes -= len(frame)
	return frame
}

// Bytes returns how many bytes wait.
func (q *Queue) Bytes() int { return q.bytes }
