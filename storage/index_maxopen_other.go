//go:build !unix

package storage

// openTables returns the number of tables of the index that stay open.
func openTables() int { return minOpenTables }
