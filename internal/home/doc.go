// Package home makes, reads and checks a node's home folder: config.json, genesis.json,
// validator_key.json, node_key.json and epoch_configs/.
//
//	in      a folder; for Init the user's options; files and HTTP replies, which are not trusted
//	out     Init: the files as neard's init writes them; Load: their content for a node; Check:
//	        everything that is wrong with them
//	state   the folder; nothing in the process
//	units   times in nanoseconds since 1970, sizes in bytes
//	bound   config.json 4 MiB, key files 64 KiB, epoch configs 1 MiB each and 1000 of them; a
//	        genesis is streamed
//	errors  *FileError: the file, what is wrong, what to do; ErrUsage: the options contradict each
//	        other; ErrConflict: the options contradict the folder
//	source  nearcore nearcore/src/config.rs (init_configs, load_config),
//	        core/crypto/src/key_file.rs
//
// Init never leaves a partial file: Init writes every file under a temporary name and renames the
// files when nothing can fail any more. The only existing file that Init replaces is config.json,
// to add keys.
package home
