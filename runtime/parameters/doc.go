// Package parameters defines the enabled features and all parameters of each protocol version.
//
//	in      Version: a protocol version number with its numbering, which determines the features
//	        that the number stands for: june (nearcore f0c7706f1) or release (nearcore's releases)
//	out     Enabled: whether a feature is in force; Get: the RuntimeConfig of a version;
//	        RuntimeConfig.AppendJSON: runtime_config as in EXPERIMENTAL_protocol_config
//	state   none: tables built once when the program starts, never changed
//	units   Gas, Compute (counts against the chunk limit), Balance in yoctoNEAR, lengths in bytes
//	bound   one table for all versions; a lookup is one array access
//	errors  ErrUnsupportedVersion
//	source  nearcore core/primitives-core/src/version.rs, core/parameters
//	        (res/runtime_configs/parameters.snap)
//
// No other package compares a version with a number. A rule that changes with versions is a
// Feature; a value that changes is a field of RuntimeConfig.
package parameters
