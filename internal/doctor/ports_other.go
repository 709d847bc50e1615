//go:build !linux

package doctor

import "net/netip"

// holder returns no process, because the process is unknown on this system.
func holder(netip.AddrPort) Holder { return Holder{} }
