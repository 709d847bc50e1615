//go:build !linux

package viewer

// lowPriority does nothing where a priority is that of the process.
func lowPriority() {}
