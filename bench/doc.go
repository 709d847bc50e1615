// Package bench measures parts of a node under load, and the speed of the machine in the same run.
//
//	in      sizes of the load; a duration or a number of blocks
//	out     reports: figures with the machine's limits measured in the same run, as text and as
//	        JSON
//	state   the measured parts are in memory and end with the run; fsync is measured on a file
//	        in a given folder
//	units   times in seconds unless a name says otherwise, rates a second, bytes
//	bound   memory: about 600 bytes for each account
//	errors  options that make no sense, a chunk that cannot be applied
//	source  docs/performance.md says how to read the figures
package bench
