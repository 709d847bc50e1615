//go:build !unix

package rpc

func openFiles() uint64 { return 1024 }

func isClosed(error) bool { return false }
