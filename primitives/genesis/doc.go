// Package genesis reads, checks and writes genesis.json: the configuration of a chain and the
// records its state starts from.
//
//	in      JSON of anybody's file, as a stream: ReadConfig, ReadRecords; or seeds and names:
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
// The file may be nearcore's of any age: unknown fields are ignored, missing ones have nearcore's
// defaults where it has some, comments (/* */, // and #) count as space. Its records may stand
// before the fields that tell where they belong, so configuration and records are read in two
// passes.
package genesis
