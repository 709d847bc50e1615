package near

import "github.com/troupe-chain/troupe/net/wire"

// Priority is how urgent a frame is.
type Priority byte

// Consensus goes before gossip, and gossip before sync; within each the order stays.
const (
	Consensus Priority = iota
	Gossip
	Sync
	priorities
)

// maxQueued is how much may wait for a connection, in bytes, as at neard (peer/stream.rs:18);
// beyond it the connection ends.
const maxQueued = 1 << 30

// turn is after how many frames before it a waiting frame of less priority has its turn, so that a
// flood starves nobody.
const turn = 32

// PriorityOf tells how urgent a message is. What opens a connection is as urgent as anything, so
// that it stays first.
func PriorityOf(m wire.Message) Priority {
	switch m := m.(type) {
	case *wire.Routed:
		if m.Body.BodyKind().IsT1() || m.Body.BodyKind() == wire.BodyChunkRequest || m.Body.BodyKind() == wire.BodyChunkResponse {
			return Consensus
		}
		return Gossip
	case *wire.Handshake, *wire.HandshakeFailure, *wire.LastEdge, *wire.Block, *wire.BlockRequest, *wire.OptimisticBlock:
		return Consensus
	case *wire.Headers, *wire.HeadersRequest, *wire.StateResponse, *wire.StateHeaderRequest, *wire.StatePartRequest, *wire.EpochSyncRequest,
		*wire.EpochSyncResponse, *wire.Disconnect:
		return Sync
	}
	return Gossip
}

// Queue is what waits to be written to a connection. It is used by one goroutine at a time.
type Queue struct {
	waiting [priorities][][]byte
	passed  [priorities]int // frames of more priority since the last one
	bytes   int
}

// Put adds a frame; false: there is no room, and the connection is to be closed.
func (q *Queue) Put(frame []byte, p Priority) bool {
	if q.bytes+len(frame) > maxQueued {
		return false
	}
	q.waiting[p] = append(q.waiting[p], frame)
	q.bytes += len(frame)
	return true
}

// Next takes the frame to write next, nil if there is none.
func (q *Queue) Next() []byte {
	best := priorities
	for p := range priorities {
		if len(q.waiting[p]) > 0 && (best == priorities || q.passed[p] >= turn) {
			best = p
		}
	}
	if best == priorities {
		return nil
	}
	q.passed[best] = 0
	for p := best + 1; p < priorities; p++ {
		if len(q.waiting[p]) > 0 {
			q.passed[p]++
		}
	}
	frame := q.waiting[best][0]
	q.waiting[best][0] = nil
	q.waiting[best] = q.waiting[best][1:]
	q.bytes -= len(frame)
	return frame
}

// Bytes returns how much waits.
func (q *Queue) Bytes() int { return q.bytes }
