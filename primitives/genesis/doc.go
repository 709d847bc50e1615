// Package genesis reads, validates and writes genesis.json: the configuration of a chain and the
// records of its initial state.
//
//	in      JSON of an untrusted file, as a stream: ReadConfig, ReadRecords; or seeds and names:
//	        Init, Localnet
//	out     Config, Records one at a time; genesis.json byte for byte as neard writes it;
//	        genesis_config of the RPC
//	state   Checker: what validation remembers between records
//	units   balances in yoctoNEAR, times in nanoseconds since 1970, heights and lengths in blocks
//	bound   one record in memory at a time, at most MaxValue bytes and MaxDepth deep, whatever the
//	        file's size
//	errors  *Error: line, column and field of what is wrong; *InvalidError: all that Checker found
//	source  nearcore core/chain-configs/src/genesis_{config,validate}.rs,
//	        core/primitives/src/state_record.rs
//
// Files of older versions of nearcore are accepted: unknown fields are ignored, missing ones have
// nearcore's defaults where it has some, and comments (/* */, // and #) count as blanks. Records
// may precede the fields that determine their shards, so configuration and records are read in two
// passes.
package genesis
