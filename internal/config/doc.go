// Package config reads, checks, completes and writes config.json, the file neard keeps its node's
// settings in.
//
//	in      the file's bytes (JSON with //, # and /* */ comments), or nothing
//	out     Config: the settings this node uses; Document: the whole file in its order; Warnings
//	        for keys nobody knows
//	state   none
//	units   durations as {"secs","nanos"} objects, sizes in bytes
//	bound   files up to 4 MiB, nested up to 16 deep
//	errors  Error: file, key, value, and what is allowed
//	source  nearcore nearcore/src/config.rs; data/neard/files of its init
//
// Keys of neard that this node has no use for are accepted, kept and checked for their type, so
// that tools which edit the file by neard's rules find what they expect. Troupe's own keys stand
// under "troupe".
package config
