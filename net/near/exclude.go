package near

import (
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// exclude replaces the list of excluded peers. Connections with excluded peers are closed and
// refused. Peers that are no longer excluded are dialled at once, as after a start.
func (n *PeerManager) exclude(now time.Time, peers []wire.PeerID) {
	before := n.excluded
	n.excluded = make(map[wire.PeerID]bool, len(peers))
	for _, id := range peers {
		n.excluded[id] = true
		delete(n.retries, id)
		delete(n.answers, id)
	}
	for _, c := range n.byID() {
		if n.excluded[c.peer.ID] || n.excluded[c.target] {
			n.close(now, c, Requested, NotBanned)
		}
	}
	for id := range before {
		if !n.excluded[id] {
			n.timers.monitor, n.timers.monitorStep, n.timers.t1 = now, monitorFirst, now
			return
		}
	}
}
