// Package parameters holds what a protocol version fixes: which features are in force, and every
// parameter.
//
//	in      Version: a protocol version and the numbering it belongs to
//	out     Enabled: whether a rule applies; Get: the RuntimeConfig of a version;
//	        RuntimeConfig.AppendJSON: what EXPERIMENTAL_protocol_config prints as runtime_config
//	state   none: tables built once when the program starts, never changed
//	units   Gas, Compute (the chunk limit's own count of the same work), Balance in yoctoNEAR,
//	        lengths in bytes
//	bound   one table for all versions; a lookup is an index
//	errors  ErrUnsupportedVersion
//	source  nearcore core/primitives-core/src/version.rs, core/parameters
//	        (res/runtime_configs/parameters.snap)
//
// No other package compares a version with a number: a rule that changed asks Enabled, a value that
// changed is a field.
package parameters
