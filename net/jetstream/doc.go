// Package jetstream carries a chain's records to other machines by NATS JetStream, on a server of
// its own inside of the node or on one elsewhere.
//
//	in      Source: the records of a node's log, from any place on; a server's address;
//	        transactions that replicas pass on; snapshots that they ask for
//	out     messages of one subject of a durable stream, each record once and in the order of the
//	        log; records to a Follower, whole and checked; answers to requests
//	state   what the stream's last message says: where in the log the next one begins. Nothing of
//	        it is kept here
//	units   bytes; ns since 1970 for when a message was published
//	bound   the stream's bytes and age, behind which the oldest go; MaxPending messages on their
//	        way to the server; MaxAhead records that a Follower has and nobody has taken;
//	        MaxTransactions that wait for the pools; MaxSnapshots under way
//	errors  a server that is dead or full: the Publisher tries again for ever, from where the
//	        stream ends, and nobody waits for it; ErrGap, ErrChanged, ErrLog to who follows
//	source  our own; nats-server 2.10, nats.go 1.43
//
// # Exactly once
//
// Each message names the place in the log behind its record. Whoever publishes reads the stream's
// last message and goes on from there, and each message says which one it expects to be the last,
// so that a message whose answer was lost is not published twice, nor by two nodes at the same
// time. A record that is longer than PartSize comes in parts, of which that holds too.
//
// A stream belongs to one log, which has a name that the stream's metadata and each message say.
// Where the log on disk is not the one of which the stream tells (a folder was put back), or has
// lost to garbage collection what comes next, the stream is emptied and begins anew under another
// name; who followed the old one begins anew too.
package jetstream
