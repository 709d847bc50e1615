//go:build !linux

package doctor

import "net/netip"

// holder: unknown on this system.
func holder(netip.AddrPort) Holder { return Holder{} }
