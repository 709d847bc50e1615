//go:build !linux

package vm

// lowPriority does nothing where a priority is that of the process.
func lowPriority() {}
