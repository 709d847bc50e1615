// Package jetstream carries a chain's records to other machines by NATS JetStream, over a server in
// this process or an external server.
//
//	in      Source: the records of a node's log, from any position; a server's address;
//	        transactions that replicas forward; snapshot requests of replicas
//	out     messages on one subject of a durable stream, each record once and in log order; to a
//	        Follower, complete and verified records; responses to requests
//	state   none here: the stream's last message says which record is next
//	units   bytes; ns since 1970 for the time of publication
//	bound   the stream's bytes and age, beyond which the oldest messages are dropped; MaxPending
//	        messages in flight to the server; MaxAhead records waiting in a Follower;
//	        MaxTransactions waiting for the pools; MaxSnapshots snapshots at a time
//	errors  a server that is down or full: the Publisher retries forever, from the end of the
//	        stream, and blocks nothing; ErrGap, ErrChanged, ErrLog to a follower
//	source  our own; nats-server 2.10, nats.go 1.43
//
// # Exactly once
//
// Each message contains the log position after its record. A publisher reads the stream's last
// message and continues from that position. Each message also names the message that must be the
// stream's last one when the server stores it. So a message that was stored but not acknowledged is
// not published twice, nor by two nodes at the same time. A record longer than PartSize is
// published in parts. Each part also names the message that must precede it.
//
// A stream belongs to one log. The log's name is in the stream's metadata and in each message.
// There are two cases in which the log on disk cannot continue the stream: a data folder was
// restored, so the log is another log; or garbage collection has removed the next records. Then the
// stream is emptied and starts again under another name. The followers of the stream start again
// too.
package jetstream
