package tcp

import (
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// words are the routed messages that a peer sends of its own over a connection. They are signed for who gets them from others: of one whom the connection itself
// has proven none is checked, of one who has only said who he is the first earned all, and then one in each. What this node hands on is checked always, as the
// next one would.
type words struct {
	me     wire.PeerID
	peer   wire.PeerID
	proven bool // by the connection
	good   int  // that were checked in a row
	passed int  // since one was checked
}

// The first messages of a peer that are checked, and of how many one is later on.
const (
	earned = 64
	each   = 16
)

// of notes who the peer says that it is. Another one later on begins anew.
func (w *words) of(peer wire.PeerID) {
	if w.peer != peer {
		*w = words{me: w.me, peer: peer}
	}
}

// prove checks the signatures of a message that has come, as far as the reader is to.
func (w *words) prove(m wire.Message, keys *primitives.Verifier) {
	r, ok := m.(*wire.Routed)
	if !ok || w.peer == "" || r.Author != w.peer || r.Target.PeerID != "" && r.Target.PeerID != w.me {
		wire.Prove(m, keys)
		return
	}
	if w.proven || w.good >= earned && w.passed < each-1 {
		w.passed++
		r.Direct()
		return
	}
	wire.Prove(m, keys)
	w.passed = 0
	if w.good++; !r.Verify() {
		w.good = 0
	}
}
