// Package sstable reads the tables of a goleveldb database beside the database. Its cursors are made
// for reading a few rows at a place that was not read before.
//
//	in      a database and its storage (Current)
//	out     Cursor: the rows of the tables as they were at that moment
//	state   open files and the separators of their blocks, until the last cursor is closed
//	bound   Limits; a cursor has two blocks of each run in memory, a block at most 8 MiB
//	errors  ErrMalformed. Block checksums are not checked, so use the rows only for values that
//	        are verified by hash
//	source  goleveldb's leveldb/table
//
// goleveldb's own cursors have three layers, use its block cache, and allocate memory for each
// block. The cursors here read one block of each sorted run of tables, into memory of their own.
// The cursors do not see rows that were in no table when Current was called.
package sstable
