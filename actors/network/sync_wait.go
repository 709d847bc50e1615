package network

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/primitives"
)

// proofWait describes why a node has no epoch sync proof yet, for the log.
type proofWait struct {
	// GenesisOnly means that the node can execute no block before it has a state.
	GenesisOnly bool
	BootNodes   int // configured boot nodes
	Peers       int // connected peers
	Heads       int // connected peers that have sent their head
	Tip         primitives.Height
	Best        primitives.Height // highest claim of a trusted peer; 0: none
	Horizon     primitives.Height // gap above which a proof is requested
	Requests    blocksync.ProofRequests
}

// missing returns what the node lacks and what to do about it. The result is empty if it lacks
// nothing, or if requests are in flight and none has failed.
func (w *proofWait) missing() string {
	r := &w.Requests
	switch {
	case w.Peers == 0 && w.BootNodes == 0:
		return "no peer is connected and network.boot_nodes is empty: give nodes of the network with --boot-nodes"
	case w.Peers == 0:
		return fmt.Sprintf("no peer is connected: check that this machine reaches the %s of network.boot_nodes, or give others",
			plural(w.BootNodes, "node"))
	case w.Heads == 0:
		return fmt.Sprintf("none of %s has sent its head: add nodes to network.boot_nodes", plural(w.Peers, "peer"))
	case r.Silent+r.Unused > 0:
		return fmt.Sprintf("of %s for one, %d had no reply and %d returned a proof that this node cannot use: "+
			"add nodes to network.boot_nodes", plural(r.Sent, "request"), r.Silent, r.Unused)
	case r.Sent > 0:
		return ""
	case w.Best <= w.Tip+w.Horizon:
		return fmt.Sprintf("the highest head of %s is block %d, and only a peer above block %d is asked for a proof: "+
			"add nodes of the network to network.boot_nodes", plural(w.Peers, "peer"), w.Best, w.Tip+w.Horizon)
	}
	return "the peers with the highest heads are paused after failed requests: add nodes to network.boot_nodes"
}

// text returns a line for the log, or "" if there is nothing to say.
func (w *proofWait) text() string {
	why := w.missing()
	if why == "" {
		return ""
	}
	then := fmt.Sprintf("Meanwhile this node downloads and executes every block from %d on", w.Tip+1)
	if w.GenesisOnly {
		then = "This node has only the genesis, which it cannot continue by itself: it waits, and executes no blocks until then"
	}
	return fmt.Sprintf("no epoch sync proof yet: %s. %s", why, then)
}

// plural returns a number with a noun, to which it adds an s unless the number is 1.
func plural[N int | uint64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// logNoProof logs, after stuckAfter and then at most once in stuckLogPeriod, why no epoch sync proof
// has come. It logs nothing on a node that needs none.
func (a *Actor) logNoProof(now int64, info *near.Info) {
	w := proofWait{GenesisOnly: a.genesisOnly, BootNodes: a.o.BootNodes, Peers: len(info.Peers), Tip: a.o.Engine.Tip().Height(),
		Best: a.sync.Best(), Horizon: a.o.Sync.Horizon, Requests: a.sync.ProofRequests()}
	for i := range info.Peers {
		if info.Peers[i].HasBlock {
			w.Heads++
		}
	}
	waits := a.o.StateSyncs != nil && !a.headersApart && (w.GenesisOnly &&
		w.Tip == a.o.Engine.Genesis().Block.Header.Height || w.Requests.Wanted)
	if text := a.noProof.next(now, waits, &w); text != "" {
		a.o.Log.Warn(text)
	}
}

// proofWaitLog decides when the log gets a line about a missing proof. The zero value is ready.
type proofWaitLog struct {
	waits bool  // the node waited at the last call
	at    int64 // time in ms of the next line
}

// next returns the line to log now, or "". now is in ms.
func (l *proofWaitLog) next(now int64, waits bool, w *proofWait) string {
	if waits && !l.waits {
		l.at = now + stuckAfter
	}
	if l.waits = waits; !waits || now < l.at {
		return ""
	}
	text := w.text()
	if text != "" {
		l.at = now + stuckLogPeriod
	}
	return text
}
