// Package consensus is a validator among validators as one sans-IO state machine: what a node
// sends, produces, requests and waits for.
//
//	in      Received: a peer's message; Submitted: a client's transaction; Tick: time passed;
//	        Done: a job has run; Persisted: imported blocks are on disk; ShardsChanged: the
//	        engine holds other shards; KeyChanged. Time is an argument
//	out     Out: signatures to persist before anything is sent, messages, jobs for any
//	        goroutine, imported and persisted blocks, the time of the next Tick
//	state   Node: the engine; votes (chain/doomslug); received blocks and bodies
//	        (chain/blockpool); chunk parts (chain/chunkparts); witnesses and endorsements
//	        (chain/partialwitness); pools (chain/txpool); what was signed (Signatures)
//	units   times in ns since 1970, heights in blocks
//	bound   those of the packages above; MaxParked votes an account for unknown blocks;
//	        MaxMissing requested blocks
//	errors  an invalid message is dropped and noted; a fault of this node is Out.Fatal, after
//	        which it does nothing
//	source  nearcore chain/client/src/{client,client_actor,chunk_inclusion_tracker}.rs,
//	        chain/client/src/sync
//
// It has no goroutine, clock, socket or randomness of its own: equal events at equal times give
// equal effects. So package internal/sim runs a cluster in one process from a seed. The shell
// around a Node owns all of those. Its loop is:
//
//	n, err := consensus.New(consensus.Options{Engine: e, Account: a, Key: k, ...}, now())
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
// Options.OnPersisted sends Persisted to the loop. A Node must not be stepped from two goroutines.
package consensus
