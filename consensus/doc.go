// Package consensus runs a validator, or a node that only follows the chain, as one sans-IO state
// machine: it decides what the node sends, signs, produces, requests and waits for.
//
//	in      events. Received: a peer's message; Submitted: a client's transaction; Tick: time has
//	        passed; Done: a job has run; Persisted: imported blocks are on disk; ShardsChanged:
//	        the engine holds other shards; KeyChanged: the account has a new key. The time is
//	        an argument
//	out     Out: signatures to persist before messages are sent, messages, jobs for other
//	        goroutines, imported and persisted blocks, the time of the next Tick
//	state   Node: the engine; approvals (chain/doomslug); received blocks and chunk bodies
//	        (chain/blockpool); chunk parts (chain/chunkparts); witnesses and endorsements
//	        (chain/partialwitness); transaction pools (chain/txpool); what was signed (Signatures)
//	units   times in ns since 1970, heights in blocks
//	bound   the bounds of the packages above; MaxParked approvals of unknown blocks for each
//	        account; MaxMissing requested blocks
//	errors  an invalid message is dropped and noted; a fault of this node is Out.Fatal, after
//	        which the node does nothing more
//	source  nearcore chain/client/src/{client,client_actor,chunk_inclusion_tracker}.rs,
//	        chain/client/src/sync
//
// The package has no goroutine, clock, socket or random source: equal events at equal times cause
// equal effects. So package internal/testkit/sim can run a cluster in one process, reproducibly
// from a seed. The program around a Node (the shell) provides the clock, the sockets, the
// goroutines and the randomness. Its loop is:
//
//	n, err := consensus.New(consensus.Options{Engine: e, HeaderChain: e.HeaderChain(),
//		Witnesses: e.Witnesses(), Account: a, Key: k, ...}, now())
//	...
//	out := n.Start(now())
//	for {
//		if out.Save != nil {
//			write(consensus.SignaturesRow, out.Save) // on disk before the next line
//		}
//		for _, s := range out.Send {
//			send(s)
//		}
//		for _, j := range out.Jobs {
//			go func() { j.Run(); events <- consensus.Done{Job: j.ID} }()
//		}
//		if out.Fatal != nil {
//			return out.Fatal
//		}
//		var ev consensus.Event = consensus.Tick{}
//		select {
//		case ev = <-events: // Received, Submitted, Done, Persisted, ...
//		case <-after(out.Wake):
//		}
//		out = n.Step(now(), ev)
//	}
//
// Options.OnPersisted sends Persisted to the shell's loop. Node is not safe for concurrent use.
package consensus
