// Package doctor looks for problems that keep a node from running well. It checks the machine, its
// limits, clock and disk, and the home folder.
//
//	in      a home folder; optionally the JSON-RPC of another node
//	out     findings, each with a status and what to do
//	state   none. Gather reads the facts and changes nothing: to time the disk it writes to a file
//	        without a name (Linux). Check judges facts and reads nothing
//	units   bytes, seconds
//	bound   each part of Gather has a time limit; files above maxGenesis are not validated
//	errors  what cannot be read is a finding
//	source  our own
//
// Names and contents of files are not trusted. So findings must be escaped before they are shown.
package doctor
