// Package config reads, checks, completes and writes config.json, the file of neard's settings.
//
//	in      the file's bytes (JSON with //, # and /* */ comments), or nothing
//	out     Config: the settings that this node uses; Document: the whole file in its order;
//	        Warnings for unknown keys
//	state   none
//	units   durations as {"secs","nanos"} objects, sizes in bytes
//	bound   files up to 4 MiB, nested up to 16 deep
//	errors  Error: file, key, value, and the values that are allowed
//	source  nearcore nearcore/src/config.rs; data/neard/files of its init
//
// neard's keys that have no effect here are accepted, kept and checked for their type, so that
// tools that edit the file by neard's rules work. Inert lists those that are set. Troupe's own keys
// are below "troupe".
package config
