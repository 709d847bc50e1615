// Package stun asks STUN servers for the IP address under which this machine reaches the internet
// (RFC 8489: binding requests over UDP).
//
//	in      servers as host:port, and the family of the wanted address
//	out     the address that all answering servers report
//	state   none
//	bound   maxServers servers, asked at once; queryLimit for each; answers of at most maxPacket
//	        bytes; maxIgnored packets that are no answer
//	errors  ErrNoAnswer, ErrDisagree
//	source  nearcore chain/network/src/stun/mod.rs
//
// The package has its own 60 lines of the protocol. A library would bring a client with a goroutine
// and timers for each server, and its packages for TLS and interfaces.
package stun
