// Package home makes, reads and checks a node's home folder: config.json, genesis.json,
// validator_key.json, node_key.json and epoch_configs/.
//
//	in      a folder, and for Init what the user wants; files and answers over HTTP from anybody
//	out     Init: the files as neard's init writes them; Load: their content for a node; Check:
//	        all that is wrong with them
//	state   the folder; nothing in the process
//	units   times in nanoseconds since 1970, sizes in bytes
//	bound   config.json 4 MiB, key files 64 KiB, epoch configs 1 MiB each and 1000 of them; a
//	        genesis is streamed
//	errors  *FileError: the file, what is wrong, what to do; ErrUsage, ErrConflict: what was asked
//	        contradicts itself, or the folder
//	source  nearcore nearcore/src/config.rs (init_configs, load_config),
//	        core/crypto/src/key_file.rs
//
// Init never leaves half a file: all is written beside its place and moved there when nothing can
// fail any more. It replaces no file but config.json, and that only to add keys.
package home
